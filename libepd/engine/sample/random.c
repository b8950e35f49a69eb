/*
 * random.c - numbers that depend on where they are used and on nothing before.
 * The seed is the key; the counter is the index, then the branch's salt, low
 * words first.  Ten rounds; a round multiplies two words to 64 bits, mixes high
 * halves with the other two and the key, and moves the key on.
 */
#include <string.h>

#include "engine/sample/philox.h"
#include "engine/sample/sample.h"

void
epd_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t c[4], k[2] = { key[0], key[1] };

	memcpy(c, counter, sizeof c);
	for (int round = 0; round < 10; round++) {
		uint64_t a = (uint64_t)0xd2511f53 * c[0];
		uint64_t b = (uint64_t)0xcd9e8d57 * c[2];

		c[0] = (uint32_t)(b >> 32) ^ c[1] ^ k[0];
		c[1] = (uint32_t)b;
		c[2] = (uint32_t)(a >> 32) ^ c[3] ^ k[1];
		c[3] = (uint32_t)a;
		k[0] += 0x9e3779b9;
		k[1] += 0xbb67ae85;
	}
	memcpy(out, c, sizeof c);
}

float
epd_sample_uniform(uint64_t seed, uint64_t salt, uint64_t index)
{
	uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
	uint32_t c[4] = { (uint32_t)index, (uint32_t)(index >> 32),
	    (uint32_t)salt, (uint32_t)(salt >> 32) };

	epd_philox(c, key, c);
	return (float)(c[0] >> 8) * 0x1p-24f;
}
