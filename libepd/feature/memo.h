/*
 * memo.h - what decoding a file gave, so that a hit costs no decoding.  Part of
 * feature.h.
 */
#ifndef EPD_FEATURE_MEMO_H
#define EPD_FEATURE_MEMO_H

#include <stdint.h>

#include "base/hash.h"

struct epd_features;

/*
 * From a file's identity and a model fingerprint to the image's.  A file younger
 * than two seconds is not noted, since a change might not show in its times.
 * What is noted may be forgotten at any time; the file has one size for ever.
 */
struct epd_memo_key { uint64_t dev, ino, size; int64_t mtime_ns, ctime_ns; };
struct epd_memo { struct epd_name fp; uint32_t grid[3]; };
/* 1 and *out, counted as mm_memo_hit; 0; -errno. */
int epd_memo_get(struct epd_features *c, const struct epd_memo_key *k,
    const struct epd_name *model, struct epd_memo *out);
int epd_memo_put(struct epd_features *c, const struct epd_memo_key *k,
    const struct epd_name *model, const struct epd_memo *m);

#endif
