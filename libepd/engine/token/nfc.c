/*
 * nfc.c - normalization form C by utf8proc's tables, as Hugging Face has it.
 *
 * The tables of Hugging Face's tokenizers are of Unicode 9 and utf8proc's are
 * newer.  What a newer Unicode puts in order, composes or takes apart stands by
 * itself there, so here too: it is a wall between runs that know nothing of
 * each other.
 *
 * utf8proc puts marks in order by exchanging neighbours, which a long run of
 * them makes quadratic; here each run out of order is sorted by counting, and
 * utf8proc is left the taking apart and the composing, which are linear.
 */
#include "engine/token/text.h"

#include <errno.h>
#include <string.h>
#include <utf8proc.h>

#define OPTIONS (UTF8PROC_STABLE | UTF8PROC_COMPOSE)

/*
 * Marks and parts of compositions that Unicode 10 to 18 added, and U+11A7,
 * which utf8proc 2.8 loses after a syllable.  What lies between them in
 * a range is inert in all versions.
 */
static const struct {
	int32_t from, to;
} walls[] = {
	{ 0x5c8, 0x5c9 }, { 0x7fd, 0x7fd }, { 0x897, 0x8d3 },
	{ 0x9fe, 0x9fe }, { 0xc3c, 0xc3c }, { 0xd3b, 0xd3c },
	{ 0xeba, 0xeba }, { 0x11a7, 0x11a7 }, { 0x1715, 0x1715 },
	{ 0x1abf, 0x1af0 }, { 0x1df6, 0x1dfa }, { 0xa82c, 0xa82c },
	{ 0x105c9, 0x105e4 }, { 0x10d24, 0x10d27 }, { 0x10d69, 0x10d6d },
	{ 0x10eab, 0x10eff }, { 0x10f46, 0x10f85 }, { 0x11070, 0x11070 },
	{ 0x1133b, 0x1133b }, { 0x11382, 0x113d0 }, { 0x1145e, 0x1145e },
	{ 0x11839, 0x1183a }, { 0x11930, 0x11943 }, { 0x119e0, 0x119e0 },
	{ 0x11a34, 0x11a47 }, { 0x11a99, 0x11a99 }, { 0x11d42, 0x11d45 },
	{ 0x11d97, 0x11d97 }, { 0x11f41, 0x11f42 }, { 0x1611e, 0x1612f },
	{ 0x16d63, 0x16d6a }, { 0x16ff0, 0x16ff1 }, { 0x1d127, 0x1d128 },
	{ 0x1d250, 0x1d281 }, { 0x1e08f, 0x1e08f }, { 0x1e130, 0x1e136 },
	{ 0x1e2ae, 0x1e2ef }, { 0x1e4ec, 0x1e4ef }, { 0x1e5ee, 0x1e5ef },
	{ 0x1e6e3, 0x1e6f5 },
};

static int
is_wall(int32_t c)
{
	size_t lo = 0, hi = sizeof walls / sizeof *walls;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (c > walls[mid].to)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < sizeof walls / sizeof *walls && c >= walls[lo].from;
}

/* Below U+0300 nothing decomposes or combines: no byte reaches its lead, CC. */
static int
is_plain(struct epd_span text)
{
	const uint8_t *p = text.p;
	int high = 0;

	for (size_t i = 0; i < text.n; i++)
		high |= p[i] >= 0xcc;
	return !high;
}

/*
 * Canonical decomposition as code points, marks as they come, up to a wall or
 * the end of the text: the bytes taken, or -errno.
 */
static int64_t
decompose(struct epd_buf *to, struct epd_span text)
{
	const uint8_t *p = text.p;
	size_t at = 0;

	while (at < text.n) {
		utf8proc_int32_t c, *d;
		utf8proc_ssize_t n, made;
		int bound = UTF8PROC_BOUNDCLASS_START;

		n = utf8proc_iterate(p + at, (utf8proc_ssize_t)(text.n - at),
		    &c);
		if (n <= 0)
			return -EILSEQ;
		if (is_wall(c))
			break;
		/* The longest canonical decomposition has four code points. */
		d = epd_buf_add(to, 4 * sizeof *d);
		if (!d)
			return -ENOMEM;
		made = utf8proc_decompose_char(c, d, 4, OPTIONS, &bound);
		if (made < 0 || made > 4)
			return -EILSEQ;
		to->n -= (size_t)(4 - made) * sizeof *d;
		at += (size_t)n;
	}
	return (int64_t)at;
}

static int
class_of(int32_t c)
{
	return utf8proc_get_property(c)->combining_class & 255;
}

/* Stable sort of n marks by combining class. */
static int
sort_run(int32_t *c, size_t n)
{
	struct epd_buf hold = { 0 };
	size_t from[256] = { 0 }, sum = 0;
	int32_t *copy = epd_buf_add(&hold, n * sizeof *c);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, c, n * sizeof *c);
	for (size_t i = 0; i < n; i++)
		from[class_of(c[i])]++;
	for (int k = 0; k < 256; k++) {
		size_t these = from[k];

		from[k] = sum;
		sum += these;
	}
	for (size_t i = 0; i < n; i++)
		c[from[class_of(copy[i])]++] = copy[i];
	epd_buf_free(&hold);
	return 0;
}

static int
put_in_order(int32_t *c, size_t n)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		size_t from = i;
		int last = 0, k, sorted = 1;

		for (; i < n && (k = class_of(c[i])) != 0; i++) {
			sorted &= k >= last;
			last = k;
		}
		if (!sorted)
			rc = sort_run(c + from, i - from);
	}
	return rc;
}

/* Compose n code points in place and put them as UTF-8. */
static int
compose(struct epd_buf *out, int32_t *c, size_t n)
{
	utf8proc_ssize_t left;
	uint8_t *p;

	if (!n)
		return 0;
	left = utf8proc_normalize_utf32(c, (utf8proc_ssize_t)n, OPTIONS);
	if (left < 0)
		return -EILSEQ;
	p = epd_buf_add(out, 4 * (size_t)left);
	if (!p)
		return -ENOMEM;
	for (utf8proc_ssize_t i = 0; i < left; i++)
		p += utf8proc_encode_char(c[i], p);
	out->n = (size_t)(p - out->p);
	return 0;
}

int
epd_nfc(struct epd_span *out, struct epd_span text, struct epd_buf *hold)
{
	struct epd_buf wide = { 0 };
	const uint8_t *p = text.p;
	size_t at = 0;
	int rc = 0;

	if (is_plain(text)) {
		*out = text;
		return 0;
	}
	hold->n = 0;
	while (!rc && at < text.n) {
		size_t n;
		int64_t got;
		int32_t *c;

		wide.n = 0;
		got = decompose(&wide, epd_span(p + at, text.n - at));
		c = (int32_t *)(void *)wide.p;
		n = wide.n / sizeof *c;
		rc = got < 0 ? (int)got : put_in_order(c, n);
		if (!rc)
			rc = compose(hold, c, n);
		if (rc)
			break;
		/* What stopped it, if anything did, goes as it is. */
		for (at += (size_t)got; at < text.n; at += n) {
			utf8proc_int32_t wall;

			n = (size_t)utf8proc_iterate(p + at,
			    (utf8proc_ssize_t)(text.n - at), &wall);
			if (!is_wall(wall))
				break;
			epd_buf_put(hold, p + at, n);
		}
		if (hold->failed)
			rc = -ENOMEM;
	}
	epd_buf_free(&wide);
	if (!rc)
		*out = epd_span(hold->p, hold->n);
	return rc;
}
