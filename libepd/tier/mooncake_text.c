/*
 * mooncake_text.c - keys, and objects as text.
 *
 *	epd1-NAME-SUM				a page that was computed
 *	epd1-NAME-SUM-kKEY			the same, sealed by a key
 *	epd1-NAME-SUM[-kKEY]-STORE-WORKFLOW	a page that was given
 *
 * Base64 as RFC 4648 has it, section 4, with its padding and nothing else: a
 * text that another writer could have made is none of ours.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tier/mooncake_in.h"

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void
epd_mooncake_key(const struct epd_mooncake *m, const struct epd_lot *lot,
    long i, char out[EPD_MOONCAKE_KEY])
{
	const struct epd_page_entry *e = lot->entry + i;
	char name[2 * EPD_NAME + 1], sum[17];

	epd_hex_format(name, e->name.b, EPD_NAME);
	snprintf(sum, sizeof sum, "%016" PRIx64, e->sum);
	snprintf(out, EPD_MOONCAKE_KEY, "epd1-%s-%s%s%s%s%s%s", name, sum,
	    m->seal, lot->given ? "-" : "", lot->given ? m->store : "",
	    lot->given ? "-" : "", lot->given ? lot->workflow : "");
}

size_t
epd_base64_bytes(size_t n)
{
	return (n + 2) / 3 * 4;
}

void
epd_base64_pack(char *out, const void *in, size_t n)
{
	const uint8_t *p = in;
	uint32_t v;

	for (; n >= 3; n -= 3, p += 3, out += 4) {
		v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
		out[0] = letters[v >> 18];
		out[1] = letters[v >> 12 & 63];
		out[2] = letters[v >> 6 & 63];
		out[3] = letters[v & 63];
	}
	if (!n)
		return;
	v = (uint32_t)p[0] << 16 | (n > 1 ? (uint32_t)p[1] << 8 : 0);
	out[0] = letters[v >> 18];
	out[1] = letters[v >> 12 & 63];
	out[2] = n > 1 ? letters[v >> 6 & 63] : '=';
	out[3] = '=';
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

int64_t
epd_base64_unpack(void *out, const char *text, size_t n)
{
	const uint8_t *s = (const uint8_t *)text;
	const size_t pad = n < 4 || s[n - 1] != '=' ? 0 :
	    s[n - 2] != '=' ? 1 : 2;
	uint8_t *p = out, seen = 0;
	uint32_t v;

	if (n % 4)
		return EPD_EFORMAT;
	for (n -= pad; n >= 4; n -= 4, s += 4, p += 3) {
		const uint8_t a = value[s[0]], b = value[s[1]],
		    c = value[s[2]], d = value[s[3]];

		seen |= (uint8_t)(a | b | c | d);
		v = (uint32_t)a << 18 | (uint32_t)b << 12 |
		    (uint32_t)c << 6 | d;
		p[0] = (uint8_t)(v >> 16);
		p[1] = (uint8_t)(v >> 8);
		p[2] = (uint8_t)v;
	}
	if (n) {	/* 2 or 3 letters; what is over is zero */
		const uint8_t a = value[s[0]], b = value[s[1]],
		    c = n > 2 ? value[s[2]] : 0;

		seen |= (uint8_t)(a | b | c);
		v = (uint32_t)a << 18 | (uint32_t)b << 12 | (uint32_t)c << 6;
		if (v & (n > 2 ? 0xffu : 0xffffu))
			return EPD_EFORMAT;
		*p++ = (uint8_t)(v >> 16);
		if (n > 2)
			*p++ = (uint8_t)(v >> 8);
	}
	return seen & 64 ? EPD_EFORMAT : p - (uint8_t *)out;
}
