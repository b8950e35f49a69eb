/* hold.c - leases, hand-offs and moves as bytes; FORMATS draws them. */
#include "shard/hold.h"

#include <errno.h>
#include <string.h>

static const uint8_t none[16];

const char *
epd_lease_name(unsigned kind)
{
	switch (kind) {
#define X(id, n, name) case n: return name;
	EPD_LEASES(X)
#undef X
	}
	return NULL;
}

const char *
epd_phase_name(unsigned phase)
{
	static const char *const names[] = {
		[EPD_PREPARED] = "PREPARED", [EPD_READY] = "READY",
		[EPD_COMMITTED] = "COMMITTED", [EPD_ADOPTED] = "ADOPTED",
	};

	return phase < sizeof names / sizeof *names ? names[phase] : NULL;
}

int
epd_handoff_is(const uint8_t id[16])
{
	return memcmp(id, none, sizeof none) != 0;
}

static void
take16(struct epd_cur *c, uint8_t to[16])
{
	struct epd_span s = epd_unpack_bytes(c, 16);

	if (s.n == 16)
		memcpy(to, s.p, 16);
}

void
epd_lease_pack(struct epd_buf *b, const struct epd_lease *l)
{
	size_t at = epd_record_begin(b, EPD_KIND_LEASE);

	epd_lease_put(b, l);
	epd_record_end(b, at);
}

void
epd_lease_put(struct epd_buf *b, const struct epd_lease *l)
{
	epd_pack_u64(b, l->id);
	epd_pack_u32(b, l->state);
	epd_pack_u32(b, l->version);
	epd_pack_u32(b, l->kind);
	epd_pack_u32(b, (uint32_t)l->holder.pid);
	epd_buf_put(b, l->holder.boot, 16);
	epd_pack_u64(b, l->holder.start);
	epd_pack_u64(b, l->deadline_ms);
}

void
epd_lease_take(struct epd_cur *c, struct epd_lease *out)
{
	uint32_t kind;

	out->id = epd_unpack_u64(c);
	out->state = epd_unpack_u32(c);
	out->version = epd_unpack_u32(c);
	kind = epd_unpack_u32(c);
	out->kind = kind;
	out->holder.pid = (int32_t)epd_unpack_u32(c);
	take16(c, out->holder.boot);
	out->holder.start = epd_unpack_u64(c);
	out->deadline_ms = epd_unpack_u64(c);
	c->failed |= !epd_lease_name(kind);
}

int
epd_lease_unpack(struct epd_span p, struct epd_lease *out)
{
	struct epd_cur c = epd_cur(p);

	*out = (struct epd_lease){ 0 };
	epd_lease_take(&c, out);
	return epd_record_whole(&c);
}

void
epd_drop_pack(struct epd_buf *b, const struct epd_drop *d)
{
	size_t at = epd_record_begin(b, EPD_KIND_DROP);

	epd_pack_u64(b, d->lease);
	epd_buf_put(b, d->handoff, 16);
	epd_record_str(b, d->reason);
	epd_record_end(b, at);
}

int
epd_drop_unpack(struct epd_span p, struct epd_drop *out)
{
	struct epd_cur c = epd_cur(p);

	*out = (struct epd_drop){ .lease = epd_unpack_u64(&c) };
	take16(&c, out->handoff);
	out->reason = epd_record_take_str(&c);
	if (!out->lease == !epd_handoff_is(out->handoff))
		return EPD_ECORRUPT;
	return epd_record_whole(&c);
}

void
epd_move_pack(struct epd_buf *b, enum epd_kind kind, const struct epd_move *m)
{
	size_t at = epd_record_begin(b, kind);

	epd_pack_u32(b, m->id);
	epd_pack_u32(b, m->to);
	epd_pack_u32(b, m->adopted);
	epd_buf_put(b, m->handoff, 16);
	epd_record_str(b, m->reason);
	if (kind == EPD_KIND_OFFLOAD)
		epd_record_str(b, m->tier);
	epd_record_end(b, at);
}

