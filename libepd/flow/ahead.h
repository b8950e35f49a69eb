/*
 * ahead.h - pages that will be needed, brought back while something else goes on: the
 * model being opened, a tool being waited for (transfer.prefetch).
 */
#ifndef EPD_FLOW_AHEAD_H
#define EPD_FLOW_AHEAD_H

#include "flow/store.h"

/*
 * next_step: the pages of these states that rest or were evicted, which are about to be
 * gone on with.  speculative: then those too that wait for a tool whose time is nearly
 * over, as long as there is room below tier.low_water.  none: nothing.
 *
 * A thread of its own with the store opened for itself; what it has not brought by the
 * time it is needed is brought by whoever needs it, and what both want one of them
 * moves.  NULL is one that has nothing to do: so is one that cannot be had.
 */
struct epd_ahead;
struct epd_ahead *epd_ahead_begin(struct epd_store *s,
    const struct epd_store_options *o, const struct epd_ref *states, int n);
/* Wait for it: what it is at is ended, nothing more is begun. */
void epd_ahead_end(struct epd_ahead *a);

/*
 * Whether it waits for a tool whose time is over in a second, or was within the last
 * minute: a result that is later than that is not waited for.
 */
int epd_is_expected(const struct epd_state *st, uint64_t now_ms);
/*
 * Of all workflows those that are expected, brought back: how many had something that
 * was not in memory, or -errno.
 */
int epd_flow_expected(struct epd_store *s);

#endif
