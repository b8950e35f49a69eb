/* kern_attn.h - sets of pages, attention written out, and the sweep over both. */
#ifndef TESTS_UNIT_KERN_ATTN_H
#define TESTS_UNIT_KERN_ATTN_H

#include "tests/unit/kern.h"

enum { ROWS = 64, WIDEST = 256 };

/* Tokens of some heads, kept plainly and in pages. */
struct set {
	struct epd_kv kv;
	int heads;
	long tokens;
	float *k, *v;		/* [token][kv head][dim] */
	const void **table;
	size_t size;
};

static inline const float *
at(const struct set *s, const float *side, long token, int head)
{
	return side + (token * s->kv.heads + head) * s->kv.dim;
}

static inline void
make_set(struct set *s, struct epd_kv kv, int heads, long tokens)
{
	const long n = tokens * kv.heads * kv.dim;
	const long pages = (tokens + kv.page - 1) / kv.page;
	unsigned seed = 11;
	char *bytes;

	*s = (struct set){ .kv = kv, .heads = heads, .tokens = tokens };
	s->k = block((size_t)n * 4);
	s->v = block((size_t)n * 4);
	s->size = epd_kv_bytes(&kv);
	s->table = block((size_t)pages * sizeof *s->table);
	bytes = block((size_t)pages * s->size);
	/* What no row sees must not matter, so it is all NaN. */
	memset(bytes, 0xff, (size_t)pages * s->size);
	for (long i = 0; i < n; i++) {
		s->k[i] = noise(&seed) * 4;
		s->v[i] = noise(&seed) * 4;
	}
	/* Pages lie in no order in a pool. */
	for (long i = 0; i < pages; i++)
		s->table[i] = bytes + s->size *
		    (size_t)(pages % 7 ? i * 7 % pages : i);
	for (long t = 0; t < tokens; t++)
		for (int h = 0; h < kv.heads; h++)
			epd_kv_put(&kv, (void *)s->table[t / kv.page], h,
			    (int)(t % kv.page), at(s, s->k, t, h),
			    at(s, s->v, t, h));
	if (kv.type == EPD_BF16)
		for (long i = 0; i < n; i++) {
			uint16_t b[2];

			epd_bf16_from_f32(b, s->k + i, 1);
			epd_bf16_from_f32(b + 1, s->v + i, 1);
			epd_bf16_to_f32(s->k + i, b, 1);
			epd_bf16_to_f32(s->v + i, b + 1, 1);
		}
}

struct soft {
	float top, sum[16], acc[WIDEST];
};

static inline void
ref_scale(struct soft *st, int dim, float by)
{
	for (int j = 0; j < 16; j++)
		st->sum[j] *= by;
	for (int d = 0; d < dim; d++)
		st->acc[d] *= by;
}

static inline void
ref_span(const struct set *s, const float *q, int head, long from, long end,
    float scale, struct soft *st)
{
	const int dim = s->kv.dim;

	*st = (struct soft){ .top = -INFINITY };
	for (long u = from; u < end; u += 64) {
		const long n = end - u < 64 ? end - u : 64;
		float score[64], top = -INFINITY;

		for (long t = 0; t < n; t++) {
			float x = 0;

			for (int d = 0; d < dim; d++)
				x = fmaf(q[d], at(s, s->k, u + t, head)[d], x);
			score[t] = x * scale;
			top = score[t] > top ? score[t] : top;
		}
		if (top > st->top) {
			ref_scale(st, dim, ref_exp(st->top - top));
			st->top = top;
		}
		for (long t = 0; t < n; t++) {
			float p = ref_exp(score[t] - st->top);

			st->sum[t % 16] += p;
			for (int d = 0; d < dim; d++)
				st->acc[d] = fmaf(p, at(s, s->v, u + t,
				    head)[d], st->acc[d]);
		}
	}
}

static inline void
ref_attend(const struct set *s, const float *q, long tokens, float scale,
    float *out)
{
	const int dim = s->kv.dim, group = s->heads / s->kv.heads;

	for (int h = 0; h < s->heads; h++, q += dim, out += dim) {
		struct soft all, one;
		float total;

		for (long t = 0; t < tokens; t += 512) {
			long end = tokens - t < 512 ? tokens : t + 512;
			float top, ea, eb;

			ref_span(s, q, h / group, t, end, scale,
			    t ? &one : &all);
			if (!t)
				continue;
			top = all.top > one.top ? all.top : one.top;
			ea = ref_exp(all.top - top);
			eb = ref_exp(one.top - top);
			ref_scale(&all, dim, ea);
			for (int j = 0; j < 16; j++)
				all.sum[j] = fmaf(one.sum[j], eb, all.sum[j]);
			for (int d = 0; d < dim; d++)
				all.acc[d] = fmaf(one.acc[d], eb, all.acc[d]);
			all.top = top;
		}
		total = ref_tree(all.sum);
		for (int d = 0; d < dim; d++)
			out[d] = all.acc[d] / total + 0.0f;
	}
}

