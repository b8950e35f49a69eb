/*
 * span.h - borrowed bytes, growing bytes, and reading them back in order.
 * Integers are little-endian on disk and wire, whatever the machine.
 */
#ifndef EPD_BASE_SPAN_H
#define EPD_BASE_SPAN_H

#include <stddef.h>
#include <stdint.h>

/* Bytes on loan until the call they were handed to returns. */
struct epd_span {
	const void *p;
	size_t n;
};

/* Zero it to begin.  failed stays set once an allocation has failed. */
struct epd_buf {
	uint8_t *p;
	size_t n, cap;
	int failed;
};

/* Reads past the end give zeros and set failed, which stays. */
struct epd_cur {
	const uint8_t *p, *end;
	int failed;
};

static inline struct epd_span
epd_span(const void *p, size_t n)
{
	return (struct epd_span){ p, n };
}

/* The n lower bytes of v, at p. */
static inline void
epd_put_le(uint8_t *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

struct epd_span epd_span_str(const char *s);

void epd_buf_free(struct epd_buf *b);		/* and zero it */
/* Room for n more bytes, n counted at once; NULL (and failed) without memory. */
void *epd_buf_add(struct epd_buf *b, size_t n);
void epd_buf_put(struct epd_buf *b, const void *p, size_t n);
void epd_buf_str(struct epd_buf *b, const char *s);	/* without its NUL */
void epd_buf_fmt(struct epd_buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* End with a NUL that n does not count; "" if that fails. */
const char *epd_buf_cstr(struct epd_buf *b);

void epd_pack_u8(struct epd_buf *b, uint8_t v);
void epd_pack_u16(struct epd_buf *b, uint16_t v);
void epd_pack_u32(struct epd_buf *b, uint32_t v);
void epd_pack_u64(struct epd_buf *b, uint64_t v);
void epd_pack_f32(struct epd_buf *b, float v);
/* A u32 of length, then the bytes. */
void epd_pack_span(struct epd_buf *b, struct epd_span s);

struct epd_cur epd_cur(struct epd_span s);
uint8_t epd_unpack_u8(struct epd_cur *c);
uint16_t epd_unpack_u16(struct epd_cur *c);
uint32_t epd_unpack_u32(struct epd_cur *c);
uint64_t epd_unpack_u64(struct epd_cur *c);
float epd_unpack_f32(struct epd_cur *c);
struct epd_span epd_unpack_bytes(struct epd_cur *c, size_t n);
struct epd_span epd_unpack_span(struct epd_cur *c);
size_t epd_cur_left(const struct epd_cur *c);

/* Lower-case hexadecimal; out holds 2n + 1. */
void epd_hex_format(char *out, const void *p, size_t n);
/* n bytes from 2n digits; -EINVAL otherwise. */
int epd_hex_parse(void *out, size_t n, const char *s);

#endif
