/* vec_avx512.h - vec.h by one register of sixteen lanes. */
#ifndef EPD_ENGINE_KERN_VEC_AVX512_H
#define EPD_ENGINE_KERN_VEC_AVX512_H

#include <immintrin.h>

enum { VN = 16, NH = 1, REGISTERS = 32 };
typedef __m512 vn;

INLINE vn vset(float x) { return _mm512_set1_ps(x); }
INLINE vn vld(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vst(float *p, vn x) { _mm512_storeu_ps(p, x); }
INLINE vn vadd(vn a, vn b) { return _mm512_add_ps(a, b); }
INLINE vn vsub(vn a, vn b) { return _mm512_sub_ps(a, b); }
INLINE vn vmul(vn a, vn b) { return _mm512_mul_ps(a, b); }
INLINE vn vdiv(vn a, vn b) { return _mm512_div_ps(a, b); }
INLINE vn vmax(vn a, vn b) { return _mm512_max_ps(a, b); }
INLINE vn vfma(vn a, vn b, vn c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vn vabs(vn a) { return _mm512_abs_ps(a); }

/* a < b ? x : y */
INLINE vn
vlt(vn a, vn b, vn x, vn y)
{
	return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

/* Is a < b in every lane? */
INLINE int
vall_lt(vn a, vn b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) == 0xffff;
}

/* Is some lane NaN? */
INLINE int
vany_nan(vn a)
{
	return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q) != 0;
}

/* 2^n, where the low bits of x hold n (see vexp) */
INLINE vn
vpow2(vn x)
{
	__m512i i = _mm512_slli_epi32(_mm512_castps_si512(x), 23);

	return _mm512_castsi512_ps(_mm512_add_epi32(i,
	    _mm512_set1_epi32(0x3f800000)));
}

INLINE vn
vld_bf16(const void *p)
{
	__m256i h = _mm256_loadu_si256((const __m256i *)p);

	return _mm512_castsi512_ps(_mm512_slli_epi32(
	    _mm512_cvtepu16_epi32(h), 16));
}

INLINE vn
vld_f16(const void *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

/* As AVX2 has them, see there; here is nothing to hold back. */
INLINE vn vfetch(const float *p) { return vld(p); }
INLINE vn vspread(const float *p) { return vset(*p); }

/* The fixed tree: s[j] += s[j+8], then +4, +2, +1. */
INLINE float
vsum(const vn s[NH])
{
	__m256 a = _mm256_add_ps(_mm512_castps512_ps256(s[0]),
	    _mm512_extractf32x8_ps(s[0], 1));
	__m128 b = _mm_add_ps(_mm256_castps256_ps128(a),
	    _mm256_extractf128_ps(a, 1));

	b = _mm_add_ps(b, _mm_movehl_ps(b, b));
	return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* The largest lane; any order gives the same bits, zeros' signs apart. */
INLINE float
vtop(const vn s[NH])
{
	__m256 a = _mm256_max_ps(_mm512_castps512_ps256(s[0]),
	    _mm512_extractf32x8_ps(s[0], 1));
	__m128 b = _mm_max_ps(_mm256_castps256_ps128(a),
	    _mm256_extractf128_ps(a, 1));

	b = _mm_max_ps(b, _mm_movehl_ps(b, b));
	return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

#endif
