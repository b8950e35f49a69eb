/*
 * attn.c - online softmax in units of EPD_UNIT tokens, spans of EPD_SPAN.
 *
 *  1. Units and spans begin at absolute multiples of their size.  A span starts
 *     from an empty state; states of spans are merged in ascending order.
 *  2. A row takes only its own tokens into its maximum and its sum.  A masked
 *     token's weight is +0, which leaves every nonzero partial sum as it was.
 *  3. An item is one key head, some rows, and either all spans or, when there
 *     are too few items for the threads, one span.  By 1 that cannot be seen.
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/kern/attn.h"

/* Queries in an item; blocks of keys in a unit; the widest panel. */
enum { QUERIES = 96, BLOCKS = EPD_UNIT / EPD_LANES, PANEL = 16 };

struct job {
	const struct epd_kern *kern;
	struct epd_pool *pool;
	const struct epd_kv *kv;
	const struct epd_attn_row *rows;
	float scale;
	long n, block, blocks;	/* rows, rows in an item, blocks of rows */
	long spans;		/* in all, if split; else 0 */
	int group;		/* query heads to a key head */
	long d16;		/* dim rounded up to lanes */
	struct epd_soft *part;	/* split: [head][block][span][query] */
	atomic_int failed;
};

/* A worker's room for one item. */
struct desk {
	float *all;		/* queries packed together */
	float *each;		/* queries packed row by row */
	struct epd_soft *now, *total;
	float s[PANEL * EPD_UNIT];
};

/* n queries go in panels as equal as can be: seven are 4 + 3, not 6 + 1. */
static long
panel(const struct job *j, long n)
{
	long panels = (n + j->kern->qr - 1) / j->kern->qr;

	return (n + panels - 1) / panels;
}

static size_t
states_size(const struct job *j, long n)
{
	return (size_t)n * (sizeof(struct epd_soft) + (size_t)j->d16 * 4);
}

/* Lay n states out in memory at p, their sums' room after them. */
static struct epd_soft *
lay(const struct job *j, void *p, long n)
{
	struct epd_soft *st = p;
	float *acc = (float *)(st + n);

	for (long i = 0; i < n; i++)
		st[i].acc = acc + i * j->d16;
	return st;
}

static void
clear(const struct job *j, struct epd_soft *st, long n)
{
	for (long i = 0; i < n; i++) {
		st[i].top = -INFINITY;
		memset(st[i].sum, 0, sizeof st[i].sum);
		memset(st[i].acc, 0, (size_t)j->d16 * 4);
	}
}

/* Panels of [dim][queries], as score() wants them. */
static void
pack(const struct job *j, long head, long row, long rows, float *a)
{
	const long n = rows * j->group, qr = panel(j, n);
	const int d = j->kv->dim;

	for (long i = 0; i < n; i += qr) {
		long m = epd_least(qr, n - i);

		for (long k = 0; k < m; k++) {
			long r = row + (i + k) / j->group;
			long g = head * j->group + (i + k) % j->group;
			const float *q = j->rows[r].q + g * d;

			for (int c = 0; c < d; c++)
				a[c * m + k] = q[c];
		}
		a += m * d;
	}
}

/* A unit's keys by blocks, its values by pages, and how far the next ones lie. */
struct place {
	const void *k[BLOCKS], *v[BLOCKS];
	long kahead[BLOCKS], vahead[BLOCKS];
};

/*
 * The unit after is fetched while this one is computed: a page's next is as far
 * in bytes as the page that stands EPD_UNIT tokens on in the table.
 */
static void
find(const struct job *j, long head, long row, const void *const *pages,
    long at, int most, struct place *p)
{
	const struct epd_kv *kv = j->kv;
	const long size = kv->type == EPD_F32 ? 4 : 2, page = kv->page;
	const long plane = page * kv->dim * size;
	const long block = EPD_LANES * kv->dim * size;

	for (long t = 0; t < most; t += EPD_LANES) {
		long b = t / EPD_LANES, i = t / page, next = i + EPD_UNIT / page;
		const char *k = (const char *)pages[i] + 2 * head * plane;

		p->kahead[b] = at + EPD_UNIT + t >= j->rows[row].tokens ? 0 :
		    (long)((uintptr_t)pages[next] - (uintptr_t)pages[i]);
		p->k[b] = k + t % page / EPD_LANES * block;
		p->v[i] = k + plane;
		p->vahead[i] = p->kahead[i * page / EPD_LANES];
	}
}

