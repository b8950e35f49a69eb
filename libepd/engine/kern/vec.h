/*
 * vec.h - sixteen f32 lanes as NH native vectors of VN lanes each, so that one
 * source gives the same bits at every width.  The including file's compiler
 * flags choose the width: VN is 16 (AVX-512), 8 (AVX2+FMA) or 1 (fmaf()).
 *
 * Every operation on lanes is one IEEE-754 operation each, to nearest.
 */
#ifndef EPD_ENGINE_KERN_VEC_H
#define EPD_ENGINE_KERN_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "engine/kern/kern.h"

#define INLINE static inline __attribute__((always_inline))
#if defined __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
/* The value in a register, now: else it is fetched anew by each user. */
#if defined __x86_64__
#define KEEP(v) __asm__ volatile("" : "+v"(v))
#else
#define KEEP(v) ((void)(v))
#endif
/* The array in memory, now: else it holds registers that others need. */
#define LAY(a) __asm__ volatile("" : : "r"(a) : "memory")

#if defined __AVX512F__
#include "engine/kern/vec_avx512.h"
#elif defined __AVX2__
#include "engine/kern/vec_avx2.h"
#else
#include "engine/kern/vec_scalar.h"
#endif

INLINE long
tsize(enum epd_type t)
{
	return t == EPD_F32 ? 4 : 2;
}

/* VN elements of any stored type. */
INLINE vn
vldt(enum epd_type t, const void *p)
{
	switch (t) {
	case EPD_BF16: return vld_bf16(p);
	case EPD_F16: return vld_f16(p);
	default: return vld(p);
	}
}

/* The first n of VN elements (n may be below 0 or above VN); the rest +0. */
INLINE vn
vldtn(enum epd_type t, const void *p, long n)
{
	char buf[VN * 4] = {0};

	if (n >= VN)
		return vldt(t, p);
	if (n <= 0)
		return vset(0);
	memcpy(buf, p, (size_t)(n * tsize(t)));
	return vldt(t, buf);
}

INLINE vn vldn(const float *p, long n) { return vldtn(EPD_F32, p, n); }

INLINE void
vstn(float *p, vn x, long n)
{
	float buf[VN];

	if (n >= VN) {
		vst(p, x);
	} else if (n > 0) {
		vst(buf, x);
		memcpy(p, buf, (size_t)n * 4);
	}
}

#endif
