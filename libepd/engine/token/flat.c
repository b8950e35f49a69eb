/*
 * flat.c - taking a flat form into use, and what can be read off it directly.
 *
 * 1. After check() every index in the flat form lies in what it points into,
 *    runs are in ascending order, and a loop over a bucket ends.
 * 2. The flat form is never written; threads share it freely.
 */
#include "engine/token/flat.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/token/split.h"

uint64_t
epd_flat_size(const struct epd_flat_head *h)
{
	if (h->ids < 256 || h->ids > EPD_FLAT_IDS ||
	    h->merges > EPD_FLAT_IDS || h->added > EPD_FLAT_ADDED ||
	    h->bits < 1 || h->bits > 24 || h->pool > INT32_MAX)
		return 0;
	return sizeof *h + (uint64_t)h->added * sizeof(struct epd_added) +
	    (uint64_t)h->merges * sizeof(struct epd_merge) +
	    sizeof(uint32_t) * (((uint64_t)1 << h->bits) + 1) +
	    sizeof(uint32_t) * ((uint64_t)h->ids + 1) + h->pool;
}

uint64_t
epd_flat_sum(const void *base, size_t n)
{
	size_t from = offsetof(struct epd_flat_head, size);

	return epd_xxh3_64((const uint8_t *)base + from, n - from);
}

/* Point the tokenizer into a block whose size is right. */
static void
lay_out(struct epd_tokenizer *t, const void *base)
{
	const struct epd_flat_head *h = base;

	t->head = h;
	t->added = (const struct epd_added *)(h + 1);
	t->merge = (const struct epd_merge *)(t->added + h->added);
	t->start = (const uint32_t *)(t->merge + h->merges);
	t->at = t->start + ((size_t)1 << h->bits) + 1;
	t->pool = (const uint8_t *)(t->at + h->ids + 1);
}

/* Whether n + 1 offsets ascend from 0 and end at last. */
static int
ascends(const uint32_t *v, size_t n, uint32_t last)
{
	int bad = v[0] != 0 || v[n] != last;

	for (size_t i = 0; i < n; i++)
		bad |= v[i] > v[i + 1];
	return !bad;
}

static int
check_added(const struct epd_tokenizer *t)
{
	const struct epd_flat_head *h = t->head;

	if (!ascends(h->first, 256, h->added))
		return 0;
	for (uint32_t i = 0; i < h->added; i++) {
		const struct epd_added *a = &t->added[i];

		if ((uint32_t)a->id >= h->ids || !a->n ||
		    (uint64_t)a->at + a->n > h->pool)
			return 0;
	}
	return 1;
}

static int
check(const struct epd_tokenizer *t)
{
	const struct epd_flat_head *h = t->head;
	uint32_t most = 0;

	for (int b = 0; b < 256; b++)
		if ((uint32_t)h->byte_id[b] >= h->ids)
			return 0;
	if (h->split >= EPD_SPLITS || !check_added(t) ||
	    !ascends(t->start, (size_t)1 << h->bits, h->merges) ||
	    t->at[h->ids] > h->pool ||
	    !ascends(t->at, h->ids, t->at[h->ids]))
		return 0;
	for (uint32_t i = 0; i < h->merges; i++)
		if ((uint32_t)t->merge[i].id > most)
			most = (uint32_t)t->merge[i].id;
	return most < h->ids;
}

static void *
pcre_malloc(size_t n, void *unused)
{
	(void)unused;
	return epd_malloc(n);
}

static void
pcre_free(void *p, void *unused)
{
	(void)unused;
	epd_free(p);
}

int
epd_flat_adopt(struct epd_tokenizer **out, void *base, size_t n,
    void (*drop)(void *, size_t))
{
	struct epd_tokenizer t = { 0 }, *made;
	const struct epd_flat_head *h = base;
	int rc;

	if (n < sizeof *h || h->magic != EPD_FLAT_MAGIC || h->size != n ||
	    epd_flat_size(h) != n || h->sum != epd_flat_sum(base, n))
		return EPD_ECORRUPT;
	lay_out(&t, base);
	if (!check(&t))
		return EPD_ECORRUPT;
	t.memory = pcre2_general_context_create(pcre_malloc, pcre_free, NULL);
	if (!t.memory)
		return -ENOMEM;
	rc = epd_split_compile(&t.split, h->split, t.memory);
	made = rc ? NULL : epd_malloc(sizeof *made);
	if (!made) {
		pcre2_code_free(t.split);
		pcre2_general_context_free(t.memory);
		return rc ? rc : -ENOMEM;
	}
	t.drop = drop;
	*made = t;
	*out = made;
	return 0;
}

void
epd_flat_free(void *base, size_t n)
{
	(void)n;
	epd_free(base);
}

int
epd_tokenizer_parse(struct epd_tokenizer **out, struct epd_span json,
    const struct epd_flat_key *key, struct epd_why *why)
{
	struct epd_buf flat = { 0 };
	int rc = epd_flat_compile(&flat, json, key, why);

	if (!rc)
		rc = epd_flat_adopt(out, flat.p, flat.n, epd_flat_free);
	if (rc)
		epd_buf_free(&flat);
	return rc;
}

void
epd_tokenizer_close(struct epd_tokenizer *t)
{
	if (!t)
		return;
	pcre2_code_free(t->split);
	pcre2_general_context_free(t->memory);
	/* The head lies in the block and goes with it. */
	t->drop((void *)(uintptr_t)t->head, t->head->size);
	epd_free(t);
}

long
epd_tokenizer_size(const struct epd_tokenizer *t)
{
	return (long)t->head->ids;
}

int32_t
epd_tokenizer_special(const struct epd_tokenizer *t, const char *text)
{
	size_t n = strlen(text);
	uint8_t b = (uint8_t)*text;

	for (uint32_t i = t->head->first[b]; i < t->head->first[b + 1]; i++)
		if (t->added[i].n == n &&
		    !memcmp(t->pool + t->added[i].at, text, n))
			return t->added[i].id;
	return -1;
}

int
epd_tokenizer_is_special(const struct epd_tokenizer *t, int32_t id)
{
	for (uint32_t i = 0; i < t->head->added; i++)
		if (t->added[i].id == id)
			return t->added[i].special != 0;
	return 0;
}

struct epd_span
epd_tokenizer_bytes(const struct epd_tokenizer *t, int32_t id)
{
	if (id < 0 || (uint32_t)id >= t->head->ids)
		return epd_span(NULL, 0);
	return epd_span(t->pool + t->at[id], t->at[id + 1] - t->at[id]);
}

void
epd_tokenizer_name(const struct epd_tokenizer *t, uint8_t name[32])
{
	memcpy(name, t->head->name.b, 32);
}
