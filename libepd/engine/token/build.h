/*
 * build.h - the tables of a tokenizer.json on their way into a flat form; inside
 * this room only.
 */
#ifndef EPD_ENGINE_TOKEN_BUILD_H
#define EPD_ENGINE_TOKEN_BUILD_H

#include "base/json.h"
#include "engine/token/flat.h"

/* All arrays are the builder's; the pool's order is by id, then loose texts. */
struct epd_build {
	struct epd_flat_head head;
	int16_t byte_of[324];	/* byte that a character spells, or -1 */
	uint32_t *at;		/* head.ids + 1 when done */
	uint32_t *slot;		/* open addressing: id + 1, or 0 */
	uint32_t mask;
	struct epd_added *added;
	struct epd_merge *merge;
	uint32_t *start;
	struct epd_buf pool;
};

/* Fill pool, at, the slots and byte_id.  Fails: EPD_EFORMAT and the like. */
int epd_build_vocab(struct epd_build *b, const struct epd_json *vocab,
    size_t room, struct epd_why *why);
/*
 * Bytes that a token's spelling stands for, put in to[n]; their number, or -1
 * when a character of it is not in the byte alphabet.
 */
long epd_build_spell(const struct epd_build *b, struct epd_span text,
    uint8_t *to);
/* Id of a vocabulary entry by its bytes; -1 if there is none. */
int32_t epd_build_find(const struct epd_build *b, struct epd_span bytes);

int epd_build_added(struct epd_build *b, const struct epd_json *list,
    struct epd_why *why);
int epd_build_merges(struct epd_build *b, const struct epd_json *list,
    struct epd_why *why);

#endif
