/*
 * compile.c - tokenizer.json to a flat form: settings checked, tables built, all
 * laid end to end.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/token/build.h"
#include "engine/token/settings.h"

/* Longest token that takes part in a merge. */
enum { LONGEST = 4096 };

/* The two halves of a merge, "a b" or ["a", "b"]. */
static int
halves(const struct epd_json *m, struct epd_span half[2])
{
	const char *p, *gap;

	if (epd_json_type(m) == EPD_JSON_ARRAY) {
		half[0] = epd_json_bytes(epd_json_at(m, 0));
		half[1] = epd_json_bytes(epd_json_at(m, 1));
		return epd_json_count(m) == 2 && half[0].n && half[1].n;
	}
	half[0] = epd_json_bytes(m);
	p = half[0].p;
	gap = p ? memchr(p, ' ', half[0].n) : NULL;
	if (!gap)
		return 0;
	half[1] = epd_span(gap + 1, half[0].n - (size_t)(gap - p) - 1);
	half[0].n = (size_t)(gap - p);
	return half[0].n && half[1].n;
}

static int
add_merge(struct epd_build *b, const struct epd_json *m, uint32_t rank)
{
	struct epd_merge *to = &b->merge[rank];
	uint8_t bytes[2 * LONGEST];
	struct epd_span half[2];
	long left, right;

	if (!halves(m, half) || half[0].n > LONGEST || half[1].n > LONGEST)
		return 0;
	left = epd_build_spell(b, half[0], bytes);
	right = left < 0 ? -1 : epd_build_spell(b, half[1], bytes + left);
	if (right < 0)
		return 0;
	to->rank = rank;
	to->left = epd_build_find(b, epd_span(bytes, (size_t)left));
	to->right = epd_build_find(b, epd_span(bytes + left, (size_t)right));
	to->id = epd_build_find(b, epd_span(bytes, (size_t)(left + right)));
	return to->left >= 0 && to->right >= 0 && to->id >= 0;
}

/* start[k] gets the end of bucket k, from which sort_merges() counts down. */
static int
count_buckets(struct epd_build *b, struct epd_why *why)
{
	uint32_t *start = b->start, sum = 0;

	for (uint32_t i = 0; i < b->head.merges; i++)
		start[epd_flat_bucket(b->merge[i].left, b->merge[i].right,
		    b->head.bits)]++;
	for (uint32_t k = 0; k < (uint32_t)1 << b->head.bits; k++) {
		if (start[k] > EPD_FLAT_BUCKET)
			return epd_why(why, EPD_EUNSUPPORTED,
			    "tokenizer.json: merges crowd their hash table, "
			    "or one stands there many times");
		start[k] = sum += start[k];
	}
	start[(size_t)1 << b->head.bits] = sum;
	return 0;
}

/* Into their buckets, the lowest rank first; start[k] becomes k's beginning. */
static int
sort_merges(struct epd_build *b)
{
	struct epd_merge *to = epd_calloc(b->head.merges + 1u, sizeof *to);

	if (!to)
		return -ENOMEM;
	for (uint32_t i = b->head.merges; i-- > 0;) {
		const struct epd_merge *m = &b->merge[i];

		to[--b->start[epd_flat_bucket(m->left, m->right,
		    b->head.bits)]] = *m;
	}
	epd_free(b->merge);
	b->merge = to;
	return 0;
}

/* Hugging Face lets the later of two equal merges win; honest files have none. */
static int
check_twins(const struct epd_build *b, struct epd_why *why)
{
	const struct epd_merge *m = b->merge;

	for (uint32_t k = 0; k < (uint32_t)1 << b->head.bits; k++)
		for (uint32_t i = b->start[k]; i < b->start[k + 1]; i++)
			for (uint32_t j = i + 1; j < b->start[k + 1]; j++)
				if (m[i].left == m[j].left &&
				    m[i].right == m[j].right)
					return epd_why(why, EPD_EFORMAT,
					    "tokenizer.json: merges[%u] comes "
					    "again as merges[%u]", m[i].rank,
					    m[j].rank);
	return 0;
}

