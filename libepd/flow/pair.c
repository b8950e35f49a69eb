/* pair.c - opening and reading the two logs of a hand-off. */
#include <string.h>

#include "base/clock.h"
#include "flow/pair.h"

/* By the deadline of what is not over; of that not much is left to be done. */
static uint64_t
end_of(const struct epd_handoff *h)
{
	const uint64_t soon = epd_clock_boot_ns() + EPD_REACH_NS;
	const uint64_t end = epd_handoff_expired(h) ? 0 :
	    h->deadline_ms * UINT64_C(1000000);

	return end > soon ? end : soon;
}

int
epd_pair_open(struct epd_pair *p, struct epd_store *s, struct epd_workflow *w,
    const struct epd_handoff *h, struct epd_why *why)
{
	return epd_pair_open_by(p, s, w, h, end_of(h), why);
}

int
epd_pair_open_by(struct epd_pair *p, struct epd_store *s,
    struct epd_workflow *w, const struct epd_handoff *h, uint64_t end_ns,
    struct epd_why *why)
{
	struct epd_half *near = h->target ? &p->dst : &p->src;
	struct epd_half *far = h->target ? &p->src : &p->dst;

	*p = (struct epd_pair){
		.state = h->target ? h->peer_state : h->state,
		.version = h->target ? h->peer_version : h->version,
		.to_state = h->target ? h->state : 0,
	};
	if (strlen(h->store) >= sizeof far->store ||
	    strlen(h->workflow) >= sizeof far->workflow)
		return epd_why(why, EPD_ECORRUPT, "%s: a hand-off with a name "
		    "that nothing has", w->name);
	memcpy(p->id, h->id, 16);
	epd_half_place(near, s->path, w->name);
	epd_half_place(far, *h->store ? h->store : s->path, h->workflow);
	near->s = s;
	near->w = *w;
	near->near = 1;
	epd_shard_uuid(w->shard, near->uuid);
	memcpy(near->home, s->uuid, 16);
	memcpy(far->uuid, h->peer, 16);
	memcpy(far->home, h->home, 16);
	far->end_ns = end_ns;
	epd_half_reach(far, s);
	return 0;
}

void
epd_pair_close(struct epd_pair *p)
{
	epd_half_leave(p->src.near ? &p->dst : &p->src, epd_pair_near(p)->s);
}

int
epd_pair_look(struct epd_pair *p, struct epd_why *why)
{
	unsigned was;
	int rc = epd_half_look(&p->src, p->id, why);

	/* It goes one way, and not far. */
	do {
		was = p->src.h.phase;
		if (rc == 0)
			rc = epd_half_look(&p->dst, p->id, why);
		if (rc == 0)
			rc = epd_half_look(&p->src, p->id, why);
	} while (rc == 0 && p->src.h.phase != was);
	if (rc == 0 && p->src.h.phase) {
		p->state = p->src.h.state;
		p->version = p->src.h.version;
	}
	if (rc == 0 && p->dst.h.phase)
		p->to_state = p->dst.h.state;
	p->committed |= rc == 0 && (p->src.h.phase == EPD_COMMITTED ||
	    p->dst.h.phase >= EPD_COMMITTED);
	return rc;
}

int
epd_pair_expired(const struct epd_pair *p)
{
	return p->src.h.phase && p->src.expired;
}

void
epd_pair_point(const struct epd_pair *p, struct epd_handoff *h)
{
	const int one = p->src.s && p->src.s == p->dst.s;

	h->store = one ? "" : p->dst.store;
	h->workflow = p->dst.workflow;
	memcpy(h->peer, p->dst.uuid, 16);
	if (!one)
		memcpy(h->home, p->dst.home, 16);
}

void
epd_pair_tell(const struct epd_pair *p, struct epd_handed *out)
{
	*out = (struct epd_handed){
		.source = p->src.h.phase, .target = p->dst.h.phase,
		.state = p->state, .version = p->version,
		.to_state = p->to_state,
		.unreachable = !epd_half_is_there(&p->src) ||
		    !epd_half_is_there(&p->dst),
		.expired = epd_pair_expired(p),
		.linked = p->moved.linked, .copied = p->moved.copied,
		.bytes = p->moved.bytes, .missing = p->moved.missing,
	};
	memcpy(out->id, p->id, 16);
	memcpy(out->from_store, p->src.store, sizeof out->from_store);
	memcpy(out->to_store, p->dst.store, sizeof out->to_store);
	memcpy(out->from, p->src.workflow, sizeof out->from);
	memcpy(out->to, p->dst.workflow, sizeof out->to);
}
