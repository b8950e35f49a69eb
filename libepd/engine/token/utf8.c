/*
 * utf8.c - well-formed UTF-8 (Unicode 15, table 3-7), checked whole or let out
 * as its bytes come.
 *
 * u->held[0..n) is always the beginning of a well-formed character, one byte
 * short of it or more.  What cannot go on becomes one U+FFFD, and the byte that
 * broke it begins anew: the maximal subparts of Unicode's section 3.9.  The
 * exception is the beginning of a surrogate, ED A0 to ED BF: Python holds it
 * back until the next byte and then lets out one U+FFFD for each of the two.
 */
#include <string.h>

#include "engine/token/text.h"
#include "engine/token/token.h"

/* Length of the character that b begins; 0 if it begins none. */
static int
length(uint8_t b)
{
	if (b < 0x80)
		return 1;
	if (b < 0xc2 || b > 0xf4)
		return 0;
	return b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

/* Whether b may be byte i > 0 of the character that lead begins. */
static int
follows(uint8_t lead, int i, uint8_t b)
{
	uint8_t lo = 0x80, hi = 0xbf;

	if (i == 1) {
		if (lead == 0xe0)
			lo = 0xa0;
		else if (lead == 0xed)
			hi = 0x9f;
		else if (lead == 0xf0)
			lo = 0x90;
		else if (lead == 0xf4)
			hi = 0x8f;
	}
	return b >= lo && b <= hi;
}

int
epd_utf8_valid(struct epd_span text)
{
	const uint8_t *p = text.p;
	size_t i = 0;

	while (i < text.n) {
		uint64_t eight;
		int n;

		if (text.n - i >= 8) {
			memcpy(&eight, p + i, 8);
			if (!(eight & UINT64_C(0x8080808080808080))) {
				i += 8;
				continue;
			}
		}
		n = length(p[i]);
		if (!n || (size_t)n > text.n - i)
			return 0;
		for (int j = 1; j < n; j++)
			if (!follows(p[i], j, p[i + (size_t)j]))
				return 0;
		i += (size_t)n;
	}
	return 1;
}

static int
is_surrogate(const struct epd_utf8 *u)
{
	return u->n == 2 && u->held[0] == 0xed && u->held[1] >= 0xa0;
}

void
epd_utf8_end(struct epd_utf8 *u, struct epd_buf *out)
{
	static const char two[] = "\xef\xbf\xbd\xef\xbf\xbd";

	if (u->n)
		epd_buf_put(out, two, is_surrogate(u) ? 6 : 3);
	u->n = 0;
}

void
epd_utf8_put(struct epd_utf8 *u, struct epd_span bytes, struct epd_buf *out)
{
	const uint8_t *p = bytes.p;

	for (size_t i = 0; i < bytes.n; i++) {
		int may = u->n == 1 && u->held[0] == 0xed && p[i] >= 0xa0 &&
		    p[i] <= 0xbf;

		if (u->n && !may && (is_surrogate(u) ||
		    !follows(u->held[0], u->n, p[i])))
			epd_utf8_end(u, out);
		u->held[u->n++] = p[i];
		if (u->n == length(u->held[0])) {
			epd_buf_put(out, u->held, (size_t)u->n);
			u->n = 0;
		} else if (!length(u->held[0])) {
			epd_utf8_end(u, out);
		}
	}
}