/* Largest difference from double precision. */
static inline double
off_double(const struct set *s, const float *q, long tokens, float scale,
    const float *out)
{
	const int dim = s->kv.dim, group = s->heads / s->kv.heads;
	double *p = block((size_t)tokens * 8), worst = 0;

	for (int h = 0; h < s->heads; h++, q += dim, out += dim) {
		double top = -1e300, sum = 0;

		for (long t = 0; t < tokens; t++) {
			p[t] = 0;
			for (int d = 0; d < dim; d++)
				p[t] += (double)q[d] *
				    (double)at(s, s->k, t, h / group)[d];
			p[t] *= (double)scale;
			top = fmax(top, p[t]);
		}
		for (long t = 0; t < tokens; t++)
			sum += p[t] = exp(p[t] - top);
		for (int d = 0; d < dim; d++) {
			double y = 0;

			for (long t = 0; t < tokens; t++)
				y += p[t] / sum *
				    (double)at(s, s->v, t, h / group)[d];
			worst = fmax(worst, fabs(y - (double)out[d]));
		}
	}
	free(p);
	return worst;
}

/* A branch has its own table, and its own copy of its last page. */
static inline const void **
branch(const struct set *s, long tokens)
{
	const long pages = (s->tokens + s->kv.page - 1) / s->kv.page;
	const long last = (tokens - 1) / s->kv.page;
	const void **t = block((size_t)pages * sizeof *t);

	memcpy(t, s->table, (size_t)pages * sizeof *t);
	t[last] = memcpy(block(s->size), s->table[last], s->size);
	return t;
}

/*
 * Rows that see base + 1, base + 2, ... tokens, as a block, as branches and one
 * by one, over every table and thread count, against the reference.
 */
static inline void
sweep_attn(const struct set *s, long base, long rows, double *worst)
{
	const long width = (long)s->heads * s->kv.dim;
	const size_t bytes = (size_t)(rows * width) * 4;
	const float scale = 1 / sqrtf((float)s->kv.dim);
	const struct epd_kern *k[ISAS];
	const int n = kerns(k);
	float *q = block(bytes), *want = block(bytes), *out = block(bytes);
	struct epd_attn_row r[ROWS];
	const void **own[ROWS];
	unsigned seed = 9;
	char what[120];

	for (long i = 0; i < rows * width; i++)
		q[i] = noise(&seed) * 4;
	for (long i = 0; i < rows; i++) {
		ref_attend(s, q + i * width, base + i + 1, scale,
		    want + i * width);
		own[i] = branch(s, base + i + 1);
		r[i] = (struct epd_attn_row){ q + i * width, out + i * width,
		    s->table, base + i + 1 };
	}
	*worst = fmax(*worst, off_double(s, q, base + 1, scale, want));
	for (int i = 0; i < n * THREADS * 3; i++) {
		const int kind = i % 3, th = i / 3 % THREADS + 1;
		const struct epd_kern *kern = k[i / 3 / THREADS];

		memset(out, 0xff, bytes);
		for (long m = 0; m < rows; m++)
			r[m].pages = kind == 1 ? own[m] : s->table;
		for (long m = 0; m < rows; m += kind == 2 ? 1 : rows)
			epd_attend(kern, pool_of(th), &s->kv, s->heads, scale,
			    r + m, kind == 2 ? 1 : rows);
		snprintf(what, sizeof what, "attention type=%d d=%d page=%d "
		    "base=%ld rows=%ld t=%d %s", (int)s->kv.type, s->kv.dim,
		    s->kv.page, base, rows, th, kind == 0 ? "block" :
		    kind == 1 ? "branches" : "single");
		same(want, out, bytes, what, kern->name);
	}
	for (long i = 0; i < rows; i++) {
		free((void *)own[i][(base + i) / s->kv.page]);
		free(own[i]);
	}
	free(q), free(want), free(out);
}

static inline void
free_set(struct set *s)
{
	const void *low = s->table[0];
	const long pages = (s->tokens + s->kv.page - 1) / s->kv.page;

	for (long i = 1; i < pages; i++)
		low = s->table[i] < low ? s->table[i] : low;
	free((void *)low);
	free(s->table), free(s->k), free(s->v);
}

#endif
