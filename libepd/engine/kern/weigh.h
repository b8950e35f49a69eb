/*
 * weigh.h - values weighted by a unit's softmax, tokens ascending.  acc stands
 * by sixteens in the order of lanes.h, until kern_finish() puts it right.
 */
#ifndef EPD_ENGINE_KERN_WEIGH_H
#define EPD_ENGINE_KERN_WEIGH_H

#include "engine/kern/score.h"

/* Vectors of acc that stand beside so many rows in registers; times NH. */
INLINE int
weigh_cols(int rows)
{
#if defined __AVX512F__
	return rows <= 3 ? 8 : rows <= 6 ? 4 : 2;
#elif defined __AVX2__
	return rows == 1 ? 8 : rows <= 3 ? 4 : 2;
#else
	return rows * 16;
#endif
}

/* One token: weights are held if there is room, else they pass anew by group. */
INLINE void
weigh1(enum epd_type t, int rows, int cols, const float *p, const char *v,
    vn acc[QR][16])
{
	const int held = rows * cols + rows + 2 <= REGISTERS;
	vn w[QR], x[NH];

	if (held)
		UNROLL for (int i = 0; i < rows; i++)
			w[i] = vspread(p + i * EPD_UNIT);
	UNROLL for (int j = 0; j < cols; j += NH, v += 16 * tsize(t)) {
		UNROLL for (int h = 0; h < NH; h++) {
			x[h] = vldw(t, v, h);
			if (held)
				UNROLL for (int i = 0; i < rows; i++)
					acc[i][j + h] = vfma(w[i], x[h],
					    acc[i][j + h]);
		}
		if (!held)
			UNROLL for (int i = 0; i < rows; i++) {
				w[0] = vspread(p + i * EPD_UNIT);
				UNROLL for (int h = 0; h < NH; h++)
					acc[i][j + h] = vfma(w[0], x[h],
					    acc[i][j + h]);
			}
	}
}

/* cols vectors of acc from column c on; or the m < 16 last columns. */
INLINE void
weigh(enum epd_type t, int rows, int cols, int n, const float *p,
    const void *const *v, const long *ahead, int page, long d, long c, long m,
    struct epd_soft *st)
{
	vn acc[QR][16];

	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < cols; j++)
			acc[i][j] = vld(st[i].acc + c + j * VN);
	for (int u = 0; u < n; u += page, p += page) {
		const char *q = (const char *)v[u / page] + c * tsize(t);
		const char *later = q + ahead[u / page];
		int tokens = n - u < page ? n - u : page;

		for (int k = 0; k < tokens; k++, q += d * tsize(t)) {
			char tail[64] = {0};

			UNROLL for (long b = 0; b < cols * VN * tsize(t); b += 64)
				__builtin_prefetch(later + b, 0, 3);
			later += d * tsize(t);
			if (m < 16)
				memcpy(tail, q, (size_t)(m * tsize(t)));
			weigh1(t, rows, cols, p + k, m < 16 ? tail : q, acc);
		}
	}
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < cols; j++)
			vst(st[i].acc + c + j * VN, acc[i][j]);
}

INLINE void
weigh_all(enum epd_type t, int rows, int n, const float *p,
    const void *const *v, const long *ahead, int page, long d,
    struct epd_soft *st)
{
	const int cols = weigh_cols(rows);
	long c = 0;

	for (; c + cols * VN <= d; c += cols * VN)
		weigh(t, rows, cols, n, p, v, ahead, page, d, c, 16, st);
	for (; c + 16 <= d; c += 16)
		weigh(t, rows, NH, n, p, v, ahead, page, d, c, 16, st);
	if (c < d)
		weigh(t, rows, NH, n, p, v, ahead, page, d, c, d - c, st);
}

#define WEIGH(t, r) case r: weigh_all(t, r, n, p, v, ahead, page, d, st); break

static void
kern_weigh(enum epd_type t, int rows, int n, const float *p,
    const void *const *v, const long *ahead, int page, long d,
    struct epd_soft *st)
{
	if (t == EPD_F32)
		PANELS(WEIGH, EPD_F32)
	else
		PANELS(WEIGH, EPD_BF16)
}

#endif
