/*
 * gemm_wide.c - products for many rows of x.
 *
 * All of a block's rows are spread once, by everybody, into memory that all
 * see.  An item is then a run of weight rows: a worker turns sixteen of them at
 * a time, which stay in its second-level cache while the block's panels pass.
 */
#include <errno.h>
#include <stdatomic.h>

#include "engine/kern/gemm_wide.h"

enum {
	COLS = 16,		/* weight rows turned at a time */
	BLOCK = 8 << 20,	/* bytes of x in a block, */
	FEWEST = 192,		/* if they are at least so many rows */
};

struct job {
	const struct epd_kern *kern;
	struct epd_pool *pool;
	const struct epd_weight *w;
	const float *x, *bias;
	float *y;
	long m, ldx, ldy;	/* of this block */
	long steps, panel;	/* rows in a panel */
	long cols;		/* of an item, a multiple of COLS */
	char *a;
	atomic_int failed;
};

static long
spread_size(const struct job *j, long rows)
{
	return 16 * epd_wide_apart(j->steps, rows * 4);
}

static long
turned_size(const struct job *j)
{
	return 16 * epd_wide_apart(j->steps, j->w->type == EPD_BF16 ?
	    2 * COLS : 4 * COLS);
}

static void
spread(void *arg, long n, int who)
{
	struct job *j = arg;
	long row = n * j->panel;

	(void)who;
	j->kern->spread((int)epd_least(j->panel, j->m - row), j->w->k,
	    j->x + row * j->ldx, j->ldx,
	    (float *)(j->a + n * spread_size(j, j->panel)));
}

static void
item(void *arg, long n, int who)
{
	struct job *j = arg;
	const struct epd_weight *w = j->w;
	const long size = w->type == EPD_F32 ? 4 : 2, turned = turned_size(j);
	const long from = n * j->cols, end = epd_least(from + j->cols, w->n);
	char *b = epd_pool_scratch(j->pool, who,
	    (size_t)(turned * (j->cols / COLS)));

	if (!b) {
		atomic_store(&j->failed, 1);
		return;
	}
	for (long col = from; col < end; col += COLS)
		j->kern->turn(w->type, (int)epd_least(COLS, end - col), w->k,
		    (const char *)w->data + col * w->k * size, w->k,
		    b + (col - from) / COLS * turned);
	for (long row = 0, p = 0; row < j->m; row += j->panel, p++)
		for (long col = from; col < end; col += COLS) {
			struct epd_wide g = {
				.type = w->type, .steps = j->steps,
				.rows = (int)epd_least(j->panel, j->m - row),
				.cols = (int)epd_least(COLS, end - col),
				.a = j->a + p * spread_size(j, j->panel),
				.b = b + (col - from) / COLS * turned,
				.bias = j->bias ? j->bias + col : NULL,
				.y = j->y + row * j->ldy + col, .ldy = j->ldy,
			};

			j->kern->wide(&g);
		}
}

/* Rows of x in a block: equal ones, so that a last small one costs no turning. */
static long
block_rows(const struct job *j, long m)
{
	long fit = BLOCK / (j->steps * 64), blocks;

	if (fit < FEWEST)
		fit = FEWEST;
	blocks = (m + fit - 1) / fit;
	return (m + blocks - 1) / blocks;
}

int
epd_gemm_wide(const struct epd_kern *kern, struct epd_pool *pool, long m,
    const float *x, long ldx, const struct epd_weight *w, const float *bias,
    float *y, long ldy)
{
	const int threads = epd_pool_threads(pool);
	long rows, panels;
	struct job j = {
		.kern = kern, .pool = pool, .w = w, .bias = bias, .ldx = ldx,
		.ldy = ldy, .steps = (w->k + 15) / 16,
	};

	rows = block_rows(&j, m);
	j.cols = epd_pool_cache(pool) / 4 / turned_size(&j) * COLS;
	j.cols = epd_least(j.cols, w->n / (4 * threads) / COLS * COLS);
	if (j.cols < COLS)
		j.cols = COLS;
	for (long i = 0; i < m; i += rows) {
		j.m = epd_least(rows, m - i);
		panels = (j.m + kern->wr - 1) / kern->wr;
		j.panel = (j.m + panels - 1) / panels;
		panels = (j.m + j.panel - 1) / j.panel;
		j.x = x + i * ldx;
		j.y = y + i * ldy;
		j.a = epd_pool_scratch(pool, threads,
		    (size_t)(panels * spread_size(&j, j.panel)));
		if (!j.a)
			return -ENOMEM;
		epd_pool_run(pool, spread, &j, panels);
		epd_pool_run(pool, item, &j, (w->n + j.cols - 1) / j.cols);
	}
	return atomic_load(&j.failed) ? -ENOMEM : 0;
}
