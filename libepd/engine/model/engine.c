/* engine.c - threads and memory, and the steps both computations take. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/kern/rope.h"
#include "engine/model/inside.h"

static int
cores(void)
{
	cpu_set_t set;
	int n = 1;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		n = CPU_COUNT(&set);
	return n < 1 ? 1 : n > EPD_POOL_MAX ? EPD_POOL_MAX : n;
}

/* A name that some machine or build knows? */
static int
is_isa(const char *name)
{
	static const char *const all[] = { "scalar", "avx2", "avx512" };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!name || !strcmp(name, all[i]))
			return 1;
	return 0;
}

int
epd_engine_new(struct epd_engine **out, const struct epd_model *m, int threads,
    const char *isa, struct epd_why *why)
{
	const struct epd_text_arch *t = &m->arch.text;
	struct epd_engine *e;

	if (threads < 0 || threads > EPD_POOL_MAX)
		return epd_why(why, EPD_EUSAGE, "threads %d, not in 0..%d",
		    threads, EPD_POOL_MAX);
	if (!(e = epd_calloc(1, sizeof *e)))
		return -ENOMEM;
	e->m = m;
	if (!(e->kern = epd_kern_get(isa))) {
		epd_free(e);
		if (!is_isa(isa))
			return epd_why(why, EPD_EUSAGE, "%.40s: not scalar, "
			    "avx2 or avx512", isa);
		return epd_why(why, EPD_EUNSUPPORTED,
		    "this machine or build lacks the instruction set %.40s",
		    isa ? isa : "asked for");
	}
	if (!(e->pool = epd_pool_new(threads ? threads : cores()))) {
		epd_free(e);
		return -ENOMEM;
	}
	epd_rope_inv(e->inv, t->dim, t->theta);
	*out = e;
	return 0;
}

void
epd_engine_free(struct epd_engine *e)
{
	if (!e)
		return;
	epd_pool_free(e->pool);
	epd_free(e->room);
	epd_free(e);
}

const struct epd_kern *
epd_engine_kern(const struct epd_engine *e)
{
	return e->kern;
}

const struct epd_model *
epd_engine_model(const struct epd_engine *e)
{
	return e->m;
}

void
epd_engine_probe(struct epd_engine *e, epd_probe_fn *fn, void *arg)
{
	e->probe = fn;
	e->probe_arg = arg;
}

void
epd_probe(const struct epd_engine *e, const char *name, long at,
    const float *x, long rows, long cols)
{
	char full[64];

	if (!e->probe)
		return;
	snprintf(full, sizeof full, "%s%ld", name, at);
	e->probe(e->probe_arg, at < 0 ? name : full, (int)at, x, rows, cols);
}

void *
epd_carve(struct epd_carve *c, size_t n, size_t size)
{
	size_t at = c->n;

	c->n += (n * size + 63) & ~(size_t)63;
	return c->p ? c->p + at : NULL;
}

int
epd_linear_run(struct epd_engine *e, const struct epd_linear *l, long m,
    const float *x, float *y)
{
	return epd_gemm(e->kern, e->pool, m, x, l->w.k, &l->w, l->bias, y,
	    l->w.n);
}

void
epd_norm_run(const struct epd_engine *e, const struct epd_norm *n, long width,
    float eps, const float *x, float *y)
{
	if (n->b)
		e->kern->layernorm(width, x, n->g, n->b, eps, y);
	else
		e->kern->rmsnorm(width, x, n->g, eps, y);
}

int
epd_encode(struct epd_engine *e, const struct epd_image *frames, int n,
    enum epd_resampler how, float *rows, struct epd_why *why)
{
	unsigned long was = epd_fp_enter();
	int rc = epd_vision_run(e, frames, n, how, rows, why);

	epd_fp_leave(was);
	return rc;
}

int
epd_forward(struct epd_engine *e, const struct epd_page_shape *s,
    const struct epd_chunk *chunk, long n, struct epd_why *why)
{
	unsigned long was = epd_fp_enter();
	int rc = epd_text_run(e, s, chunk, n, why);

	epd_fp_leave(was);
	return rc;
}
