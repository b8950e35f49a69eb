/*
 * rest.c - the two ways of a state that rests, and its wait.
 *
 * Of who moves a state there is one at most: the holder of an offload or a restore
 * lease, while the status says so.  Whatever ends his move ends the lease in the same
 * frame, so that he cannot end what another began after it.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "shard/life.h"
#include "shard/shard_in.h"

static const char dead[] = "who moved it died, or its time was over";

/* The lease of whoever moves the state out or in; one that stands, or any. */
static const struct epd_lease *
mover(struct epd_shard *s, uint32_t state, enum epd_lease_kind kind, int *stands)
{
	const struct epd_lease *any = NULL;

	*stands = 0;
	for (size_t i = 0; i < s->table->nleases; i++) {
		const struct epd_lease *l = &s->table->lease[i];

		if (l->state != state || l->kind != kind)
			continue;
		any = l;
		*stands = epd_shard_lease_stands(s, l);
		if (*stands)
			break;
	}
	return any;
}

/* One frame: a move, and a lease that begins or ends with it. */
struct step {
	enum epd_kind verb;
	enum epd_status to;
	const char *tier, *reason;
	enum epd_lease_kind take;	/* 0: none */
	uint64_t ttl_ms;
	uint64_t drop;			/* 0: none, nor if it is gone */
};

static int
step(struct epd_shard *s, const struct epd_state *st, const struct step *x,
    struct epd_why *why)
{
	const struct epd_move m = { .id = st->id, .to = x->to,
		.tier = x->tier ? x->tier : "", .reason = x->reason };
	const struct epd_drop d = { .lease = x->drop, .reason = x->reason };
	struct epd_lease l = { .state = st->id, .version = st->versions,
		.kind = x->take };

	epd_shard_frame(s, st->id);
	epd_move_pack(&s->frame, x->verb, &m);
	if (x->drop && epd_table_lease(s->table, x->drop))
		epd_drop_pack(&s->frame, &d);
	if (x->take) {
		l.holder = *epd_procs_self(s->o.procs);
		l.deadline_ms = epd_shard_in(epd_clock_boot_ns() / 1000000,
		    x->ttl_ms);
		epd_lease_pack(&s->frame, &l);
	}
	return epd_shard_append(s, why);
}

static int
back(struct epd_shard *s, const struct epd_state *st, enum epd_status to,
    uint64_t drop, const char *reason, struct epd_why *why)
{
	const struct step x = { .verb = EPD_KIND_RESTORE, .to = to,
		.reason = reason, .drop = drop };

	return step(s, st, &x, why);
}

/* Take the lock and find the state; end it with epd_shard_end whatever is given. */
static int
enter(struct epd_shard *s, uint32_t id, const char *reason, struct epd_head **h,
    struct epd_why *why)
{
	int rc;

	if (epd_shard_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	rc = epd_shard_find(s, id, h);
	if (!rc)
		return 0;
	epd_why(why, rc, "s%u: %s", id, epd_strerror(rc));
	return epd_shard_end(s, rc, why);
}

/* Let go of the lock; the last record was the lease if there is one. */
static int
leave(struct epd_shard *s, int rc, const char *what, uint32_t id,
    uint64_t *lease, struct epd_why *why)
{
	const uint64_t lsn = s->table->lsn;

	rc = epd_shard_end(s, rc, why);
	if (rc)
		return rc;
	if (lease) {
		*lease = lsn;
		epd_count(s->o.metrics, EPD_M_LEASES, 1);
	}
	epd_log(s->o.log, "op=%s state=s%u", what, id);
	return 0;
}

/* Nothing is to be logged, for rc: 1 (it is so already), or an error. */
static int
leave_be(struct epd_shard *s, int rc, const struct epd_rest *r,
    struct epd_rest *out, struct epd_why *why)
{
	const int ended = epd_shard_end(s, rc < 0 ? rc : 0, why);

