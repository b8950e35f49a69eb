/* base64.c - three bytes and four letters at a time, whatever they are. */
#include "base/base64.h"

#include <errno.h>

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t
epd_base64_bytes(size_t n)
{
	return (n + 2) / 3 * 4;
}

void
epd_base64_pack(struct epd_buf *out, struct epd_span bytes)
{
	const uint8_t *p = bytes.p;
	char *to = epd_buf_add(out, epd_base64_bytes(bytes.n));
	size_t n = bytes.n;
	uint32_t v;

	if (!to)
		return;
	for (; n >= 3; n -= 3, p += 3, to += 4) {
		v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
		to[0] = letters[v >> 18];
		to[1] = letters[v >> 12 & 63];
		to[2] = letters[v >> 6 & 63];
		to[3] = letters[v & 63];
	}
	if (!n)
		return;
	v = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0);
	to[0] = letters[v >> 18];
	to[1] = letters[v >> 12 & 63];
	to[2] = n > 1 ? letters[v >> 6 & 63] : '=';
	to[3] = '=';
}

/* What each letter stands for, and 64 for what is none. */
#define NONE_16 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64
static const uint8_t value[256] = {
	NONE_16, NONE_16,
	64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 62, 64, 64, 64, 63,
	52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 64, 64, 64, 64, 64, 64,
	64, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
	15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 64, 64, 64, 64, 64,
	64, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
	41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 64, 64, 64, 64, 64,
	NONE_16, NONE_16, NONE_16, NONE_16, NONE_16, NONE_16, NONE_16, NONE_16,
};

/* The last 2 or 3 letters; 64 if they are none, or say more than whole bytes. */
static uint8_t
unpack_end(uint8_t *to, const uint8_t *s, size_t n)
{
	const uint8_t a = value[s[0]], b = value[s[1]],
	    c = n > 2 ? value[s[2]] : 0;
	const uint32_t v = (uint32_t)a << 18 | (uint32_t)b << 12 |
	    (uint32_t)c << 6;

	if (v & (n > 2 ? 0xffu : 0xffffu))
		return 64;
	to[0] = (uint8_t)(v >> 16);
	if (n > 2)
		to[1] = (uint8_t)(v >> 8);
	return (uint8_t)(a | b | c);
}

int
epd_base64_unpack(struct epd_buf *out, struct epd_span text)
{
	const uint8_t *s = text.p;
	const size_t pad = text.n < 4 || s[text.n - 1] != '=' ? 0 :
	    s[text.n - 2] != '=' ? 1 : 2;
	const size_t was = out->n;
	size_t n = text.n;
	uint8_t *to, seen = 0;

	if (n % 4)
		return EPD_EFORMAT;
	if (!n)
		return 0;
	if (!(to = epd_buf_add(out, n / 4 * 3 - pad)))
		return -ENOMEM;
	for (n -= pad; n >= 4; n -= 4, s += 4, to += 3) {
		const uint8_t a = value[s[0]], b = value[s[1]],
		    c = value[s[2]], d = value[s[3]];
		const uint32_t v = (uint32_t)a << 18 | (uint32_t)b << 12 |
		    (uint32_t)c << 6 | d;

		seen |= (uint8_t)(a | b | c | d);
		to[0] = (uint8_t)(v >> 16);
		to[1] = (uint8_t)(v >> 8);
		to[2] = (uint8_t)v;
	}
	if (n)
		seen |= unpack_end(to, s, n);
	if (!(seen & 64))
		return 0;
	out->n = was;
	return EPD_EFORMAT;
}
