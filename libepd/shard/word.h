/*
 * word.h - numbers where they lie in bytes, little-endian; that they are there
 * is the caller's to know.  For what is read ten thousand times at a start.
 */
#ifndef EPD_SHARD_WORD_H
#define EPD_SHARD_WORD_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t
epd_word16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof v);
	return le16toh(v);
}

static inline uint32_t
epd_word32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof v);
	return le32toh(v);
}

static inline uint64_t
epd_word64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return le64toh(v);
}

static inline float
epd_word_f32(const uint8_t *p)
{
	uint32_t u = epd_word32(p);
	float v;

	memcpy(&v, &u, sizeof v);
	return v;
}

#endif
