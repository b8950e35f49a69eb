/*
 * lanes.h - the order in which sixteen stored elements stand in registers.
 *
 * AVX2 takes bf16 as eight of even and eight of odd index: a shift and a mask,
 * where widening in order needs two loads, two shuffles and two shifts.  What
 * they are multiplied by is packed alike, and the tree knows; the sixteen sums
 * are the same.  All else stands in its own order.
 */
#ifndef EPD_ENGINE_KERN_LANES_H
#define EPD_ENGINE_KERN_LANES_H

#include "engine/kern/vec.h"

#if defined __AVX2__ && !defined __AVX512F__
#define VSPLIT 1

/* Both load, where they are written: see vfetch(). */
INLINE vn
vsplit_bf16(const void *p, int h)
{
	const __m256i *w = p;
	__m256i x = _mm256_set1_epi32((int)0xffff0000);

	if (h == 0)
		__asm__ volatile("vmovdqu %1, %0\n\tvpslld $16, %0, %0" :
		    "=x"(x) : "m"(*w));
	else
		__asm__ volatile("vpand %1, %2, %0" : "=x"(x) :
		    "m"(*w), "x"(x));
	return _mm256_castsi256_ps(x);
}

INLINE void
vsplit(vn v[NH])
{
	__m256d e = _mm256_castps_pd(_mm256_shuffle_ps(v[0], v[1], 0x88));
	__m256d o = _mm256_castps_pd(_mm256_shuffle_ps(v[0], v[1], 0xdd));

	v[0] = _mm256_castpd_ps(_mm256_permute4x64_pd(e, 0xd8));
	v[1] = _mm256_castpd_ps(_mm256_permute4x64_pd(o, 0xd8));
}

INLINE void
vst_split(float *p, const vn v[NH])
{
	vn a = _mm256_unpacklo_ps(v[0], v[1]);
	vn b = _mm256_unpackhi_ps(v[0], v[1]);

	vst(p, _mm256_permute2f128_ps(a, b, 0x20));
	vst(p + 8, _mm256_permute2f128_ps(a, b, 0x31));
}

/* s[j] and s[j+8] have indices of one parity, and so on down to 0 and 1. */
INLINE float
vsum_split(const vn s[NH])
{
	__m128 e = _mm_add_ps(_mm256_castps256_ps128(s[0]),
	    _mm256_extractf128_ps(s[0], 1));
	__m128 o = _mm_add_ps(_mm256_castps256_ps128(s[1]),
	    _mm256_extractf128_ps(s[1], 1));

	e = _mm_add_ps(_mm_movelh_ps(e, o), _mm_movehl_ps(o, e));
	e = _mm_add_ps(e, _mm_movehdup_ps(e));
	return _mm_cvtss_f32(_mm_add_ss(e, _mm_movehl_ps(e, e)));
}
#endif

/* The h-th vector of sixteen stored elements, in the order above. */
INLINE vn
vldw(enum epd_type t, const void *p, int h)
{
#if defined VSPLIT
	if (t == EPD_BF16)
		return vsplit_bf16(p, h);
#endif
	p = (const char *)p + h * VN * tsize(t);
	return t == EPD_F32 ? vfetch(p) : vldt(t, p);
}

/* Sixteen floats in order, turned into the order above. */
INLINE void
vturnw(enum epd_type t, vn v[NH])
{
#if defined VSPLIT
	if (t == EPD_BF16)
		vsplit(v);
#endif
	(void)t, (void)v;
}

/* The tree over lanes in that order. */
INLINE float
vsumw(enum epd_type t, const vn s[NH])
{
#if defined VSPLIT
	if (t == EPD_BF16)
		return vsum_split(s);
#endif
	(void)t;
	return vsum(s);
}

/* Store lanes in that order as sixteen floats in their own. */
INLINE void
vstw(enum epd_type t, float *p, const vn v[NH])
{
#if defined VSPLIT
	if (t == EPD_BF16) {
		vst_split(p, v);
		return;
	}
#endif
	(void)t;
	UNROLL for (int h = 0; h < NH; h++)
		vst(p + h * VN, v[h]);
}

#endif
