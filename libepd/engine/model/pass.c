/*
 * pass.c - the layers.
 *
 *  1. A row's keys and values are in its page before any row of the slab
 *     attends; a row sees its own tokens only, so slabs do not show.
 *  2. After the last layer's keys and values, rows nobody wants logits of are
 *     dropped.  Keys and values that are not finite fail the pass there.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "engine/kern/rope.h"
#include "engine/model/pass.h"

static long
row_at(const struct epd_row *r)
{
	return r->chunk->past + r->in;
}

/* Row i of layer d of the visual a row is of, as floats. */
static void
visual_row(const struct epd_pass *p, const struct epd_row *r, long d,
    float *to)
{
	const struct epd_visual *v = r->visual;
	const size_t size = v->type == EPD_F32 ? 4 : 2;
	const size_t at = (size_t)(d * v->n + row_at(r) - v->at) *
	    (size_t)p->t->hidden;

	epd_widen(to, v->type, (const char *)v->rows + at * size,
	    p->t->hidden);
}

static void
begin(void *arg, long i, int who)
{
	struct epd_pass *p = arg;
	const struct epd_row *r = &p->row[i];
	const int32_t *pos = r->chunk->pos[r->in];
	const long half = p->t->dim / 2;
	float *x = p->x + i * p->t->hidden;

	(void)who;
	if (r->visual)
		visual_row(p, r, 0, x);
	else
		epd_weight_row(x, &p->w->embed, r->chunk->ids[r->in]);
	for (long k = 0; k < half; k++)
		epd_rope_angles(1, p->e->inv + k, (float)pos[p->t->axis[k]],
		    p->cs + i * half + k, p->sn + i * half + k);
}

void
epd_pass_begin(struct epd_pass *p)
{
	epd_pool_run(p->e->pool, begin, p, p->n);
}

static void
norm1(void *arg, long i, int who)
{
	struct epd_pass *p = arg;
	const long n = p->t->hidden;

	(void)who;
	epd_norm_run(p->e, &p->l->norm1, n, p->t->eps, p->x + i * n,
	    p->h + i * n);
}

/* Norm and turn a row's heads; its keys and values go to its page. */
static void
heads(void *arg, long i, int who)
{
	struct epd_pass *p = arg;
	const struct epd_kern *kern = p->e->kern;
	const long d = p->t->dim, half = d / 2;
	const long at = row_at(&p->row[i]);
	const float *cs = p->cs + i * half, *sn = p->sn + i * half;
	void *page = p->row[i].table[at / p->kv.page];

	(void)who;
	for (long h = 0; h < p->t->heads; h++) {
		float *q = p->q + (i * p->t->heads + h) * d;

		if (p->l->qnorm)
			kern->rmsnorm(d, q, p->l->qnorm, p->t->eps, q);
		kern->rope(d, cs, sn, q);
	}
	for (long h = 0; h < p->t->kv_heads; h++) {
		float *k = p->k + (i * p->t->kv_heads + h) * d;

		if (p->l->knorm)
			kern->rmsnorm(d, k, p->l->knorm, p->t->eps, k);
		kern->rope(d, cs, sn, k);
		epd_kv_put(&p->kv, page, (int)h, (int)(at % p->kv.page), k,
		    p->v + (i * p->t->kv_heads + h) * d);
	}
}

/* x += h, then h = norm2 x. */
static void
add_norm2(void *arg, long i, int who)
{
	struct epd_pass *p = arg;
	const long n = p->t->hidden;

	(void)who;
	p->e->kern->add(n, p->h + i * n, p->x + i * n);
	epd_norm_run(p->e, &p->l->norm2, n, p->t->eps, p->x + i * n,
	    p->h + i * n);
}

static void
gate(void *arg, long i, int who)
{
	struct epd_pass *p = arg;
	const long n = p->t->inner;

	(void)who;
	p->e->kern->silu(n, p->g + i * n, p->u + i * n, p->g + i * n);
}

/* x += h, and what deepstack adds after this layer. */
static void
add_deep(void *arg, long i, int who)
{
	struct epd_pass *p = arg;
	const struct epd_row *r = &p->row[i];
	const long n = p->t->hidden;

	(void)who;
	p->e->kern->add(n, p->h + i * n, p->x + i * n);
	if (r->visual && p->layer < p->e->m->info.deepstack) {
		visual_row(p, r, p->layer + 1, p->h + i * n);
		p->e->kern->add(n, p->h + i * n, p->x + i * n);
	}
}

static int
check_finite(const struct epd_pass *p, const float *x, long cols,
    const char *what, struct epd_why *why)
{
	for (long i = 0; i < p->n; i++)
		if (!p->e->kern->finite(cols, x + i * cols))
			return epd_why(why, EPD_ENUMERIC, "token %ld: %s that "
			    "are not finite", row_at(&p->row[i]), what);
	return 0;
}

