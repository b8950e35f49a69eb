/*
 * plan.h - the images of one request, and the buffers their features are read
 * into.  Part of feature.h.
 */
#ifndef EPD_FEATURE_PLAN_H
#define EPD_FEATURE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

/*
 * Which images to encode (misses, each distinct one once), where each one's
 * patches and merged tokens lie.  Offsets stop at UINT64_MAX.  Pure.
 */
struct epd_plan_image {
	struct epd_name fp;
	uint32_t grid[3];
	int hit;		/* in: is it in the cache */
	int encode;		/* out: encode it */
	int same;		/* out: index of the first equal image, or its own */
	uint64_t patch_at, token_at;	/* out: offsets in the request */
};
void epd_feature_plan(struct epd_plan_image *im, int n, uint32_t merge);

/* A receive pool: count buffers of bytes each, 64-aligned. */
struct epd_recv_pool;
/* Fails: -EINVAL (nothing of nothing), EPD_ETOOBIG, -ENOMEM. */
int epd_recv_pool_new(struct epd_recv_pool **out, size_t bytes, int count);
void epd_recv_pool_free(struct epd_recv_pool *p);
/* NULL: none free, or bytes is more than a buffer holds. */
void *epd_recv_take(struct epd_recv_pool *p, size_t bytes);
void epd_recv_drop(struct epd_recv_pool *p, void *buf);	/* NULL is fine; twice is once */

#endif
