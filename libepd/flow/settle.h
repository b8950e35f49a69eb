/*
 * settle.h - a state that came from a peer finds its pages here: those that came with
 * it, and those that were here before.  Not for outsiders.
 */
#ifndef EPD_FLOW_SETTLE_H
#define EPD_FLOW_SETTLE_H

#include "flow/whole.h"

struct epd_settled {
	struct epd_version v;		/* lent from the parcel, but for: */
	struct epd_page_ref *pages;
	struct epd_run_link *links;
	struct epd_moved moved;
};
/*
 * A version as v says, with these n pages: each in one of the runs that came (in to's
 * folder, linked under ids of the version's own), else where the index has it with
 * the same sum, else missing: computed when it is needed.
 * Whoever v is from may lie: pages are called what traits, tokens and images make of
 * them, or it is refused.
 * Fails: EPD_ECORRUPT (pages or images that do not go with the tokens), -ENOMEM,
 * -errno; then no link is there.  Owns: the caller frees *out.
 */
int epd_settle(struct epd_settled *out, struct epd_store *s,
    const struct epd_workflow *to, const struct epd_version *v,
    const struct epd_state *traits, const struct epd_page_ref *pages, uint32_t n,
    const uint64_t *run, uint32_t nruns, struct epd_why *why);
/* The links again, if nothing names them. */
void epd_settle_undo(struct epd_settled *x, const struct epd_workflow *to);
void epd_settle_free(struct epd_settled *x);

#endif
