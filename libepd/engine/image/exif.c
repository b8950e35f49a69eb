/*
 * exif.c - the one thing asked of EXIF: which way up.  A TIFF block is a byte
 * order, the number 42 and the offset of a directory; a directory is a count
 * and entries of tag, type, count and value, 12 bytes each.  No offset is
 * followed but the first, and none is trusted.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/codec.h"

enum { TAG_ORIENTATION = 0x0112, BYTE = 1, SHORT = 3, LONG = 4 };

static uint32_t
number(const uint8_t *p, int n, int big)
{
	uint32_t v = 0;

	for (int i = 0; i < n; i++)
		v = v << 8 | p[big ? i : n - 1 - i];
	return v;
}

/* The entry's value where it is an orientation, else 0. */
static int
entry(const uint8_t *e, int big)
{
	uint32_t v;

	if (number(e, 2, big) != TAG_ORIENTATION || number(e + 4, 4, big) != 1)
		return 0;
	switch (number(e + 2, 2, big)) {
	case BYTE: v = e[8]; break;
	case SHORT: v = number(e + 8, 2, big); break;
	case LONG: v = number(e + 8, 4, big); break;
	default: return 0;
	}
	return v >= 1 && v <= 8 ? (int)v : 0;
}

int
epd_exif_turn(struct epd_span tiff)
{
	const uint8_t *p = tiff.p;
	size_t n = tiff.n, at, count;
	int big, turn;

	if (n >= 6 && !memcmp(p, "Exif\0\0", 6)) {
		p += 6;
		n -= 6;
	}
	if (n < 8)
		return 1;
	big = !memcmp(p, "MM\0*", 4);
	if (!big && memcmp(p, "II*\0", 4))
		return 1;
	at = number(p + 4, 4, big);
	if (at > n - 2)
		return 1;
	count = number(p + at, 2, big);
	at += 2;
	if (count > (n - at) / 12)
		count = (n - at) / 12;
	for (size_t i = 0; i < count; i++) {
		turn = entry(p + at + 12 * i, big);
		if (turn)
			return turn;
	}
	return 1;
}

int
epd_image_turn(struct epd_image *im, int turn)
{
	enum { SWAP = 1, RIGHT = 2, BOTTOM = 4 };
	static const uint8_t how[9] = {
		0, 0, RIGHT, RIGHT | BOTTOM, BOTTOM,
		SWAP, SWAP | BOTTOM, SWAP | RIGHT | BOTTOM, SWAP | RIGHT,
	};
	int f = how[turn];
	long w = f & SWAP ? im->h : im->w, h = f & SWAP ? im->w : im->h;
	uint8_t *to, *q;

	to = q = epd_malloc((size_t)w * (size_t)h * 3);
	if (!to)
		return -ENOMEM;
	for (long y = 0; y < h; y++)
		for (long x = 0; x < w; x++, q += 3) {
			long sx = f & SWAP ? y : x, sy = f & SWAP ? x : y;

			sx = f & RIGHT ? im->w - 1 - sx : sx;
			sy = f & BOTTOM ? im->h - 1 - sy : sy;
			memcpy(q, im->rgb + (sy * im->w + sx) * 3, 3);
		}
	epd_free(im->rgb);
	*im = (struct epd_image){ w, h, to };
	return 0;
}
