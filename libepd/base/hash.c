/*
 * hash.c - BLAKE2b and XXH3 from their libraries, CRC32C here.
 *
 * CRC32C's table is linear over GF(2): an entry is the xor of the entries of
 * its index's bits, so eight numbers give all 256.
 */
#include "base/hash.h"

#include <blake2.h>
#include <errno.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY	/* a state of ours */
#include <xxhash.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
/* The library's own choice by processor: three times as fast with AVX2. */
#if __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#endif
#endif

#include "base/file.h"

enum { PIECE = 65536 };		/* of a file: it stays in the cache */

_Static_assert(sizeof(blake2b_state) <= sizeof((struct epd_namer *)0)->state,
    "a namer holds a BLAKE2b state");
_Static_assert(_Alignof(blake2b_state) <= _Alignof(struct epd_namer),
    "and aligns it");
_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct epd_xxh3) &&
    _Alignof(XXH3_state_t) <= _Alignof(struct epd_xxh3), "so does the other");

static blake2b_state *
blake(struct epd_namer *n)
{
	return (blake2b_state *)(void *)n->state;
}

/* The library wants a pointer even for nothing. */
static void
feed(blake2b_state *s, const void *p, size_t n)
{
	if (n)
		blake2b_update(s, p, n);
}

static void
put_le(uint8_t *out, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = (uint8_t)(v >> 8 * i);
}

void
epd_namer_begin(struct epd_namer *n, const char *what)
{
	blake2b_init(blake(n), EPD_NAME);
	epd_namer_str(n, what);
}

void
epd_namer_add(struct epd_namer *n, const void *p, size_t len)
{
	uint8_t head[12];

	put_le(head, len < UINT32_MAX ? len : UINT32_MAX, 4);
	put_le(head + 4, len, 8);
	feed(blake(n), head, len < UINT32_MAX ? 4 : 12);
	feed(blake(n), p, len);
}

void
epd_namer_str(struct epd_namer *n, const char *s)
{
	epd_namer_add(n, s, s ? strlen(s) : 0);
}

void
epd_namer_u64(struct epd_namer *n, uint64_t v)
{
	uint8_t b[8];

	put_le(b, v, 8);
	epd_namer_add(n, b, 8);
}

void
epd_namer_end(struct epd_namer *n, struct epd_name *out)
{
	blake2b_final(blake(n), out->b, EPD_NAME);
}

int
epd_name_equal(const struct epd_name *a, const struct epd_name *b)
{
	return !memcmp(a->b, b->b, EPD_NAME);
}

int
epd_name_zero(const struct epd_name *a)
{
	uint8_t any = 0;

	for (int i = 0; i < EPD_NAME; i++)
		any |= a->b[i];
	return !any;
}

uint64_t
epd_blake2b64(struct epd_span s)
{
	_Alignas(64) blake2b_state state;
	uint8_t d[8];
	uint64_t v = 0;

	blake2b_init(&state, sizeof d);
	feed(&state, s.p, s.n);
	blake2b_final(&state, d, sizeof d);
	for (int i = 7; i >= 0; i--)
		v = v << 8 | d[i];
	return v;
}

#define BIT(i, b, v) ((i) >> (b) & 1 ? v : 0u)
#define T1(i) (BIT(i, 0, 0xf26b8303u) ^ BIT(i, 1, 0xe13b70f7u) ^ \
	BIT(i, 2, 0xc79a971fu) ^ BIT(i, 3, 0x8ad958cfu) ^ \
	BIT(i, 4, 0x105ec76fu) ^ BIT(i, 5, 0x20bd8edeu) ^ \
	BIT(i, 6, 0x417b1dbcu) ^ BIT(i, 7, 0x82f63b78u))
#define T4(i) T1(i), T1((i) + 1), T1((i) + 2), T1((i) + 3)
#define T16(i) T4(i), T4((i) + 4), T4((i) + 8), T4((i) + 12)
#define T64(i) T16(i), T16((i) + 16), T16((i) + 32), T16((i) + 48)

static const uint32_t crc_table[256] = { T64(0), T64(64), T64(128), T64(192) };

uint32_t
epd_crc32c_table(uint32_t crc, const void *p, size_t n)
{
	const uint8_t *b = p;

	crc = ~crc;
	for (size_t i = 0; i < n; i++)
		crc = crc_table[(crc ^ b[i]) & 255] ^ crc >> 8;
	return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t
crc_sse42(uint32_t crc, const uint8_t *b, size_t n)
{
	uint64_t c = ~crc, word;

	for (; n >= 8; b += 8, n -= 8) {
		memcpy(&word, b, 8);
		c = _mm_crc32_u64(c, word);
	}
	crc = (uint32_t)c;
	for (; n; b++, n--)
		crc = _mm_crc32_u8(crc, *b);
	return ~crc;
}
#endif

uint32_t
epd_crc32c(uint32_t crc, const void *p, size_t n)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return crc_sse42(crc, p, n);
#endif
	return epd_crc32c_table(crc, p, n);
}

/*
 * The library's AVX-512 (0.8.1) leaves upper halves of registers in use, and then each
 * instruction of the older kind, here or in a library, takes fifty times as long.
 */
static uint64_t
tidy(uint64_t sum)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile ("vzeroupper" ::: "xmm0", "xmm1", "xmm2",
		    "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
		    "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
	return sum;
}

uint64_t
epd_xxh3_64(const void *p, size_t n)
{
	return tidy(XXH3_64bits(p, n));
}

void
epd_xxh3_begin(struct epd_xxh3 *x)
{
	XXH3_state_t *s = (void *)x->state;

	XXH3_INITSTATE(s);
	(void)XXH3_64bits_reset(s);
}

void
epd_xxh3_add(struct epd_xxh3 *x, const void *p, size_t n)
{
	(void)XXH3_64bits_update((XXH3_state_t *)(void *)x->state, p, n);
	(void)tidy(0);
}

uint64_t
epd_xxh3_end(const struct epd_xxh3 *x)
{
	return tidy(XXH3_64bits_digest((const XXH3_state_t *)(const void *)x->state));
}

int
epd_xxh3_64_file(int fd, uint64_t off, uint64_t n, uint64_t *out)
{
	uint8_t piece[PIECE];
	struct epd_xxh3 x;
	ssize_t got = 0;

	epd_xxh3_begin(&x);
	for (; n; n -= (uint64_t)got, off += (uint64_t)got) {
		got = epd_file_pread(fd, piece, n < PIECE ? (size_t)n : PIECE,
		    off);
		if (got <= 0)
			return got < 0 ? (int)got : -ENODATA;
		epd_xxh3_add(&x, piece, (size_t)got);
	}
	*out = epd_xxh3_end(&x);
	return 0;
}

void
epd_xxh3_128(uint8_t out[16], const void *p, size_t n)
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(p, n));
	(void)tidy(0);
	memcpy(out, c.digest, 16);
}
