/*
 * mend.h - what a sweep puts right in a log.  Outside this room include
 * shard/shard.h.
 */
#ifndef EPD_SHARD_MEND_H
#define EPD_SHARD_MEND_H

#include <stdint.h>

#include "base/err.h"

struct epd_shard;

/* Cut what lies behind the last whole record; *bytes is how many that were. */
int epd_shard_trim(struct epd_shard *s, uint64_t *bytes, struct epd_why *why);
/*
 * Write another checkpoint if the one there is damaged and the log does without
 * it: 1, or 0 if it is whole.
 * Fails: EPD_ECORRUPT: what is damaged is in the log no more; as append.
 */
int epd_shard_mend(struct epd_shard *s, struct epd_why *why);

#endif
