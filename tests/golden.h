/*
 * golden.h - reading tests/golden: whole files, safetensors (8 bytes of length,
 * a JSON header of dtype, shape and data_offsets by name, the data), PPM, and
 * SHA-256 (FIPS 180-4) for the manifest's sums.  Failing to read ends the test
 * program: there is nothing to test.
 */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/span.h"

#define GOLDEN "tests/golden/"

struct golden {
	struct epd_buf file;
	struct epd_json *head;
	const uint8_t *data;
	size_t bytes;
};

static inline void
golden_die(const char *path, const char *what)
{
	printf("Bail out! %s: %s\n", path, what);
	exit(1);
}

/* Owns: the caller frees by epd_buf_free. */
static inline struct epd_buf
golden_read(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct epd_buf b = {0};
	uint8_t some[16384];
	size_t n;

	if (!f)
		golden_die(path, "cannot be opened");
	while ((n = fread(some, 1, sizeof some, f)) > 0)
		epd_buf_put(&b, some, n);
	if (ferror(f) || b.failed)
		golden_die(path, "cannot be read");
	fclose(f);
	return b;
}

static inline struct epd_json *
golden_json(const char *path)
{
	struct epd_buf b = golden_read(path);
	struct epd_json *j = NULL;
	struct epd_why why = {0};

	if (epd_json_parse(&j, epd_span(b.p, b.n), path, &why) < 0)
		golden_die(path, why.text);
	epd_buf_free(&b);
	return j;
}

static inline struct golden
golden_open(const char *path)
{
	struct golden g = { .file = golden_read(path) };
	struct epd_cur c = epd_cur(epd_span(g.file.p, g.file.n));
	uint64_t n = epd_unpack_u64(&c);
	struct epd_why why = {0};

	if (c.failed || n > epd_cur_left(&c))
		golden_die(path, "no safetensors file");
	if (epd_json_parse(&g.head, epd_span(c.p, n), path, &why) < 0)
		golden_die(path, why.text);
	g.data = c.p + n;
	g.bytes = epd_cur_left(&c) - n;
	return g;
}

static inline void
golden_close(struct golden *g)
{
	epd_json_free(g->head);
	epd_buf_free(&g->file);
}

/*
 * The tensor's elements and their number; NULL if there is none of that name
 * and dtype ("F32", "I32").  Lives as long as g.
 */
static inline const void *
golden_tensor(const struct golden *g, const char *name, const char *dtype,
    long *count)
{
	struct epd_json *e = epd_json_get(g->head, name);
	struct epd_json *at = epd_json_get(e, "data_offsets");
	int64_t from = epd_json_int(epd_json_at(at, 0), -1);
	int64_t to = epd_json_int(epd_json_at(at, 1), -1);

	*count = 0;
	if (strcmp(epd_json_str(epd_json_get(e, "dtype"), ""), dtype))
		return NULL;
	if (from < 0 || to < from || (uint64_t)to > g->bytes)
		golden_die(name, "data_offsets leave the file");
	*count = (long)(to - from) / 4;
	return g->data + from;
}

static inline const float *
golden_f32(const struct golden *g, const char *name, long *count)
{
	return golden_tensor(g, name, "F32", count);
}

static inline const int32_t *
golden_i32(const struct golden *g, const char *name, long *count)
{
	return golden_tensor(g, name, "I32", count);
}

static inline uint32_t
golden_ror(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static inline void
golden_sha256_block(uint32_t h[8], const uint32_t k[64], const uint8_t *p)
{
	uint32_t w[64], s[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
		    (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] +
		    (golden_ror(a, 7) ^ golden_ror(a, 18) ^ a >> 3) +
		    (golden_ror(b, 17) ^ golden_ror(b, 19) ^ b >> 10);
	}
	memcpy(s, h, sizeof s);
	for (int i = 0; i < 64; i++) {
		uint32_t a = s[0], e = s[4], t, u;

		t = s[7] + k[i] + w[i] + ((e & s[5]) ^ (~e & s[6])) +
		    (golden_ror(e, 6) ^ golden_ror(e, 11) ^ golden_ror(e, 25));
		u = ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2])) +
		    (golden_ror(a, 2) ^ golden_ror(a, 13) ^ golden_ror(a, 22));
		memmove(s + 1, s, 7 * sizeof *s);
		s[4] += t;
		s[0] = t + u;
	}
	for (int i = 0; i < 8; i++)
		h[i] += s[i];
}

/* The first 32 bits of the fraction of the root of p, by exact search. */
static inline uint32_t
golden_root(unsigned p, int cube)
{
	unsigned __int128 x = 0;

	for (int bit = 35; bit >= 0; bit--) {
		unsigned __int128 y = x | (unsigned __int128)1 << bit;

		if (cube ? y * y * y <= (unsigned __int128)p << 96 :
		    y * y <= (unsigned __int128)p << 64)
			x = y;
	}
	return (uint32_t)x;
}

static inline void
golden_sha256(char hex[65], const void *data, size_t n)
{
	uint32_t h[8], k[64];
	uint8_t last[128] = {0}, out[32];
	size_t whole = n / 64 * 64, rest = n - whole, pad;
	int found = 0;

	for (unsigned p = 2; found < 64; p++) {
		unsigned d = 2;

		while (d * d <= p && p % d)
			d++;
		if (d * d <= p)
			continue;
		if (found < 8)
			h[found] = golden_root(p, 0);
		k[found++] = golden_root(p, 1);
	}
	for (size_t i = 0; i < whole; i += 64)
		golden_sha256_block(h, k, (const uint8_t *)data + i);
	if (rest)
		memcpy(last, (const uint8_t *)data + whole, rest);
	last[rest] = 0x80;
	pad = rest < 56 ? 64 : 128;
	for (int i = 0; i < 8; i++)
		last[pad - 1 - (size_t)i] = (uint8_t)((uint64_t)n * 8 >> 8 * i);
	for (size_t i = 0; i < pad; i += 64)
		golden_sha256_block(h, k, last + i);
	for (int i = 0; i < 32; i++)
		out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
	epd_hex_format(hex, out, sizeof out);
}

#endif
