/*
 * ppm.c - binary PGM (P5) and PPM (P6): "P6", width, height and the largest
 * value as decimal numbers, white space and # comments between them, one white
 * space, then the samples, two bytes each, high one first, above 255.
 *
 * A largest value other than 255 is brought to it by the reference's rule,
 * v / max * 255 in double, halves to even, larger values as the largest.
 */
#include <errno.h>
#include <math.h>

#include "base/alloc.h"
#include "engine/image/codec.h"

/* Keeps the bytes of a picture below 2^63. */
enum { SIDE_MAX = 1000000000 };

static int
is_space(int c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The next number up to max; -1 where there is none. */
static long
number(struct epd_cur *c, long max)
{
	long v = -1;

	while (c->p < c->end && (is_space(*c->p) || *c->p == '#')) {
		if (*c->p == '#')
			while (c->p < c->end && *c->p != '\n' && *c->p != '\r')
				c->p++;
		else
			c->p++;
	}
	for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
		v = (v < 0 ? 0 : v) * 10 + (*c->p - '0');
		if (v > max)
			return -1;
	}
	return v;
}

static uint8_t
scale(unsigned v, unsigned max)
{
	return v >= max ? 255 : (uint8_t)nearbyint((double)v / max * 255);
}

static void
samples(const uint8_t *from, size_t n, unsigned max, int gray, uint8_t *rgb)
{
	for (size_t i = 0; i < n; i++) {
		unsigned v = *from++;

		if (max > 255)
			v = v << 8 | *from++;
		if (max != 255)
			v = scale(v, max);
		*rgb++ = (uint8_t)v;
		if (gray) {
			*rgb++ = (uint8_t)v;
			*rgb++ = (uint8_t)v;
		}
	}
}

int
epd_image_ppm(struct epd_image *out, int *turn, struct epd_span file,
    const struct epd_image_rules *rules, struct epd_why *why)
{
	struct epd_cur c = epd_cur(file);
	int gray = ((const char *)file.p)[1] == '5', rc;
	long w, h, max;
	size_t n, each;
	uint8_t *px;

	(void)turn;
	c.p += 2;
	w = h = max = -1;
	if (c.p < c.end && (is_space(*c.p) || *c.p == '#')) {
		w = number(&c, SIDE_MAX);
		h = number(&c, SIDE_MAX);
		max = number(&c, 65535);
	}
	if (w < 0 || h < 0 || max < 1 || c.p >= c.end || !is_space(*c.p))
		return epd_why(why, EPD_EFORMAT, "PPM: broken header");
	c.p++;
	rc = epd_image_admit((uint64_t)w, (uint64_t)h, rules, why);
	if (rc < 0)
		return rc;
	n = (size_t)w * (size_t)h * (gray ? 1 : 3);
	each = max > 255 ? 2 : 1;
	if (epd_cur_left(&c) / each < n)
		return epd_why(why, EPD_EFORMAT, "PPM: the file is cut short: "
		    "%ld x %ld pixels need %zu bytes", w, h, n * each);
	rc = epd_image_room(&px, (uint64_t)w, (uint64_t)h, 3, rules, why);
	if (rc < 0)
		return rc;
	samples(c.p, n, (unsigned)max, gray, px);
	*out = (struct epd_image){ w, h, px };
	return 0;
}