static int
drop_unwanted(struct epd_pass *p, struct epd_why *why)
{
	const long n = p->t->hidden, q = p->t->heads * p->t->dim;
	const long kv = p->t->kv_heads * p->t->dim;
	long kept = 0;
	int rc;

	if ((rc = check_finite(p, p->k, kv, "keys", why)) < 0 ||
	    (rc = check_finite(p, p->v, kv, "values", why)) < 0)
		return rc;
	for (long i = 0; i < p->n; i++) {
		if (!p->row[i].logits)
			continue;
		if (kept < i) {
			p->row[kept] = p->row[i];
			memcpy(p->x + kept * n, p->x + i * n, (size_t)n * 4);
			memcpy(p->q + kept * q, p->q + i * q, (size_t)q * 4);
		}
		kept++;
	}
	p->n = kept;
	return 0;
}

static int
project(struct epd_pass *p)
{
	struct epd_engine *e = p->e;
	int rc;

	epd_pool_run(e->pool, norm1, p, p->n);
	if ((rc = epd_linear_run(e, &p->l->q, p->n, p->h, p->q)) < 0 ||
	    (rc = epd_linear_run(e, &p->l->k, p->n, p->h, p->k)) < 0 ||
	    (rc = epd_linear_run(e, &p->l->v, p->n, p->h, p->v)) < 0)
		return rc;
	epd_pool_run(e->pool, heads, p, p->n);
	return 0;
}

static int
attend(struct epd_pass *p)
{
	const long q = p->t->heads * p->t->dim;

	for (long i = 0; i < p->n; i++)
		p->at[i] = (struct epd_attn_row){ p->q + i * q, p->a + i * q,
		    (const void *const *)p->row[i].table,
		    row_at(&p->row[i]) + 1 };
	return epd_attend(p->e->kern, p->e->pool, &p->kv, (int)p->t->heads,
	    1 / sqrtf((float)p->t->dim), p->at, p->n);
}

static int
feed(struct epd_pass *p)
{
	struct epd_engine *e = p->e;
	int rc;

	if ((rc = epd_linear_run(e, &p->l->o, p->n, p->a, p->h)) < 0)
		return rc;
	epd_pool_run(e->pool, add_norm2, p, p->n);
	if ((rc = epd_linear_run(e, &p->l->gate, p->n, p->h, p->g)) < 0 ||
	    (rc = epd_linear_run(e, &p->l->up, p->n, p->h, p->u)) < 0)
		return rc;
	epd_pool_run(e->pool, gate, p, p->n);
	if ((rc = epd_linear_run(e, &p->l->down, p->n, p->g, p->h)) < 0)
		return rc;
	epd_pool_run(e->pool, add_deep, p, p->n);
	return 0;
}

int
epd_pass_layer(struct epd_pass *p, long i, struct epd_why *why)
{
	const size_t size = epd_kv_bytes(&p->kv);
	int rc;

	p->layer = i;
	p->l = &p->w->layer[i];
	epd_probe(p->e, "hidden_in_layer", i, p->x, p->n, p->t->hidden);
	if ((rc = project(p)) < 0)
		return rc;
	if (i == p->t->layers - 1 && !p->e->probe &&
	    (rc = drop_unwanted(p, why)) < 0)
		return rc;
	if ((rc = attend(p)) < 0 || (rc = feed(p)) < 0)
		return rc;
	for (long k = 0; k < p->entries; k++)
		p->table[k] = (char *)p->table[k] + size;
	return 0;
}

static void
last_norm(void *arg, long i, int who)
{
	struct epd_pass *p = arg;
	const long n = p->t->hidden;

	(void)who;
	epd_norm_run(p->e, &p->w->norm, n, p->t->eps, p->x + i * n,
	    p->h + i * n);
}

/* Rows from i on whose logits follow one another in memory. */
static long
run_of(const struct epd_pass *p, long i)
{
	long n = 1;

	while (i + n < p->n && p->row[i + n].logits ==
	    p->row[i].logits + n * p->t->vocab)
		n++;
	return n;
}

int
epd_pass_logits(struct epd_pass *p, struct epd_why *why)
{
	const struct epd_linear head = { p->w->head, NULL };
	const long vocab = p->t->vocab, hidden = p->t->hidden;
	long n;
	int rc;

	epd_probe(p->e, "hidden_before_final_norm", -1, p->x, p->n, hidden);
	epd_pool_run(p->e->pool, last_norm, p, p->n);
	epd_probe(p->e, "hidden_after_final_norm", -1, p->h, p->n, hidden);
	if (p->e->probe && (rc = drop_unwanted(p, why)) < 0)
		return rc;
	/* A probed pass has just dropped rows of x, so h is made again. */
	if (p->e->probe)
		epd_pool_run(p->e->pool, last_norm, p, p->n);
	for (long i = 0; i < p->n; i += n) {
		float *to = p->row[i].logits;

		if ((n = run_of(p, i)) == 1) {
			n = p->n - i < EPD_APART ? p->n - i : EPD_APART;
			to = n == 1 ? to : p->logits;
		}
		rc = epd_linear_run(p->e, &head, n, p->h + i * hidden, to);
		if (rc < 0)
			return rc;
		for (long k = 0; k < n && to == p->logits; k++)
			memcpy(p->row[i + k].logits, to + k * vocab,
			    (size_t)vocab * 4);
		for (long k = 0; k < n; k++)
			if (!p->e->kern->finite(vocab, p->row[i + k].logits))
				return epd_why(why, EPD_ENUMERIC, "token %ld: "
				    "logits that are not finite",
				    row_at(&p->row[i + k]));
	}
	return 0;
}
