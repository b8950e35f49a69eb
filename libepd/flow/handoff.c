/* handoff.c - the verbs of a hand-off. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "flow/reach.h"
#include "flow/rest.h"
#include "flow/standing.h"
#include "flow/target.h"

/* No peer is waited for longer by what only looks. */
static uint64_t
soon(void)
{
	return epd_clock_boot_ns() + EPD_REACH_NS;
}

/* ---- prepare ---- */

static int
held_by(const struct epd_handoff *h, struct epd_why *why)
{
	char hex[33];

	epd_hex_format(hex, h->id, 16);
	return epd_why(why, EPD_ESTATUS, "s%u: mid-hand-off, until %s is "
	    "decided", h->state, hex);
}

/* Whether somebody is at it, or has offered it already. */
static int
is_held(struct epd_workflow *src, uint32_t state, struct epd_why *why)
{
	struct epd_lease l = {0};
	struct epd_handoff h;
	uint64_t lsn = 0;

	for (; epd_shard_handoff_next(src->shard, lsn, &h) == 0; lsn = h.lsn)
		if (h.state == state && h.phase < EPD_COMMITTED)
			return held_by(&h, why);
	while (epd_shard_lease_next(src->shard, l.id, &l) == 0)
		if (l.state == state && l.kind == EPD_LEASE_DECODE &&
		    epd_shard_lease_stands(src->shard, &l))
			return epd_why(why, EPD_ELOCKED, "s%u: process %d "
			    "decodes it", state, (int)l.holder.pid);
	return 0;
}

/* What may be refused before anything is made; the shard has the last word. */
static int
may_offer(struct epd_workflow *src, const struct epd_offer *o,
    uint32_t *version, struct epd_why *why)
{
	struct epd_state st;
	int rc = epd_shard_state(src->shard, o->state.state, &st);

	if (rc < 0)
		return epd_why(why, rc, "%s", epd_strerror(rc));
	if (st.status == EPD_SUSPECT)
		return epd_why(why, EPD_ESUSPECT, "it is SUSPECT");
	if ((rc = epd_rest_wake(src, &st, 1, why)) < 0 ||
	    (rc = epd_reach_on(src, &st, why)) < 0)
		return rc;
	if ((rc = is_held(src, o->state.state, why)) < 0)
		return rc;
	if (o->state.version > st.versions)
		return epd_why(why, EPD_ENOTHING, "it has no version @%u",
		    o->state.version);
	if (o->state.version && o->state.version < st.versions)
		return epd_why(why, EPD_EVERSION, "s%u: its newest version is "
		    "@%u", st.id, st.versions);
	*version = st.versions;
	return 0;
}

static int
offer(struct epd_store *s, const struct epd_offer *o, uint32_t version,
    struct epd_workflow *src, struct epd_half *dst, struct epd_handoff *h,
    struct epd_why *why)
{
	uint8_t uuid[16];
	int rc, tries = 0;

	*h = (struct epd_handoff){
		.phase = EPD_PREPARED,
		.state = o->state.state, .version = version,
		.store = dst->near ? "" : dst->store,
		.workflow = dst->workflow,
		.deadline_ms = epd_offer_end(s, o) / 1000000,
	};
	epd_shard_uuid(src->shard, uuid);
	if (!memcmp(uuid, dst->uuid, 16))
		return epd_why(why, EPD_EUSAGE, "it is in that workflow");
	if (getrandom(h->id, sizeof h->id, 0) != (ssize_t)sizeof h->id)
		return epd_why(why, -EIO, "no randomness to be had");
	rc = epd_clock_boot_id(h->boot);
	if (rc < 0)
		return epd_why(why, rc, "boot id: %s", epd_strerror(rc));
	memcpy(h->peer, dst->uuid, 16);
	if (!dst->near)
		memcpy(h->home, dst->home, 16);
	do
		rc = epd_shard_prepare(src->shard, h, why);
	while (epd_rest_again(src, h->state, rc, &tries));
	return epd_reach_ended(src, h->state, rc, why);
}

