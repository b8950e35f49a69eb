/*
 * apply_hold.c - records about what holds a state: leases, hand-offs, and the
 * moves from one status to another.
 *
 * A half of a hand-off that is rolled back leaves no trace: a source that knows
 * nothing of it has said that it was aborted.
 */
#include <errno.h>
#include <string.h>

#include "shard/apply.h"
#include "shard/life.h"

#define LLU(x) ((unsigned long long)(x))

/* ---- leases ---- */

static int
prepare_lease(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_lease *l = &c->lease;
	struct epd_head *h;
	int rc = epd_lease_unpack(r->payload, l);

	if (rc)
		return rc;
	if (l->id)
		return epd_table_lease(t, l->id) ? 0 : epd_why(why, EPD_ELEASE,
		    "lease %llu is gone", LLU(l->id));
	h = epd_table_find(t, l->state);
	if (!h)
		return epd_why(why, EPD_ENOSTATE, "s%u: %s", l->state,
		    epd_strerror(EPD_ENOSTATE));
	if (!l->version || l->version > h->state.versions)
		return epd_why(why, EPD_ENOTHING, "s%u: it has no version @%u",
		    l->state, l->version);
	l->node = h->v[l->version - 1].node;
	l->id = r->lsn;
	c->parent = l->node;
	if (epd_tree_get(t->tree, l->node)->heads == UINT32_MAX)
		return -EOVERFLOW;
	return epd_table_reserve_lease(t);
}

static void
commit_lease(struct epd_table *t, struct epd_change *c)
{
	/* One that lasts longer has no node here: it holds it already. */
	if (!c->parent) {
		epd_table_lease(t, c->lease.id)->deadline_ms =
		    c->lease.deadline_ms;
		return;
	}
	epd_tree_hold(t->tree, c->parent);
	t->lease[t->nleases++] = c->lease;
}

const struct epd_apply_verb epd_apply_lease = { prepare_lease, commit_lease };

static int
prepare_unlease(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	const struct epd_handoff *h;
	struct epd_drop in;
	int rc = epd_drop_unpack(r->payload, &in);

	if (rc)
		return rc;
	if (in.lease) {
		c->lease.id = in.lease;
		return epd_table_lease(t, in.lease) ? 0 : epd_why(why,
		    EPD_ELEASE, "lease %llu is gone", LLU(in.lease));
	}
	h = epd_table_handoff(t, in.handoff);
	if (!h || h->phase == EPD_PREPARED || h->phase == EPD_READY)
		return epd_why(why, EPD_ESTATUS, h ? "a hand-off that is not "
		    "decided" : "no such hand-off");
	c->handoff = *h;
	return 0;
}

static void
commit_unlease(struct epd_table *t, struct epd_change *c)
{
	struct epd_lease *l;
	uint64_t node;

	if (!c->lease.id) {
		epd_table_forget(t, epd_table_handoff(t, c->handoff.id));
		return;
	}
	l = epd_table_lease(t, c->lease.id);
	node = l->node;
	epd_table_unlease(t, l);
	epd_tree_drop(t->tree, node);
}

const struct epd_apply_verb epd_apply_unlease = {
	prepare_unlease, commit_unlease,
};

/* ---- hand-offs ---- */

static int
prepare_offer(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_handoff *h = &c->handoff;
	int rc = epd_prepare_unpack(r->payload, h);

	if (!rc)
		rc = epd_apply_meant(t, h->state, EPD_KIND_PREPARE,
		    EPD_STATE_ACTIVE, &c->head, why);
	if (rc)
		return rc;
	if (h->version != c->head->state.versions)
		return epd_why(why, EPD_EVERSION, "s%u: it is at @%u, not @%u",
		    h->state, c->head->state.versions, h->version);
	if (epd_table_handoff(t, h->id))
		return epd_why(why, EPD_ESTATUS, "this hand-off was begun "
		    "before");
	h->lsn = r->lsn;
	h->store = epd_apply_str(t, h->store);
	h->workflow = epd_apply_str(t, h->workflow);
	if (!h->store || !h->workflow)
		return -ENOMEM;
	return epd_table_reserve_handoff(t);
}

