/*
 * rest.h - states that rest: offload_state and restore_state of the RFC, and waiting
 * for a tool.
 *
 * Offloading copies a state's pages to a tier, says so in the log, and then takes them
 * from memory, but for those that a state which does not rest, or a lease, stands on.
 * Any verb that goes on from a state that rests resumes it first, and what of its
 * pages is not in memory comes back when it is touched: from a tier, or else computed
 * again, which gives the same bytes.
 */
#ifndef EPD_FLOW_REST_H
#define EPD_FLOW_REST_H

#include "flow/store.h"

struct epd_offload {
	struct epd_ref state;		/* whole: versions go together */
	enum epd_tier tier;		/* CPU: it rests where it is, in memory */
	const char *reason;
};
struct epd_offloaded {
	uint32_t version;
	int before;			/* it rested there already */
	uint64_t pages, had, missing;	/* in all; there before; to be computed again */
	uint64_t bytes;			/* of pages, moved now */
	uint64_t freed;			/* bytes of memory given back */
	uint64_t shared;		/* pages that others stand on: they stay */
	uint64_t ns;
};
/*
 * Fails: EPD_EUNSUPPORTED (no such tier here, or state.enable_offload is off),
 * EPD_ELOCKED (it is decoded), EPD_ESTATUS (it was resumed meanwhile, or mid-hand-off),
 * -ENOSPC, EPD_EPEER, EPD_ETIMEOUT, -EIO (the tier's: the state is as it was, but for
 * one that rested elsewhere: that is ACTIVE, with its pages where they were),
 * EPD_ENOSTATE, EPD_ENOTHING, -errno.
 */
int epd_flow_offload(struct epd_store *s, const struct epd_offload *o,
    struct epd_offloaded *out, struct epd_why *why);

struct epd_restore {
	struct epd_ref state;
	/* Of its table alone those within some [from, to); n 0: all. */
	const struct epd_page_span { uint32_t from, to; } *part;
	int n;
	const char *reason;
};
struct epd_restored {
	uint32_t version;
	int rested;			/* it did; else only pages came */
	uint64_t pages, pinned;		/* asked for; of them in memory already */
	uint64_t came, bytes;		/* from tiers */
	uint64_t missing;		/* had by none: computed when they are touched */
	unsigned tiers;			/* 1 << enum epd_tier of those that gave some */
	uint64_t ns;
};
/*
 * Idempotent: of two at once one moves the pages and both are told that they are there.
 * Fails: EPD_ELOCKED (whoever restores it takes too long), EPD_ESTATUS (mid-hand-off),
 * -ENOSPC (memory has no room: the state goes on, what is missing comes later),
 * EPD_ENOSTATE, EPD_ENOTHING, EPD_EUSAGE (a part that has none of its pages; nothing
 * was done), -errno.
 */
int epd_flow_restore(struct epd_store *s, const struct epd_restore *r,
    struct epd_restored *out, struct epd_why *why);

/*
 * Have the kth page of a node in memory again, with what lies in one run with it, from
 * whatever tier has it.  A state that rests stays so.
 * Fails: EPD_ENOTHING (no tier has it, or there is no such page), EPD_ELOCKED, -ENOSPC,
 * as opening the workflow.
 */
int epd_flow_touch(struct epd_store *s, const char *workflow, uint64_t node,
    uint32_t k, struct epd_why *why);

/* It waits for a tool's result, for ttl_ms as far as is known (0: unknown); "": no more. */
int epd_flow_wait(struct epd_store *s, const struct epd_ref *state,
    const char *tool, uint64_t ttl_ms, const char *reason, struct epd_why *why);

/* ---- not for outsiders ---- */

/*
 * A verb is about to go on from the state: if it rests it is resumed, *st read anew.
 * fill brings its pages too.  Fails as restore.
 */
int epd_rest_wake(struct epd_workflow *w, struct epd_state *st, int fill,
    struct epd_why *why);
/* The pages of a version that are in a tier and not in memory come; no more is said. */
int epd_rest_fill(struct epd_workflow *w, uint32_t state, uint32_t version);
/*
 * A verb gave rc: 1 if that was because the state came to rest meanwhile, it is resumed,
 * and the verb may be tried again; tries counts those.
 */
int epd_rest_again(struct epd_workflow *w, uint32_t state, int rc, int *tries);

#endif
