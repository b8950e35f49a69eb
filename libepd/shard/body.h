/* body.h - what a version adds, as bytes; body.c draws them. */
#ifndef EPD_SHARD_BODY_H
#define EPD_SHARD_BODY_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "shard/arena.h"
#include "shard/types.h"

/* Unpacking fails: EPD_ECORRUPT (not such bytes), EPD_EKIND, -ENOMEM. */
void epd_body_pack(struct epd_buf *b, const struct epd_version *v);
int epd_body_unpack(struct epd_span p, struct epd_arena *a,
    struct epd_version *out);
/* Its sizes are checked all the same; node and parent are 0. */
int epd_body_glance(struct epd_span p, struct epd_glance *out);
/* Whether its pages fit a state's behind start tokens.  Also -EINVAL. */
int epd_body_check(struct epd_span p, uint32_t page_tokens, uint64_t start,
    struct epd_glance *out, struct epd_why *why);
/* Each run it names, links' first.  What fn gives, EPD_ECORRUPT, EPD_EKIND. */
int epd_body_runs(struct epd_span p, int (*fn)(void *arg, uint64_t run),
    void *arg);
/* The salt of its sampler alone.  EPD_ECORRUPT. */
int epd_body_salt(struct epd_span p, uint64_t *out);
/* How many bytes epd_body_pack gives. */
uint64_t epd_body_size(const struct epd_version *v);

#endif
