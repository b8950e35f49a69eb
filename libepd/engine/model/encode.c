/* encode.c - an image's tower: its memory, its blocks and mergers in turn. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/kern/rope.h"
#include "engine/model/vision.h"

enum { PATCHES = 1 << 24 };	/* the most in a call */

static void
carve(struct epd_tower *t, struct epd_carve *c)
{
	const struct epd_vision_arch *v = t->v;
	const size_t e = (size_t)v->width, slab = (size_t)t->slab;
	const size_t inner = (size_t)v->inner;
	const size_t coords = (size_t)(t->plan.h > t->plan.w ? t->plan.h :
	    t->plan.w) * (size_t)v->dim / 4;
	const size_t desks = (size_t)epd_pool_threads(t->e->pool) * 2;
	const long pages = t->plan.windows.pages > t->plan.frames.pages ?
	    t->plan.windows.pages : t->plan.frames.pages;

	t->x = epd_carve(c, (size_t)t->plan.n * e, sizeof *t->x);
	t->cs = epd_carve(c, coords, sizeof *t->cs);
	t->sn = epd_carve(c, coords, sizeof *t->sn);
	t->table = epd_carve(c, (size_t)pages, sizeof *t->table);
	t->page = epd_carve(c, (size_t)pages, t->page_size);
	/* h serves the table of positions too, a desk a thread. */
	t->h = epd_carve(c, (slab > desks ? slab : desks) * e, sizeof *t->h);
	t->q = epd_carve(c, slab * e, sizeof *t->q);
	t->a = epd_carve(c, slab * e, sizeof *t->a);
	t->kvs = epd_carve(c, slab * 2 * e, sizeof *t->kvs);
	t->g = epd_carve(c, slab * (inner > e ? inner : e), sizeof *t->g);
	t->u = epd_carve(c, slab * inner, sizeof *t->u);
	t->row = epd_carve(c, slab, sizeof *t->row);
	for (long i = 0; c->p && i < pages; i++)
		t->table[i] = t->page + (size_t)i * t->page_size;
}

static void
angles(struct epd_tower *t)
{
	const long d = t->v->dim, quarter = d / 4;
	long most = t->plan.h > t->plan.w ? t->plan.h : t->plan.w;
	float inv[EPD_DIM_MAX / 4];

	epd_rope_inv(inv, d / 2, t->v->theta);
	for (long i = 0; i < most; i++)
		epd_rope_angles(quarter, inv, (float)i, t->cs + i * quarter,
		    t->sn + i * quarter);
}

/* x in the order the golden set has it: by rank. */
static int
tell_block(struct epd_tower *t, long i)
{
	const size_t e = (size_t)t->v->width;
	float *x;

	if (!t->e->probe)
		return 0;
	if (!(x = epd_malloc((size_t)t->plan.n * e * sizeof *x)))
		return -ENOMEM;
	for (long r = 0; r < t->plan.n; r++)
		memcpy(x + (size_t)r * e, t->x + (size_t)t->plan.order[r] * e,
		    e * sizeof *x);
	epd_probe(t->e, "vision_block", i, x, t->plan.n, t->v->width);
	epd_free(x);
	return 0;
}

static int
climb(struct epd_tower *t, float *rows)
{
	const struct epd_weights *w = &t->e->m->weights;
	const long hidden = t->e->m->info.hidden;
	const long tokens = t->plan.n / (t->v->merge * t->v->merge);
	long deep = 0;
	int rc = 0;

	for (long i = 0; rc == 0 && i < t->v->depth; i++) {
		if ((rc = epd_tower_block(t, i)) < 0 ||
		    (rc = tell_block(t, i)) < 0)
			return rc;
		if (deep < t->v->deep && t->v->deep_at[deep] == i) {
			rc = epd_tower_merge(t, &w->deep[deep],
			    rows + (deep + 1) * tokens * hidden);
			deep++;
		}
	}
	if (rc == 0)
		rc = epd_tower_merge(t, &w->merger, rows);
	return rc;
}

static int
check_finite(struct epd_tower *t, const float *rows, struct epd_why *why)
{
	const long n = t->plan.n / (t->v->merge * t->v->merge) *
	    (1 + t->v->deep), hidden = t->e->m->info.hidden;

	for (long i = 0; i < n; i++)
		if (!t->e->kern->finite(hidden, rows + i * hidden))
			return epd_why(why, EPD_ENUMERIC,
			    "the vision tower gave a number that is not "
			    "finite");
	return 0;
}

static int
check_frames(const struct epd_vision_arch *v, const struct epd_image *f, int n,
    struct epd_why *why)
{
	const long unit = v->patch * v->merge;

	if (n < 1 || f->w < unit || f->h < unit || f->w % unit ||
	    f->h % unit)
		return epd_why(why, EPD_EFORMAT,
		    "%d frames of %ld by %ld: not multiples of %ld", n,
		    n < 1 ? 0 : f->w, n < 1 ? 0 : f->h, unit);
	for (int i = 1; i < n; i++)
		if (f[i].w != f->w || f[i].h != f->h)
			return epd_why(why, EPD_EFORMAT,
			    "frames of different sizes");
	if (f->w / v->patch > PATCHES || f->h / v->patch > PATCHES /
	    (f->w / v->patch) / (n / 2 + 1))
		return epd_why(why, EPD_ETOOBIG, "more than %d patches",
		    PATCHES);
	return 0;
}

int
epd_vision_run(struct epd_engine *e, const struct epd_image *frames, int n,
    enum epd_resampler how, float *rows, struct epd_why *why)
{
	const struct epd_vision_arch *v = &e->m->arch.vision;
	const long unit = v->merge * v->merge;
	struct epd_tower t = { .e = e, .v = v };
	struct epd_carve c = { 0 };
	int rc = check_frames(v, frames, n, why);

	if (rc < 0)
		return rc;
	rc = epd_plan_make(&t.plan, v, n / 2 + n % 2, frames->h / v->patch,
	    frames->w / v->patch);
	if (rc < 0)
		return rc;
	t.slab = EPD_SLAB < t.plan.n ? EPD_SLAB / unit * unit : t.plan.n;
	t.kv = (struct epd_kv){ EPD_F32, (int)v->heads, (int)v->dim,
	    EPD_VISION_PAGE };
	t.page_size = epd_kv_bytes(&t.kv);
	carve(&t, &c);
	if (!(c.p = epd_alloc_aligned(64, c.n))) {
		rc = -ENOMEM;
		goto out;
	}
	c.n = 0;
	carve(&t, &c);
	angles(&t);
	if ((rc = epd_tower_embed(&t, frames, n, how)) == 0 &&
	    (rc = climb(&t, rows)) == 0)
		rc = check_finite(&t, rows, why);
out:
	epd_free(c.p);
	epd_plan_free(&t.plan);
	return rc;
}
