/* kern_ops.h - functions of one number and of one row, over tables, against double. */
#ifndef TESTS_UNIT_KERN_OPS_H
#define TESTS_UNIT_KERN_OPS_H

#include <stddef.h>

#include "engine/kern/rope.h"
#include "tests/unit/kern.h"

static inline double
ulps(float got, double want)
{
	float f = (float)fabs(want);

	if (f < 0x1p-126f)
		f = 0x1p-126f;
	return fabs((double)got - want) / (double)(nextafterf(f, INFINITY) - f);
}

typedef void each_fn(long n, const float *x, float *y);

static inline double
d_gelu_erf(double x)
{
	return x * 0.5 * erfc(-x * M_SQRT1_2);
}

static inline double
d_gelu_tanh(double x)
{
	double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);

	return x / (1 + exp(-2 * u));
}

static inline double d_quick(double x) { return x / (1 + exp(-1.702 * x)); }

struct function {
	const char *name;
	size_t at;		/* in struct epd_kern */
	double (*ref)(double);
	float lo, hi;		/* where it is */
	double most;		/* ulps off */
};

#define FUNCTION(f, ref, lo, hi, most) \
	{ #f, offsetof(struct epd_kern, f), ref, lo, hi, most }
static const struct function functions[] = {
	FUNCTION(exp, exp, -87.3f, 88.3f, 1.1),
	FUNCTION(tanh, tanh, -100, 100, 1.5),
	FUNCTION(erf, erf, -100, 100, 1.3),
	FUNCTION(gelu_erf, d_gelu_erf, -3, 10, 150),
	FUNCTION(gelu_tanh, d_gelu_tanh, -3, 10, 15),
	FUNCTION(quick_gelu, d_quick, -10, 10, 25),
};

/* Every stride-th float; returns the largest error in ulps. */
static inline double
sweep_function(const struct function *f, unsigned stride)
{
	enum { N = 4099 };
	static float x[N], y[ISAS][N];
	const struct epd_kern *k[ISAS];
	const int n = kerns(k);
	double worst = 0;

	for (uint64_t u = 0; u < 1ull << 32; u += (uint64_t)stride * N) {
		for (int i = 0; i < N; i++) {
			uint32_t v = (uint32_t)(u + (uint64_t)stride *
			    (unsigned)i);

			memcpy(x + i, &v, 4);
			if (isnan(x[i]))
				x[i] = 0.5f;
		}
		for (int a = 0; a < n; a++) {
			each_fn *fn;

			memcpy(&fn, (const char *)k[a] + f->at, sizeof fn);
			fn(N, x, y[a]);
			if (a)
				same(y[0], y[a], sizeof *y, f->name, k[a]->name);
		}
		for (int i = 0; i < N; i++)
			if (x[i] >= f->lo && x[i] <= f->hi)
				worst = fmax(worst, ulps(y[0][i],
				    f->ref((double)x[i])));
	}
	return worst;
}

/* Norms, activations and rotation of rows of every length up to most. */
static inline void
sweep_rows(long most, long step)
{
	enum { MOST = 704 };
	static float x[MOST], g[MOST], b[MOST], c[MOST], s[MOST];
	static float y[ISAS][4][MOST];
	const struct epd_kern *k[ISAS];
	const int tables = kerns(k);
	unsigned seed = 5;

	fill(EPD_F32, x, MOST, &seed);
	fill(EPD_F32, g, MOST, &seed);
	fill(EPD_F32, b, MOST, &seed);
	for (long i = 0; i < MOST; i++)
		epd_sincos((float)i * 1.7f, s + i, c + i);
	for (long n = 2; n <= most; n += n < 70 ? 2 : step)
		for (int a = 0; a < tables; a++) {
			float (*o)[MOST] = y[a];

			memset(o, 0, sizeof *y);
			k[a]->rmsnorm(n, x, g, 1e-6f, o[0]);
			k[a]->layernorm(n, x, g, b, 1e-6f, o[1]);
			k[a]->silu(n, x, g, o[2]);
			memcpy(o[3], x, sizeof x);
			k[a]->rope(n, c, s, o[3]);
			k[a]->add(n, g, o[3]);
			same(y[0], o, sizeof *y, "rows", k[a]->name);
		}
}

/* The vocabulary's reductions, against plain loops. */
static inline void
sweep_vocab(long n, unsigned seed)
{
	float *x = block((size_t)n * 4), lanes[16] = {0}, want, got;
	const struct epd_kern *k[ISAS];
	const int tables = kerns(k);
	long best = 0;

	for (long i = 0; i < n; i++) {
		/* Few values, so that the largest stands in many places. */
		x[i] = floorf(noise(&seed) * 64) / 4;
		if (x[i] == 0 && seed & 1 << 20)
			x[i] = -x[i];
		if ((seed >> 12) % 41 == 0)
			x[i] = -INFINITY;
	}
	for (long i = 1; i < n; i++)
		if (x[i] > x[best])
			best = i;
	for (long i = 0; i < n; i++)
		lanes[i % 16] += ref_exp(x[i] - x[best]);
	want = ref_tree(lanes);
	for (int a = 0; a < tables; a++) {
		long i = k[a]->top(n, x, &got);

		same(&i, &best, sizeof i, "top's place", k[a]->name);
		same(&got, x + best, 4, "top's value", k[a]->name);
		got = k[a]->sumexp(n, x, x[best]);
		same(&got, &want, 4, "sumexp", k[a]->name);
	}
	free(x);
}

#endif
