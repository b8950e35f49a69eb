/* fold.h - a tile's shape, its step, and how its lanes become numbers. */
#ifndef EPD_ENGINE_KERN_FOLD_H
#define EPD_ENGINE_KERN_FOLD_H

#include "engine/kern/lanes.h"

/*
 * Rows and columns of a tile; vectors of sums it may hold at once; bytes of a
 * weight row up to which memory reads faster as one stream than as one a column:
 * Zen 3 likes two streams once a row fills a page, Zen 5 never liked four.
 */
#if defined __AVX512F__
enum { MR = 6, NR = 4, TILE = 24, LINEAR = 1 << 30 };
#elif defined __AVX2__
enum { MR = 6, NR = 2, TILE = 12, LINEAR = 4095 };
#else
enum { MR = 1, NR = 1, TILE = 16, LINEAR = 1 << 30 };
#endif

/*
 * The products of sixteen elements, or of n vectors of them; columns of w are
 * ldw bytes apart.
 */
INLINE void
step(enum epd_type t, int rows, int cols, int from, int n, vn c[MR][NR][NH],
    const float *a, const char *w, long ldw)
{
	UNROLL for (int h = 0; h < n; h++) {
		vn v[NR];

		UNROLL for (int j = 0; j < cols; j++)
			v[j] = vldw(t, w + j * ldw, from + h);
		UNROLL for (int i = 0; i < rows; i++) {
			vn x = vfetch(a + (i * n + h) * VN);

			/* Once into a register, not once per product. */
			KEEP(x);
			UNROLL for (int j = 0; j < cols; j++)
				c[i][j][h] = vfma(x, v[j], c[i][j][h]);
		}
	}
}

#if defined __AVX512F__
/* vsum() of four accumulators; after its first two levels. */
INLINE vn
fold4(vn a, vn b, vn c, vn d)
{
	vn ab = vadd(_mm512_shuffle_f32x4(a, b, 0x44),
	    _mm512_shuffle_f32x4(a, b, 0xee));
	vn cd = vadd(_mm512_shuffle_f32x4(c, d, 0x44),
	    _mm512_shuffle_f32x4(c, d, 0xee));

	return vadd(_mm512_shuffle_f32x4(ab, cd, 0x88),
	    _mm512_shuffle_f32x4(ab, cd, 0xdd));
}

/* Up to four rows of four columns at once: the same tree, sixteen wide. */
INLINE void
put4(int rows, vn c[][NR][NH], const float *bias, float *y, long ldy)
{
	const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13,
	    2, 6, 10, 14, 3, 7, 11, 15);
	vn q[4], s, t;

	UNROLL for (int i = 0; i < 4; i++) {
		vn *r = &c[i < rows ? i : 0][0][0];

		q[i] = i < rows ? fold4(r[0], r[1], r[2], r[3]) : vset(0);
	}
	s = vadd(_mm512_shuffle_ps(q[0], q[1], 0x44),
	    _mm512_shuffle_ps(q[0], q[1], 0xee));
	t = vadd(_mm512_shuffle_ps(q[2], q[3], 0x44),
	    _mm512_shuffle_ps(q[2], q[3], 0xee));
	s = vadd(_mm512_shuffle_ps(s, t, 0x88), _mm512_shuffle_ps(s, t, 0xdd));
	s = _mm512_permutexvar_ps(turn, s);
	if (bias)
		s = vadd(s, _mm512_broadcast_f32x4(_mm_loadu_ps(bias)));
	_mm_storeu_ps(y, _mm512_castps512_ps128(s));
	if (rows > 1)
		_mm_storeu_ps(y + ldy, _mm512_extractf32x4_ps(s, 1));
	if (rows > 2)
		_mm_storeu_ps(y + 2 * ldy, _mm512_extractf32x4_ps(s, 2));
	if (rows > 3)
		_mm_storeu_ps(y + 3 * ldy, _mm512_extractf32x4_ps(s, 3));
}
#endif

INLINE void
put(enum epd_type t, int rows, int cols, vn c[MR][NR][NH], const float *bias,
    float *y, long ldy)
{
#if defined __AVX512F__
	if (cols == 4) {
		put4(rows < 4 ? rows : 4, c, bias, y, ldy);
		if (rows > 4)
			put4(rows - 4, c + 4, bias, y + 4 * ldy, ldy);
		return;
	}
#endif
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < cols; j++)
			y[i * ldy + j] = bias ? vsumw(t, c[i][j]) + bias[j] :
			    vsumw(t, c[i][j]);
}

#endif
