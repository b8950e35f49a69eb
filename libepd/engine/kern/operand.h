/* operand.h - what the kernels of every instruction set work on. */
#ifndef EPD_ENGINE_KERN_OPERAND_H
#define EPD_ENGINE_KERN_OPERAND_H

enum epd_type { EPD_F32, EPD_BF16, EPD_F16 };

/* Tokens per step of the online softmax, per span, and per block of keys. */
enum { EPD_UNIT = 64, EPD_SPAN = 512, EPD_LANES = 16 };

/* A row's running softmax: maximum, sixteen partial sums, weighted values. */
struct epd_soft {
	float top;
	float sum[16];
	float *acc;
};

/*
 * y[i][j] = sum over k of a row i, w row j, plus bias[j] if bias.  A long k may
 * come in parts, all but the last multiples of 16: running sums go from one to
 * the next in lanes, rows * cols * 16 floats.  What lies ahead bytes past each
 * weight is fetched for later.
 */
struct epd_tile {
	enum epd_type type;
	int rows, cols;		/* rows <= mr */
	int first, last;	/* part of k; both if it is whole */
	long k;			/* elements in this part */
	const float *a;		/* packed, this part of it */
	const void *w;		/* likewise, rows ldw elements apart */
	long ldw, ahead;
	float *lanes;
	const float *bias;
	float *y;
	long ldy;
};

/*
 * The same products for sixteen columns or fewer, k whole: a and b as spread()
 * and turn() leave them.
 */
struct epd_wide {
	enum epd_type type;	/* of w, before turn() */
	int rows, cols;		/* rows <= wr */
	long steps;		/* ceil(k / 16) */
	const void *a, *b;
	const float *bias;
	float *y;
	long ldy;
};

static inline long
epd_least(long a, long b)
{
	return a < b ? a : b;
}

/*
 * Both hold elements of index k mod 16 together, steps of them, in runs this
 * many bytes apart: an odd number of cache lines, so that sixteen runs written
 * side by side lie in different sets; with half a line to spare.
 */
static inline long
epd_wide_apart(long steps, long step)
{
	return ((steps * step + 32 + 63) / 64 | 1) * 64;
}

#endif
