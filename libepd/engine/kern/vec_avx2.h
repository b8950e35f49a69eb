/* vec_avx2.h - vec.h by two registers of eight lanes, AVX2 + FMA + F16C. */
#ifndef EPD_ENGINE_KERN_VEC_AVX2_H
#define EPD_ENGINE_KERN_VEC_AVX2_H

#include <immintrin.h>

enum { VN = 8, NH = 2, REGISTERS = 16 };
typedef __m256 vn;

INLINE vn vset(float x) { return _mm256_set1_ps(x); }
INLINE vn vld(const float *p) { return _mm256_loadu_ps(p); }
INLINE void vst(float *p, vn x) { _mm256_storeu_ps(p, x); }
INLINE vn vadd(vn a, vn b) { return _mm256_add_ps(a, b); }
INLINE vn vsub(vn a, vn b) { return _mm256_sub_ps(a, b); }
INLINE vn vmul(vn a, vn b) { return _mm256_mul_ps(a, b); }
INLINE vn vdiv(vn a, vn b) { return _mm256_div_ps(a, b); }
INLINE vn vmax(vn a, vn b) { return _mm256_max_ps(a, b); }
INLINE vn vfma(vn a, vn b, vn c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vn vabs(vn a) { return _mm256_andnot_ps(vset(-0.0f), a); }

/*
 * Loads that stay where they are written, for tiles that fill all sixteen
 * registers: left to choose, compilers move loads up, run out, and spill.
 */
INLINE vn
vfetch(const float *p)
{
	vn x;

	__asm__ volatile("vmovups %1, %0" : "=x"(x) : "m"(*(const vn *)p));
	return x;
}

/* One number in all lanes. */
INLINE vn
vspread(const float *p)
{
	vn x;

	__asm__ volatile("vbroadcastss %1, %0" : "=x"(x) : "m"(*p));
	return x;
}

/* a < b ? x : y */
INLINE vn
vlt(vn a, vn b, vn x, vn y)
{
	return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

/* Is a < b in every lane? */
INLINE int
vall_lt(vn a, vn b)
{
	return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ)) == 0xff;
}

/* Is some lane NaN? */
INLINE int
vany_nan(vn a)
{
	return _mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)) != 0;
}

/* 2^n, where the low bits of x hold n (see vexp) */
INLINE vn
vpow2(vn x)
{
	__m256i i = _mm256_slli_epi32(_mm256_castps_si256(x), 23);

	return _mm256_castsi256_ps(_mm256_add_epi32(i,
	    _mm256_set1_epi32(0x3f800000)));
}

INLINE vn
vld_bf16(const void *p)
{
	__m128i h = _mm_loadu_si128((const __m128i *)p);

	return _mm256_castsi256_ps(_mm256_slli_epi32(
	    _mm256_cvtepu16_epi32(h), 16));
}

INLINE vn
vld_f16(const void *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* The fixed tree: s[j] += s[j+8], then +4, +2, +1. */
INLINE float
vsum(const vn s[NH])
{
	__m256 a = _mm256_add_ps(s[0], s[1]);
	__m128 b = _mm_add_ps(_mm256_castps256_ps128(a),
	    _mm256_extractf128_ps(a, 1));

	b = _mm_add_ps(b, _mm_movehl_ps(b, b));
	return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* The largest lane; any order gives the same bits, zeros' signs apart. */
INLINE float
vtop(const vn s[NH])
{
	__m256 a = _mm256_max_ps(s[0], s[1]);
	__m128 b = _mm_max_ps(_mm256_castps256_ps128(a),
	    _mm256_extractf128_ps(a, 1));

	b = _mm_max_ps(b, _mm_movehl_ps(b, b));
	return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

#endif
