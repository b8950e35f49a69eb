/*
 * codec.h - pages made smaller on their way to another store, at a loss.  What
 * comes out at the other end is of another numeric family and has other names
 * (epd_page_base): it never passes for what the engine computed.
 *
 * A row is 16 values that lie one after another in a page: of K one dimension of
 * 16 tokens, of V 16 dimensions of one token.  Each has a scale of its own, its
 * largest magnitude over the largest that the code can hold, as bf16 rounded
 * up; packed it is the scale, then 16 codes.  All arithmetic is of single IEEE
 * roundings, so the same page gives the same bytes everywhere.
 *
 *	fp8	e4m3 of the OCP 8-bit floating point specification (bias 7, largest
 *		448, no infinities), to nearest even
 *	int8	-127 .. 127, to nearest even
 */
#ifndef EPD_PAGE_CODEC_H
#define EPD_PAGE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { EPD_CODEC_ROW = 16, EPD_CODEC_NAME = 16 };

/*
 * A pair of functions, the project's or anybody's (TransferPolicy's "custom").
 * type is a page's (0 f32, 1 bf16), n a number of values, a multiple of 16.
 */
struct epd_codec {
	const char *name;	/* [a-z0-9]{1,15}; part of the family's name */
	/* Bytes that n values take packed, at most. */
	uint64_t (*bound)(uint32_t type, uint64_t n);
	/* The bytes it took.  EPD_ENUMERIC: a value is not finite. */
	int64_t (*pack)(void *out, const void *in, uint32_t type, uint64_t n);
	/* in has nin bytes, of a stranger's.  EPD_ECORRUPT: it was not packed so. */
	int (*unpack)(void *out, uint32_t type, uint64_t n, const void *in,
	    uint64_t nin);
};

extern const struct epd_codec epd_codec_fp8, epd_codec_int8;

/* Those that a program brings along; one of a name there is takes its place. */
struct epd_codecs {
	const struct epd_codec *const *codec;
	int n;
};
/* By name, "fp8" and "int8" among them; NULL: none, and for "none". */
const struct epd_codec *epd_codec_of(const struct epd_codecs *more,
    const char *name);
int epd_codec_name_ok(const char *name);

/* One e4m3 code, for tests: of a value (NaN is 0x7f), and back. */
uint8_t epd_e4m3_of(float x);
float epd_e4m3_value(uint8_t code);

#endif
