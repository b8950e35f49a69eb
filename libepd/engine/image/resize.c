/*
 * resize.c - bicubic resampling as the references do it, bit for bit: weights
 * in double, normalised, rounded to integers; a horizontal pass, 8-bit pixels
 * between, a vertical pass; a pass that would change no size is left out.
 *
 * The kernel is Keys' with a = -0.5, widened by the scale when shrinking.
 * Pillow keeps 22 bits of every weight.  torchvision keeps as many as let the
 * largest weight of the pass stay below 2^15.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "engine/kern/fp.h"

enum { PIL_BITS = 22, BLOCK = 16 };

/* Output i is the sum of w[i * most + j] times input lo[i] + j, j < n[i]. */
struct pass {
	long in, out, most;
	int bits;
	int32_t *w;
	long *lo, *n;
};

static double
cubic(double x)
{
	x = fabs(x);
	if (x < 1)
		return (1.5 * x - 2.5) * x * x + 1;
	if (x < 2)
		return (((x - 5) * x + 8) * x - 4) * -0.5;
	return 0;
}

/* The weights of output i, which sum to 1; the largest of them is returned. */
static double
weigh(struct pass *p, long i, double *w)
{
	double scale = (double)p->in / (double)p->out;
	double wide = scale > 1 ? scale : 1, narrow = 1 / wide;
	double reach = 2 * wide, mid = ((double)i + 0.5) * scale;
	double sum = 0, top = 0;
	long lo = (long)(mid - reach + 0.5), hi = (long)(mid + reach + 0.5);

	lo = lo > 0 ? lo : 0;
	hi = hi < p->in ? hi : p->in;
	p->lo[i] = lo;
	p->n[i] = hi - lo;
	for (long j = 0; j < hi - lo; j++) {
		w[j] = cubic(((double)(j + lo) - mid + 0.5) * narrow);
		sum += w[j];
	}
	for (long j = 0; j < hi - lo; j++) {
		w[j] /= sum;
		top = w[j] > top ? w[j] : top;
	}
	return top;
}

static int
bits_for(double top)
{
	int bits = 0;

	while (bits < PIL_BITS && 0.5 + top * (2 << bits) < 1 << 15)
		bits++;
	return bits;
}

static void
pass_free(struct pass *p)
{
	epd_free(p->w);
	epd_free(p->lo);
}

static int
pass_plan(struct pass *p, long in, long out, enum epd_resampler how)
{
	double reach = 2 * fmax((double)in / (double)out, 1), top = 0, *w;

	*p = (struct pass){ .in = in, .out = out, .bits = PIL_BITS };
	p->most = (long)ceil(reach) * 2 + 1;
	p->w = epd_calloc((size_t)out * (size_t)p->most, sizeof *p->w);
	p->lo = epd_calloc((size_t)out * 2, sizeof *p->lo);
	w = epd_calloc((size_t)p->most, sizeof *w);
	if (!p->w || !p->lo || !w) {
		pass_free(p);
		epd_free(w);
		return -ENOMEM;
	}
	p->n = p->lo + out;
	for (long i = 0; how == EPD_FAST && i < out; i++)
		top = fmax(top, weigh(p, i, w));
	if (how == EPD_FAST)
		p->bits = bits_for(top);
	for (long i = 0; i < out; i++) {
		weigh(p, i, w);
		for (long j = 0; j < p->n[i]; j++) {
			double v = w[j] * (1 << p->bits);

			p->w[i * p->most + j] = (int32_t)(v < 0 ? v - 0.5 :
			    v + 0.5);
		}
	}
	epd_free(w);
	return 0;
}

static uint8_t
clip(int32_t v, int bits)
{
	v >>= bits;
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void
across(const struct pass *p, const uint8_t *in, long rows, uint8_t *out)
{
	int32_t half = 1 << p->bits >> 1;

	for (long y = 0; y < rows; y++, in += p->in * 3)
		for (long x = 0; x < p->out; x++, out += 3) {
			const uint8_t *s = in + p->lo[x] * 3;
			const int32_t *w = p->w + x * p->most;
			int32_t r = half, g = half, b = half;

			for (long j = 0; j < p->n[x]; j++, s += 3) {
				r += w[j] * s[0];
				g += w[j] * s[1];
				b += w[j] * s[2];
			}
			out[0] = clip(r, p->bits);
			out[1] = clip(g, p->bits);
			out[2] = clip(b, p->bits);
		}
}

/* m <= BLOCK neighbours in an output row; a full block is the fast case. */
static inline void
block(const int32_t *w, long n, const uint8_t *s, long stride, int m, int bits,
    uint8_t *out)
{
	int32_t a[BLOCK];

	for (int k = 0; k < m; k++)
		a[k] = 1 << bits >> 1;
	for (long j = 0; j < n; j++, s += stride)
		for (int k = 0; k < m; k++)
			a[k] += w[j] * s[k];
	for (int k = 0; k < m; k++)
		out[k] = clip(a[k], bits);
}

static void
down(const struct pass *p, const uint8_t *in, long stride, uint8_t *out)
{
	for (long y = 0; y < p->out; y++, out += stride) {
		const uint8_t *s = in + p->lo[y] * stride;
		const int32_t *w = p->w + y * p->most;
		long x = 0;

		for (; x + BLOCK <= stride; x += BLOCK)
			block(w, p->n[y], s + x, stride, BLOCK, p->bits,
			    out + x);
		block(w, p->n[y], s + x, stride, (int)(stride - x), p->bits,
		    out + x);
	}
}

static uint8_t *
pixels(long w, long h)
{
	if (w < 1 || h < 1 || (size_t)w > SIZE_MAX / 3 / (size_t)h)
		return NULL;
	return epd_malloc((size_t)w * (size_t)h * 3);
}

/* Replace im by itself after one pass; the old pixels stay the caller's. */
static int
run(struct epd_image *im, int vertical, long size, enum epd_resampler how)
{
	struct epd_image to = { vertical ? im->w : size,
	    vertical ? size : im->h, NULL };
	struct pass p;
	int rc = pass_plan(&p, vertical ? im->h : im->w, size, how);

	if (rc < 0)
		return rc;
	to.rgb = pixels(to.w, to.h);
	if (to.rgb && vertical)
		down(&p, im->rgb, im->w * 3, to.rgb);
	else if (to.rgb)
		across(&p, im->rgb, im->h, to.rgb);
	pass_free(&p);
	if (!to.rgb)
		return -ENOMEM;
	*im = to;
	return 0;
}

static int
resize(struct epd_image *out, const struct epd_image *in, long w, long h,
    enum epd_resampler how)
{
	struct epd_image im = *in, wide;
	int rc;

	if (w < 1 || h < 1)
		return -EINVAL;
	if (w != in->w && (rc = run(&im, 0, w, how)) < 0)
		return rc;
	wide = im;
	if (h != in->h) {
		rc = run(&im, 1, h, how);
		if (wide.rgb != in->rgb)
			epd_free(wide.rgb);
		if (rc < 0)
			return rc;
	}
	if (im.rgb == in->rgb) {
		im.rgb = pixels(w, h);
		if (!im.rgb)
			return -ENOMEM;
		memcpy(im.rgb, in->rgb, (size_t)w * (size_t)h * 3);
	}
	*out = im;
	return 0;
}

int
epd_image_resize(struct epd_image *out, const struct epd_image *in, long w,
    long h, enum epd_resampler how)
{
	unsigned long was = epd_fp_enter();
	int rc = resize(out, in, w, h, how);

	epd_fp_leave(was);
	return rc;
}
