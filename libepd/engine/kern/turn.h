/*
 * turn.h - operands of wide.h: elements of one index mod 16 stand together, in
 * runs epd_wide_apart() bytes apart.  AVX2 alone.
 */
#ifndef EPD_ENGINE_KERN_TURN_H
#define EPD_ENGINE_KERN_TURN_H

#include "engine/kern/lanes.h"

/*
 * Runs lie in the order in which their sums meet in the tree: 0, 8, 4, 12, 2...,
 * the index with its four bits turned round.
 */
INLINE long
run_of(int j)
{
	return (j & 1) << 3 | (j & 2) << 1 | (j & 4) >> 1 | (j & 8) >> 3;
}

/* Eight rows of eight become eight columns of eight. */
INLINE void
turn8(vn v[8])
{
	vn t[8], u[8];

	UNROLL for (int i = 0; i < 8; i += 2) {
		t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
		t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
	}
	UNROLL for (int i = 0; i < 8; i += 4)
		UNROLL for (int j = 0; j < 2; j++) {
			vn a = t[i + j], b = t[i + j + 2];

			u[i + 2 * j] = _mm256_shuffle_ps(a, b, 0x44);
			u[i + 2 * j + 1] = _mm256_shuffle_ps(a, b, 0xee);
		}
	UNROLL for (int i = 0; i < 4; i++) {
		v[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
		v[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
	}
}

/* In pairs of bf16: column c low, c + 8 high, as vsplit_bf16() takes them. */
INLINE void
turn_bf16(const char *const w[16], char *b, long apart)
{
	vn v[2][8];

	for (int c = 0; c < 8; c++) {
		__m256i x = _mm256_loadu_si256((const __m256i *)w[c]);
		__m256i y = _mm256_loadu_si256((const __m256i *)w[c + 8]);

		v[0][c] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(x, y));
		v[1][c] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(x, y));
	}
	for (int p = 0; p < 2; p++) {
		turn8(v[p]);
		UNROLL for (int i = 0; i < 8; i++)
			vst((float *)(b + run_of(p * 4 + i % 4 +
			    i / 4 * 8) * apart), v[p][i]);
	}
}

INLINE void
turn_wide(enum epd_type t, const char *const w[16], char *b, long apart)
{
	vn v[8];

	for (int k = 0; k < 16; k += 8)
		for (int c = 0; c < 16; c += 8) {
			for (int i = 0; i < 8; i++)
				v[i] = vldt(t, w[c + i] + k * tsize(t));
			turn8(v);
			UNROLL for (int i = 0; i < 8; i++)
				vst((float *)(b + run_of(k + i) *
				    apart) + c, v[i]);
		}
}

static void
kern_turn(enum epd_type t, int cols, long k, const void *w, long ldw, void *b)
{
	const long size = tsize(t), line = t == EPD_BF16 ? 32 : 64;
	const long apart = epd_wide_apart((k + 15) / 16, line);
	char tail[16][64] = {{0}};
	const char *p[16];

	for (long s = 0; s < k; s += 16, b = (char *)b + line) {
		for (int c = 0; c < 16; c++) {
			const char *from = (const char *)w +
			    ((c < cols ? c : 0) * ldw + s) * size;

			if (k - s < 16)
				memcpy(tail[c], from, (size_t)((k - s) * size));
			p[c] = k - s < 16 ? tail[c] : from;
		}
		if (t == EPD_BF16)
			turn_bf16(p, b, apart);
		else if (t == EPD_F16)
			turn_wide(EPD_F16, p, b, apart);
		else
			turn_wide(EPD_F32, p, b, apart);
	}
}

#endif
