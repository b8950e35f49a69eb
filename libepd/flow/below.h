/*
 * below.h - the tier on the disk kept in order, and what somebody died over while it
 * moved there or back.  Not for outsiders.
 */
#ifndef EPD_FLOW_BELOW_H
#define EPD_FLOW_BELOW_H

#include "flow/litter.h"
#include "flow/sweep.h"

/* Of one workflow, whose records were read on; alone: what is strange in its folder too. */
int epd_below_tell(const struct epd_teller *t, struct epd_workflow *w,
    int alone);
/* Of the whole folder. */
int epd_below_tell_all(const struct epd_teller *t);

/* Packs of a workflow that no version shows, and those that are none. */
int epd_below_sweep_of(struct epd_sweep *g, struct epd_workflow *w,
    struct epd_why *why);
/* All else: folders, what is strange, what died, what other stores left, the cap. */
void epd_below_sweep(struct epd_sweep *g);

#endif
