/* release.h - many of a shard's states at once.  Outside this room include shard/shard.h. */
#ifndef EPD_SHARD_RELEASE_H
#define EPD_SHARD_RELEASE_H

#include <stdint.h>

#include "base/err.h"

struct epd_shard;

/*
 * Release every state, the newest first, many to a frame and one flush for all;
 * the count, or an error.  EPD_ESTATUS: all have gone but those that may not,
 * whose names are in why.  Where something else fails some may have gone, and
 * why says how many; the rest go when it is called again.
 */
int epd_shard_release_all(struct epd_shard *s, const char *reason,
    void (*freed)(void *arg, uint64_t run), void *arg, struct epd_why *why);

/*
 * ABORTED, so that they can be released: that state if it is SUSPECT, or all that
 * are; and those whose time is over.
 */
int epd_shard_give_up(struct epd_shard *s, uint32_t id, int all,
    const char *reason, struct epd_why *why);

#endif
