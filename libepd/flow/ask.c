/* ask.c - questions and answers of stores, field by field. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/said.h"
#include "flow/ask.h"

enum { REF = EPD_NAME + 4 + 8, PAGE = REF + 8 + 8 + 1 };

static int
ended(const struct epd_cur *c)
{
	return c->failed ? EPD_EFORMAT : 0;
}

int
epd_ask_no_answer(struct epd_why *why)
{
	return epd_why(why, EPD_EPEER, "it does not answer as a store does");
}

void
epd_ask_str(struct epd_buf *b, const char *s)
{
	epd_pack_span(b, epd_span_str(s));
}

int
epd_ask_take_str(struct epd_cur *c, char *out, size_t max)
{
	const struct epd_span s = epd_unpack_span(c);

	if (c->failed || s.n >= max || (s.n && memchr(s.p, 0, s.n))) {
		c->failed = 1;
		return EPD_EFORMAT;
	}
	if (s.n)
		memcpy(out, s.p, s.n);
	out[s.n] = 0;
	return 0;
}

static void
take_bytes(struct epd_cur *c, void *out, size_t n)
{
	const struct epd_span s = epd_unpack_bytes(c, n);

	if (s.n == n)
		memcpy(out, s.p, n);
	else
		memset(out, 0, n);
}

/* ---- the node ---- */

void
epd_ask_node_pack(struct epd_buf *b, const char *tenant,
    const uint8_t party[16])
{
	epd_pack_u32(b, EPD_ASK_VERSION);
	epd_ask_str(b, tenant);
	epd_buf_put(b, party, 16);
}

int
epd_ask_node_unpack(struct epd_cur *c, char tenant[64], uint8_t party[16])
{
	if (epd_unpack_u32(c) != EPD_ASK_VERSION && !c->failed)
		return EPD_EKIND;
	(void)epd_ask_take_str(c, tenant, 64);
	take_bytes(c, party, 16);
	return ended(c);
}

void
epd_node_facts_pack(struct epd_buf *b, const struct epd_node_facts *f)
{
	epd_buf_put(b, f->uuid, sizeof f->uuid);
	epd_pack_u64(b, f->credits.generation);
	epd_pack_u64(b, f->credits.bytes);
	epd_pack_u32(b, f->credits.slots);
	epd_pack_u32(b, f->credits.staging);
	epd_pack_u64(b, f->most);
}

int
epd_node_facts_unpack(struct epd_cur *c, struct epd_node_facts *f)
{
	take_bytes(c, f->uuid, sizeof f->uuid);
	f->credits.generation = epd_unpack_u64(c);
	f->credits.bytes = epd_unpack_u64(c);
	f->credits.slots = epd_unpack_u32(c);
	f->credits.staging = epd_unpack_u32(c);
	f->most = epd_unpack_u64(c);
	return ended(c);
}

/* ---- pages ---- */

void
epd_ask_pages_pack(struct epd_buf *b, const struct epd_page_ask *p, uint32_t n)
{
	epd_pack_u32(b, n);
	for (uint32_t i = 0; i < n; i++) {
		epd_buf_put(b, p[i].entry.name.b, EPD_NAME);
		epd_pack_u32(b, p[i].entry.rows);
		epd_pack_u64(b, p[i].entry.sum);
		epd_pack_u64(b, p[i].bytes);
		epd_pack_u64(b, p[i].packed_sum);
		epd_pack_u8(b, p[i].there);
	}
}

int
epd_ask_pages_unpack(struct epd_cur *c, struct epd_page_ask **out, uint32_t *n)
{
	const uint32_t count = epd_unpack_u32(c);
	struct epd_page_ask *p;

	/* No more are made room for than there are bytes of. */
	if (c->failed || count > EPD_ASK_PAGES || epd_cur_left(c) / PAGE < count) {
		c->failed = 1;
		return EPD_EFORMAT;
	}
	if (!(p = epd_calloc(count + 1u, sizeof *p)))
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		take_bytes(c, p[i].entry.name.b, EPD_NAME);
		p[i].entry.rows = epd_unpack_u32(c);
		p[i].entry.sum = epd_unpack_u64(c);
		p[i].bytes = epd_unpack_u64(c);
		p[i].packed_sum = epd_unpack_u64(c);
		p[i].there = epd_unpack_u8(c);
		/* It is counted by who makes room. */
		c->failed |= p[i].there > 1;
	}
	if (c->failed) {
		epd_free(p);
		return EPD_EFORMAT;
	}
	*out = p;
	*n = count;
	return 0;
}

void
epd_ask_refs_pack(struct epd_buf *b, const struct epd_page_ref *p, uint32_t n)
{
	epd_pack_u32(b, n);
	for (uint32_t i = 0; i < n; i++) {
		epd_buf_put(b, p[i].name.b, EPD_NAME);
		epd_pack_u32(b, p[i].rows);
		epd_pack_u64(b, p[i].sum);
	}
}

int
epd_ask_refs_unpack(struct epd_cur *c, struct epd_page_ref **out, uint32_t *n)
{
	const uint32_t count = epd_unpack_u32(c);
	struct epd_page_ref *p;

	if (c->failed || count > EPD_ASK_PAGES || epd_cur_left(c) / REF < count) {
		c->failed = 1;
		return EPD_EFORMAT;
	}
	if (!(p = epd_calloc(count + 1u, sizeof *p)))
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		take_bytes(c, p[i].name.b, EPD_NAME);
		p[i].rows = epd_unpack_u32(c);
		p[i].sum = epd_unpack_u64(c);
	}
	*out = p;
	*n = count;
	return 0;
}