static void
commit_offer(struct epd_table *t, struct epd_change *c)
{
	c->head->pinned = 1;
	epd_apply_touch(c->head, c);
	t->handoff[t->nhandoffs++] = c->handoff;
}

const struct epd_apply_verb epd_apply_offer = { prepare_offer, commit_offer };

/* ---- moves, and the decisions on hand-offs ---- */

/* Where a decision takes the state that a half is about. */
static enum epd_status
decided(const struct epd_handoff *h, enum epd_kind verb)
{
	return !h->target == (verb == EPD_KIND_COMMIT) ? EPD_FREE : EPD_ACTIVE;
}

static int
prepare_decision(struct epd_table *t, const struct epd_move *in,
    struct epd_change *c, struct epd_why *why)
{
	const struct epd_handoff *h = epd_table_handoff(t, in->handoff);

	if (!h || (h->phase != EPD_PREPARED && h->phase != EPD_READY) ||
	    h->state != in->id)
		return epd_why(why, EPD_ESTATUS, h ? "a hand-off that was "
		    "decided before" : "no such hand-off");
	if (in->to != decided(h, c->kind) || (in->adopted && (!h->target ||
	    c->kind != EPD_KIND_COMMIT)))
		return epd_why(why, EPD_ECORRUPT, "a decision that leads to "
		    "%s", epd_status_name(in->to));
	c->handoff = *h;
	c->handoff.phase = in->adopted ? EPD_ADOPTED : EPD_COMMITTED;
	return epd_apply_moved(t, in->id, c->kind, epd_life_of(in->to),
	    &c->head, why);
}

static int
prepare_move(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_move in;
	int rc = epd_move_unpack(r->payload, c->kind, &in);

	if (rc)
		return rc;
	c->to = in.to;
	if (*in.tier && !(c->tier = epd_apply_str(t, in.tier)))
		return -ENOMEM;
	if (epd_handoff_is(in.handoff))
		return c->kind == EPD_KIND_COMMIT || c->kind == EPD_KIND_ABORT ?
		    prepare_decision(t, &in, c, why) : EPD_ECORRUPT;
	/* Without a hand-off, none of its edges. */
	if (c->kind == EPD_KIND_COMMIT || in.adopted || in.to == EPD_FREE ||
	    (c->kind == EPD_KIND_ABORT && in.to != EPD_ABORTED))
		return EPD_ECORRUPT;
	return epd_apply_meant(t, in.id, c->kind, epd_life_of(in.to), &c->head,
	    why);
}

static void
commit_move(struct epd_table *t, struct epd_change *c)
{
	struct epd_handoff *h = c->handoff.phase ?
	    epd_table_handoff(t, c->handoff.id) : NULL;

	epd_apply_touch(c->head, c);
	c->head->state.status = c->to;
	c->head->state.tier = c->tier ? c->tier : "";
	c->head->pinned = 0;
	if (c->to == EPD_FREE)
		epd_apply_free(t, c);
	if (h && c->kind == EPD_KIND_COMMIT)
		h->phase = c->handoff.phase;
	else if (h)
		epd_table_forget(t, h);
}

static int
prepare_wait(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_wait in;
	struct epd_head *h;
	int rc = epd_wait_unpack(r->payload, &in);

	if (rc)
		return rc;
	h = epd_table_find(t, in.id);
	rc = epd_apply_meant(t, in.id, EPD_KIND_WAIT, h ?
	    epd_life_of(h->state.status) : EPD_STATE_ACTIVE, &c->head, why);
	if (rc)
		return rc;
	c->deadline_ms = in.deadline_ms;
	c->tool = *in.tool ? epd_apply_str(t, in.tool) : "";
	return c->tool ? 0 : -ENOMEM;
}

static void
commit_wait(struct epd_table *t, struct epd_change *c)
{
	(void)t;
	epd_apply_touch(c->head, c);
	c->head->state.tool = c->tool;
	c->head->state.wait_deadline_ms = c->deadline_ms;
}

const struct epd_apply_verb epd_apply_wait = { prepare_wait, commit_wait };

const struct epd_apply_verb epd_apply_move = { prepare_move, commit_move };
