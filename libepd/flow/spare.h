/* spare.h - memory that a state at rest does not need.  Not for outsiders. */
#ifndef EPD_FLOW_SPARE_H
#define EPD_FLOW_SPARE_H

#include "flow/store.h"

/* It waits: what it alone stands on in memory is the first to go.  -ENOMEM. */
int epd_spare_first(struct epd_workflow *w, uint32_t state);
/*
 * If the state is OFFLOADED still, unlink its runs in memory, but for those on nodes
 * that a state which is not, or a lease, stands on: whose pages are counted in shared.
 * freed is what that gave back.  Fails: -ENOMEM, as epd_shard_at_rest.
 */
int epd_spare(struct epd_workflow *w, uint32_t state, uint64_t *freed,
    uint64_t *shared, struct epd_why *why);

#endif
