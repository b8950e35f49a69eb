/*
 * png.c - pictures as PNG (W3C PNG, RFC 1950, RFC 1951), not compressed: so that
 * their size is known from width and height, and listing a directory decodes
 * nothing.
 */
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "base/span.h"
#include "fs/text.h"

enum { BLOCK = 65535, CHUNK = 12 };	/* bytes of a stored block; around a chunk */

static uint64_t
blocks(uint64_t raw)
{
	return raw ? (raw + BLOCK - 1) / BLOCK : 1;
}

uint64_t
epd_fs_png_size(uint32_t w, uint32_t h)
{
	uint64_t raw = ((uint64_t)w * 3 + 1) * h;

	return 8 + (CHUNK + 13) + (CHUNK + 2 + blocks(raw) * 5 + raw + 4) +
	    CHUNK;
}

static void
be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* A chunk of n bytes that body fills in; what is behind it. */
static uint8_t *
begin(uint8_t *p, const char *type, uint32_t n)
{
	be32(p, n);
	memcpy(p + 4, type, 4);
	return p + 8;
}

static uint8_t *
end(uint8_t *body, uint32_t n)
{
	be32(body + n, (uint32_t)crc32(0, body - 4, n + 4));
	return body + n + 4;
}

/* The rows, each behind its filter's number, as one run of bytes. */
static void
copy(uint8_t *to, const uint8_t *rgb, size_t row, uint64_t from, uint64_t n)
{
	while (n) {
		uint64_t in = from % (row + 1), left = row + 1 - in;
		size_t k = (size_t)(left < n ? left : n);

		if (in == 0) {
			*to = 0;
			k = 1;
		} else {
			memcpy(to, rgb + from / (row + 1) * row + (in - 1), k);
		}
		to += k;
		from += k;
		n -= k;
	}
}

int
epd_fs_png(struct epd_buf *out, const uint8_t *rgb, uint32_t w, uint32_t h)
{
	static const uint8_t magic[8] = { 137, 'P', 'N', 'G', 13, 10, 26, 10 };
	const size_t row = (size_t)w * 3;
	const uint64_t raw = (row + 1) * (uint64_t)h;
	const uint64_t size = epd_fs_png_size(w, h);
	const uint64_t data = 2 + blocks(raw) * 5 + raw + 4;
	uint8_t *p, *body, *at;
	uLong sum = adler32(0, NULL, 0);

	if (!w || !h || data > INT32_MAX)
		return EPD_ETOOBIG;
	if (!(p = epd_buf_add(out, size)))
		return -ENOMEM;
	memcpy(p, magic, 8);
	body = begin(p + 8, "IHDR", 13);
	be32(body, w);
	be32(body + 4, h);
	memcpy(body + 8, "\10\2\0\0\0", 5);	/* 8 bits, RGB */
	body = begin(end(body, 13), "IDAT", (uint32_t)data);
	memcpy(body, "\170\1", 2);
	at = body + 2;
	for (uint64_t from = 0; from < raw; from += BLOCK) {
		uint64_t n = raw - from < BLOCK ? raw - from : BLOCK;

		at[0] = from + n == raw;
		at[1] = (uint8_t)n;
		at[2] = (uint8_t)(n >> 8);
		at[3] = (uint8_t)~at[1];
		at[4] = (uint8_t)~at[2];
		copy(at + 5, rgb, row, from, n);
		sum = adler32(sum, at + 5, (uInt)n);
		at += 5 + n;
	}
	be32(at, (uint32_t)sum);
	end(begin(end(body, (uint32_t)data), "IEND", 0), 0);
	return 0;
}
