/*
 * kern.h - what one instruction set offers.  The entries of every table give
 * the same bits (ORDER.md says which); only their speed differs.  They compute
 * under the default floating-point environment: see epd_fp_enter().
 */
#ifndef EPD_ENGINE_KERN_KERN_H
#define EPD_ENGINE_KERN_KERN_H

#include "engine/kern/fp.h"
#include "engine/kern/operand.h"

struct epd_kern {
	const char *name;
	int mr, nr;		/* rows in a packed panel; columns of a tile */
	int qr;			/* queries in a panel of attention */

	void (*tile)(const struct epd_tile *g);
	/*
	 * Pack x, rows ldx apart, for tile() on as many: [ceil(k/16)][rows][16],
	 * or, where a tile takes lanes in passes, [pass] of those; zero-filled.
	 */
	void (*pack)(enum epd_type t, int rows, long k, const float *x,
	    long ldx, float *a);

	/*
	 * For many rows, or all NULL.  spread: a run is [step][rows] of x; turn:
	 * [step][16] of w, columns past the last undefined; bf16 stays so, all
	 * else becomes f32.
	 */
	int wr;
	void (*wide)(const struct epd_wide *g);
	void (*spread)(int rows, long k, const float *x, long ldx, float *a);
	void (*turn)(enum epd_type t, int cols, long k, const void *w, long ldw,
	    void *b);

	void (*rmsnorm)(long n, const float *x, const float *g, float eps,
	    float *y);
	void (*layernorm)(long n, const float *x, const float *g,
	    const float *b, float eps, float *y);
	void (*exp)(long n, const float *x, float *y);
	void (*tanh)(long n, const float *x, float *y);
	void (*erf)(long n, const float *x, float *y);
	void (*silu)(long n, const float *x, const float *up, float *y);
	void (*quick_gelu)(long n, const float *x, float *y);
	void (*gelu_tanh)(long n, const float *x, float *y);
	void (*gelu_erf)(long n, const float *x, float *y);
	void (*add)(long n, const float *x, float *y);	/* y += x */
	/* Rotate pairs (i, i + n/2) of x by the angles whose cos, sin given. */
	void (*rope)(long n, const float *cos, const float *sin, float *x);

	/*
	 * Over a vocabulary.  top: the lowest index of the largest x, and its
	 * value; -1 (value untouched) if n is 0 or some x is NaN.  sumexp: the
	 * sum of exp(x - top), x[i] in lane i mod 16.  finite: 0 if some x is
	 * NaN or infinite, else 1.
	 */
	long (*top)(long n, const float *x, float *value);
	float (*sumexp)(long n, const float *x, float top);
	int (*finite)(long n, const float *x);

	/*
	 * s[i][16 b + l] = sum over c < d of q[c][i] k[b][c][l], c ascending,
	 * for rows <= qr and blocks of sixteen keys, at most EPD_UNIT / 16.
	 * q is [d][rows], k[b] one block [d][16] of type EPD_F32 or EPD_BF16;
	 * what lies ahead[b] bytes past it is fetched for later.  A row of s
	 * is EPD_UNIT long.
	 */
	void (*score)(enum epd_type t, int rows, int blocks, long d,
	    const float *q, const void *const *k, const long *ahead, float *s);
	/*
	 * Fold n <= EPD_UNIT scores s[row] into the states, giving weights
	 * p[row]; a row takes its first n[row] scores only.
	 */
	void (*soft)(int rows, const int *n, float scale, float *s,
	    struct epd_soft *st, long d);
	/*
	 * acc[row] += sum over t ascending of p[row][t] v[t]; v by pages, and
	 * ahead as above, page by page.
	 */
	void (*weigh)(enum epd_type t, int rows, int n, const float *p,
	    const void *const *v, const long *ahead, int page, long d,
	    struct epd_soft *st);
	/* into = into + from, both spans' states, from the later one. */
	void (*merge)(long d, struct epd_soft *into,
	    const struct epd_soft *from);
	void (*finish)(enum epd_type t, long d, const struct epd_soft *st,
	    float *y);
};

extern const struct epd_kern epd_kern_scalar;
#if defined __x86_64__
extern const struct epd_kern epd_kern_avx2, epd_kern_avx512;
#endif

/*
 * The table named (scalar, avx2, avx512), or the machine's best if name is
 * NULL; NULL if this machine or build lacks it.
 */
const struct epd_kern *epd_kern_get(const char *name);

#endif
