/*
 * packs.h - what the tier on the disk has of a workflow's runs: a pack each, under the
 * run's name, found by looking.  Not for outsiders.
 */
#ifndef EPD_FLOW_PACKS_H
#define EPD_FLOW_PACKS_H

#include "flow/book.h"
#include "flow/litter.h"

/* The workflow's folder there, which the caller closes, or -1. */
int epd_packs_dir(struct epd_store *s, const char *workflow);
/* Runs of it that have a pack, sorted; none if there is no such tier.  -ENOMEM. */
int epd_packs_list(struct epd_run_ids *out, struct epd_store *s,
    const char *workflow);

/*
 * Each pack of a run that a live state's version shows, as the log has its pages.  The
 * lot is lent for the call; a nonzero return stops and is returned.
 */
typedef int epd_pack_fn(void *arg, const struct epd_lot *lot, int dir,
    struct epd_lower *tier);
int epd_packs_each(struct epd_store *s, const struct epd_workflow *w,
    epd_pack_fn *fn, void *arg, struct epd_why *why);

/* What was looked at, added up. */
struct epd_packs_proof {
	uint64_t runs, pages;		/* fronts; pages read, or named if quick */
	uint64_t lost;			/* of them not to be had */
};
/*
 * Each pack is what its name says, as the log has it, and unless quick every page of it
 * has the bytes.  What is not is told: as litter if gc takes it, else as lost.
 * No time of use is touched.  -EINTR, -ENOMEM, -EMFILE, ...: it ends there.
 */
int epd_packs_prove(const struct epd_teller *t, const struct epd_workflow *w,
    int quick, struct epd_packs_proof *out, struct epd_why *why);
/* Unlink those that are not what their names say. */
int epd_packs_take(struct epd_store *s, const struct epd_workflow *w,
    uint64_t *runs, uint64_t *bytes, struct epd_why *why);

/* Of the pages missing in memory of what stands on a node, those that have a pack. */
int epd_packs_count(struct epd_shard *s, const struct epd_book *b,
    const struct epd_run_ids *packs, uint64_t head, uint64_t *out);

#endif
