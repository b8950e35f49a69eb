/*
 * feature_tier.c - a feature as two objects of a shared tier.
 *
 *	rows	name fp, sum XXH3-64 of the rows
 *	meta	name fp; META bytes: the rows' sum u64, the length of a line u32,
 *		the line (feature.h), zeros
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/feature_tier.h"
#include "flow/tiers.h"

enum { META = 8192, HEAD = 12 };

static int
is_on(const struct epd_store *s)
{
	const struct epd_config *c = &s->config;

	return c->epd_enabled && c->feature_cache &&
	    !strcmp(c->feature_store, "mooncake_store");
}

/* No log has the sum of rows: they are who put them's word. */
static int
believes(const struct epd_config *c)
{
	return *c->tier_key_file || c->trust_peers;
}

/* What is gone soon is not worth the others' room. */
static int
lasts(const struct epd_config *c)
{
	return !c->feature_ttl_ms ||
	    c->feature_ttl_ms >= c->feature_store_min_ttl_ms;
}

/* One object of a feature, as a lot of one page. */
struct thing {
	struct epd_lot lot;
	struct epd_page_entry entry;
};

static void
thing_of(struct thing *t, const struct epd_feature *f, uint32_t kind,
    uint64_t bytes, uint64_t sum)
{
	*t = (struct thing){
		.entry = { .name = f->fp, .rows = f->tokens, .sum = sum },
		.lot = { .workflow = "", .n = 1, .shape = { kind,
		    !strcmp(f->dtype, "bf16"), f->tokens, bytes } },
	};
	t->lot.entry = &t->entry;
}

static long
get(struct epd_store *s, struct epd_lower *l, const struct thing *t, void *out)
{
	struct epd_why why = { "" };
	uint8_t had = 0;
	long n = epd_lower_ops(l)->get(l, &t->lot, &out, &had,
	    epd_store_tier_end(s, EPD_TIER_MOONCAKE, 1), &why);

	if (n < 0)
		epd_log(&s->log, "op=feature tier=mooncake_store error=%s "
		    "why=\"%s\"", epd_errlabel((int)n), why.text);
	return n;
}

/* The line in a meta object; empty if it is none. */
static struct epd_span
line_in(const uint8_t meta[META], uint64_t *sum)
{
	struct epd_cur c = epd_cur(epd_span(meta, META));
	uint32_t n;

	*sum = epd_unpack_u64(&c);
	n = epd_unpack_u32(&c);
	return epd_span(meta + HEAD, n <= META - HEAD ? n : 0);
}

/* What is wrong goes, as far as the store lets it, and is told. */
static void
wrong(struct epd_store *s, struct epd_lower *l, const struct thing *meta,
    enum epd_metric which, const struct epd_why *why)
{
	epd_count(s->metrics, which, 1);
	epd_log(&s->log, "op=feature tier=mooncake_store status=corrupt "
	    "why=\"%s\"", why->text);
	(void)epd_lower_ops(l)->drop(l, &meta->lot, epd_store_tier_end(s,
	    EPD_TIER_MOONCAKE, 1), NULL);
}

/* 1, 0, -ENOMEM. */
static int
fetch(struct epd_store *s, struct epd_lower *l, const struct epd_feature *f,
    uint8_t text[META], void *buf)
{
	const size_t bytes = epd_feature_bytes(f);
	struct epd_why why = { "" };
	struct thing meta, rows;
	struct epd_span line;
	uint64_t sum;
	long n;
	int rc;

	thing_of(&meta, f, EPD_OBJECT_FEATURE_META, META, 0);
	n = get(s, l, &meta, text);
	if (n != 1)
		return n == -ENOMEM ? -ENOMEM : 0;
	line = line_in(text, &sum);
	rc = epd_feature_line_check(line, f, NULL, &why);
	if (rc == EPD_ECORRUPT)
		wrong(s, l, &meta, EPD_M_CORRUPT_META, &why);
	if (rc)
		return rc == -ENOMEM ? rc : 0;
	thing_of(&rows, f, EPD_OBJECT_FEATURE_ROWS, bytes, sum);
	n = get(s, l, &rows, buf);
	if (n != 1)
		return n == -ENOMEM ? -ENOMEM : 0;
	rc = epd_feature_line_check(line, f, buf, &why);
	if (rc == EPD_ECORRUPT)
		wrong(s, l, &meta, EPD_M_CORRUPT_BLOB, &why);
	return rc == 0 ? 1 : rc == -ENOMEM ? rc : 0;
}

