/*
 * tiers.h - the tiers below memory that a store's configuration gives it, and a run
 * that is brought back from them.  Not for outsiders.
 */
#ifndef EPD_FLOW_TIERS_H
#define EPD_FLOW_TIERS_H

#include "flow/store.h"

/*
 * The store's handle of a tier, opened when first asked for.
 * Fails: EPD_EUNSUPPORTED (not configured, or not to be had here), -errno.
 */
int epd_store_tier(struct epd_store *s, enum epd_tier tier,
    struct epd_lower **out, struct epd_why *why);
/*
 * The folder of the nvme tier: tier.nvme_dir, or `disk` in the store, which is made only
 * if make is set.  NULL if there is none.  It is the store's.
 */
#define EPD_DISK "disk"
struct epd_memory *epd_store_disk(struct epd_store *s, int make);
void epd_store_tiers_close(struct epd_store *s);
/* Whether there is any place below memory that might have something. */
int epd_store_tiered(struct epd_store *s);
/* When a tier has to be done with a lot. */
uint64_t epd_store_tier_end(const struct epd_store *s, enum epd_tier tier, long pages);

/* What came from lower tiers, for who tells of it. */
struct epd_fill {
	/* Set by who would compute them beyond the cap if it cannot have them there. */
	int needed;
	uint64_t runs, pages, bytes, ns;
	uint64_t missing;		/* pages that no tier had */
	unsigned tiers;			/* 1 << enum epd_tier of those that gave some */
	uint64_t peers;			/* pages that other nodes gave */
};
/*
 * Have a lot's run in the workflow's memory folder: 0 if it is there, from lower
 * tiers, from other nodes (where.h), or because somebody else was sooner.  Of several that ask at once one
 * moves it.
 * Fails: EPD_ENOTHING (no tier has all of it; nothing is left behind), -ENOSPC (of
 * what is not needed: it is more than memory's cap),
 * -ENOMEM, EPD_ELOCKED (whoever is at it is not done in time), -errno.
 */
int epd_fill_run(struct epd_store *s, const struct epd_workflow *w,
    const struct epd_lot *lot, struct epd_fill *sum, struct epd_why *why);

/*
 * The same of a run that somebody heard of, in whichever workflow, and knows nothing of:
 * 0 if the disk has it and it was computed here.
 */
int epd_fill_heard(struct epd_store *s, const char *workflow, uint64_t run);

/* Whether there is a run of that name in dir (-1: none), whatever is in it. */
int epd_run_is_in(int dir, uint64_t run);
/*
 * A lot's run in dir mapped, to look only, each page held against its sum: page[i].
 * Fails: -ENOENT, EPD_ECORRUPT, as epd_run_look.  Owns: the caller closes *run.
 */
int epd_lot_look(int dir, const struct epd_lot *lot, struct epd_run **run,
    const void **page);

/* Unlink a run, in memory and where it may have been put. */
void epd_workflow_drop(const struct epd_workflow *w, uint64_t run);

/* ---- the lots of a state ---- */

/*
 * The runs that hold a state's pages at a version (0: the newest), root first: one lot
 * each, on loan for the call.  Pages [first, first + lot->n) of the state's table lie
 * in it.  Runs all of whose pages were filled on since are left out, unless all is
 * set: those of older versions are among them.
 * Fails: EPD_ENOSTATE, EPD_ENOTHING, -ENOMEM, what fn gives.
 */
typedef int epd_lot_fn(void *arg, const struct epd_lot *lot, uint32_t first,
    struct epd_why *why);
int epd_lots_of(const struct epd_workflow *w, uint32_t state, uint32_t version,
    int all, epd_lot_fn *fn, void *arg, struct epd_why *why);

#endif
