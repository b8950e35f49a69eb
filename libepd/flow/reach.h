/* reach.h - whether what a state needs is in reach.  Not for outsiders. */
#ifndef EPD_FLOW_REACH_H
#define EPD_FLOW_REACH_H

#include "flow/seq.h"

/*
 * As epd_seq_load; a SUSPECT state for which that goes well is ACTIVE again.
 * Fails: as that, and as epd_shard_clear.
 */
int epd_reach_load(struct epd_seq *q, uint32_t state, uint32_t version,
    struct epd_why *why);
/*
 * It did not, with EPD_ESUSPECT: mark the state so, unless it is being decoded
 * or handed over.
 */
void epd_reach_lost(struct epd_workflow *w, uint32_t state, const char *reason);

#endif