/* It is prepared, whatever may be read of it now. */
static void
tell_offered(struct epd_store *s, struct epd_workflow *src,
    const struct epd_handoff *h, struct epd_handed *out)
{
	struct epd_pair p;

	*out = (struct epd_handed){ .source = h->phase };
	memcpy(out->id, h->id, 16);
	if (epd_pair_open_by(&p, s, src, h, h->deadline_ms * 1000000, NULL) < 0)
		return;
	p.src.h = *h;
	(void)epd_pair_look(&p, NULL);
	epd_pair_tell(&p, out);
	epd_pair_close(&p);
}

/* Before a state is offered; waited for as long as the offer stands at most. */
static void
settle_till(struct epd_store *s, struct epd_workflow *w, uint64_t end_ns)
{
	const uint64_t most = soon();
	const struct epd_settling by = {
		.end_ns = end_ns < most ? end_ns : most,
	};

	(void)epd_flow_handoff_settle_by(s, w, &by);
}

int
epd_flow_handoff_prepare(struct epd_store *s, const struct epd_offer *offered,
    struct epd_handed *out, struct epd_why *why)
{
	struct epd_offer till = *offered, *o = &till;
	struct epd_workflow src;
	struct epd_handoff h;
	struct epd_half dst;
	uint32_t version = 0;
	int rc;

	if (o->state.kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	o->end_ns = epd_offer_end(s, o);
	rc = epd_workflow_open(&src, s, o->state.workflow, 0, why);
	if (rc < 0)
		return rc;
	settle_till(s, &src, o->end_ns);
	rc = may_offer(&src, o, &version, why);
	if (rc == 0) {
		rc = epd_target_make(s, o, &dst, why);
		if (rc == 0)
			rc = offer(s, o, version, &src, &dst, &h, why);
		if (rc == 0)
			tell_offered(s, &src, &h, out);
		epd_target_drop(&dst, rc < 0 && rc != EPD_EUNSURE &&
		    !*o->workflow);
	}
	epd_workflow_close(&src);
	return rc;
}

int
epd_flow_handoff_offer(struct epd_store *s, const struct epd_offer *o,
    struct epd_half *to, struct epd_handoff *h, uint8_t uuid[16],
    struct epd_why *why)
{
	struct epd_workflow src;
	uint32_t version = 0;
	int rc = epd_workflow_open(&src, s, o->state.workflow, 0, why);

