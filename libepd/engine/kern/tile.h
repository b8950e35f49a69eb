/*
 * tile.h - the register tile: rows x cols dot products side by side, each in
 * its own sixteen lanes, so a tile's shape never shows in its results.
 */
#ifndef EPD_ENGINE_KERN_TILE_H
#define EPD_ENGINE_KERN_TILE_H

#include "engine/kern/fetch.h"

INLINE void
tile(enum epd_type t, int rows, int cols, const struct epd_tile *g, long col)
{
	const long size = tsize(t), ldw = g->ldw * size, k = g->k % 16;
	struct fetch f = fetch(t, cols, g, col);
	const float *a = g->a;
	const char *w = (const char *)g->w + col * ldw;
	const char *end = w + g->k / 16 * 16 * size;
	float *lanes = g->lanes + col * rows * 16;
	vn c[MR][NR][NH];

	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < cols; j++)
			UNROLL for (int h = 0; h < NH; h++)
				c[i][j][h] = g->first ? vset(0) : vld(lanes +
				    ((j * rows + i) * NH + h) * VN);
	for (; w != end; w += 16 * size, a += rows * 16) {
		UNROLL for (int b = 0; b < f.n; b++)
			__builtin_prefetch(f.p + b * f.apart, 0, 3);
		f.p += f.by;
		f.by = f.turn - f.by;
		step(t, rows, cols, c, a, w, ldw);
	}
	if (k > 0) {
		char tail[NR * 64] = {0};

		UNROLL for (int j = 0; j < cols; j++)
			memcpy(tail + j * 64, w + j * ldw, (size_t)(k * size));
		step(t, rows, cols, c, a, tail, 64);
	}
	if (g->last) {
		put(t, rows, cols, c, g->bias ? g->bias + col : NULL,
		    g->y + col, g->ldy);
		return;
	}
	UNROLL for (int i = 0; i < rows; i++)
		UNROLL for (int j = 0; j < cols; j++)
			UNROLL for (int h = 0; h < NH; h++)
				vst(lanes + ((j * rows + i) * NH + h) * VN,
				    c[i][j][h]);
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
#if defined __AVX512F__
#define SHAPES(t) switch (g->rows) { ROWS(t, 1); ROWS(t, 2); ROWS(t, 3); \
	ROWS(t, 4); ROWS(t, 5); ROWS(t, 6); }
#elif defined __AVX2__
#define SHAPES(t) switch (g->rows) { ROWS(t, 1); ROWS(t, 2); ROWS(t, 3); }
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

static void
kern_pack(enum epd_type t, int rows, long k, const float *x, long ldx,
    float *a)
{
	vn v[NH];

	for (long s = 0; s < k; s += 16)
		for (int i = 0; i < rows; i++, a += 16) {
			for (int h = 0; h < NH; h++)
				v[h] = vldn(x + i * ldx + s + h * VN,
				    k - s - h * VN);
			vturnw(t, v);
			for (int h = 0; h < NH; h++)
				vst(a + h * VN, v[h]);
		}
}

#endif