int
epd_build_merges(struct epd_build *b, const struct epd_json *list,
    struct epd_why *why)
{
	size_t n = epd_json_count(list);
	int rc;

	if (epd_json_type(list) != EPD_JSON_ARRAY)
		return epd_why(why, EPD_EFORMAT,
		    "tokenizer.json: merges is not an array");
	if (n > EPD_FLAT_IDS)
		return epd_why(why, EPD_ETOOBIG,
		    "tokenizer.json: there are %zu merges", n);
	b->head.merges = (uint32_t)n;
	b->head.bits = 1;
	while ((size_t)2 << b->head.bits <= n)
		b->head.bits++;
	b->merge = epd_calloc(n + 1, sizeof *b->merge);
	b->start = epd_calloc(((size_t)1 << b->head.bits) + 1, sizeof *b->start);
	if (!b->merge || !b->start)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!add_merge(b, epd_json_at(list, i), (uint32_t)i))
			return epd_why(why, EPD_EFORMAT, "tokenizer.json: "
			    "merges[%zu] is not two tokens that make a third",
			    i);
	rc = count_buckets(b, why);
	if (!rc)
		rc = sort_merges(b);
	return rc ? rc : check_twins(b, why);
}

/* Lay the parts end to end; the head's counts are right. */
static int
assemble(struct epd_build *b, struct epd_buf *out)
{
	struct epd_flat_head *h = &b->head;

	h->magic = EPD_FLAT_MAGIC;
	h->pool = (uint32_t)b->pool.n;
	h->size = epd_flat_size(h);
	if (!h->size)
		return EPD_ETOOBIG;
	epd_buf_put(out, h, sizeof *h);
	epd_buf_put(out, b->added, h->added * sizeof *b->added);
	epd_buf_put(out, b->merge, h->merges * sizeof *b->merge);
	epd_buf_put(out, b->start,
	    (((size_t)1 << h->bits) + 1) * sizeof *b->start);
	epd_buf_put(out, b->at, ((size_t)h->ids + 1) * sizeof *b->at);
	epd_buf_put(out, b->pool.p, b->pool.n);
	if (out->failed)
		return -ENOMEM;
	((struct epd_flat_head *)(void *)out->p)->sum =
	    epd_flat_sum(out->p, out->n);
	return 0;
}

static int
build(struct epd_build *b, const struct epd_json *root, struct epd_why *why)
{
	const struct epd_json *model = epd_json_get(root, "model");
	const struct epd_json *added = epd_json_get(root, "added_tokens");
	int rc;

	if (epd_json_type(added) != EPD_JSON_ARRAY)
		return epd_why(why, EPD_EFORMAT,
		    "tokenizer.json: added_tokens is not an array");
	if (epd_json_count(added) > EPD_FLAT_ADDED)
		return epd_why(why, EPD_ETOOBIG,
		    "tokenizer.json: there are %zu added tokens",
		    epd_json_count(added));
	rc = epd_settings_check(root, &b->head.split, why);
	if (!rc)
		rc = epd_build_vocab(b, epd_json_get(model, "vocab"),
		    epd_json_count(added), why);
	/* Before the added tokens: they are no part of any merge. */
	if (!rc)
		rc = epd_build_merges(b, epd_json_get(model, "merges"), why);
	return rc ? rc : epd_build_added(b, added, why);
}

int
epd_flat_compile(struct epd_buf *out, struct epd_span json,
    const struct epd_flat_key *key, struct epd_why *why)
{
	struct epd_build b = { 0 };
	struct epd_namer namer;
	struct epd_json *root;
	int rc = epd_json_parse(&root, json, "tokenizer.json", why);

	if (rc)
		return rc;
	if (key)
		b.head.key = *key;
	epd_namer_begin(&namer, "tokenizer.json");
	epd_namer_add(&namer, json.p, json.n);
	epd_namer_end(&namer, &b.head.name);
	rc = build(&b, root, why);
	epd_json_free(root);
	if (!rc)
		rc = assemble(&b, out);
	epd_free(b.at);
	epd_free(b.slot);
	epd_free(b.added);
	epd_free(b.merge);
	epd_free(b.start);
	epd_buf_free(&b.pool);
	return rc;
}
