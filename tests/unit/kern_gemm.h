/* kern_gemm.h - one shape of product over tables, threads, batches and places. */
#ifndef TESTS_UNIT_KERN_GEMM_H
#define TESTS_UNIT_KERN_GEMM_H

#include "tests/unit/kern.h"

/* samples outputs are also compared with the reference, 0 for all. */
static inline void
sweep_gemm(enum epd_type t, long n, long k, long most, long samples)
{
	enum { BATCHES = 13 };
	static const long ms[BATCHES] = {1, 2, 3, 5, 6, 7, 8, 12, 13, 16, 33, 70,
	    300};
	struct epd_weight w = { t, n, k, NULL };
	char *data = block((size_t)(n * k) * 4 + 64), what[120];
	float *x = block((size_t)(most * k) * 4), *bias = block((size_t)n * 4);
	float *want = block((size_t)(most * n) * 4);
	float *y = block((size_t)(most * n) * 4);
	const struct epd_kern *kern[ISAS];
	const int tables = kerns(kern);
	unsigned s = 3;

	w.data = data + 2 * (t != EPD_F32);	/* odd addresses happen */
	fill(t, data + 2 * (t != EPD_F32), n * k, &s);
	fill(EPD_F32, x, most * k, &s);
	fill(EPD_F32, bias, n, &s);
	epd_gemm(kern[tables - 1], pool_of(1), most, x, k, &w, bias, want, n);
	for (long q = 0; q < (samples ? samples : most * n); q++) {
		long o = samples ? (long)(noise(&s), s >> 4) % (most * n) : q;
		float f = ref_dot(t, k, x + o / n * k, w.data, o % n * k) +
		    bias[o % n];

		snprintf(what, sizeof what, "gemm type=%d %ldx%ld [%ld]",
		    (int)t, n, k, o);
		same(&f, want + o, 4, what, "reference");
	}
	for (int a = 0; a < tables * THREADS; a++) {
		const int th = a % THREADS + 1;
		const struct epd_kern *f = kern[a / THREADS];

		if (f->mr == 1 && n * k * most > 40000000)
			continue;	/* one lane at a time takes too long */
		for (int i = 0; i < BATCHES && ms[i] <= most; i++) {
			/* The row's place in the batch moves too. */
			long from = (ms[i] * 7 + th) % (most - ms[i] + 1);

			memset(y, 0xff, (size_t)(ms[i] * n) * 4);
			epd_gemm(f, pool_of(th), ms[i], x + from * k, k, &w,
			    bias, y, n);
			snprintf(what, sizeof what, "gemm type=%d %ldx%ld "
			    "m=%ld t=%d", (int)t, n, k, ms[i], th);
			same(y, want + from * n, (size_t)(ms[i] * n) * 4, what,
			    f->name);
		}
	}
	free(data), free(x), free(bias), free(want), free(y);
}

#endif
