/*
 * vision.c - one image through its tower.
 *
 *  1. A block goes in slabs of ranks, so that memory beside x, keys and values
 *     does not grow with the picture.  Keys and values of all ranks are made
 *     before x of any changes.
 *  2. No value depends on the slab it was computed in.
 */
#include <errno.h>
#include <math.h>

#include "base/alloc.h"
#include "engine/kern/rope.h"
#include "engine/model/vision.h"

static const float eps = 1e-6f;

static void
norm1(void *arg, long i, int who)
{
	struct epd_tower *t = arg;
	const long e = t->v->width;

	(void)who;
	epd_norm_run(t->e, &t->b->norm1, e, eps,
	    t->x + t->plan.order[t->at + i] * e, t->h + i * e);
}

/* Row and column turn a quarter of a head's dimensions each. */
static void
rotate(const struct epd_tower *t, long rank, float *heads)
{
	const long d = t->v->dim, quarter = d / 4;
	float cs[EPD_DIM_MAX / 2], sn[EPD_DIM_MAX / 2];
	long at[2];

	epd_plan_place(&t->plan, t->v->merge, t->plan.order[rank], &at[0],
	    &at[1]);
	for (int k = 0; k < 2; k++)
		for (long i = 0; i < quarter; i++) {
			cs[k * quarter + i] = t->cs[at[k] * quarter + i];
			sn[k * quarter + i] = t->sn[at[k] * quarter + i];
		}
	for (long h = 0; h < t->v->heads; h++)
		t->e->kern->rope(d, cs, sn, heads + h * d);
}

/* The segment rank is in. */
static const struct epd_segment *
segment(const struct epd_segments *s, long rank)
{
	long lo = 0, hi = s->n - 1;

	while (lo < hi) {
		long mid = (lo + hi + 1) / 2;

		if (s->s[mid].at <= rank)
			lo = mid;
		else
			hi = mid - 1;
	}
	return &s->s[lo];
}

static void
keep(void *arg, long i, int who)
{
	struct epd_tower *t = arg;
	const long e = t->v->width, d = t->v->dim, rank = t->at + i;
	const struct epd_segment *s = segment(t->seg, rank);
	const long in = rank - s->at;
	char *page = t->page + (size_t)(s->page + in / EPD_VISION_PAGE) *
	    t->page_size;
	float *k = t->kvs + i * 2 * e;

	(void)who;
	rotate(t, rank, k);
	for (int h = 0; h < (int)t->v->heads; h++)
		epd_kv_put(&t->kv, page, h, (int)(in % EPD_VISION_PAGE),
		    k + h * d, k + e + h * d);
}

static void
turn(void *arg, long i, int who)
{
	struct epd_tower *t = arg;

	(void)who;
	rotate(t, t->at + i, t->q + i * t->v->width);
}

/* x += h, then h = norm2 x. */
static void
add_norm2(void *arg, long i, int who)
{
	struct epd_tower *t = arg;
	const long e = t->v->width;
	float *x = t->x + t->plan.order[t->at + i] * e;

	(void)who;
	t->e->kern->add(e, t->h + i * e, x);
	epd_norm_run(t->e, &t->b->norm2, e, eps, x, t->h + i * e);
}

static void
act(void *arg, long i, int who)
{
	struct epd_tower *t = arg;
	const long n = t->v->inner;
	float *g = t->g + i * n;

	(void)who;
	switch (t->e->m->arch.rules->how) {
	case EPD_QUICK_GELU:
		t->e->kern->quick_gelu(n, g, g);
		break;
	case EPD_GATED_SILU:
		t->e->kern->silu(n, g, t->u + i * n, g);
		break;
	case EPD_TANH_GELU:
		t->e->kern->gelu_tanh(n, g, g);
	}
}

static void
add(void *arg, long i, int who)
{
	struct epd_tower *t = arg;
	const long e = t->v->width;

	(void)who;
	t->e->kern->add(e, t->h + i * e, t->x + t->plan.order[t->at + i] * e);
}

/* Queries of the slab, segment by segment. */
static int
attend(struct epd_tower *t)
{
	const long e = t->v->width;
	const float scale = 1 / sqrtf((float)t->v->dim);
	long i = 0, n;
	int rc = 0;

	for (; rc == 0 && i < t->n; i += n) {
		const struct epd_segment *s = segment(t->seg, t->at + i);

		n = s->at + s->n - t->at - i;
		if (n > t->n - i)
			n = t->n - i;
		for (long k = i; k < i + n; k++)
			t->row[k] = (struct epd_attn_row){ t->q + k * e,
			    t->a + k * e, t->table + s->page, s->n };
		rc = epd_attend(t->e->kern, t->e->pool, &t->kv,
		    (int)t->v->heads, scale, t->row + i, n);
	}
	return rc;
}

/* Rows [from, from + n) of a matrix. */
static struct epd_linear
part(const struct epd_linear *l, long from, long n)
{
	const long size = l->w.type == EPD_F32 ? 4 : 2;
	struct epd_linear p = *l;

	p.w.data = (const char *)l->w.data + from * l->w.k * size;
	p.w.n = n;
	p.bias = l->bias + from;
	return p;
}

static int
keys(struct epd_tower *t)
{
	const struct epd_linear kv = part(&t->b->qkv, t->v->width,
	    2 * t->v->width);
	int rc;

	epd_pool_run(t->e->pool, norm1, t, t->n);
	rc = epd_linear_run(t->e, &kv, t->n, t->h, t->kvs);
	if (rc == 0)
		epd_pool_run(t->e->pool, keep, t, t->n);
	return rc;
}

static int
rest(struct epd_tower *t)
{
	const struct epd_block *b = t->b;
	const struct epd_linear q = part(&b->qkv, 0, t->v->width);
	struct epd_pool *pool = t->e->pool;
	int rc;

	epd_pool_run(pool, norm1, t, t->n);
	if ((rc = epd_linear_run(t->e, &q, t->n, t->h, t->q)) < 0)
		return rc;
	epd_pool_run(pool, turn, t, t->n);
	if ((rc = attend(t)) < 0 ||
	    (rc = epd_linear_run(t->e, &b->proj, t->n, t->a, t->h)) < 0)
		return rc;
	epd_pool_run(pool, add_norm2, t, t->n);
	if ((rc = epd_linear_run(t->e, &b->fc1, t->n, t->h, t->g)) < 0)
		return rc;
	if (b->up.w.data &&
	    (rc = epd_linear_run(t->e, &b->up, t->n, t->h, t->u)) < 0)
		return rc;
	epd_pool_run(pool, act, t, t->n);
	if ((rc = epd_linear_run(t->e, &b->fc2, t->n, t->g, t->h)) < 0)
		return rc;
	epd_pool_run(pool, add, t, t->n);
	return 0;
}

int
epd_tower_block(struct epd_tower *t, long i)
{
	int (*const pass[])(struct epd_tower *) = { keys, rest };
	int rc = 0;

	t->b = &t->e->m->weights.block[i];
	t->seg = t->plan.windows.n > 0 && !t->v->full[i] ? &t->plan.windows :
	    &t->plan.frames;
	for (int k = 0; k < 2; k++)
		for (t->at = 0; rc == 0 && t->at < t->plan.n; t->at += t->n) {
			long left = t->plan.n - t->at;

			t->n = left < t->slab ? left : t->slab;
			rc = pass[k](t);
		}
	return rc;
}
