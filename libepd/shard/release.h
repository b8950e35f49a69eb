/* release.h - many of a shard's states at once.  Outside this room include shard/shard.h. */
#ifndef EPD_SHARD_RELEASE_H
#define EPD_SHARD_RELEASE_H

#include <stdint.h>

#include "base/err.h"

struct epd_shard;

/*
 * Release every state, the newest first, many to a frame and one flush for all;
 * the count, or an error.  One that may not go ends it: EPD_ESTATUS, with its
 * name in why; those newer have gone then.
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