	if (rc < 0)
		return rc;
	settle_till(s, &src, epd_offer_end(s, o));
	rc = epd_workflow_serves(&src, s, o->state.state) ?
	    may_offer(&src, o, &version, why) :
	    epd_why(why, EPD_ENOSTATE, "%s", epd_strerror(EPD_ENOSTATE));
	if (rc == 0)
		rc = offer(s, o, version, &src, to, h, why);
	epd_shard_uuid(src.shard, uuid);
	if (rc == 0)
		rc = epd_shard_handoff(src.shard, h->id, h);
	h->store = h->workflow = "";
	epd_workflow_close(&src);
	return rc;
}

/* ---- by id ---- */

struct search {
	struct epd_store *s;
	const uint8_t *id;
	char workflow[EPD_WORKFLOW];	/* that has a half, the source's first */
	int source;
	int failed;			/* rc of one that could not be read */
	struct epd_why why;
};

static int
search_one(void *arg, const char *name)
{
	struct search *x = arg;
	struct epd_workflow w;
	struct epd_handoff h;
	struct epd_why why = {{0}};
	int rc;

	if (x->source)
		return 0;
	if ((rc = epd_workflow_open(&w, x->s, name, 1, &why)) < 0) {
		if (rc != EPD_ENOTHING && !x->failed) {
			x->failed = rc;
			x->why = why;
		}
		return 0;
	}
	if (epd_shard_handoff(w.shard, x->id, &h) == 0) {
		memcpy(x->workflow, w.name, sizeof x->workflow);
		x->source = !h.target;
	}
	epd_workflow_close(&w);
	return 0;
}

/* Call fn with the pair that a half in a workflow tells of; end_ns: 0, or the end. */
static int
with_half(struct epd_store *s, const char *workflow, const uint8_t id[16],
    uint64_t end_ns,
    int (*fn)(struct epd_pair *p, const char *reason, struct epd_why *why),
    const char *reason, struct epd_handed *out, struct epd_why *why)
{
	struct epd_workflow w;
	struct epd_handoff h;
	struct epd_pair p;
	int rc = epd_workflow_open(&w, s, workflow, !s->procs, why);

	if (rc < 0)
		return rc;
	rc = epd_shard_handoff(w.shard, id, &h);
	if (rc < 0)
		rc = epd_why(why, EPD_ENOTHING, "it ended meanwhile");
	if (rc == 0)
		rc = end_ns ? epd_pair_open_by(&p, s, &w, &h, end_ns, why) :
		    epd_pair_open(&p, s, &w, &h, why);
	if (rc == 0) {
		rc = epd_pair_look(&p, why);
		if (rc == 0)
			rc = fn(&p, reason, why);
		epd_pair_tell(&p, out);
		epd_pair_close(&p);
	}
	epd_workflow_close(&w);
	return rc;
}

/* The same wherever in this store it is. */
static int
with_pair(struct epd_store *s, const uint8_t id[16], uint64_t end_ns,
    int (*fn)(struct epd_pair *p, const char *reason, struct epd_why *why),
    const char *reason, struct epd_handed *out, struct epd_why *why)
{
	struct search x = { .s = s, .id = id };
	int rc = epd_workflow_each(s, search_one, &x);

	if (rc == 0 && !*x.workflow && x.failed)
		return epd_why(why, x.failed, "%s", x.why.text);
	if (rc == 0 && !*x.workflow)
		rc = EPD_ENOTHING;
	if (rc < 0)
		return epd_why(why, rc, "%s", rc != EPD_ENOTHING ?
		    epd_strerror(rc) : "no such hand-off in this store: it "
		    "ended, was never begun, or is only prepared, and then "
		    "its source alone knows of it");
	return with_half(s, x.workflow, id, end_ns, fn, reason, out, why);
}

static int
do_commit(struct epd_pair *p, const char *reason, struct epd_why *why)
{
	return epd_pair_drive(p, EPD_GOAL_COMMIT, reason, why);
}

static int
do_abort(struct epd_pair *p, const char *reason, struct epd_why *why)
{
	return epd_pair_drive(p, EPD_GOAL_ABORT, reason, why);
}

/* What may be over in a moment says nothing of whether the source is. */
static int
passes(int rc)
{
	return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ||
	    rc == -EINTR || rc == -EAGAIN || rc == EPD_ELOCKED;
}

static int
do_adopt(struct epd_pair *p, const char *reason, struct epd_why *why)
{
	int rc;

	if (p->dst.h.phase > EPD_READY)
		return 0;
	if (epd_half_is_there(&p->src))
		return epd_why(why, EPD_ESTATUS, "its source %s of %s can be "
		    "reached: --commit asks it", p->src.workflow,
		    p->src.store);
	if (passes(p->src.gone))
		return epd_why(why, p->src.gone, "%s", p->src.why.text);
	if (p->dst.h.phase != EPD_READY)
		return epd_why(why, EPD_ESTATUS, "the target is not ready");
	if ((rc = epd_half_had(&p->dst, p->id, why)) != 0)
		return rc < 0 ? rc : epd_why(why, EPD_ESTATUS, "%s had the "
		    "state by this hand-off, which ended, and this half came "
		    "late: --abort", p->dst.workflow);
	rc = epd_shard_adopt(p->dst.w.shard, p->id, reason, why);
	return rc < 0 ? rc : epd_pair_look(p, why);
}

int
epd_flow_handoff_commit(struct epd_store *s, const uint8_t id[16],
    struct epd_handed *out, struct epd_why *why)
{
	return with_pair(s, id, 0, do_commit, "", out, why);
}

int
epd_flow_handoff_abort(struct epd_store *s, const uint8_t id[16],
    const char *reason, struct epd_handed *out, struct epd_why *why)
{
	return with_pair(s, id, 0, do_abort, reason, out, why);
}

/* Nobody knows of it any more: whether its source has the state. */
static int
ended_unseen(struct epd_store *s, const struct epd_handed *h,
    struct epd_why *why)
{
	struct epd_workflow w;
	struct epd_state st;
	int rc = epd_workflow_open(&w, s, h->from, 1, why);

