/*
 * gemm.c - who computes which outputs, and from which cache.
 *
 * An item is a block of rows of x times a run of weight rows.  A worker packs
 * the block of x once, into panels, and takes GROUP weight rows at a time: read
 * in place from memory by the first panel, they stay in the second-level cache
 * for the others.  A long k goes in parts, so that a panel's part stays in the
 * first-level cache meanwhile and the block's in half of the second; lanes wait
 * in memory between parts, which cannot be seen in them.
 */
#include <errno.h>
#include <stdatomic.h>

#include "engine/kern/gemm_wide.h"

enum {
	MAXROWS = 192,		/* in a block of x */
	MAXCHUNK = 1024,	/* weight rows in an item */
	GROUP = 64,		/* of them in cache at a time */
	PART = 768,		/* of k, if in parts; parts pay above */
	WHOLE = 1024,		/* this, and with fewer rows than MANY */
	MANY = 16,		/* above twice that */
	FAR = 4,		/* weight rows fetched ahead from memory */
	WIDE = 48,		/* rows of x that repay turning the weights */
};

struct job {
	const struct epd_kern *kern;
	struct epd_pool *pool;
	const struct epd_weight *w;
	const float *x, *bias;
	float *y;
	long m, ldx, ldy, k16;
	long part;		/* elements of k at a time */
	long rows;		/* in a block of x, a multiple of kern->mr */
	long chunk, chunks;	/* weight rows in an item; items in a block */
	atomic_int failed;
	long held[EPD_POOL_MAX];	/* block packed in a worker's scratch */
};

/* Panels as equal as can be: eight rows are 4 + 4, not 6 + 2. */
static long
panel(const struct job *j, long rows)
{
	long panels = (rows + j->kern->mr - 1) / j->kern->mr;

	return (rows + panels - 1) / panels;
}

/* Elements in the part of k that begins at k. */
static long
part_of(const struct job *j, long k)
{
	return epd_least(j->part, j->w->k - k);
}

/* [part][panel][k / 16][row][16], and after it the lanes. */
static float *
pack_block(struct job *j, long block, int who)
{
	const long row = block * j->rows, rows = epd_least(j->rows, j->m - row);
	const long mr = panel(j, rows);
	const long lanes = j->part < j->k16 ? j->rows * j->chunk * 16 : 0;
	float *a = epd_pool_scratch(j->pool, who,
	    (size_t)(j->rows * j->k16 + lanes) * sizeof *a);

	if (!a || j->held[who] == block)
		return a;
	for (long k = 0; k < j->w->k; k += j->part) {
		long n = part_of(j, k), n16 = (n + 15) / 16 * 16;

		for (long i = 0; i < rows; i += mr)
			j->kern->pack(j->w->type, (int)epd_least(mr, rows - i), n,
			    j->x + (row + i) * j->ldx + k, j->ldx,
			    a + rows * k + i * n16);
	}
	j->held[who] = block;
	return a;
}

/* All panels of a part of the block, a, past a group of weight rows. */
static void
panels(const struct job *j, struct epd_tile *g, long row, long rows, long col,
    const float *a)
{
	const long mr = panel(j, rows), k16 = (g->k + 15) / 16 * 16;
	const long line = j->w->k * (j->w->type == EPD_F32 ? 4 : 2);
	float *lanes = g->lanes;

	for (long i = 0; i < rows; i += mr) {
		g->rows = (int)epd_least(mr, rows - i);
		g->a = a + i * k16;
		g->y = j->y + (row + i) * j->ldy + col;
		g->lanes = lanes + i * g->cols * 16;
		g->ahead = (i ? j->kern->nr : FAR) * line;
		j->kern->tile(g);
	}
}

static void
item(void *arg, long n, int who)
{
	struct job *j = arg;
	const struct epd_weight *w = j->w;
	const long size = w->type == EPD_F32 ? 4 : 2;
	const long block = n / j->chunks, from = n % j->chunks * j->chunk;
	const long end = epd_least(from + j->chunk, w->n), row = block * j->rows;
	const long rows = epd_least(j->rows, j->m - row);
	struct epd_tile g = {
		.type = w->type, .ldw = w->k, .ldy = j->ldy,
	};
	float *a = pack_block(j, block, who);

	if (!a) {
		atomic_store(&j->failed, 1);
		return;
	}
	for (long k = 0; k < w->k || k == 0; k += j->part) {
		g.first = k == 0;
		g.last = k + j->part >= w->k;
		g.k = part_of(j, k);
		for (long col = from; col < end; col += GROUP) {
			g.cols = (int)epd_least(GROUP, end - col);
			g.w = (const char *)w->data + (col * w->k + k) * size;
			g.bias = j->bias ? j->bias + col : NULL;
			g.lanes = a + j->rows * j->k16 +
			    (col - from) * rows * 16;
			panels(j, &g, row, rows, col, a + rows * k);
		}
	}
}

/* Rows of x in a block, and how much of k at a time. */
static void
divide(struct job *j)
{
	const long mr = j->kern->mr;
	const long room = epd_pool_cache(j->pool) / 2 / 4;
	long fit, blocks, parts;

	j->part = j->k16;
	if (j->m > mr && j->k16 > (j->m < MANY ? 2 * WHOLE : WHOLE)) {
		parts = (j->k16 + PART - 1) / PART;
		j->part = (j->k16 / 16 + parts - 1) / parts * 16;
	}
	fit = epd_least(room / j->part, MAXROWS) / mr * mr;
	if (fit < mr)
		fit = mr;
	blocks = (j->m + fit - 1) / fit;
	j->rows = ((j->m + blocks - 1) / blocks + mr - 1) / mr * mr;
}

int
epd_gemm(const struct epd_kern *kern, struct epd_pool *pool, long m,
    const float *x, long ldx, const struct epd_weight *w, const float *bias,
    float *y, long ldy)
{
	const long threads = epd_pool_threads(pool);
	long blocks;
	struct job j;

	if (m <= 0 || w->n <= 0)
		return 0;
	if (kern->wide && m >= WIDE && w->k > 0)
		return epd_gemm_wide(kern, pool, m, x, ldx, w, bias, y, ldy);
	j.kern = kern;
	j.pool = pool;
	j.w = w;
	j.x = x;
	j.bias = bias;
	j.y = y;
	j.m = m;
	j.ldx = ldx;
	j.ldy = ldy;
	j.k16 = w->k > 0 ? (w->k + 15) / 16 * 16 : 16;
	atomic_init(&j.failed, 0);
	for (long i = 0; i < threads; i++)
		j.held[i] = -1;
	divide(&j);
	blocks = (m + j.rows - 1) / j.rows;

	/* Some eight items a thread, so that a late thread costs little. */
	j.chunk = w->n * blocks / (8 * threads) / 4 * 4;
	j.chunk = epd_least(j.chunk < 4 ? 4 : j.chunk, MAXCHUNK);
	if (j.part < j.k16)
		j.chunk = epd_least(j.chunk, GROUP);
	j.chunks = (w->n + j.chunk - 1) / j.chunk;
	epd_pool_run(pool, item, &j, blocks * j.chunks);
	return atomic_load(&j.failed) ? -ENOMEM : 0;
}
