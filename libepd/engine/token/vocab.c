/*
 * vocab.c - the vocabulary: ids to bytes, and while building, bytes to ids.
 *
 * Tokens are spelled in GPT-2's byte alphabet: the 188 printable Latin-1 bytes
 * are themselves, the other 68 in ascending order are U+0100 and up.
 *
 * 1. Ids are 0 to count - 1, each once, and every byte has one.
 * 2. The slots are at most half full.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/token/build.h"

/* Of honest entries no chain is near as long; made ones would take for ever. */
enum { PROBES = 1024 };

static void
learn_alphabet(struct epd_build *b)
{
	int16_t next = 256;

	memset(b->byte_of, -1, sizeof b->byte_of);
	for (int16_t c = 0; c < 256; c++) {
		int self = (c > 32 && c < 127) || (c > 160 && c != 173);

		b->byte_of[self ? c : next++] = c;
	}
}

long
epd_build_spell(const struct epd_build *b, struct epd_span text, uint8_t *to)
{
	const uint8_t *p = text.p;
	long n = 0;

	for (size_t i = 0; i < text.n; i++) {
		uint32_t c = p[i];

		if (c >= 0xe0)
			return -1;
		if (c >= 0xc0 && i + 1 < text.n)
			c = (c & 31) << 6 | (p[++i] & 63);
		if (c >= 324 || b->byte_of[c] < 0)
			return -1;
		to[n++] = (uint8_t)b->byte_of[c];
	}
	return n;
}

/* The slot that holds these bytes, or the free one where they would go. */
static uint32_t *
probe(const struct epd_build *b, struct epd_span bytes)
{
	uint32_t i = (uint32_t)epd_xxh3_64(bytes.p, bytes.n);

	for (int n = 0; n < PROBES; n++, i++) {
		uint32_t *s = &b->slot[i & b->mask], id = *s - 1;

		if (!*s || (b->at[id + 1] - b->at[id] == bytes.n &&
		    !memcmp(b->pool.p + b->at[id], bytes.p, bytes.n)))
			return s;
	}
	return NULL;
}

int32_t
epd_build_find(const struct epd_build *b, struct epd_span bytes)
{
	uint32_t *s = probe(b, bytes);

	return s && *s ? (int32_t)*s - 1 : -1;
}

/* The spelling of each id, pointing into the tree. */
static int
by_id(const char **name, size_t n, const struct epd_json *vocab,
    struct epd_why *why)
{
	struct epd_json_iter it = epd_json_begin(vocab);

	while (epd_json_next(&it)) {
		int64_t id = epd_json_int(it.value, -1);

		if (id < 0 || (uint64_t)id >= n)
			return epd_why(why, EPD_EUNSUPPORTED, "tokenizer.json: "
			    "vocab gives %.80s no id from 0 to %zu", it.key,
			    n - 1);
		if (name[id])
			return epd_why(why, EPD_EFORMAT, "tokenizer.json: "
			    "vocab gives two tokens the id %lld",
			    (long long)id);
		name[id] = it.key;
	}
	return 0;
}

static int
add_entry(struct epd_build *b, uint32_t id, const char *name,
    struct epd_why *why)
{
	size_t n = strlen(name);
	uint8_t *to = epd_buf_add(&b->pool, n);
	uint32_t *slot;
	long made;

	if (!to)
		return -ENOMEM;
	made = epd_build_spell(b, epd_span(name, n), to);
	if (made <= 0)
		return epd_why(why, EPD_EUNSUPPORTED, "tokenizer.json: vocab "
		    "entry %u is not spelled in bytes: %.80s", id, name);
	b->pool.n -= n - (size_t)made;
	if (b->pool.n > INT32_MAX / 2)
		return EPD_ETOOBIG;
	b->at[id + 1] = (uint32_t)b->pool.n;
	slot = probe(b, epd_span(to, (size_t)made));
	if (!slot || *slot)
		return epd_why(why, EPD_EFORMAT, "tokenizer.json: vocab entry "
		    "%u crowds its hash table", id);
	*slot = id + 1;
	return 0;
}

static int
add_bytes(struct epd_build *b, struct epd_why *why)
{
	for (int c = 0; c < 256; c++) {
		uint8_t byte = (uint8_t)c;
		int32_t id = epd_build_find(b, epd_span(&byte, 1));

		if (id < 0)
			return epd_why(why, EPD_EFORMAT, "tokenizer.json: "
			    "vocab has no token for the byte %d", c);
		b->head.byte_id[c] = id;
	}
	return 0;
}

int
epd_build_vocab(struct epd_build *b, const struct epd_json *vocab,
    size_t room, struct epd_why *why)
{
	size_t n = epd_json_count(vocab), slots = 512;
	const char **name;
	int rc;

	if (epd_json_type(vocab) != EPD_JSON_OBJECT || n < 256)
		return epd_why(why, EPD_EFORMAT,
		    "tokenizer.json: vocab is not an object of 256 or more");
	if (n > EPD_FLAT_IDS - room)
		return epd_why(why, EPD_ETOOBIG,
		    "tokenizer.json: vocab has %zu entries", n);
	while (slots < 2 * n)
		slots *= 2;
	learn_alphabet(b);
	b->mask = (uint32_t)slots - 1;
	b->slot = epd_calloc(slots, sizeof *b->slot);
	b->at = epd_calloc(n + room + 1, sizeof *b->at);
	name = epd_calloc(n, sizeof *name);
	rc = b->slot && b->at && name ? by_id(name, n, vocab, why) : -ENOMEM;
	for (size_t id = 0; !rc && id < n; id++)
		rc = add_entry(b, (uint32_t)id, name[id], why);
	epd_free(name);
	b->head.ids = (uint32_t)n;
	return rc ? rc : add_bytes(b, why);
}