	if (rc < 0 || ended < 0)
		return rc < 0 ? rc : ended;
	*out = *r;
	return rc;
}

static int
busy(const struct epd_lease *l, const char *what, struct epd_why *why)
{
	return epd_why(why, EPD_ELOCKED, "s%u: process %d is %s it", l->state,
	    (int)l->holder.pid, what);
}

/* Whether it may be moved out: 0, 1 (it is, or is on its way there), or an error. */
static int
may_offload(struct epd_shard *s, const struct epd_head *h, const char *tier,
    const struct epd_lease **left, struct epd_why *why)
{
	const struct epd_state *st = &h->state;
	int stands, rc = epd_shard_free_to(s, st->id, why);

	*left = NULL;
	if (rc)
		return rc;
	if (st->status == EPD_OFFLOADED && !strcmp(st->tier, tier))
		return 1;
	if (st->status == EPD_RESTORING && !h->pinned) {
		*left = mover(s, st->id, EPD_LEASE_RESTORE, &stands);
		if (stands)
			return busy(*left, "restoring", why);
	}
	if (st->status == EPD_OFFLOADING) {
		*left = mover(s, st->id, EPD_LEASE_OFFLOAD, &stands);
		if (stands)
			return strcmp(st->tier, tier) ?
			    busy(*left, "offloading", why) : 1;
	}
	return 0;
}

int
epd_shard_offload(struct epd_shard *s, uint32_t state, const char *tier,
    uint64_t ttl_ms, const char *reason, struct epd_rest *out,
    struct epd_why *why)
{
	struct step x = { .verb = EPD_KIND_OFFLOAD, .to = EPD_OFFLOADING,
		.tier = tier, .reason = reason, .take = EPD_LEASE_OFFLOAD,
		.ttl_ms = ttl_ms };
	const struct epd_lease *left;
	const char *by = reason;
	struct epd_rest r = { 0 };
	struct epd_head *h;
	int rc = s->o.procs ? enter(s, state, reason, &h, why) :
	    epd_why(why, -EINVAL, "a lease needs a holder");

	if (rc)
		return rc;
	rc = may_offload(s, h, tier, &left, why);
	r.was = h->state.status;
	r.version = h->state.versions;
	if (rc)
		return leave_be(s, rc, &r, out, why);
	x.drop = left ? left->id : 0;
	if (r.was == EPD_OFFLOADING || r.was == EPD_RESTORING)
		by = dead;
	/* From wherever it stands it goes by ACTIVE. */
	if (r.was == EPD_OFFLOADING || r.was == EPD_OFFLOADED)
		rc = back(s, &h->state, EPD_RESTORING, x.drop, by, why);
	if (!rc && h->state.status == EPD_RESTORING && !h->pinned)
		rc = back(s, &h->state, EPD_ACTIVE, x.drop, by, why);
	if (!rc)
		rc = step(s, &h->state, &x, why);
	rc = leave(s, rc, "offload", state, &r.lease, why);
	if (!rc)
		*out = r;
	return rc;
}

/* The move is still this lease's. */
static int
fenced(struct epd_shard *s, const struct epd_head *h, uint64_t lease,
    enum epd_lease_kind kind, struct epd_why *why)
{
	const struct epd_lease *l = epd_table_lease(s->table, lease);

	if (h->state.status != (kind == EPD_LEASE_OFFLOAD ? EPD_OFFLOADING :
	    EPD_RESTORING))
		return epd_why(why, EPD_ESTATUS, "s%u: it is %s by now",
		    h->state.id, epd_status_name(h->state.status));
	if (l && l->state == h->state.id && l->kind == kind)
		return 0;
	return epd_why(why, EPD_ELEASE, "s%u: lease %llu was over, and another "
	    "moves it since", h->state.id, (unsigned long long)lease);
}

int
epd_shard_offloaded(struct epd_shard *s, uint32_t state, uint64_t lease,
    const char *reason, struct epd_why *why)
{
	struct step x = { .verb = EPD_KIND_OFFLOAD, .to = EPD_OFFLOADED,
		.reason = reason, .drop = lease };
	struct epd_head *h;
	int rc = enter(s, state, reason, &h, why);

	if (rc)
		return rc;
	rc = fenced(s, h, lease, EPD_LEASE_OFFLOAD, why);
	x.tier = h->state.tier;
	if (!rc)
		rc = step(s, &h->state, &x, why);
	return leave(s, rc, "offloaded", state, NULL, why);
}

/* As may_offload. */
static int
may_restore(struct epd_shard *s, const struct epd_head *h,
    const struct epd_lease **left, struct epd_why *why)
{
	const enum epd_status is = h->state.status;
	int stands;

	*left = NULL;
	if (is == EPD_ACTIVE || is == EPD_SUSPECT)
		return 1;
	if (is == EPD_OFFLOADING)
		*left = mover(s, h->state.id, EPD_LEASE_OFFLOAD, &stands);
	if (is == EPD_RESTORING && !h->pinned) {
		*left = mover(s, h->state.id, EPD_LEASE_RESTORE, &stands);
		if (stands)
			return busy(*left, "restoring", why);
	}
	return 0;
}

int
epd_shard_restore(struct epd_shard *s, uint32_t state, uint64_t ttl_ms,
    const char *reason, struct epd_rest *out, struct epd_why *why)
{
	struct step x = { .verb = EPD_KIND_RESTORE, .to = EPD_RESTORING,
		.reason = reason, .take = EPD_LEASE_RESTORE, .ttl_ms = ttl_ms };
	const struct epd_lease *left;
	struct epd_rest r = { 0 };
	struct epd_head *h;
	int rc = s->o.procs ? enter(s, state, reason, &h, why) :
	    epd_why(why, -EINVAL, "a lease needs a holder");

	if (rc)
		return rc;
	rc = may_restore(s, h, &left, why);
	r.was = h->state.status;
	r.version = h->state.versions;
	if (rc)
		return leave_be(s, rc, &r, out, why);
	x.drop = left ? left->id : 0;
	rc = leave(s, step(s, &h->state, &x, why), "restore", state, &r.lease,
	    why);
	if (!rc)
		*out = r;
	return rc;
}

int
epd_shard_restored(struct epd_shard *s, uint32_t state, uint64_t lease,
    const char *reason, struct epd_why *why)
{
	const struct epd_lease *l;
	struct epd_head *h;
	int rc = enter(s, state, reason, &h, why);

	if (rc)
		return rc;
	l = epd_table_lease(s->table, lease);
	if (!l && h->state.status == EPD_ACTIVE)
		return epd_shard_end(s, 0, why);
	/* Each ends what it began: who moves out is not who restores. */
	rc = fenced(s, h, lease, l && l->kind == EPD_LEASE_OFFLOAD ?
	    EPD_LEASE_OFFLOAD : EPD_LEASE_RESTORE, why);
	if (!rc && h->state.status == EPD_OFFLOADING)
		rc = back(s, &h->state, EPD_RESTORING, 0, reason, why);
	if (!rc)
		rc = back(s, &h->state, EPD_ACTIVE, lease, reason, why);
	return leave(s, rc, "restored", state, NULL, why);
}

/* 1: nobody that lives moves it; left is the lease of who did, or NULL. */
static int
is_unfinished(struct epd_shard *s, const struct epd_head *h,
    const struct epd_lease **left)
{
	const enum epd_status is = h->state.status;
	int stands;

	if (h->pinned || (is != EPD_OFFLOADING && is != EPD_RESTORING))
		return 0;
	*left = mover(s, h->state.id, is == EPD_OFFLOADING ?
	    EPD_LEASE_OFFLOAD : EPD_LEASE_RESTORE, &stands);
	return !stands;
}

int
epd_shard_unfinished(struct epd_shard *s, uint32_t after,
    struct epd_state *out, struct epd_lease *left)
{
	const struct epd_lease *l = NULL;
	struct epd_head *h = epd_table_above(s->table, after);

