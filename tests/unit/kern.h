/*
 * kern.h - what the kernels' tests share: data, instruction sets, pools, and
 * plain C written from libepd/engine/kern/ORDER.md, which every table must
 * equal bit for bit.
 */
#ifndef TESTS_UNIT_KERN_H
#define TESTS_UNIT_KERN_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kern/attn.h"
#include "engine/kern/gemm.h"

enum { THREADS = 3, ISAS = 3 };

static const char *const isas[ISAS] = { "scalar", "avx2", "avx512" };
static long compared, differing;

/* Not freed: a test is a short process. */
static inline void *
block(size_t n)
{
	void *p = aligned_alloc(4096, (n + 4095) / 4096 * 4096 + 4096);

	if (!p)
		abort();
	return p;
}

static inline struct epd_pool *
pool_of(int threads)
{
	static struct epd_pool *pools[THREADS + 1];

	if (!pools[threads] && !(pools[threads] = epd_pool_new(threads)))
		abort();
	return pools[threads];
}

/* Tables this machine runs; says once which it does not. */
static inline int
kerns(const struct epd_kern *k[ISAS])
{
	static int said;
	int n = 0;

	for (int i = 0; i < ISAS; i++)
		if ((k[n] = epd_kern_get(isas[i])))
			n++;
		else if (!said)
			printf("# SKIP %s: not on this machine\n", isas[i]);
	said = 1;
	return n;
}

static inline float
noise(unsigned *s)
{
	*s = *s * 1664525u + 1013904223u;
	return (float)(*s >> 8) / 16777216.0f - 0.5f;
}

/* n moderate numbers of a type at p, which may lie at any address. */
static inline void
fill(enum epd_type t, void *p, long n, unsigned *s)
{
	for (long i = 0; i < n; i++) {
		float f = noise(s);
		uint16_t h;

		epd_bf16_from_f32(&h, &f, 1);
		if (t == EPD_F16)
			h = (uint16_t)((h & 0x83ff) | 0x3000 |
			    (*s >> 20 & 0xc00));
		if (t == EPD_F32)
			memcpy((char *)p + 4 * i, &f, 4);
		else
			memcpy((char *)p + 2 * i, &h, 2);
	}
}

static inline float
element(enum epd_type t, const void *p, long i)
{
	uint16_t h;
	float f;

	if (t == EPD_F32) {
		memcpy(&f, (const char *)p + 4 * i, 4);
		return f;
	}
	memcpy(&h, (const char *)p + 2 * i, 2);
	if (t == EPD_F16)
		return (float)ldexp(h >> 10 & 31 ? 1024 + (h & 1023) :
		    h & 1023, (h >> 10 & 31 ? h >> 10 & 31 : 1) - 25) *
		    (h >> 15 ? -1 : 1);
	epd_bf16_to_f32(&f, &h, 1);
	return f;
}

static inline void
same(const void *a, const void *b, size_t n, const char *what, const char *isa)
{
	compared += (long)(n / 4);
	if (!memcmp(a, b, n))
		return;
	if (differing++ < 20)
		printf("# differs: %s %s\n", what, isa);
}

static inline float
ref_tree(float s[16])
{
	for (int n = 8; n > 0; n /= 2)
		for (int j = 0; j < n; j++)
			s[j] += s[j + n];
	return s[0];
}

static inline float
ref_dot(enum epd_type t, long k, const float *x, const void *w, long at)
{
	float s[16] = {0};

	for (long i = 0; i < (k + 15) / 16 * 16; i++)
		s[i % 16] = fmaf(i < k ? x[i] : 0,
		    i < k ? element(t, w, at + i) : 0, s[i % 16]);
	return ref_tree(s);
}

static inline float
ref_exp(float x)
{
	static const float c[] = {
		0x1.123ce0p-7f, 0x1.55545cp-5f, 0x1.55548cp-3f, 0.5f,
	};
	float m = fmaf(x, 0x1.715476p0f, 0x1.8p23f), n = m - 0x1.8p23f;
	float r = fmaf(n, 0x1.05c61p-29f, fmaf(n, -0x1.62e43p-1f, x));
	float q = 0x1.6db644p-10f, p;
	uint32_t u;

	if (x < -87.33f)
		return 0;
	if (x > 88.37f)
		return INFINITY;
	for (int i = 0; i < 4; i++)
		q = fmaf(q, r, c[i]);
	q = fmaf(r * r, q, r);
	memcpy(&u, &m, 4);
	u = (u << 23) + 0x3f800000;
	memcpy(&p, &u, 4);
	return (q + 1) * p;
}

#endif