	if (rc < 0)
		return rc;
	rc = epd_shard_state(w.shard, h->state, &st);
	epd_workflow_close(&w);
	return rc == 0 ? epd_why(why, EPD_EABORTED, "it was rolled back: its "
	    "source has the state") : epd_why(why, EPD_ENOTHING, "it ended "
	    "meanwhile, and its source has the state no more");
}

int
epd_flow_handoff_whole(struct epd_store *s, const struct epd_offer *o,
    struct epd_handed *out, struct epd_why *why)
{
	struct epd_offer till = *o;
	struct epd_handed begun, back;
	uint64_t end;
	int rc;

	till.end_ns = epd_offer_end(s, o);
	end = till.end_ns + EPD_GRACE_NS;
	rc = epd_flow_handoff_prepare(s, &till, &begun, why);
	*out = (struct epd_handed){ .source = 0 };
	if (rc < 0)
		return rc;
	*out = begun;
	rc = with_pair(s, begun.id, end, do_commit, "", out, why);
	if (rc == EPD_ENOTHING)
		rc = ended_unseen(s, &begun, why);
	if (rc == 0 || rc == EPD_ETIMEOUT || rc == EPD_EUNSURE)
		return rc;
	if (rc == EPD_EABORTED || rc == EPD_ENOTHING ||
	    with_pair(s, begun.id, end, do_abort, "it could not be carried "
	    "out", &back, NULL) == 0)
		out->source = out->target = 0;
	return rc;
}

int
epd_flow_handoff_adopt(struct epd_store *s, const uint8_t id[16],
    const char *reason, struct epd_handed *out, struct epd_why *why)
{
	return with_pair(s, id, soon(), do_adopt, reason, out, why);
}

static int
do_nothing(struct epd_pair *p, const char *reason, struct epd_why *why)
{
	(void)p;
	(void)reason;
	(void)why;
	return 0;
}

int
epd_flow_handoff_show(struct epd_store *s, const uint8_t id[16],
    struct epd_handed *out, struct epd_why *why)
{
	return with_pair(s, id, soon(), do_nothing, "", out, why);
}

int
epd_flow_handoff_show_in(struct epd_store *s, const char *workflow,
    const uint8_t id[16], struct epd_handed *out, struct epd_why *why)
{
	return with_half(s, workflow, id, soon(), do_nothing, "", out, why);
}

/* ---- all ---- */

struct each {
	struct epd_store *s;
	int (*fn)(void *arg, const struct epd_handed *h);
	int (*id)(void *arg, const uint8_t id[16]);	/* or only this */
	void *arg;
	struct epd_why *why;
	int failed;		/* rc of the first that could not be read */
};

/* One that is damaged does not hide the others. */
static int
cannot(struct each *e, int rc, const struct epd_why *why)
{
	if (!e->failed) {
		e->failed = rc;
		epd_why(e->why, rc, "%s", why->text);
	}
	return 0;
}

static int
each_half(struct each *e, struct epd_workflow *w, const struct epd_handoff *h)
{
	struct epd_why why = {{0}};
	struct epd_handed told;
	struct epd_handoff mine = *h;
	struct epd_pair p;
	int rc = epd_pair_open_by(&p, e->s, w, h, soon(), &why), seen;

	if (rc < 0)
		return cannot(e, rc, &why);
	if ((rc = epd_pair_look(&p, &why)) < 0) {
		(mine.target ? &p.dst : &p.src)->h = mine;
		cannot(e, rc, &why);
	}
	/* Of two halves in one store the source tells of both. */
	seen = p.dst.near && p.src.h.phase && p.src.s == e->s;
	epd_pair_tell(&p, &told);
	epd_pair_close(&p);
	return seen || (!told.source && !told.target) ? 0 :
	    e->fn(e->arg, &told);
}

static int
each_one(void *arg, const char *name)
{
	struct each *e = arg;
	struct epd_why why = {{0}};
	struct epd_handoff h;
	struct epd_workflow w;
	uint64_t lsn = 0;
	int rc = epd_workflow_open(&w, e->s, name, 1, &why);

	if (rc < 0)
		return rc == EPD_ENOTHING ? 0 : cannot(e, rc, &why);
	while (rc == 0 && epd_shard_handoff_next(w.shard, lsn, &h) == 0) {
		lsn = h.lsn;
		rc = e->id ? e->id(e->arg, h.id) : each_half(e, &w, &h);
	}
	epd_workflow_close(&w);
	return rc;
}

int
epd_flow_handoff_each(struct epd_store *s,
    int (*fn)(void *arg, const struct epd_handed *h), void *arg,
    struct epd_why *why)
{
	struct each e = { .s = s, .fn = fn, .arg = arg, .why = why };
	int rc = epd_workflow_each(s, each_one, &e);

