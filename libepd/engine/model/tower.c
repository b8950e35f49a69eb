/*
 * tower.c - patches to vectors, with positions, and groups of vectors to the
 * text model's rows.
 */
#include <errno.h>

#include "base/alloc.h"
#include "engine/model/vision.h"

/*
 * Qwen3-VL's table of side x side positions, stretched over the grid with its
 * corners on the corners: four taps, added in this order.
 */
static void
place(void *arg, long row, int who)
{
	struct epd_tower *t = arg;
	const struct epd_weight *w = &t->e->m->weights.table;
	const long side = t->v->side, e = t->v->width, grid[2] = {
	    t->plan.h, t->plan.w };
	long at[2], lo[2], hi[2];
	float frac[2], weight[4], *sum = t->h + who * 2 * e, *tap = sum + e;

	epd_plan_place(&t->plan, t->v->merge, row, &at[0], &at[1]);
	for (int k = 0; k < 2; k++) {
		float c = (float)(at[k] * (side - 1)) /
		    (float)(grid[k] > 1 ? grid[k] - 1 : 1);

		lo[k] = (long)c;
		hi[k] = lo[k] + 1 < side ? lo[k] + 1 : side - 1;
		frac[k] = c - (float)lo[k];
	}
	weight[0] = (1 - frac[0]) * (1 - frac[1]);
	weight[1] = (1 - frac[0]) * frac[1];
	weight[2] = frac[0] * (1 - frac[1]);
	weight[3] = frac[0] * frac[1];
	for (int k = 0; k < 4; k++) {
		epd_weight_row(tap, w, (k & 2 ? hi[0] : lo[0]) * side +
		    (k & 1 ? hi[1] : lo[1]));
		for (long i = 0; i < e; i++)
			sum[i] = k == 0 ? tap[i] * weight[0] :
			    sum[i] + tap[i] * weight[k];
	}
	t->e->kern->add(e, sum, t->x + row * e);
}

/* Positions in window order tell what the order is, for the golden set. */
static void
tell_windows(struct epd_tower *t)
{
	const long unit = t->v->merge * t->v->merge;
	const struct epd_segments *s = &t->plan.windows;
	long most = t->plan.n > s->n ? t->plan.n : s->n;
	float *x;

	if (!t->e->probe || s->n == 0 ||
	    !(x = epd_malloc((size_t)(most + 1) * sizeof *x)))
		return;
	for (long i = 0; i < t->plan.n / unit; i++)
		x[i] = (float)(t->plan.order[i * unit] / unit);
	epd_probe(t->e, "vision_window_index", -1, x, 1, t->plan.n / unit);
	x[0] = 0;
	for (long i = 0; i < s->n; i++)
		x[i + 1] = (float)(s->s[i].at + s->s[i].n);
	epd_probe(t->e, "vision_cu_window_seqlens", -1, x, 1, s->n + 1);
	epd_free(x);
}

int
epd_tower_embed(struct epd_tower *t, const struct epd_image *frames, int n,
    enum epd_resampler how)
{
	const struct epd_model *m = t->e->m;
	const struct epd_linear *l = &m->weights.patch;
	const size_t size = (size_t)t->plan.n * (size_t)l->w.k;
	float *pixels = epd_alloc_aligned(64, size * sizeof *pixels);
	int rc;

	if (!pixels)
		return -ENOMEM;
	epd_image_patches(&m->info.processor, frames, n, how, pixels);
	epd_probe(t->e, "pixel_values", -1, pixels, t->plan.n, l->w.k);
	rc = epd_linear_run(t->e, l, t->plan.n, pixels, t->x);
	epd_free(pixels);
	if (rc < 0)
		return rc;
	epd_probe(t->e, "vision_patch_embed", -1, t->x, t->plan.n,
	    t->v->width);
	tell_windows(t);
	if (t->v->side > 0)
		epd_pool_run(t->e->pool, place, t, t->plan.n);
	return 0;
}

static void
merge_norm(void *arg, long i, int who)
{
	struct epd_tower *t = arg;
	const struct epd_merger *m = t->merger;

	(void)who;
	epd_norm_run(t->e, &m->norm, m->width, 1e-6f, t->x + t->at *
	    t->v->width + i * m->width, t->h + i * m->width);
}

static void
merge_act(void *arg, long i, int who)
{
	struct epd_tower *t = arg;
	const long n = t->merger->fc1.w.n;

	(void)who;
	t->e->kern->gelu_erf(n, t->g + i * n, t->g + i * n);
}

int
epd_tower_merge(struct epd_tower *t, const struct epd_merger *m, float *rows)
{
	const long unit = t->v->merge * t->v->merge;
	const long width = t->v->width;
	int rc = 0;

	t->merger = m;
	for (t->at = 0; rc == 0 && t->at < t->plan.n; t->at += t->n) {
		long left = t->plan.n - t->at, tokens;

		t->n = left < t->slab ? left : t->slab;
		tokens = t->n / unit;
		epd_pool_run(t->e->pool, merge_norm, t, t->n * width /
		    m->width);
		rc = epd_linear_run(t->e, &m->fc1, tokens, t->h, t->g);
		if (rc < 0)
			break;
		epd_pool_run(t->e->pool, merge_act, t, tokens);
		rc = epd_linear_run(t->e, &m->fc2, tokens, t->g, rows +
		    t->at / unit * m->fc2.w.n);
	}
	return rc;
}
