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
/*
 * Whether one with this status goes on, as ACTIVE and SUSPECT do; one that rests is
 * resumed first (flow/rest.h).
 * Fails: -EPERM (ABORTED: nothing but its release will ever follow), EPD_ESTATUS
 * (it is on its way).
 */
int epd_reach_on(const struct epd_workflow *w, const struct epd_state *st,
    struct epd_why *why);
/* What a verb of the shard gave, rc: EPD_ESTATUS of a state that is ABORTED is -EPERM. */
int epd_reach_ended(const struct epd_workflow *w, uint32_t state, int rc,
    struct epd_why *why);

#endif
