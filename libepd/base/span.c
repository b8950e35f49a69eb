/*
 * span.c - growing bytes, packing and unpacking.
 *
 * 1. b->n <= b->cap, and cap bytes are allocated at p.
 * 2. Once failed is set nothing more is added and nothing is taken away.
 */
#include "base/span.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct epd_span
epd_span_str(const char *s)
{
	return epd_span(s, s ? strlen(s) : 0);
}

void
epd_buf_free(struct epd_buf *b)
{
	if (!b)
		return;
	epd_free(b->p);
	*b = (struct epd_buf){ 0 };
}

/* Make room for n more bytes without counting them. */
static int
reserve(struct epd_buf *b, size_t n)
{
	size_t need, cap;
	uint8_t *p;

	if (b->failed)
		return 0;
	if (b->p && n <= b->cap - b->n)
		return 1;
	if (__builtin_add_overflow(b->n, n, &need))
		goto fail;
	cap = b->cap < 64 ? 64 : b->cap;
	while (cap < need)
		cap = cap > SIZE_MAX / 2 ? need : cap * 2;
	p = epd_realloc(b->p, cap);
	if (!p)
		goto fail;
	b->p = p;
	b->cap = cap;
	return 1;
fail:
	b->failed = 1;
	return 0;
}

void *
epd_buf_add(struct epd_buf *b, size_t n)
{
	void *p;

	if (!reserve(b, n))
		return NULL;
	p = b->p + b->n;
	b->n += n;
	return p;
}

void
epd_buf_put(struct epd_buf *b, const void *p, size_t n)
{
	void *to = epd_buf_add(b, n);

	if (to && n)
		memcpy(to, p, n);
}

void
epd_buf_str(struct epd_buf *b, const char *s)
{
	epd_buf_put(b, s, strlen(s));
}

void
epd_buf_fmt(struct epd_buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	/* The NUL needs room, though it does not count. */
	if (n < 0) {
		b->failed = 1;
		return;
	}
	if (!reserve(b, (size_t)n + 1))
		return;
	va_start(ap, fmt);
	vsnprintf((char *)b->p + b->n, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->n += (size_t)n;
}

const char *
epd_buf_cstr(struct epd_buf *b)
{
	if (!reserve(b, 1))
		return "";
	b->p[b->n] = '\0';
	return (const char *)b->p;
}

static void
pack(struct epd_buf *b, uint64_t v, size_t n)
{
	uint8_t *p = epd_buf_add(b, n);

	for (size_t i = 0; p && i < n; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

void
epd_pack_u8(struct epd_buf *b, uint8_t v)
{
	pack(b, v, 1);
}

void
epd_pack_u16(struct epd_buf *b, uint16_t v)
{
	pack(b, v, 2);
}

void
epd_pack_u32(struct epd_buf *b, uint32_t v)
{
	pack(b, v, 4);
}

void
epd_pack_u64(struct epd_buf *b, uint64_t v)
{
	pack(b, v, 8);
}

void
epd_pack_f32(struct epd_buf *b, float v)
{
	uint32_t u;

	memcpy(&u, &v, sizeof u);
	pack(b, u, 4);
}

void
epd_pack_span(struct epd_buf *b, struct epd_span s)
{
	if (s.n > UINT32_MAX) {
		b->failed = 1;
		return;
	}
	pack(b, s.n, 4);
	epd_buf_put(b, s.p, s.n);
}

struct epd_cur
epd_cur(struct epd_span s)
{
	const uint8_t *p = s.p;

	return (struct epd_cur){ p, p ? p + s.n : p, 0 };
}

size_t
epd_cur_left(const struct epd_cur *c)
{
	return c->p ? (size_t)(c->end - c->p) : 0;
}

struct epd_span
epd_unpack_bytes(struct epd_cur *c, size_t n)
{
	struct epd_span s;

	if (c->failed || n > epd_cur_left(c)) {
		c->failed = 1;
		c->p = c->end;
		return epd_span("", 0);
	}
	if (!n)
		return epd_span(c->p ? (const void *)c->p : "", 0);
	s = epd_span(c->p, n);
	c->p += n;
	return s;
}

static uint64_t
unpack(struct epd_cur *c, size_t n)
{
	struct epd_span s = epd_unpack_bytes(c, n);
	const uint8_t *p = s.p;
	uint64_t v = 0;

	for (size_t i = 0; i < s.n; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

uint8_t
epd_unpack_u8(struct epd_cur *c)
{
	return (uint8_t)unpack(c, 1);
}

uint16_t
epd_unpack_u16(struct epd_cur *c)
{
	return (uint16_t)unpack(c, 2);
}

uint32_t
epd_unpack_u32(struct epd_cur *c)
{
	return (uint32_t)unpack(c, 4);
}

uint64_t
epd_unpack_u64(struct epd_cur *c)
{
	return unpack(c, 8);
}

float
epd_unpack_f32(struct epd_cur *c)
{
	uint32_t u = epd_unpack_u32(c);
	float v;

	memcpy(&v, &u, sizeof v);
	return v;
}

struct epd_span
epd_unpack_span(struct epd_cur *c)
{
	return epd_unpack_bytes(c, epd_unpack_u32(c));
}

void
epd_hex_format(char *out, const void *p, size_t n)
{
	static const char digit[] = "0123456789abcdef";
	const uint8_t *b = p;

	for (size_t i = 0; i < n; i++) {
		*out++ = digit[b[i] >> 4];
		*out++ = digit[b[i] & 15];
	}
	*out = '\0';
}

static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int
epd_hex_parse(void *out, size_t n, const char *s)
{
	uint8_t *b = out;

	/* A first pass, so that out stays as it was if a digit is bad. */
	for (size_t i = 0; i < n; i++)
		if (hex_value(s[2 * i]) < 0 || hex_value(s[2 * i + 1]) < 0)
			return -EINVAL;
	if (s[2 * n])
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		b[i] = (uint8_t)(hex_value(s[2 * i]) << 4 |
		    hex_value(s[2 * i + 1]));
	return 0;
}
