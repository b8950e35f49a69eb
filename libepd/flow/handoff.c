/* handoff.c - the verbs of a hand-off. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "flow/pair.h"

/* ---- prepare ---- */

/* The target's workflow, and its uuid and place for the source's log. */
static int
make_target(struct epd_store *s, const struct epd_offer *o,
    struct epd_half *dst, struct epd_why *why)
{
	const struct epd_store_options other = {
		.path = o->store, .config = &s->config, .tenant = s->tenant,
		.log = s->log, .create = 1,
	};
	char name[EPD_WORKFLOW];
	int rc = 0;

	*dst = (struct epd_half){ .s = s, .near = 1 };
	dst->w = (struct epd_workflow){ .dirfd = -1, .runs = -1 };
	if (o->store) {
		dst->near = 0;
		rc = epd_store_open(&dst->s, &other, why);
	}
	if (rc < 0) {
		dst->s = NULL;
		return rc;
	}
	rc = epd_workflow_make(dst->s, o->workflow, name, why);
	if (rc == 0)
		rc = epd_workflow_open(&dst->w, dst->s, name, 0, why);
	if (rc == 0)
		epd_shard_uuid(dst->w.shard, dst->uuid);
	return rc;
}

static void
drop_target(struct epd_half *dst)
{
	epd_workflow_close(&dst->w);
	if (!dst->near)
		epd_store_close(dst->s);
}

static int
offer(struct epd_store *s, const struct epd_offer *o, struct epd_workflow *src,
    struct epd_half *dst, uint8_t id[16], struct epd_why *why)
{
	struct epd_handoff h = {
		.state = o->state.state, .version = o->state.version,
		.store = dst->s->path, .workflow = dst->w.name,
		.deadline_ms = epd_clock_boot_ns() / 1000000 + (o->timeout_ms ?
		    o->timeout_ms : (uint64_t)s->config.handoff_ms),
	};
	struct epd_state st;
	uint8_t uuid[16];
	int rc = epd_shard_state(src->shard, o->state.state, &st);

	if (rc < 0)
		return epd_why(why, rc, "%s", epd_strerror(rc));
	if (st.status == EPD_SUSPECT)
		return epd_why(why, EPD_ESUSPECT, "it is SUSPECT");
	if (!h.version)
		h.version = st.versions;
	epd_shard_uuid(src->shard, uuid);
	if (!memcmp(uuid, dst->uuid, 16))
		return epd_why(why, EPD_EUSAGE, "it is in that workflow");
	if (getrandom(h.id, sizeof h.id, 0) != (ssize_t)sizeof h.id)
		return epd_why(why, -EIO, "no randomness to be had");
	rc = epd_clock_boot_id(h.boot);
	if (rc < 0)
		return epd_why(why, rc, "boot id: %s", epd_strerror(rc));
	memcpy(h.peer, dst->uuid, 16);
	memcpy(id, h.id, 16);
	return epd_shard_prepare(src->shard, &h, why);
}

int
epd_flow_handoff_prepare(struct epd_store *s, const struct epd_offer *o,
    struct epd_handed *out, struct epd_why *why)
{
	struct epd_workflow src;
	struct epd_handoff h;
	struct epd_half dst;
	struct epd_pair p;
	uint8_t id[16];
	int rc;

