/*
 * record.c - records: a head of kind u16, flags u16, length u32, and a payload.
 *
 *	create	id u32, traits, body
 *	advance	id u32, expect u32, key u64, body
 *	fork	id u32, version u32, first u32, count u32, replace u32,
 *		ttl_deadline u64, count salts u64, reason
 *	release	id u32, reason
 *	term	term u64, reason, and the owner if there is one
 *
 * traits: parent_state u32, parent_version u32, ttl_deadline u64,
 * page_tokens u32, kv_type u32, page_bytes u64, model_fp 32, base 32,
 * model_path, tenant, fingerprint.  The body is the rest of its payload.
 * A string is its length u32, its NUL counted, and its bytes with the NUL, so
 * that it can be lent as it lies.  Flags are zero.
 */
#include "shard/record.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "shard/word.h"

enum { ADVANCE_HEAD = 16 };

const char *
epd_kind_name(unsigned kind)
{
	switch (kind) {
#define X(id, n, name) case n: return name;
	EPD_KINDS(X)
#undef X
	}
	return NULL;
}

size_t
epd_record_begin(struct epd_buf *b, enum epd_kind kind)
{
	size_t at = b->n;

	epd_pack_u16(b, (uint16_t)kind);
	epd_pack_u16(b, 0);
	epd_pack_u32(b, 0);
	return at;
}

void
epd_record_end(struct epd_buf *b, size_t at)
{
	size_t n;
	uint32_t len;

	if (b->failed)
		return;
	n = b->n - at - EPD_RECORD_HEAD;
	if (n > UINT32_MAX) {
		b->failed = 1;
		return;
	}
	len = htole32((uint32_t)n);
	memcpy(b->p + at + 4, &len, sizeof len);
}

int
epd_record_next(struct epd_cur *c, struct epd_rec *r)
{
	size_t left = epd_cur_left(c), n;

	if (!left)
		return 0;
	n = left < EPD_RECORD_HEAD ? 0 : epd_word32(c->p + 4);
	if (left < EPD_RECORD_HEAD || n > left - EPD_RECORD_HEAD) {
		c->failed = 1;
		return EPD_ECORRUPT;
	}
	r->kind = epd_word16(c->p);
	r->flags = epd_word16(c->p + 2);
	r->payload = epd_span(c->p + EPD_RECORD_HEAD, n);
	c->p += EPD_RECORD_HEAD + n;
	return 1;
}

void
epd_record_str(struct epd_buf *b, const char *s)
{
	if (!s)
		s = "";
	epd_pack_span(b, epd_span(s, strlen(s) + 1));
}

/* A string lent from the payload; "" and a failed cursor if it is none. */
const char *
epd_record_take_str(struct epd_cur *c)
{
	struct epd_span s = epd_unpack_span(c);

	if (!c->failed && s.n && s.n <= EPD_STRING_MAX &&
	    memchr(s.p, '\0', s.n) == (const char *)s.p + s.n - 1)
		return s.p;
	c->failed = 1;
	return "";
}

static struct epd_span
rest(struct epd_cur *c)
{
	return epd_unpack_bytes(c, epd_cur_left(c));
}

int
epd_record_whole(const struct epd_cur *c)
{
	return c->failed || epd_cur_left(c) ? EPD_ECORRUPT : 0;
}

void
epd_traits_pack(struct epd_buf *b, const struct epd_state *s)
{
	epd_pack_u32(b, s->parent_state);
	epd_pack_u32(b, s->parent_version);
	epd_pack_u64(b, s->ttl_deadline_ms);
	epd_pack_u32(b, s->page_tokens);
	epd_pack_u32(b, s->kv_type);
	epd_pack_u64(b, s->page_bytes);
	epd_buf_put(b, s->model_fp.b, EPD_NAME);
	epd_buf_put(b, s->base.b, EPD_NAME);
	epd_record_str(b, s->model_path);
	epd_record_str(b, s->tenant);
	epd_record_str(b, s->fingerprint);
}

static void
unpack_name(struct epd_cur *c, struct epd_name *n)
{
	struct epd_span s = epd_unpack_bytes(c, EPD_NAME);

	if (s.n == EPD_NAME)
		memcpy(n->b, s.p, EPD_NAME);
}

void
epd_traits_unpack(struct epd_cur *c, struct epd_state *s)
{
	s->parent_state = epd_unpack_u32(c);
	s->parent_version = epd_unpack_u32(c);
	s->ttl_deadline_ms = epd_unpack_u64(c);
	s->page_tokens = epd_unpack_u32(c);
	s->kv_type = epd_unpack_u32(c);
	s->page_bytes = epd_unpack_u64(c);
	unpack_name(c, &s->model_fp);
	unpack_name(c, &s->base);
	s->model_path = epd_record_take_str(c);
	s->tenant = epd_record_take_str(c);
	s->fingerprint = epd_record_take_str(c);
}