int
epd_move_unpack(struct epd_span p, enum epd_kind kind, struct epd_move *out)
{
	struct epd_cur c = epd_cur(p);
	uint32_t to;

	*out = (struct epd_move){ .id = epd_unpack_u32(&c) };
	to = epd_unpack_u32(&c);
	out->adopted = epd_unpack_u32(&c);
	take16(&c, out->handoff);
	out->reason = epd_record_take_str(&c);
	out->tier = kind == EPD_KIND_OFFLOAD ? epd_record_take_str(&c) : "";
	if (to < EPD_ACTIVE || to > EPD_FREE || out->adopted > 1)
		return EPD_ECORRUPT;
	out->to = to;
	return epd_record_whole(&c);
}

void
epd_wait_pack(struct epd_buf *b, const struct epd_wait *w)
{
	size_t at = epd_record_begin(b, EPD_KIND_WAIT);

	epd_pack_u32(b, w->id);
	epd_pack_u64(b, w->deadline_ms);
	epd_record_str(b, w->tool);
	epd_record_str(b, w->reason);
	epd_record_end(b, at);
}

int
epd_wait_unpack(struct epd_span p, struct epd_wait *out)
{
	struct epd_cur c = epd_cur(p);

	*out = (struct epd_wait){ .id = epd_unpack_u32(&c) };
	out->deadline_ms = epd_unpack_u64(&c);
	out->tool = epd_record_take_str(&c);
	out->reason = epd_record_take_str(&c);
	return epd_record_whole(&c);
}

void
epd_handoff_put(struct epd_buf *b, const struct epd_handoff *h)
{
	epd_buf_put(b, h->id, 16);
	epd_pack_u32(b, (uint32_t)h->target);
	epd_pack_u32(b, h->phase);
	epd_pack_u32(b, h->state);
	epd_pack_u32(b, h->version);
	epd_buf_put(b, h->peer, 16);
	epd_buf_put(b, h->home, 16);
	epd_pack_u32(b, h->peer_state);
	epd_pack_u32(b, h->peer_version);
	epd_pack_u64(b, h->peer_lsn);
	epd_buf_put(b, h->boot, 16);
	epd_pack_u64(b, h->deadline_ms);
	epd_record_str(b, h->store);
	epd_record_str(b, h->workflow);
}

void
epd_handoff_take(struct epd_cur *c, struct epd_handoff *out)
{
	uint32_t target, phase;

	*out = (struct epd_handoff){ 0 };
	take16(c, out->id);
	target = epd_unpack_u32(c);
	phase = epd_unpack_u32(c);
	out->target = target != 0;
	out->phase = phase;
	out->state = epd_unpack_u32(c);
	out->version = epd_unpack_u32(c);
	take16(c, out->peer);
	take16(c, out->home);
	out->peer_state = epd_unpack_u32(c);
	out->peer_version = epd_unpack_u32(c);
	out->peer_lsn = epd_unpack_u64(c);
	take16(c, out->boot);
	out->deadline_ms = epd_unpack_u64(c);
	out->store = epd_record_take_str(c);
	out->workflow = epd_record_take_str(c);
	c->failed |= target > 1 || !epd_phase_name(phase) ||
	    !epd_handoff_is(out->id);
}

void
epd_prepare_pack(struct epd_buf *b, const struct epd_handoff *h)
{
	size_t at = epd_record_begin(b, EPD_KIND_PREPARE);

	epd_handoff_put(b, h);
	epd_record_end(b, at);
}

int
epd_prepare_unpack(struct epd_span p, struct epd_handoff *out)
{
	struct epd_cur c = epd_cur(p);

	epd_handoff_take(&c, out);
	c.failed |= out->target || out->phase != EPD_PREPARED;
	return epd_record_whole(&c);
}

void
epd_ready_pack(struct epd_buf *b, const struct epd_handoff *h, uint32_t id,
    const struct epd_state *s, const struct epd_version *v)
{
	size_t at = epd_record_begin(b, EPD_KIND_READY);

	epd_handoff_put(b, h);
	epd_create_put(b, id, s, v);
	epd_record_end(b, at);
}

int
epd_ready_unpack(struct epd_span p, struct epd_handoff *h,
    struct epd_create *out)
{
	struct epd_cur c = epd_cur(p);

	epd_handoff_take(&c, h);
	epd_create_take(&c, out);
	c.failed |= !h->target || h->phase != EPD_READY ||
	    h->state != out->id || h->version != 1;
	return epd_record_whole(&c);
}
