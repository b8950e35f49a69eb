/*
 * kv.c - rows of keys and values into a page.  bf16 is made by integers alone,
 * so no mode of the processor can flush a denormal.
 */
#include <string.h>

#include "engine/kern/attn.h"

static size_t
plane(const struct epd_kv *kv)
{
	return (size_t)kv->page * (size_t)kv->dim *
	    (kv->type == EPD_F32 ? 4 : 2);
}

size_t
epd_kv_bytes(const struct epd_kv *kv)
{
	return 2 * (size_t)kv->heads * plane(kv);
}

static uint16_t
narrow(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

void
epd_bf16_from_f32(uint16_t *to, const float *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = narrow(from[i]);
}

void
epd_bf16_to_f32(float *to, const uint16_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t u = (uint32_t)from[i] << 16;

		memcpy(to + i, &u, 4);
	}
}

/* dim numbers to a place whose neighbours are step elements apart. */
static void
put(const struct epd_kv *kv, void *to, size_t step, const float *x)
{
	const size_t n = (size_t)kv->dim;

	if (kv->type == EPD_F32) {
		float *f = to;

		for (size_t i = 0; i < n; i++)
			memcpy(f + i * step, x + i, 4);
	} else {
		uint16_t *h = to;

		for (size_t i = 0; i < n; i++)
			h[i * step] = narrow(x[i]);
	}
}

void
epd_kv_put(const struct epd_kv *kv, void *layer_part, int head, int t,
    const float *k, const float *v)
{
	const size_t size = kv->type == EPD_F32 ? 4 : 2, dim = (size_t)kv->dim;
	char *keys = (char *)layer_part + 2 * (size_t)head * plane(kv);
	char *values = keys + plane(kv);
	size_t block = (size_t)t / EPD_LANES, lane = (size_t)t % EPD_LANES;

	put(kv, keys + (block * dim * EPD_LANES + lane) * size, EPD_LANES, k);
	put(kv, values + (size_t)t * dim * size, 1, v);
}
