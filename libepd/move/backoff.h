/*
 * backoff.h - how long to wait before what failed is tried again.  Outside this room
 * include move/move.h.
 *
 * Waits double from 10 ms to half a second, and half of each is by chance: who tries
 * costs a peer that is away no more than four tries a second, and those who lost it
 * together do not come back together.
 */
#ifndef EPD_MOVE_BACKOFF_H
#define EPD_MOVE_BACKOFF_H

#include <stdint.h>

/*
 * Sleep before the next try; *wait_ns is 0 before the first.  1: slept.  0: the time
 * till the deadline is over before the wait is, or it was called off (base/stop.h).
 */
int epd_back_off(uint64_t *wait_ns, uint64_t deadline_ns);

#endif