void
epd_pages_ask_pack(struct epd_buf *b, const struct epd_pages_ask *a)
{
	epd_ask_str(b, a->workflow);
	epd_buf_put(b, a->uuid, sizeof a->uuid);
	epd_pack_u32(b, a->state);
	epd_pack_u32(b, a->version);
	epd_pack_u32(b, a->shape.kind);
	epd_pack_u32(b, a->shape.type);
	epd_pack_u32(b, a->shape.tokens);
	epd_pack_u64(b, a->shape.bytes);
	epd_ask_str(b, a->codec);
	epd_pack_u64(b, a->window);
	epd_ask_pages_pack(b, a->page, a->n);
}

int
epd_pages_ask_unpack(struct epd_cur *c, struct epd_pages_ask *a)
{
	*a = (struct epd_pages_ask){ .n = 0 };
	(void)epd_ask_take_str(c, a->workflow, sizeof a->workflow);
	take_bytes(c, a->uuid, sizeof a->uuid);
	a->state = epd_unpack_u32(c);
	a->version = epd_unpack_u32(c);
	a->shape.kind = epd_unpack_u32(c);
	a->shape.type = epd_unpack_u32(c);
	a->shape.tokens = epd_unpack_u32(c);
	a->shape.bytes = epd_unpack_u64(c);
	(void)epd_ask_take_str(c, a->codec, sizeof a->codec);
	a->window = epd_unpack_u64(c);
	return c->failed ? EPD_EFORMAT :
	    epd_ask_pages_unpack(c, &a->page, &a->n);
}

void
epd_pages_ask_free(struct epd_pages_ask *a)
{
	epd_free(a->page);
	a->page = NULL;
	a->n = 0;
}

/* ---- halves ---- */

void
epd_half_ask_pack(struct epd_buf *b, const struct epd_half_ask *a)
{
	const struct epd_handoff *h = &a->h;

	epd_ask_str(b, a->workflow);
	epd_buf_put(b, a->uuid, sizeof a->uuid);
	epd_buf_put(b, a->id, sizeof a->id);
	epd_pack_u64(b, a->lsn);
	epd_pack_u32(b, a->state);
	epd_pack_u32(b, a->version);
	epd_ask_str(b, a->reason);
	epd_pack_u32(b, (uint32_t)h->target);
	epd_pack_u32(b, (uint32_t)h->phase);
	epd_pack_u32(b, h->state);
	epd_pack_u32(b, h->version);
	epd_pack_u64(b, h->lsn);
	epd_buf_put(b, h->peer, sizeof h->peer);
	epd_buf_put(b, h->home, sizeof h->home);
	epd_pack_u32(b, h->peer_state);
	epd_pack_u32(b, h->peer_version);
	epd_pack_u64(b, h->peer_lsn);
	epd_ask_str(b, a->store);
	epd_ask_str(b, a->peer);
	epd_buf_put(b, h->boot, sizeof h->boot);
	epd_pack_u64(b, h->deadline_ms);
	epd_pack_u8(b, a->expired);
	epd_pack_u8(b, a->had);
	epd_pack_u32(b, a->status);
	epd_pack_u64(b, a->timeout_ms);
}

/* It is kept in the log, and shown wherever that is. */
static void
take_reason(struct epd_cur *c, char out[256])
{
	if (epd_ask_take_str(c, out, 256) == 0)
		epd_said(out, 256, epd_span_str(out));
}

int
epd_half_ask_unpack(struct epd_cur *c, struct epd_half_ask *a)
{
	struct epd_handoff *h = &a->h;

	*a = (struct epd_half_ask){ .lsn = 0 };
	(void)epd_ask_take_str(c, a->workflow, sizeof a->workflow);
	take_bytes(c, a->uuid, sizeof a->uuid);
	take_bytes(c, a->id, sizeof a->id);
	a->lsn = epd_unpack_u64(c);
	a->state = epd_unpack_u32(c);
	a->version = epd_unpack_u32(c);
	take_reason(c, a->reason);
	h->target = epd_unpack_u32(c) != 0;
	h->phase = (enum epd_phase)epd_unpack_u32(c);
	h->state = epd_unpack_u32(c);
	h->version = epd_unpack_u32(c);
	h->lsn = epd_unpack_u64(c);
	take_bytes(c, h->peer, sizeof h->peer);
	take_bytes(c, h->home, sizeof h->home);
	h->peer_state = epd_unpack_u32(c);
	h->peer_version = epd_unpack_u32(c);
	h->peer_lsn = epd_unpack_u64(c);
	(void)epd_ask_take_str(c, a->store, sizeof a->store);
	(void)epd_ask_take_str(c, a->peer, sizeof a->peer);
	take_bytes(c, h->boot, sizeof h->boot);
	h->deadline_ms = epd_unpack_u64(c);
	a->expired = epd_unpack_u8(c);
	a->had = epd_unpack_u8(c);
	a->status = epd_unpack_u32(c);
	a->timeout_ms = epd_unpack_u64(c);
	memcpy(h->id, a->id, sizeof h->id);
	h->store = a->store;
	h->workflow = a->peer;
	if (h->phase && !epd_phase_name((unsigned)h->phase))
		c->failed = 1;
	return ended(c);
}

void
epd_standing_ask_pack(struct epd_buf *b, const uint8_t home[16],
    const char *workflow)
{
	epd_buf_put(b, home, 16);
	epd_ask_str(b, workflow);
}

int
epd_standing_ask_unpack(struct epd_cur *c, uint8_t home[16],
    char workflow[EPD_WORKFLOW])
{
	take_bytes(c, home, 16);
	(void)epd_ask_take_str(c, workflow, EPD_WORKFLOW);
	return epd_cur_left(c) ? EPD_EFORMAT : ended(c);
}