	while (h && (epd_shard_expired(h) || !is_unfinished(s, h, &l)))
		h = epd_table_above(s->table, h->state.id);
	if (!h)
		return EPD_ENOSTATE;
	*out = h->state;
	*left = l ? *l : (struct epd_lease){ .id = 0 };
	return 0;
}

int
epd_shard_unfinished_end(struct epd_shard *s, uint32_t state,
    const char *reason, struct epd_why *why)
{
	const struct epd_lease *left = NULL;
	struct epd_head *h;
	uint64_t drop;
	int rc = enter(s, state, reason, &h, why);

	if (rc)
		return rc == EPD_ENOSTATE ? 0 : rc;
	if (!is_unfinished(s, h, &left))
		return epd_shard_end(s, 0, why);
	drop = left ? left->id : 0;
	/* There is no way back but by this. */
	if (h->state.status == EPD_OFFLOADING)
		rc = back(s, &h->state, EPD_RESTORING, 0, reason, why);
	if (!rc)
		rc = back(s, &h->state, EPD_ACTIVE, drop, reason, why);
	rc = leave(s, rc, "unfinished", state, NULL, why);
	return rc ? rc : 1;
}

int
epd_shard_at_rest(struct epd_shard *s, uint32_t state, void (*fn)(void *arg),
    void *arg, struct epd_why *why)
{
	struct epd_head *h;
	int rc = epd_shard_begin(s, why), rests = 0;

	if (rc)
		return rc;
	if (!epd_shard_find(s, state, &h) && h->state.status == EPD_OFFLOADED) {
		fn(arg);
		rests = 1;
	}
	rc = epd_shard_end(s, 0, why);
	return rc ? rc : rests;
}

int
epd_shard_wait(struct epd_shard *s, uint32_t state, const char *tool,
    uint64_t deadline_ms, const char *reason, struct epd_why *why)
{
	const struct epd_wait w = { state, *tool ? deadline_ms : 0, tool,
		reason };
	struct epd_head *h;
	int rc;

	if (epd_shard_long(tool))
		return epd_why(why, EPD_ETOOBIG, "a tool's name of more than "
		    "%d bytes", EPD_STRING_MAX - 1);
	rc = enter(s, state, reason, &h, why);
	if (rc)
		return rc;
	if (!*h->state.tool && !*tool)
		return epd_shard_end(s, 0, why);
	epd_shard_frame(s, state);
	epd_wait_pack(&s->frame, &w);
	return leave(s, epd_shard_append(s, why), "wait", state, NULL, why);
}