/* Score, weigh and add tokens [at, at + most) for n queries in panels at a. */
static void
unit(const struct job *j, struct desk *desk, long head, long row, long n,
    const float *a, struct epd_soft *st, const void *const *pages, long at,
    int most)
{
	const struct epd_kv *kv = j->kv;
	const int d = kv->dim, blocks = (most + EPD_LANES - 1) / EPD_LANES;
	const long qr = panel(j, n);
	int valid[PANEL];
	struct place p;

	find(j, head, row, pages, at, most, &p);
	for (long i = 0; i < n; i += qr, a += qr * d, st += qr) {
		int m = (int)epd_least(qr, n - i);

		for (int k = 0; k < m; k++) {
			long sees = j->rows[row + (i + k) / j->group].tokens;

			valid[k] = (int)(sees <= at ? 0 :
			    epd_least(sees - at, EPD_UNIT));
		}
		j->kern->score(kv->type, m, blocks, d, a, p.k, p.kahead,
		    desk->s);
		j->kern->soft(m, valid, j->scale, desk->s, st, d);
		j->kern->weigh(kv->type, m, most, desk->s, p.v, p.vahead,
		    kv->page, d, st);
	}
}

/* Do the rows' tables agree on n entries from page on? */
static int
agree(const struct job *j, long row, long rows, long page, long n)
{
	const void *const *p = j->rows[row].pages;

	for (long i = row + 1; i < row + rows; i++)
		if (j->rows[i].pages != p && (n < 0 || memcmp(p + page,
		    j->rows[i].pages + page, (size_t)n * sizeof *p)))
			return 0;
	return 1;
}

/* The states of one span, for rows [row, row + rows). */
static void
span(const struct job *j, struct desk *desk, long head, long row, long rows,
    long s, struct epd_soft *st)
{
	const long page = j->kv->page, g = j->group, stride = g * j->kv->dim;
	const struct epd_attn_row *r = j->rows + row;
	const int one_table = agree(j, row, rows, 0, -1);
	long most = 0, fewest = r->tokens;

	for (long i = 0; i < rows; i++) {
		most = r[i].tokens > most ? r[i].tokens : most;
		fewest = epd_least(fewest, r[i].tokens);
	}
	most = epd_least(most, (s + 1) * EPD_SPAN);
	clear(j, st, rows * g);
	for (long at = s * EPD_SPAN; at < most; at += EPD_UNIT) {
		const void *const *p = r->pages + at / page;
		long n = epd_least(most - at, EPD_UNIT);

		if (one_table || (fewest - at >= n && agree(j, row, rows,
		    at / page, (n + page - 1) / page))) {
			unit(j, desk, head, row, rows * g, desk->all, st, p,
			    at, (int)n);
			continue;
		}
		for (long i = 0; i < rows; i++)
			if (r[i].tokens > at)
				unit(j, desk, head, row + i, g,
				    desk->each + i * stride, st + i * g,
				    r[i].pages + at / page, at,
				    (int)epd_least(r[i].tokens - at, EPD_UNIT));
	}
}

static long
spans_of(const struct job *j, long row, long rows)
{
	long most = 0;

	for (long i = row; i < row + rows; i++)
		if (j->rows[i].tokens > most)
			most = j->rows[i].tokens;
	return (most + EPD_SPAN - 1) / EPD_SPAN;
}

static void
finish(const struct job *j, long head, long row, long rows,
    const struct epd_soft *st)
{
	const long d = j->kv->dim;

	for (long i = 0; i < rows; i++)
		for (long g = 0; g < j->group; g++)
			j->kern->finish(j->kv->type, d, st++,
			    j->rows[row + i].out + (head * j->group + g) * d);
}

static int
sit(const struct job *j, int who, long head, long row, long rows,
    struct desk *desk)
{
	const long g = j->group, q = rows * g, stride = g * j->kv->dim;
	const size_t each = (size_t)(rows * stride + 15) / 16 * 64;
	char *p = epd_pool_scratch(j->pool, who,
	    2 * each + 2 * states_size(j, q));

