/* keep.h - a store proven, and swept. */
#ifndef EPD_FLOW_KEEP_H
#define EPD_FLOW_KEEP_H

#include "flow/store.h"

/*
 * The RFC's seven invariants, proven of a workflow ("": of all, and of what else
 * is in the store).  A count of faults; what was looked at is added to *proof.
 * What is nobody's is told, and no fault: litter goes by gc, and what is foreign
 * in the store stays for ever, since a store is no place to remove things from
 * that one does not know.  Nor is what a lower tier has lost: it is a cache.
 */
struct epd_proof {
	uint64_t records, states, versions, nodes, leases, handoffs;
	uint64_t runs, pages, missing;	/* in memory and read; not in memory */
	uint64_t packs, packed;		/* runs and pages in nvme that were looked at */
	uint64_t lost;			/* pages that a tier was to have, and has not */
	uint64_t litter, foreign;
};
enum epd_finding { EPD_FAULT, EPD_LITTER, EPD_FOREIGN, EPD_LOST };
struct epd_findings {
	void (*fault)(void *arg, const char *text);
	/* or NULL */
	void (*litter)(void *arg, enum epd_finding what, const char *text);
	void *arg;
	int quick;		/* of packs no more than their fronts are read */
};
int epd_flow_prove(struct epd_store *s, const char *workflow,
    const struct epd_findings *f, struct epd_proof *proof,
    struct epd_why *why);
/* The same, told no more than faults. */
int epd_flow_check(struct epd_store *s, const char *workflow,
    void (*fault)(void *arg, const char *text), void *arg, struct epd_why *why);

/*
 * What was removed.  Bytes are what that gave back: of a run that has another
 * name elsewhere none.
 */
struct epd_swept {
	uint64_t states, runs, run_bytes;
	uint64_t evicted, evicted_bytes;	/* runs above the cap */
	uint64_t features, orphans, feature_bytes;
	uint64_t memory_folders, folder_bytes;	/* whose owner is gone */
	uint64_t temporaries, temporary_bytes;	/* leftovers of all kinds */
	uint64_t tails, tail_bytes;	/* of logs, cut */
	uint64_t checkpoints;		/* damaged, and written again */
	uint64_t handoffs;		/* rolled back or carried through */
	uint64_t offloads, restores;	/* that somebody died over: ended */
	uint64_t dead;			/* leases of others who died at work */
	uint64_t rested, expected;	/* states put to rest; brought back before their time */
	struct epd_swept_disk {		/* the same of the tier nvme */
		uint64_t runs, run_bytes;	/* damaged ones too */
		uint64_t evicted, evicted_bytes;
		uint64_t folders, folder_bytes;
		uint64_t unseen;	/* folders of stores not seen from here: they stay */
		uint64_t leftovers, leftover_bytes;
	} disk;
	uint64_t ns;
};
/*
 * Reclaim what nobody needs: expired states, orphan runs, expired features,
 * leftovers.  Hand-offs are settled, those with peers too where the store has
 * transports, for 10 s at most.  What cannot be swept hinders nothing else: failed is
 * told of each, and *out is what went all the same; with rc 0 of what is no failure:
 * what waits for a peer, and who died over which state.  Where not all workflows can
 * be read no picture goes that one of them may show.  Idle states are put to rest
 * (flow/idle.h), and those that are expected brought back (flow/ahead.h).  How many
 * failed.
 */
int epd_flow_sweep(struct epd_store *s, struct epd_swept *out,
    void (*failed)(void *arg, int rc, const char *text), void *arg);
/* The same; the first failure is returned, and told in why. */
int epd_flow_gc(struct epd_store *s, struct epd_swept *out, struct epd_why *why);

#endif
