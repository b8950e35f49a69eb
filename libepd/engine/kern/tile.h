/*
 * tile.h - the register tile: rows x cols dot products side by side, each in
 * its own sixteen lanes, so a tile's shape never shows in its results.
 */
#ifndef EPD_ENGINE_KERN_TILE_H
#define EPD_ENGINE_KERN_TILE_H

#include "engine/kern/fetch.h"
#include "engine/kern/pack.h"

/* Lanes h and on of the running sums c, after the part of k from w on. */
INLINE void
pass(enum epd_type t, int rows, int cols, int h, const struct epd_tile *g,
    long col, vn c[MR][NR][NH])
{
	const int n = pass_lanes(rows) / VN;
	const long size = tsize(t), ldw = g->ldw * size, k = g->k % 16;
	struct fetch f = fetch(t, cols, g, col);
	const float *a = g->a + h * VN * rows * ((g->k + 15) / 16);
	const char *w = (const char *)g->w + col * ldw;
	const char *end = w + g->k / 16 * 16 * size;
	vn s[MR][NR][NH];

	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < cols; j++)
			UNROLL for (int v = 0; v < n; v++)
				s[i][j][v] = g->first ? vset(0) : vld(g->lanes +
				    (((col + j) * rows + i) * NH + h + v) * VN);
	for (; w != end; w += 16 * size, a += rows * n * VN) {
		if (h == 0) {
			UNROLL for (int b = 0; b < f.n; b++)
				__builtin_prefetch(f.p + b * f.apart, 0, 3);
			f.p += f.by;
			f.by = f.turn - f.by;
		}
		step(t, rows, cols, h, n, s, a, w, ldw);
	}
	if (k > 0) {
		char tail[NR * 64] = {0};

		UNROLL for (int j = 0; j < cols; j++)
			memcpy(tail + j * 64, w + j * ldw, (size_t)(k * size));
		step(t, rows, cols, h, n, s, a, tail, 64);
	}
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < cols; j++)
			UNROLL for (int v = 0; v < n; v++)
				c[i][j][h + v] = s[i][j][v];
}

INLINE void
tile(enum epd_type t, int rows, int cols, const struct epd_tile *g, long col)
{
	vn c[MR][NR][NH];

	UNROLL for (int h = 0; h < NH; h += pass_lanes(rows) / VN) {
		pass(t, rows, cols, h, g, col, c);
		if (pass_lanes(rows) < 16)
			LAY(c);
	}
	if (g->last) {
		put(t, rows, cols, c, g->bias ? g->bias + col : NULL,
		    g->y + col, g->ldy);
		return;
	}
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < cols; j++)
			UNROLL for (int h = 0; h < NH; h++)
				vst(g->lanes + (((col + j) * rows + i) * NH +
				    h) * VN, c[i][j][h]);
}

/* One body per shape: the tile must live in registers. */
INLINE void
strip(enum epd_type t, int rows, const struct epd_tile *g)
{
	long j = 0;

	for (; j + NR <= g->cols; j += NR)
		tile(t, rows, NR, g, j);
	for (; j < g->cols; j++)
		tile(t, rows, 1, g, j);
}

#define ROWS(t, r) case r: strip(t, r, g); break
#if defined __AVX2__
#define SHAPES(t) switch (g->rows) { ROWS(t, 1); ROWS(t, 2); ROWS(t, 3); \
	ROWS(t, 4); ROWS(t, 5); ROWS(t, 6); }
#else
#define SHAPES(t) switch (g->rows) { ROWS(t, 1); }
#endif

static void
kern_tile(const struct epd_tile *g)
{
	switch (g->type) {
	case EPD_F32: SHAPES(EPD_F32) break;
	case EPD_BF16: SHAPES(EPD_BF16) break;
	case EPD_F16: SHAPES(EPD_F16) break;
	}
}

#endif
