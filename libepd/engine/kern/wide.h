/*
 * wide.h - products for many rows of x at once: sixteen columns are the lanes,
 * as sixteen tokens are in score.h, and the sixteen running sums of a product
 * are computed one after the other, each by elements of one index mod 16.
 *
 * A step then loads two vectors of w for six rows, where tile() loads one for
 * each row and column; but w has to be turned first, which few rows don't repay.
 */
#ifndef EPD_ENGINE_KERN_WIDE_H
#define EPD_ENGINE_KERN_WIDE_H

#include "engine/kern/score.h"

#if defined __AVX2__ && !defined __AVX512F__
#include "engine/kern/turn.h"

enum { WR = 6 };

/* Eight rows are stored whatever there are; the next step's lie over them. */
static void
kern_spread(int rows, long k, const float *x, long ldx, float *a)
{
	const long apart = epd_wide_apart((k + 15) / 16, rows * 4);
	vn v[8];

	for (long s = 0; s < k; s += 16, a += rows)
		for (int h = 0; h < 16; h += 8) {
			for (int i = 0; i < 8; i++)
				v[i] = vldn(x + (i < rows ? i : 0) * ldx + s +
				    h, k - s - h);
			turn8(v);
			UNROLL for (int i = 0; i < 8; i++)
				vst((float *)((char *)a +
				    run_of(h + i) * apart), v[i]);
		}
}

/* Sums wait at depth l for as many others: the tree, from its leaves. */
INLINE void
wide(enum epd_type t, int rows, const struct epd_wide *g)
{
	const long line = t == EPD_BF16 ? 32 : 64;
	const long aparta = epd_wide_apart(g->steps, rows * 4);
	const long apartb = epd_wide_apart(g->steps, line);
	const void *b = g->b;
	float wait[5][WR * 16];
	vn c[QR][4][NH];

	for (int n = 0; n < 16; n++) {
		int l = 0;

		chain(t, rows, 1, g->steps, (const float *)((const char *)g->a +
		    n * aparta), &b, &apartb, c);
		for (; n >> l & 1; l++)
			UNROLL for (int i = 0; i < rows; i++)
				UNROLL for (int h = 0; h < NH; h++)
					c[i][0][h] = vadd(c[i][0][h], vld(
					    wait[l] + i * 16 + h * VN));
		UNROLL for (int i = 0; i < rows; i++)
			UNROLL for (int h = 0; h < NH; h++)
				vst(wait[l] + i * 16 + h * VN, c[i][0][h]);
		b = (const char *)b + apartb;
	}
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int h = 0; h < NH; h++)
			vstn(g->y + i * g->ldy + h * VN, g->bias ?
			    vadd(c[i][0][h], vldn(g->bias + h * VN,
			    g->cols - h * VN)) : c[i][0][h],
			    g->cols - h * VN);
}

#define WIDE(t, r) case r: wide(t, r, g); break

static void
kern_wide(const struct epd_wide *g)
{
	const int rows = g->rows;

	if (g->type == EPD_BF16)
		PANELS(WIDE, EPD_BF16)
	else
		PANELS(WIDE, EPD_F32)
}

#define KERN_WIDE .wr = WR, .wide = kern_wide, .turn = kern_turn, \
	.spread = kern_spread,
#else
#define KERN_WIDE
#endif

#endif
