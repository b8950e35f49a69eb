/*
 * recv.c - the receive pool: one block cut into equal buffers, and a flag each.
 * A buffer is known by where it lies, so what is not ours is not taken back.
 */
#include <errno.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/err.h"
#include "feature/plan.h"

struct epd_recv_pool {
	uint8_t *block;
	size_t bytes, stride;	/* a buffer's, and from one to the next */
	int count;
	uint8_t taken[];
};

int
epd_recv_pool_new(struct epd_recv_pool **out, size_t bytes, int count)
{
	struct epd_recv_pool *p;
	size_t stride, all;

	if (!bytes || count < 1)
		return -EINVAL;
	if (__builtin_add_overflow(bytes, 63, &stride))
		return EPD_ETOOBIG;
	stride &= ~(size_t)63;
	if (__builtin_mul_overflow(stride, (size_t)count, &all))
		return EPD_ETOOBIG;
	p = epd_calloc(1, sizeof *p + (size_t)count);
	if (!p)
		return -ENOMEM;
	p->block = epd_alloc_aligned(64, all);
	if (!p->block) {
		epd_free(p);
		return -ENOMEM;
	}
	p->bytes = bytes;
	p->stride = stride;
	p->count = count;
	*out = p;
	return 0;
}

void
epd_recv_pool_free(struct epd_recv_pool *p)
{
	if (!p)
		return;
	epd_free(p->block);
	epd_free(p);
}

void *
epd_recv_take(struct epd_recv_pool *p, size_t bytes)
{
	if (bytes > p->bytes)
		return NULL;
	for (int i = 0; i < p->count; i++)
		if (!p->taken[i]) {
			p->taken[i] = 1;
			return p->block + (size_t)i * p->stride;
		}
	return NULL;
}

void
epd_recv_drop(struct epd_recv_pool *p, void *buf)
{
	size_t at = (uintptr_t)buf - (uintptr_t)p->block;

	if (buf && at / p->stride < (size_t)p->count && at % p->stride == 0)
		p->taken[at / p->stride] = 0;
}
