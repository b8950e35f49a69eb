/* weigh.h - values weighted by a unit's softmax, tokens ascending. */
#ifndef EPD_ENGINE_KERN_WEIGH_H
#define EPD_ENGINE_KERN_WEIGH_H

#include "engine/kern/score.h"

/* Vectors of acc that stand beside so many rows in registers. */
INLINE int
weigh_cols(int rows)
{
#if defined __AVX512F__
	return rows <= 3 ? 8 : rows <= 6 ? 4 : 2;
#elif defined __AVX2__
	return rows == 1 ? 8 : rows <= 3 ? 4 : 2;
#else
	return rows * 8;
#endif
}

/* Columns [c, c + cols * VN) of acc for some rows; part < VN marks a tail. */
INLINE void
weigh(enum epd_type t, int rows, int cols, int n, const float *p,
    const void *const *v, const long *ahead, int page, long d, long c, int part,
    struct epd_soft *st)
{
	vn acc[QR][8], x[8];

	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < cols; j++)
			acc[i][j] = vld(st[i].acc + c + j * VN);
	for (int u = 0; u < n; u += page) {
		const char *q = (const char *)v[u / page] + c * tsize(t);
		int m = n - u < page ? n - u : page;

		for (int k = 0; k < m; k++, q += d * tsize(t)) {
			UNROLL for (int b = 0; b < cols * VN * tsize(t);
			    b += 64)
				__builtin_prefetch(q + ahead[u / page] + b, 0,
				    3);
			UNROLL for (int j = 0; j < cols; j++) {
				x[j] = part < VN ? vldtn(t, q, part) :
				    vldt(t, q + j * VN * tsize(t));
				KEEP(x[j]);
			}
			UNROLL for (int i = 0; i < rows; i++) {
				vn w = vset(p[i * EPD_UNIT + u + k]);

				UNROLL for (int j = 0; j < cols; j++)
					acc[i][j] = vfma(w, x[j], acc[i][j]);
			}
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
		weigh(t, rows, cols, n, p, v, ahead, page, d, c, VN, st);
	for (; c + VN <= d; c += VN)
		weigh(t, rows, 1, n, p, v, ahead, page, d, c, VN, st);
	if (c < d)
		weigh(t, rows, 1, n, p, v, ahead, page, d, c, (int)(d - c), st);
}

#define WEIGH(t, r) case r: weigh_all(t, r, n, p, v, ahead, page, d, st); break
#if defined __AVX512F__
#define WEIGHS(t) switch (rows) { WEIGH(t, 1); WEIGH(t, 2); WEIGH(t, 3); \
	WEIGH(t, 4); WEIGH(t, 5); WEIGH(t, 6); WEIGH(t, 7); }
#elif defined __AVX2__
#define WEIGHS(t) switch (rows) { WEIGH(t, 1); WEIGH(t, 2); WEIGH(t, 3); \
	WEIGH(t, 4); WEIGH(t, 5); WEIGH(t, 6); }
#else
#define WEIGHS(t) switch (rows) { WEIGH(t, 1); }
#endif

static void
kern_weigh(enum epd_type t, int rows, int n, const float *p,
    const void *const *v, const long *ahead, int page, long d,
    struct epd_soft *st)
{
	if (t == EPD_F32)
		WEIGHS(EPD_F32)
	else
		WEIGHS(EPD_BF16)
}

#endif
