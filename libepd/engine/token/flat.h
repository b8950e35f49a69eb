/*
 * flat.h - a tokenizer as one flat block without pointers, in memory and in a
 * cache file alike; inside this room only.
 *
 * The head is followed, in this order and without gaps, by
 *
 *	struct epd_added added[head.added]	by first byte, then longest first
 *	struct epd_merge merge[head.merges]	by bucket
 *	uint32_t start[(1 << head.bits) + 1]	bucket b is merge[start[b]..start[b+1])
 *	uint32_t at[head.ids + 1]		id i stands for pool[at[i]..at[i+1])
 *	uint8_t pool[head.pool]
 *
 * Integers are in the machine's order, and so is the magic.  epd_flat_adopt()
 * checks every index once, so that nothing after it needs to.
 */
#ifndef EPD_ENGINE_TOKEN_FLAT_H
#define EPD_ENGINE_TOKEN_FLAT_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/hash.h"
#include "engine/token/token.h"

#define EPD_FLAT_MAGIC UINT64_C(0x31304b4f54445045)	/* "EPDTOK01" */

enum {
	EPD_FLAT_IDS = 1 << 24,		/* most ids, and most merges */
	EPD_FLAT_ADDED = 4096,		/* most added tokens */
	EPD_FLAT_BUCKET = 64,		/* most merges of one bucket */
};
/* Which tokenizer.json a flat form was made from. */
struct epd_flat_key {
	uint64_t dev, ino, size, mtime_ns, ctime_ns;
};

struct epd_added {
	uint32_t at, n;		/* its text in the pool */
	int32_t id;
	uint32_t special;	/* left out of decoded text by Hugging Face */
};

struct epd_merge {
	int32_t left, right;
	uint32_t rank;
	int32_t id;		/* what the two become */
};

struct epd_flat_head {
	uint64_t magic;
	uint64_t sum;		/* XXH3 of all that follows this field */
	uint64_t size;		/* of the whole */
	struct epd_flat_key key;
	struct epd_name name;
	uint32_t ids, added, merges, bits, pool;
	uint32_t split;		/* which split pattern */
	int32_t byte_id[256];
	uint32_t first[257];	/* added tokens beginning with b: first[b]..first[b+1] */
	uint32_t zero;
};

struct epd_tokenizer {
	const struct epd_flat_head *head;
	const struct epd_added *added;
	const struct epd_merge *merge;
	const uint32_t *start, *at;
	const uint8_t *pool;
	void (*drop)(void *base, size_t n);	/* gives the block back */
	pcre2_general_context *memory;
	pcre2_code *split;
};

/* Bytes of the whole that head describes; 0 if its counts are over the caps. */
uint64_t epd_flat_size(const struct epd_flat_head *head);
/* The sum to stand in a head of n bytes in all. */
uint64_t epd_flat_sum(const void *base, size_t n);

/*
 * Check n bytes, aligned to 8, and make them a tokenizer, which gives them back
 * by drop when closed.  Fails: EPD_ECORRUPT (drop is not called), -ENOMEM.
 */
int epd_flat_adopt(struct epd_tokenizer **out, void *base, size_t n,
    void (*drop)(void *base, size_t n));

/*
 * Make the flat form of a tokenizer.json in out, which is empty; out->p may be
 * adopted with epd_flat_free.  Fails: as epd_tokenizer_open.
 */
int epd_flat_compile(struct epd_buf *out, struct epd_span json,
    const struct epd_flat_key *key, struct epd_why *why);
void epd_flat_free(void *base, size_t n);

/* The whole way from the bytes of a tokenizer.json. */
int epd_tokenizer_parse(struct epd_tokenizer **out, struct epd_span json,
    const struct epd_flat_key *key, struct epd_why *why);

/* Multiplicative hash (Knuth) of a pair to `bits` bits. */
static inline uint32_t
epd_flat_bucket(int32_t left, int32_t right, uint32_t bits)
{
	uint64_t k = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;

	k ^= k >> 29;
	return (uint32_t)(k * UINT64_C(0x9e3779b97f4a7c15) >> 32 >>
	    (32 - bits));
}

/* The merge of two neighbours; NULL if there is none. */
static inline const struct epd_merge *
epd_flat_merge(const struct epd_tokenizer *t, int32_t left, int32_t right)
{
	uint32_t b = epd_flat_bucket(left, right, t->head->bits);

	for (uint32_t i = t->start[b]; i < t->start[b + 1]; i++)
		if (t->merge[i].left == left && t->merge[i].right == right)
			return &t->merge[i];
	return NULL;
}

#endif
