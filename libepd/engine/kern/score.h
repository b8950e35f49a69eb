/*
 * score.h - queries against blocks of sixteen keys: sixteen tokens are the
 * lanes, so a score is one chain and no tree.
 */
#ifndef EPD_ENGINE_KERN_SCORE_H
#define EPD_ENGINE_KERN_SCORE_H

#include "engine/kern/lanes.h"

/*
 * Queries in a panel, and how many blocks stand beside them in registers: as
 * many chains as keep the multipliers busy and no more than there is room for.
 */
#if defined __AVX512F__
enum { QR = 7 };
INLINE int score_blocks(int rows) { return rows <= 6 ? 4 : 2; }
#elif defined __AVX2__
enum { QR = 6 };
INLINE int score_blocks(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }
#else
enum { QR = 1 };
INLINE int score_blocks(int rows) { return rows; }
#endif

/* c[i][b][h] = sum of q[d][i] k[b][d], d ascending; ahead: see kern.h. */
INLINE void
chain(enum epd_type t, int rows, int nb, long d, const float *q,
    const void *const *k, const long *ahead, vn c[QR][4][NH])
{
	vn s[QR][4][NH], x[NH], w;
	const char *p[4];

	UNROLL for (int b = 0; b < nb; b++) {
		p[b] = k[b];
		UNROLL for (int i = 0; i < rows; i++)
			UNROLL for (int h = 0; h < NH; h++)
				s[i][b][h] = vset(0);
	}
	for (; d > 0; d--, q += rows) {
		UNROLL for (int b = 0; b < nb; b++) {
			UNROLL for (int h = 0; h < NH; h++)
				x[h] = vldw(t, p[b], h);
			__builtin_prefetch(p[b] + ahead[b], 0, 3);
			p[b] += 16 * tsize(t);
			UNROLL for (int i = 0; i < rows; i++) {
				w = vspread(q + i);
				UNROLL for (int h = 0; h < NH; h++)
					s[i][b][h] = vfma(w, x[h], s[i][b][h]);
			}
		}
	}
	UNROLL for (int b = 0; b < nb; b++)
		UNROLL for (int i = 0; i < rows; i++)
			UNROLL for (int h = 0; h < NH; h++)
				c[i][b][h] = s[i][b][h];
}

INLINE void
score(enum epd_type t, int rows, int nb, long d, const float *q,
    const void *const *k, const long *ahead, float *s)
{
	vn c[QR][4][NH];

	chain(t, rows, nb, d, q, k, ahead, c);
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int b = 0; b < nb; b++)
			vstw(t, s + i * EPD_UNIT + b * 16, c[i][b]);
}

INLINE void
score_all(enum epd_type t, int rows, int blocks, long d, const float *q,
    const void *const *k, const long *ahead, float *s)
{
	const int nb = score_blocks(rows);
	int b = 0;

	for (; b + nb <= blocks; b += nb)
		score(t, rows, nb, d, q, k + b, ahead + b, s + b * 16);
	for (; b < blocks; b++)
		score(t, rows, 1, d, q, k + b, ahead + b, s + b * 16);
}

/* One body for each number of queries: they must live in registers. */
#if defined __AVX512F__
#define PANELS(X, t) switch (rows) { X(t, 1); X(t, 2); X(t, 3); X(t, 4); \
	X(t, 5); X(t, 6); X(t, 7); }
#elif defined __AVX2__
#define PANELS(X, t) switch (rows) { X(t, 1); X(t, 2); X(t, 3); X(t, 4); \
	X(t, 5); X(t, 6); }
#else
#define PANELS(X, t) switch (rows) { X(t, 1); }
#endif
#define SCORE(t, r) case r: score_all(t, r, blocks, d, q, k, ahead, s); break

static void
kern_score(enum epd_type t, int rows, int blocks, long d, const float *q,
    const void *const *k, const long *ahead, float *s)
{
	if (t == EPD_F32)
		PANELS(SCORE, EPD_F32)
	else
		PANELS(SCORE, EPD_BF16)
}

#endif
