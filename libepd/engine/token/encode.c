/*
 * encode.c - text to ids: added tokens cut out, the rest normalized, cut by the
 * split pattern and merged piece by piece.
 *
 * Added tokens are found in the text as it came, before normalization, the
 * leftmost and of those the longest, as Hugging Face has it.
 */
#include "engine/token/token.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/token/bpe.h"
#include "engine/token/split.h"
#include "engine/token/text.h"

/* Longest text of one call; places and limits are 32 bits wide. */
#define TEXT_MOST ((size_t)1 << 28)

struct encoder {
	const struct epd_tokenizer *t;
	pcre2_match_data *match;
	pcre2_match_context *limits;
	struct epd_bpe bpe;
	struct epd_buf hold;
	struct epd_ids *out;
};

void
epd_ids_free(struct epd_ids *ids)
{
	if (!ids)
		return;
	epd_free(ids->v);
	*ids = (struct epd_ids){ 0 };
}

void
epd_ids_put(struct epd_ids *ids, const int32_t *v, size_t n)
{
	size_t need, cap;
	int32_t *p;

	if (ids->failed)
		return;
	if (n > ids->cap - ids->n) {
		if (__builtin_add_overflow(ids->n, n, &need) ||
		    need > SIZE_MAX / 2 / sizeof *v) {
			ids->failed = 1;
			return;
		}
		cap = ids->cap < 32 ? 32 : ids->cap;
		while (cap < need)
			cap *= 2;
		p = epd_realloc(ids->v, cap * sizeof *v);
		if (!p) {
			ids->failed = 1;
			return;
		}
		ids->v = p;
		ids->cap = cap;
	}
	if (n)
		memcpy(ids->v + ids->n, v, n * sizeof *v);
	ids->n += n;
}

static void
encoder_free(struct encoder *e)
{
	pcre2_match_context_free(e->limits);
	pcre2_match_data_free(e->match);
	epd_bpe_free(&e->bpe);
	epd_buf_free(&e->hold);
}

static int
encoder_new(struct encoder *e, const struct epd_tokenizer *t,
    struct epd_span text, struct epd_ids *out)
{
	*e = (struct encoder){ .t = t, .out = out };
	e->match = pcre2_match_data_create(1, t->memory);
	e->limits = pcre2_match_context_create(t->memory);
	if (!e->match || !e->limits) {
		encoder_free(e);
		return -ENOMEM;
	}
	/* A run of white space is tried at every length, a few times over. */
	pcre2_set_match_limit(e->limits, (uint32_t)(1000 + 15 * text.n));
	pcre2_set_heap_limit(e->limits, 1 << 16);
	return 0;
}

static int
encode_run(struct encoder *e, struct epd_span text)
{
	const uint8_t *p;
	size_t from = 0;
	int rc = epd_nfc(&text, text, &e->hold);

	if (rc)
		return rc;
	p = text.p;
	while (from < text.n) {
		const PCRE2_SIZE *at = pcre2_get_ovector_pointer(e->match);

		rc = pcre2_match(e->t->split, p, text.n, from,
		    PCRE2_NO_UTF_CHECK, e->match, e->limits);
		if (rc == PCRE2_ERROR_NOMEMORY)
			return -ENOMEM;
		if (rc < 0 || at[0] != from || at[1] <= from)
			return EPD_ETOOBIG;
		rc = epd_bpe_encode(&e->bpe, e->t,
		    epd_span(p + from, at[1] - from), e->out);
		if (rc)
			return rc;
		from = at[1];
	}
	return 0;
}

/* The first added token at or after from; NULL if there is none. */
static const struct epd_added *
find_added(const struct epd_tokenizer *t, struct epd_span text, size_t *from)
{
	const uint8_t *p = text.p;

	for (size_t at = *from; at < text.n; at++) {
		uint32_t i = t->head->first[p[at]];
		uint32_t end = t->head->first[p[at] + 1];

		for (; i < end; i++) {
			const struct epd_added *a = &t->added[i];

			if (a->n <= text.n - at &&
			    !memcmp(t->pool + a->at, p + at, a->n)) {
				*from = at;
				return a;
			}
		}
	}
	*from = text.n;
	return NULL;
}

static int
encode_cut(struct encoder *e, struct epd_span text)
{
	const uint8_t *p = text.p;
	size_t from = 0;
	int rc = 0;

	while (!rc && from < text.n) {
		size_t at = from;
		const struct epd_added *a = find_added(e->t, text, &at);

		if (at > from)
			rc = encode_run(e, epd_span(p + from, at - from));
		if (!rc && a)
			epd_ids_put(e->out, &a->id, 1);
		from = at + (a ? a->n : 0);
	}
	return rc ? rc : e->out->failed ? -ENOMEM : 0;
}

static int
encode(const struct epd_tokenizer *t, struct epd_span text,
    struct epd_ids *out, int (*how)(struct encoder *, struct epd_span))
{
	size_t before = out->n;
	struct encoder e;
	int rc;

	if (!text.n)
		return 0;
	if (text.n > TEXT_MOST)
		return EPD_ETOOBIG;
	if (!epd_utf8_valid(text))
		return EPD_EFORMAT;
	rc = encoder_new(&e, t, text, out);
	if (rc)
		return rc;
	rc = how(&e, text);
	encoder_free(&e);
	if (rc)
		out->n = before;
	return rc;
}

int
epd_tokenizer_encode(const struct epd_tokenizer *t, struct epd_span text,
    struct epd_ids *out)
{
	return encode(t, text, out, encode_run);
}

int
epd_tokenizer_encode_special(const struct epd_tokenizer *t,
    struct epd_span text, struct epd_ids *out)
{
	return encode(t, text, out, encode_cut);
}
