/*
 * pair.c - opening and reading the two logs of a hand-off.
 *
 * A half in the same store as the other one is recorded there without a path,
 * so that the store may be moved meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "flow/pair.h"

static void
place(struct epd_half *half, const char *store, const char *workflow)
{
	snprintf(half->store, sizeof half->store, "%s", store);
	snprintf(half->workflow, sizeof half->workflow, "%s", workflow);
	half->w = (struct epd_workflow){ .dirfd = -1, .runs = -1 };
}

static int
open_store(struct epd_half *half, struct epd_store *near, int look)
{
	const struct epd_store_options o = {
		.path = half->store, .config = &near->config,
		.tenant = near->tenant, .log = near->log, .look = look,
	};

	static const uint8_t here[16];
	int rc;

	half->s = near;
	if (strcmp(half->store, near->path) &&
	    (rc = epd_store_open(&half->s, &o, &half->why)) < 0)
		return rc;
	if (!memcmp(half->home, here, 16) ||
	    !memcmp(half->home, half->s->uuid, 16))
		return 0;
	if (half->s != near)
		epd_store_close(half->s);
	return epd_why(&half->why, EPD_ENOTHING, "%s: another store is there "
	    "now", half->store);
}

/* The workflow, if it is the one meant. */
static int
open_workflow(struct epd_half *half, int look)
{
	uint8_t uuid[16];
	int rc = epd_workflow_open(&half->w, half->s, half->workflow, look,
	    &half->why);

	if (rc < 0)
		return rc;
	epd_shard_uuid(half->w.shard, uuid);
	if (!memcmp(uuid, half->uuid, 16))
		return 0;
	epd_workflow_close(&half->w);
	return epd_why(&half->why, EPD_ENOTHING, "another workflow has its "
	    "name");
}

static void
reach(struct epd_half *half, struct epd_store *near)
{
	const int look = !near->procs;
	int rc = open_store(half, near, look);

	if (rc < 0) {
		half->s = NULL;
	} else if ((rc = open_workflow(half, look)) < 0) {
		half->absent = rc == EPD_ENOTHING;
		if (half->s != near)
			epd_store_close(half->s);
		half->s = NULL;
	}
	half->gone = rc;
}

int
epd_pair_open(struct epd_pair *p, struct epd_store *s, struct epd_workflow *w,
    const struct epd_handoff *h, struct epd_why *why)
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
	place(near, s->path, w->name);
	place(far, *h->store ? h->store : s->path, h->workflow);
	near->s = s;
	near->w = *w;
	near->near = 1;
	epd_shard_uuid(w->shard, near->uuid);
	memcpy(far->uuid, h->peer, 16);
	memcpy(far->home, h->home, 16);
	reach(far, s);
	return 0;
}

void
epd_pair_close(struct epd_pair *p)
{
	const struct epd_half *near = p->src.near ? &p->src : &p->dst;
	struct epd_half *far = p->src.near ? &p->dst : &p->src;

	if (!far->s)
		return;
	epd_workflow_close(&far->w);
	if (far->s != near->s)
		epd_store_close(far->s);
	far->s = NULL;
}

static int
look(struct epd_half *half, const uint8_t id[16], struct epd_why *why)
{
	int rc;

	half->h = (struct epd_handoff){0};
	if (!half->s)
		return 0;
	rc = epd_shard_catch_up(half->w.shard, why);
	if (rc == 0)
		rc = epd_shard_handoff(half->w.shard, id, &half->h);
	half->h.store = half->h.workflow = NULL;
	return rc == -ENOENT ? 0 : rc;
}

int
epd_pair_look(struct epd_pair *p, struct epd_why *why)
{
	unsigned was;
	int rc = look(&p->src, p->id, why);

	/* It goes one way, and not far. */
	do {
		was = p->src.h.phase;
		if (rc == 0)
			rc = look(&p->dst, p->id, why);
		if (rc == 0)
			rc = look(&p->src, p->id, why);
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
	const struct epd_handoff *h = &p->src.h;
	uint8_t boot[16];

	if (!h->phase)
		return 0;
	/* What cannot be told waits for its deadline. */
	return (epd_clock_boot_id(boot) == 0 && memcmp(boot, h->boot, 16)) ||
	    epd_clock_boot_ns() / 1000000 >= h->deadline_ms;
}

static int
was_committed(void *arg, const struct epd_record *r)
{
	return r->has_handoff && !memcmp(r->handoff, arg, 16) &&
	    !strcmp(r->kind, "commit");
}

int
epd_pair_late(const struct epd_pair *p, struct epd_why *why)
{
	uint8_t id[16];

	memcpy(id, p->id, 16);
	return epd_shard_walk(p->dst.w.shard, was_committed, id, why);
}

void
epd_pair_tell(const struct epd_pair *p, struct epd_handed *out)
{
	*out = (struct epd_handed){
		.source = p->src.h.phase, .target = p->dst.h.phase,
		.state = p->state, .version = p->version,
		.to_state = p->to_state,
		.unreachable = !p->src.s || !p->dst.s,
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
