/*
 * patches.c - the size a picture takes, and its pixels as rows of patches.
 * A row is one patch, content (channel, frame, y, x).  Rows go frame group by
 * frame group, then by blocks of merge x merge patches, row-major both within
 * a block and among blocks, so that merge * merge rows make one token.
 */
#include <errno.h>
#include <math.h>

#include "engine/image/image.h"
#include "engine/kern/fp.h"

enum { RATIO_MAX = 200, PIXELS_MAX = 1 << 30 };

/* v / f to the nearest integer, halves to even, as Python's round(). */
static long
nearest(long v, long f)
{
	long q = v / f, twice = v % f * 2;

	return q + (twice > f || (twice == f && q % 2));
}

static int
fit(const struct epd_processor *p, long w, long h, long *ow, long *oh,
    struct epd_why *why)
{
	long f = (long)p->patch * p->merge;
	double fw, fh, by;

	if (p->patch < 1 || p->merge < 1 || f > 1 << 16)
		return epd_why(why, EPD_EFORMAT, "processor: patches of %d "
		    "merged by %d", p->patch, p->merge);
	if (w < 1 || h < 1 || w > INT32_MAX || h > INT32_MAX)
		return epd_why(why, EPD_EFORMAT, "no image is %ld x %ld", w, h);
	if (w > RATIO_MAX * h || h > RATIO_MAX * w)
		return epd_why(why, EPD_EUNSUPPORTED, "%ld x %ld: one side is "
		    "over %d times the other", w, h, RATIO_MAX);
	fw = (double)(f * nearest(w, f));
	fh = (double)(f * nearest(h, f));
	if (fw * fh > (double)p->max_pixels) {
		by = sqrt((double)w * (double)h / (double)p->max_pixels);
		fw = fmax((double)f, floor((double)w / by / (double)f) *
		    (double)f);
		fh = fmax((double)f, floor((double)h / by / (double)f) *
		    (double)f);
	} else if (fw * fh < (double)p->min_pixels) {
		by = sqrt((double)p->min_pixels / ((double)w * (double)h));
		fw = ceil((double)w * by / (double)f) * (double)f;
		fh = ceil((double)h * by / (double)f) * (double)f;
	}
	/* Also true of a NaN, which bounds of 0 or below can make. */
	if (!(fw >= (double)f && fh >= (double)f && fw * fh <= PIXELS_MAX))
		return epd_why(why, EPD_ETOOBIG, "%ld x %ld would be resized "
		    "to %.0f x %.0f", w, h, fw, fh);
	*ow = (long)fw;
	*oh = (long)fh;
	return 0;
}

int
epd_image_fit(const struct epd_processor *p, long w, long h, long *ow,
    long *oh, struct epd_why *why)
{
	unsigned long was = epd_fp_enter();
	int rc = fit(p, w, h, ow, oh, why);

	epd_fp_leave(was);
	return rc;
}

/* What the 256 values of a channel become; every step is one f32 rounding. */
static void
normalise(const struct epd_processor *p, enum epd_resampler how,
    float table[3][256])
{
	for (int c = 0; c < 3; c++)
		for (int v = 0; v < 256; v++) {
			float x = (float)v, mean = p->mean[c], std = p->std[c];

			if (how == EPD_FAST) {
				mean *= 255;
				std *= 255;
			} else {
				x = (float)(v * (1.0 / 255));
			}
			x -= mean;
			table[c][v] = x / std;
		}
}

/* One channel of the patch whose top left pixel is at s. */
static float *
put(const float *table, const uint8_t *s, long stride, int side, float *to)
{
	for (int y = 0; y < side; y++, s += stride)
		for (int x = 0; x < side; x++)
			*to++ = table[s[x * 3]];
	return to;
}

void
epd_image_patches(const struct epd_processor *p,
    const struct epd_image *frames, int n, enum epd_resampler how, float *rows)
{
	long side = p->patch, f = side * p->merge;
	long stride = frames->w * 3, across = frames->w / f;
	long blocks = across * (frames->h / f), each = (long)p->merge * p->merge;
	int groups = (n + p->temporal - 1) / p->temporal;
	unsigned long was = epd_fp_enter();
	float table[3][256];

	normalise(p, how, table);
	epd_fp_leave(was);
	for (long i = 0; i < groups * blocks * each; i++) {
		long block = i / each % blocks, in = i % each;
		long first = i / each / blocks * p->temporal;
		long y = block / across * f + in / p->merge * side;
		long x = block % across * f + in % p->merge * side;

		for (int c = 0; c < 3; c++)
			for (int t = 0; t < p->temporal; t++) {
				long at = first + t < n ? first + t : n - 1;

				rows = put(table[c], frames[at].rgb +
				    y * stride + x * 3 + c, stride, p->patch,
				    rows);
			}
	}
}