int
epd_feature_tier_get(struct epd_store *s, const struct epd_feature *f,
    void *buf, struct epd_why *why)
{
	struct epd_lower *l;
	uint8_t *text;
	int rc;

	if (!is_on(s))
		return 0;
	if (!believes(&s->config))
		return epd_why(why, EPD_EUSAGE, "feature.store: rows there prove "
		    "nothing by themselves: it wants tier.key_file, or "
		    "transfer.trust_peers");
	rc = epd_store_tier(s, EPD_TIER_MOONCAKE, &l, why);
	if (rc < 0)
		return rc;
	text = epd_malloc(META);
	rc = text ? fetch(s, l, f, text, buf) : -ENOMEM;
	epd_free(text);
	if (rc >= 0)
		epd_count(s->metrics, rc ? EPD_M_MM_TIER_HIT :
		    EPD_M_MM_TIER_MISS, 1);
	return rc < 0 ? epd_why(why, rc, "%s", epd_strerror(rc)) : rc;
}

static int
put(struct epd_store *s, struct epd_lower *l, const struct thing *t,
    const void *page, struct epd_why *why)
{
	return epd_lower_ops(l)->put(l, &t->lot, &page, epd_store_tier_end(s,
	    EPD_TIER_MOONCAKE, 1), why);
}

/* Rows, then meta. */
static int
store(struct epd_store *s, struct epd_lower *l, const struct epd_feature *f,
    const void *rows, struct epd_buf *b, struct epd_why *why)
{
	const uint64_t bytes = epd_feature_bytes(f);
	const uint64_t sum = epd_xxh3_64(rows, bytes);
	struct epd_buf line = { 0 };
	struct thing t;
	int rc = epd_feature_line(&line, f, rows);

	epd_pack_u64(b, sum);
	epd_pack_u32(b, (uint32_t)line.n);
	epd_buf_put(b, line.p, line.n);
	epd_buf_free(&line);
	if (rc == 0 && b->n > META)
		rc = epd_why(why, EPD_ETOOBIG, "its meta is too long");
	while (rc == 0 && !b->failed && b->n < META)
		epd_pack_u8(b, 0);
	if (rc == 0 && b->failed)
		rc = -ENOMEM;
	thing_of(&t, f, EPD_OBJECT_FEATURE_ROWS, bytes, sum);
	if (rc == 0)
		rc = put(s, l, &t, rows, why);
	thing_of(&t, f, EPD_OBJECT_FEATURE_META, META, 0);
	return rc ? rc : put(s, l, &t, b->p, why);
}

void
epd_feature_tier_put(struct epd_store *s, const struct epd_feature *f,
    const void *rows)
{
	struct epd_why why = { "" };
	struct epd_buf b = { 0 };
	struct epd_lower *l;
	int rc;

	if (!is_on(s) || !believes(&s->config) || !lasts(&s->config))
		return;
	rc = epd_store_tier(s, EPD_TIER_MOONCAKE, &l, &why);
	if (rc == 0)
		rc = store(s, l, f, rows, &b, &why);
	epd_buf_free(&b);
	if (rc == 0) {
		epd_count(s->metrics, EPD_M_MM_TIER_PUT, 1);
		return;
	}
	epd_count(s->metrics, EPD_M_MM_TIER_PUT_FAILED, 1);
	epd_log(&s->log, "op=feature tier=mooncake_store error=%s why=\"%s\"",
	    epd_errlabel(rc), why.text);
}
