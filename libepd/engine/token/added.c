/*
 * added.c - the added tokens, in the order in which they are looked for.
 *
 * Their ids must be those that Hugging Face would give them: of the vocabulary
 * if the text stands there, else the next free one.  They decode as vocabulary
 * does if spelled in its alphabet, else to their own text.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/token/build.h"
#include "engine/token/settings.h"

/* Bytes of a text in the pool, its first n ids being done. */
static int
put_text(struct epd_build *b, struct epd_span text, uint32_t *at)
{
	*at = (uint32_t)b->pool.n;
	epd_buf_put(&b->pool, text.p, text.n);
	if (b->pool.failed)
		return -ENOMEM;
	return b->pool.n > INT32_MAX ? EPD_ETOOBIG : 0;
}

/* A new id after the others, and what it decodes to. */
static int
put_id(struct epd_build *b, struct epd_span text)
{
	uint8_t *to = epd_buf_add(&b->pool, text.n);
	long n;

	if (!to)
		return -ENOMEM;
	n = epd_build_spell(b, text, to);
	if (n < 0)
		memcpy(to, text.p, text.n);
	else
		b->pool.n -= text.n - (size_t)n;
	if (b->pool.n > INT32_MAX)
		return EPD_ETOOBIG;
	b->at[++b->head.ids] = (uint32_t)b->pool.n;
	return 0;
}

static int
add_id(struct epd_build *b, const struct epd_json *token, size_t i,
    struct epd_why *why)
{
	struct epd_span text = epd_json_bytes(epd_json_get(token, "content"));
	int64_t id = epd_json_int(epd_json_get(token, "id"), -1);
	int32_t found = -1;
	uint8_t *bytes;
	long n;
	int rc = epd_settings_added(token, i, why);

	if (rc)
		return rc;
	if (!text.n)
		return epd_why(why, EPD_EFORMAT,
		    "tokenizer.json: added_tokens[%zu] has no content", i);
	bytes = epd_malloc(text.n);
	if (!bytes)
		return -ENOMEM;
	n = epd_build_spell(b, text, bytes);
	if (n > 0)
		found = epd_build_find(b, epd_span(bytes, (size_t)n));
	epd_free(bytes);
	if (id != (found < 0 ? (int64_t)b->head.ids : found))
		return epd_why(why, EPD_EUNSUPPORTED,
		    "tokenizer.json: added_tokens[%zu].id is %lld, not %lld", i,
		    (long long)id, found < 0 ? (long long)b->head.ids : found);
	b->added[i].id = (int32_t)id;
	b->added[i].special = epd_json_bool(epd_json_get(token, "special"), 0) != 0;
	return found < 0 ? put_id(b, text) : 0;
}

static int
add_text(struct epd_build *b, struct epd_added *a, struct epd_span text)
{
	const uint32_t *at = &b->at[a->id];

	a->n = (uint32_t)text.n;
	a->at = at[0];
	if (at[1] - at[0] == text.n &&
	    !memcmp(b->pool.p + at[0], text.p, text.n))
		return 0;
	return put_text(b, text, &a->at);
}

/* By first byte, then longest first, then text. */
static int
compare(const void *va, const void *vb, void *pool)
{
	const struct epd_added *a = va, *b = vb;
	const uint8_t *p = (const uint8_t *)pool + a->at;
	const uint8_t *q = (const uint8_t *)pool + b->at;

	if (*p != *q)
		return *p < *q ? -1 : 1;
	if (a->n != b->n)
		return a->n > b->n ? -1 : 1;
	return memcmp(p, q, a->n);
}

static int
put_in_order(struct epd_build *b, struct epd_why *why)
{
	uint32_t n = b->head.added, i = 0;

	if (n)
		qsort_r(b->added, n, sizeof *b->added, compare, b->pool.p);
	for (uint32_t k = 1; k < n; k++)
		if (!compare(&b->added[k - 1], &b->added[k], b->pool.p))
			return epd_why(why, EPD_EFORMAT, "tokenizer.json: "
			    "added_tokens has %.*s twice",
			    (int)(b->added[k].n < 80 ? b->added[k].n : 80),
			    (const char *)b->pool.p + b->added[k].at);
	for (int c = 0; c < 256; c++) {
		b->head.first[c] = i;
		while (i < n && b->pool.p[b->added[i].at] == c)
			i++;
	}
	b->head.first[256] = n;
	return 0;
}

int
epd_build_added(struct epd_build *b, const struct epd_json *list,
    struct epd_why *why)
{
	size_t n = epd_json_count(list);
	int rc = 0;

	b->added = epd_calloc(n ? n : 1, sizeof *b->added);
	if (!b->added)
		return -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_id(b, epd_json_at(list, i), i, why);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_text(b, &b->added[i], epd_json_bytes(
		    epd_json_get(epd_json_at(list, i), "content")));
	b->head.added = (uint32_t)n;
	return rc ? rc : put_in_order(b, why);
}
