/*
 * hash.h - names, checksums and fast fingerprints.
 * BLAKE2b: RFC 7693 (libb2).  CRC32C: Castagnoli, reflected, as in RFC 3720.
 * XXH3: xxHash 0.8 specification (libxxhash).
 */
#ifndef EPD_BASE_HASH_H
#define EPD_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum { EPD_NAME = 32 };		/* bytes of a name: BLAKE2b-256 */

struct epd_name {
	uint8_t b[EPD_NAME];
};

/*
 * A name is a hash of labelled parts: each part goes in as u32 length and
 * bytes, so that no two lists of parts share an encoding.  (A length of
 * 2^32 - 1 or more goes in as u32 2^32 - 1 and u64.)  what is the first part.
 */
struct epd_namer {
	_Alignas(64) uint8_t state[512];
};

void epd_namer_begin(struct epd_namer *n, const char *what);
void epd_namer_add(struct epd_namer *n, const void *p, size_t len);
void epd_namer_str(struct epd_namer *n, const char *s);	/* NULL as "" */
void epd_namer_u64(struct epd_namer *n, uint64_t v);
void epd_namer_end(struct epd_namer *n, struct epd_name *out);

int epd_name_equal(const struct epd_name *a, const struct epd_name *b);
int epd_name_zero(const struct epd_name *a);

/* BLAKE2b with an 8-byte digest, read as a little-endian integer. */
uint64_t epd_blake2b64(struct epd_span s);
/* crc is 0 to begin, or the result so far. */
uint32_t epd_crc32c(uint32_t crc, const void *p, size_t n);
/* The same without the processor's instruction; for tests. */
uint32_t epd_crc32c_table(uint32_t crc, const void *p, size_t n);
uint64_t epd_xxh3_64(const void *p, size_t n);
/* The same of bytes that come piece by piece. */
struct epd_xxh3 {
	_Alignas(64) uint8_t state[576];
};
void epd_xxh3_begin(struct epd_xxh3 *x);
void epd_xxh3_add(struct epd_xxh3 *x, const void *p, size_t n);
uint64_t epd_xxh3_end(const struct epd_xxh3 *x);
/* Of n bytes of a file.  0, -errno, -ENODATA (it ends before them). */
int epd_xxh3_64_file(int fd, uint64_t off, uint64_t n, uint64_t *out);
/* In canonical order, the high half first. */
void epd_xxh3_128(uint8_t out[16], const void *p, size_t n);

#endif