	return rc ? rc : e.failed;
}

int
epd_flow_handoff_ids(struct epd_store *s,
    int (*fn)(void *arg, const uint8_t id[16]), void *arg, struct epd_why *why)
{
	struct each e = { .s = s, .id = fn, .arg = arg, .why = why };
	int rc = epd_workflow_each(s, each_one, &e);

	return rc ? rc : e.failed;
}

/* ---- settling ---- */

/* Whether a half waits for nobody but time or its other half. */
static int
is_due(const struct epd_handoff *h)
{
	return h->target || h->phase != EPD_PREPARED || epd_handoff_expired(h);
}

/* What it waits for, if it does. */
static void
tell_waiting(const struct epd_pair *p, const struct epd_settling *by)
{
	const struct epd_half *far = p->src.near ? &p->dst : &p->src;
	const struct epd_half *near = p->src.near ? &p->src : &p->dst;
	char text[512], hex[33];

	if (!by->waits || epd_half_is_there(far) || !near->h.phase)
		return;
	epd_hex_format(hex, p->id, 16);
	snprintf(text, sizeof text, "%s: hand-off %s waits for %.63s of "
	    "%.80s: %.239s", near->workflow, hex, far->workflow,
	    epd_half_is_away(far) ? "another store" : far->store,
	    *far->why.text ? far->why.text : epd_strerror(far->gone));
	by->waits(by->arg, text);
}

int
epd_flow_handoff_settle_by(struct epd_store *s, struct epd_workflow *w,
    const struct epd_settling *by)
{
	const uint64_t end = by->end_ns ? by->end_ns : soon();
	struct epd_handoff h;
	uint64_t lsn = 0;
	int n = 0;

	while (epd_shard_handoff_next(w->shard, lsn, &h) == 0) {
		struct epd_why why = {{0}};
		struct epd_pair p;
		int rc;

		lsn = h.lsn;
		if (!is_due(&h) || epd_pair_open_by(&p, s, w, &h, end,
		    &why) < 0)
			continue;
		rc = epd_pair_drive(&p, EPD_GOAL_SETTLE, "", &why);
		if (rc < 0)
			epd_log(&s->log, "op=settle workflow=%s why=\"%s\"",
			    w->name, why.text);
		tell_waiting(&p, by);
		n += rc == 0 && !p.src.h.phase && !p.dst.h.phase;
		epd_pair_close(&p);
	}
	return n;
}

int
epd_flow_handoff_settle(struct epd_store *s, struct epd_workflow *w)
{
	const struct epd_settling by = { .waits = NULL };

	return epd_flow_handoff_settle_by(s, w, &by);
}