	if (o->state.kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	rc = epd_workflow_open(&src, s, o->state.workflow, 0, why);
	if (rc < 0)
		return rc;
	(void)epd_flow_handoff_settle(s, &src);
	rc = make_target(s, o, &dst, why);
	if (rc == 0)
		rc = offer(s, o, &src, &dst, id, why);
	drop_target(&dst);
	if (rc == 0)
		rc = epd_shard_handoff(src.shard, id, &h);
	if (rc == 0 && (rc = epd_pair_open(&p, s, &src, &h, why)) == 0) {
		rc = epd_pair_look(&p, why);
		epd_pair_tell(&p, out);
		epd_pair_close(&p);
	}
	epd_workflow_close(&src);
	return rc;
}

/* ---- by id ---- */

struct search {
	struct epd_store *s;
	const uint8_t *id;
	char workflow[EPD_WORKFLOW];	/* that has a half, the source's first */
	int source;
};

static int
search_one(void *arg, const char *name)
{
	struct search *x = arg;
	struct epd_workflow w;
	struct epd_handoff h;

	if (x->source || epd_workflow_open(&w, x->s, name, 1, NULL) < 0)
		return 0;
	if (epd_shard_handoff(w.shard, x->id, &h) == 0) {
		memcpy(x->workflow, w.name, sizeof x->workflow);
		x->source = !h.target;
	}
	epd_workflow_close(&w);
	return 0;
}

/* Call fn with the pair that a half in this store tells of. */
static int
with_pair(struct epd_store *s, const uint8_t id[16],
    int (*fn)(struct epd_pair *p, const char *reason, struct epd_why *why),
    const char *reason, struct epd_handed *out, struct epd_why *why)
{
	struct search x = { .s = s, .id = id };
	struct epd_workflow w;
	struct epd_handoff h;
	struct epd_pair p;
	int rc = epd_workflow_each(s, search_one, &x);

	if (rc == 0 && !*x.workflow)
		rc = EPD_ENOTHING;
	if (rc < 0)
		return epd_why(why, rc, "no such hand-off in this store: it "
		    "ended, or was never begun");
	if ((rc = epd_workflow_open(&w, s, x.workflow, 0, why)) < 0)
		return rc;
	rc = epd_shard_handoff(w.shard, id, &h);
	if (rc < 0)
		rc = epd_why(why, EPD_ENOTHING, "it ended meanwhile");
	if (rc == 0 && (rc = epd_pair_open(&p, s, &w, &h, why)) == 0) {
		rc = epd_pair_look(&p, why);
		epd_pair_tell(&p, out);
		if (rc == 0)
			rc = fn(&p, reason, why);
		out->to_state = p.to_state;
		out->source = p.src.h.phase;
		out->target = p.dst.h.phase;
		out->linked = p.moved.linked;
		out->copied = p.moved.copied;
		out->bytes = p.moved.bytes;
		out->missing = p.moved.missing;
		epd_pair_close(&p);
	}
	epd_workflow_close(&w);
	return rc;
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

static int
do_adopt(struct epd_pair *p, const char *reason, struct epd_why *why)
{
	int rc;

	if (p->src.s)
		return epd_why(why, EPD_ESTATUS, "its source %s of %s can be "
		    "reached: --commit asks it", p->src.workflow,
		    p->src.store);
	if (p->dst.h.phase != EPD_READY)
		return epd_why(why, EPD_ESTATUS, "the target is not ready");
	rc = epd_shard_adopt(p->dst.w.shard, p->id, reason, why);
	return rc < 0 ? rc : epd_pair_look(p, why);
}

int
epd_flow_handoff_commit(struct epd_store *s, const uint8_t id[16],
    struct epd_handed *out, struct epd_why *why)
{
	return with_pair(s, id, do_commit, "", out, why);
}

int
epd_flow_handoff_abort(struct epd_store *s, const uint8_t id[16],
    const char *reason, struct epd_handed *out, struct epd_why *why)
{
	return with_pair(s, id, do_abort, reason, out, why);
}

int
epd_flow_handoff_adopt(struct epd_store *s, const uint8_t id[16],
    const char *reason, struct epd_handed *out, struct epd_why *why)
{
	return with_pair(s, id, do_adopt, reason, out, why);
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
	return with_pair(s, id, do_nothing, "", out, why);
}

/* ---- all ---- */

struct each {
	struct epd_store *s;
	int (*fn)(void *arg, const struct epd_handed *h);
	void *arg;
	struct epd_why *why;
};

static int
each_one(void *arg, const char *name)
{
	struct each *e = arg;
	struct epd_handoff h = {0};
	struct epd_workflow w;
	struct epd_handed told;
	struct epd_pair p;
	uint64_t lsn = 0;
	int rc = epd_workflow_open(&w, e->s, name, 1, e->why);

	if (rc < 0)
		return rc == EPD_ENOTHING ? 0 : rc;
	while (rc == 0 && epd_shard_handoff_next(w.shard, lsn, &h) == 0) {
		lsn = h.lsn;
		if ((rc = epd_pair_open(&p, e->s, &w, &h, e->why)) < 0)
			break;
		/* Of two halves in one store the source tells of both. */
		rc = epd_pair_look(&p, e->why);
		if (rc == 0 && !(h.target && p.src.h.phase &&
		    p.src.s == e->s)) {
			epd_pair_tell(&p, &told);
			rc = e->fn(e->arg, &told);
		}
		epd_pair_close(&p);
	}
	epd_workflow_close(&w);
	return rc;
}

int
epd_flow_handoff_each(struct epd_store *s,
    int (*fn)(void *arg, const struct epd_handed *h), void *arg,
    struct epd_why *why)
{
	struct each e = { s, fn, arg, why };

	return epd_workflow_each(s, each_one, &e);
}

struct find {
	const char *hex;
	uint8_t id[16];
	int n;
};

static int
find_one(void *arg, const struct epd_handed *h)
{
	struct find *f = arg;
	char hex[33];

	epd_hex_format(hex, h->id, 16);
	if (!strncmp(hex, f->hex, strlen(f->hex)) &&
	    (f->n == 0 || memcmp(f->id, h->id, 16))) {
		memcpy(f->id, h->id, 16);
		f->n++;
	}
	return 0;
}

int
epd_flow_handoff_find(struct epd_store *s, const char *hex, uint8_t id[16],
    struct epd_why *why)
{
	struct find f = { .hex = hex };
	size_t n = strlen(hex);
	int rc;

	if (n < 4 || n > 32 || strspn(hex, "0123456789abcdef") != n)
		return epd_why(why, EPD_EUSAGE, "%.40s: a hand-off is 4 to 32 "
		    "lower-case hexadecimal digits", hex);
	rc = epd_flow_handoff_each(s, find_one, &f, why);
	if (rc < 0)
		return rc;
	if (f.n != 1)
		return epd_why(why, f.n ? EPD_EAMBIGUOUS : EPD_ENOTHING,
		    "%s: %s", hex, f.n ? "several hand-offs begin so" :
		    "no such hand-off: it ended, or was never begun");
	memcpy(id, f.id, 16);
	return 0;
}

/* ---- settling ---- */

/* Whether a half waits for nobody but time or its other half. */
static int
is_due(const struct epd_handoff *h)
{
	struct epd_pair p = { .src = { .h = *h } };

	return h->target || h->phase != EPD_PREPARED || epd_pair_expired(&p);
}

int
epd_flow_handoff_settle(struct epd_store *s, struct epd_workflow *w)
{
	struct epd_handoff h;
	uint64_t lsn = 0;
	int n = 0;

	while (epd_shard_handoff_next(w->shard, lsn, &h) == 0) {
		struct epd_why why = {{0}};
		struct epd_pair p;
		int rc;

		lsn = h.lsn;
		if (!is_due(&h) || epd_pair_open(&p, s, w, &h, &why) < 0)
			continue;
		rc = epd_pair_drive(&p, EPD_GOAL_SETTLE, "", &why);
		if (rc < 0)
			epd_log(&s->log, "op=settle workflow=%s why=\"%s\"",
			    w->name, why.text);
		n += rc == 0 && !p.src.h.phase && !p.dst.h.phase;
		epd_pair_close(&p);
	}
	return n;
}
