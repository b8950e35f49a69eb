/* idle.h - states that nobody needs now are put to rest before memory is short. */
#ifndef EPD_FLOW_IDLE_H
#define EPD_FLOW_IDLE_H

#include "flow/store.h"

/*
 * Offload to tier.evict_to, where that is set up: states that have not changed for
 * state.ttl_ms, and those that wait for a tool for longer, as far as that is known, than
 * twice what moving them out and in takes here.  None that is decoded or mid-hand-off, or
 * expected (ahead.h).
 * How many; what could not be is left as it is.
 */
int epd_flow_idle(struct epd_store *s);

#endif