	if (!p)
		return 0;
	desk->all = (float *)p;
	desk->each = (float *)(p + each);
	desk->now = lay(j, p + 2 * each, q);
	desk->total = lay(j, p + 2 * each + states_size(j, q), q);
	pack(j, head, row, rows, desk->all);
	if (rows > 1 && !agree(j, row, rows, 0, -1))
		for (long i = 0; i < rows; i++)
			pack(j, head, row + i, 1, desk->each + i * stride);
	return 1;
}

static void
whole(void *arg, long item, int who)
{
	struct job *j = arg;
	long head = item % j->kv->heads, row = item / j->kv->heads * j->block;
	long rows = epd_least(j->block, j->n - row), q = rows * j->group;
	long spans = spans_of(j, row, rows);
	struct desk desk;

	if (!sit(j, who, head, row, rows, &desk)) {
		atomic_store(&j->failed, 1);
		return;
	}
	span(j, &desk, head, row, rows, 0, desk.total);
	for (long s = 1; s < spans; s++) {
		span(j, &desk, head, row, rows, s, desk.now);
		for (long i = 0; i < q; i++)
			j->kern->merge(j->kv->dim, desk.total + i,
			    desk.now + i);
	}
	finish(j, head, row, rows, desk.total);
}

/* Where a split job keeps the states of a block's head's span. */
static struct epd_soft *
part(const struct job *j, long block, long head, long s)
{
	return j->part + ((block * j->kv->heads + head) * j->spans + s) *
	    j->block * j->group;
}

static void
one_span(void *arg, long item, int who)
{
	struct job *j = arg;
	long s = item % j->spans, head = item / j->spans % j->kv->heads;
	long block = item / j->spans / j->kv->heads, row = block * j->block;
	long rows = epd_least(j->block, j->n - row);
	struct desk desk;

	if (s >= spans_of(j, row, rows))
		return;
	if (!sit(j, who, head, row, rows, &desk)) {
		atomic_store(&j->failed, 1);
		return;
	}
	span(j, &desk, head, row, rows, s, part(j, block, head, s));
}

static void
join(void *arg, long item, int who)
{
	struct job *j = arg;
	long head = item % j->kv->heads, block = item / j->kv->heads;
	long row = block * j->block, rows = epd_least(j->block, j->n - row);
	long spans = spans_of(j, row, rows);

	(void)who;
	for (long s = 1; s < spans; s++)
		for (long i = 0; i < rows * j->group; i++)
			j->kern->merge(j->kv->dim, part(j, block, head, 0) + i,
			    part(j, block, head, s) + i);
	finish(j, head, row, rows, part(j, block, head, 0));
}

int
epd_attend(const struct epd_kern *kern, struct epd_pool *pool,
    const struct epd_kv *kv, int heads, float scale,
    const struct epd_attn_row *rows, long n)
{
	struct job j = {
		.kern = kern, .pool = pool, .kv = kv, .rows = rows,
		.scale = scale, .n = n, .group = heads / kv->heads,
		.d16 = (kv->dim + 15) / 16 * 16,
	};
	long items, states;
	void *p;

	if (n <= 0)
		return 0;
	j.block = epd_least(n, QUERIES / j.group > 0 ? QUERIES / j.group : 1);
	j.blocks = (n + j.block - 1) / j.block;
	items = j.blocks * kv->heads;
	j.spans = spans_of(&j, 0, n);
	if (j.spans < 2 || items >= 4 * epd_pool_threads(pool) ||
	    epd_pool_threads(pool) == 1) {
		epd_pool_run(pool, whole, &j, items);
		return atomic_load(&j.failed) ? -ENOMEM : 0;
	}
	states = items * j.spans * j.block * j.group;
	if (!(p = epd_alloc_aligned(64, states_size(&j, states))))
		return -ENOMEM;
	j.part = lay(&j, p, states);
	epd_pool_run(pool, one_span, &j, items * j.spans);
	epd_pool_run(pool, join, &j, items);
	epd_free(p);
	return atomic_load(&j.failed) ? -ENOMEM : 0;
}