void
epd_create_pack(struct epd_buf *b, uint32_t id, const struct epd_state *s,
    const struct epd_version *v)
{
	size_t at = epd_record_begin(b, EPD_KIND_CREATE);

	epd_create_put(b, id, s, v);
	epd_record_end(b, at);
}

void
epd_create_put(struct epd_buf *b, uint32_t id, const struct epd_state *s,
    const struct epd_version *v)
{
	epd_pack_u32(b, id);
	epd_traits_pack(b, s);
	epd_body_pack(b, v);
}

void
epd_create_take(struct epd_cur *c, struct epd_create *out)
{
	*out = (struct epd_create){ .id = epd_unpack_u32(c) };
	epd_traits_unpack(c, &out->state);
	out->body = rest(c);
}

int
epd_create_unpack(struct epd_span p, struct epd_create *out)
{
	struct epd_cur c = epd_cur(p);

	epd_create_take(&c, out);
	return epd_record_whole(&c);
}

void
epd_advance_pack(struct epd_buf *b, uint32_t id, uint32_t expect,
    uint64_t key, const struct epd_version *v)
{
	size_t at = epd_record_begin(b, EPD_KIND_ADVANCE);

	epd_pack_u32(b, id);
	epd_pack_u32(b, expect);
	epd_pack_u64(b, key);
	epd_body_pack(b, v);
	epd_record_end(b, at);
}

int
epd_advance_unpack(struct epd_span p, struct epd_advance *out)
{
	const uint8_t *b = p.p;

	if (p.n < ADVANCE_HEAD)
		return EPD_ECORRUPT;
	out->id = epd_word32(b);
	out->expect = epd_word32(b + 4);
	out->key = epd_word64(b + 8);
	out->body = epd_span(b + ADVANCE_HEAD, p.n - ADVANCE_HEAD);
	return 0;
}

void
epd_fork_pack(struct epd_buf *b, const struct epd_fork *f)
{
	size_t at = epd_record_begin(b, EPD_KIND_FORK);

	epd_pack_u32(b, f->id);
	epd_pack_u32(b, f->version);
	epd_pack_u32(b, f->first);
	epd_pack_u32(b, f->count);
	epd_pack_u32(b, f->replace);
	epd_pack_u64(b, f->ttl_deadline_ms);
	for (uint32_t i = 0; i < f->count; i++)
		epd_pack_u64(b, f->salts[i]);
	epd_record_str(b, f->reason);
	epd_record_end(b, at);
}

int
epd_fork_unpack(struct epd_span p, struct epd_arena *a, struct epd_fork *out)
{
	struct epd_cur c = epd_cur(p);
	uint64_t *salts = NULL;

	out->id = epd_unpack_u32(&c);
	out->version = epd_unpack_u32(&c);
	out->first = epd_unpack_u32(&c);
	out->count = epd_unpack_u32(&c);
	out->replace = epd_unpack_u32(&c);
	out->ttl_deadline_ms = epd_unpack_u64(&c);
	if (c.failed || out->count > epd_cur_left(&c) / 8 || out->replace > 1)
		return EPD_ECORRUPT;
	if (out->count) {
		salts = epd_arena_add(a, out->count * sizeof *salts);
		if (!salts)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < out->count; i++)
		salts[i] = epd_unpack_u64(&c);
	out->salts = salts;
	out->reason = epd_record_take_str(&c);
	return epd_record_whole(&c);
}

void
epd_release_pack(struct epd_buf *b, const struct epd_release *r)
{
	size_t at = epd_record_begin(b, EPD_KIND_RELEASE);

	epd_pack_u32(b, r->id);
	epd_record_str(b, r->reason);
	epd_record_end(b, at);
}

int
epd_release_unpack(struct epd_span p, struct epd_release *out)
{
	struct epd_cur c = epd_cur(p);

	out->id = epd_unpack_u32(&c);
	out->reason = epd_record_take_str(&c);
	return epd_record_whole(&c);
}

void
epd_term_pack(struct epd_buf *b, const struct epd_term *t)
{
	size_t at = epd_record_begin(b, EPD_KIND_TERM);

	epd_pack_u64(b, t->term);
	epd_record_str(b, t->reason);
	if (t->owner && *t->owner)
		epd_record_str(b, t->owner);
	epd_record_end(b, at);
}

int
epd_term_unpack(struct epd_span p, struct epd_term *out)
{
	struct epd_cur c = epd_cur(p);

	out->term = epd_unpack_u64(&c);
	out->reason = epd_record_take_str(&c);
	out->owner = epd_cur_left(&c) ? epd_record_take_str(&c) : "";
	return epd_record_whole(&c);
}
