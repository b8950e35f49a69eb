/*
 * lease.c - leases: taken, renewed, dropped, and told dead.
 *
 * Of a state there is one decode lease in the tables at most: who takes one
 * drops in the same frame the dead one that is left, so that its holder cannot
 * come back to it.
 *
 * Their records are appended without a flush of their own: what a crash of the
 * machine takes back was a dead holder's anyway.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "shard/life.h"
#include "shard/shard_in.h"

#define LLU(x) ((unsigned long long)(x))

static const char over[] = "its holder died, or its time was over";

static uint64_t
boot_ms(void)
{
	return epd_clock_boot_ns() / 1000000;
}

uint64_t
epd_shard_in(uint64_t now_ms, uint64_t ms)
{
	return ms < UINT64_MAX - now_ms ? now_ms + ms : UINT64_MAX;
}

int
epd_shard_lease_stands(struct epd_shard *s, const struct epd_lease *l)
{
	uint8_t boot[16];

	if (boot_ms() >= l->deadline_ms)
		return 0;
	/* What cannot be told lives until its deadline. */
	if (s->o.procs)
		return epd_procs_alive(s->o.procs, &l->holder) != 0;
	return epd_clock_boot_id(boot) || !memcmp(boot, l->holder.boot, 16);
}

/* The state's decode lease, a dead one if none stands. */
static const struct epd_lease *
decoder(struct epd_shard *s, uint32_t state)
{
	const struct epd_lease *dead = NULL;

	for (size_t i = 0; i < s->table->nleases; i++) {
		const struct epd_lease *l = &s->table->lease[i];

		if (l->state != state || l->kind != EPD_LEASE_DECODE)
			continue;
		if (epd_shard_lease_stands(s, l))
			return l;
		dead = l;
	}
	return dead;
}

/*
 * A lease that this process has and may act by.  Its time does not matter: who
 * made use of its being over has dropped it.
 */
static int
held(struct epd_shard *s, uint64_t id, const struct epd_lease **out,
    struct epd_why *why)
{
	const struct epd_lease *l = epd_table_lease(s->table, id);
	const struct epd_proc *self = s->o.procs ?
	    epd_procs_self(s->o.procs) : NULL;

	if (!l)
		return epd_why(why, EPD_ELEASE, "lease %llu was over, others "
		    "have come since, and nothing is kept", LLU(id));
	/* Where a failed flush took one back its number may be another's. */
	if (!self || self->pid != l->holder.pid ||
	    self->start != l->holder.start ||
	    memcmp(self->boot, l->holder.boot, sizeof self->boot))
		return epd_why(why, EPD_ELEASE, "lease %llu is process %d's",
		    LLU(id), (int)l->holder.pid);
	*out = l;
	return 0;
}

int
epd_shard_free_to(struct epd_shard *s, uint32_t state, struct epd_why *why)
{
	const struct epd_lease *l = decoder(s, state);

	if (!l || !epd_shard_lease_stands(s, l))
		return 0;
	return epd_why(why, EPD_ELOCKED, "s%u: process %d is decoding it",
	    state, (int)l->holder.pid);
}

static int
midway(uint32_t state, struct epd_why *why)
{
	return epd_why(why, EPD_ESTATUS, "s%u: mid-hand-off, until that is "
	    "decided", state);
}

static void
pack_drop(struct epd_shard *s, uint64_t id, const char *reason)
{
	struct epd_drop d = { .lease = id, .reason = reason };

	epd_drop_pack(&s->frame, &d);
}

/* Append what was packed, without a flush. */
static int
append(struct epd_shard *s, struct epd_why *why)
{
	int rc;

	epd_wal_relax(s->wal, 1);
	rc = epd_shard_append(s, why);
	epd_wal_relax(s->wal, 0);
	return rc;
}

int
epd_shard_lease(struct epd_shard *s, uint32_t state, uint32_t version,
    enum epd_lease_kind kind, uint64_t ttl_ms, uint64_t *id,
    struct epd_why *why)
{
	struct epd_lease l = {
		.state = state, .version = version, .kind = kind,
	};
	const struct epd_lease *dead;
	struct epd_head *h;
	uint64_t lsn;
	int rc;

	if (!s->o.procs || !epd_lease_name(kind))
		return epd_why(why, -EINVAL, "a lease needs a holder and a "
		    "kind");
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	lsn = s->table->lsn;
	rc = epd_shard_find(s, state, &h);
	if (rc)
		epd_why(why, rc, "s%u: %s", state, epd_strerror(rc));
	else if (kind == EPD_LEASE_DECODE && h->pinned)
		rc = midway(state, why);
	else if (kind == EPD_LEASE_DECODE && (h->state.status == EPD_OFFLOADING ||
	    h->state.status == EPD_OFFLOADED ||
	    h->state.status == EPD_RESTORING))
		rc = epd_why(why, EPD_ESTATUS, "s%u: it is %s", state,
		    epd_status_name(h->state.status));
	else if (kind == EPD_LEASE_DECODE)
		rc = epd_shard_free_to(s, state, why);
	if (!rc) {
		if (!version)
			l.version = h->state.versions;
		l.holder = *epd_procs_self(s->o.procs);
		l.deadline_ms = epd_shard_in(boot_ms(), ttl_ms);
		epd_frame_begin(&s->frame);
		dead = kind == EPD_LEASE_DECODE ? decoder(s, state) : NULL;
		if (dead)
			pack_drop(s, dead->id, over);
		epd_lease_pack(&s->frame, &l);
		rc = append(s, why);
	}
	l.id = s->table->lsn;
	rc = epd_shard_end_lazy(s, rc, lsn, why);
	if (rc)
		return rc;
	epd_count(s->o.metrics, EPD_M_LEASES, 1);
	*id = l.id;
	return 0;
}

int
epd_shard_renew(struct epd_shard *s, uint64_t id, uint64_t ttl_ms,
    struct epd_why *why)
{
	const struct epd_lease *old;
	const struct epd_head *h;
	struct epd_lease l;
	uint64_t lsn;
	int rc = epd_shard_begin(s, why);

	if (rc)
		return rc;
	lsn = s->table->lsn;
	rc = held(s, id, &old, why);
	/* A hand-off that began when it was over needs to drop nothing. */
	h = rc ? NULL : epd_table_find(s->table, old->state);
	if (h && h->pinned && old->kind == EPD_LEASE_DECODE)
		rc = midway(old->state, why);
	if (!rc) {
		l = *old;
		l.deadline_ms = epd_shard_in(boot_ms(), ttl_ms);
		epd_frame_begin(&s->frame);
		epd_lease_pack(&s->frame, &l);
		rc = append(s, why);
	}
	return epd_shard_end_lazy(s, rc, lsn, why);
}

int
epd_shard_drop(struct epd_shard *s, uint64_t id, const char *reason,
    struct epd_why *why)
{
	uint64_t lsn;
	size_t untold;
	int rc;

	if (epd_shard_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	lsn = s->table->lsn;
	untold = s->untold.n;
	if (epd_table_lease(s->table, id)) {
		epd_frame_begin(&s->frame);
		pack_drop(s, id, reason);
		rc = append(s, why);
	}
	/* It was the last to hold something: what that had may be removed. */
	if (s->untold.n != untold)
		return epd_shard_end(s, rc, why);
	return epd_shard_end_lazy(s, rc, lsn, why);
}

int
epd_shard_advance_leased(struct epd_shard *s, uint64_t lease, uint32_t id,
    uint32_t expect, const struct epd_version *v, uint32_t *version,
    struct epd_why *why)
{
	const struct epd_lease *l;
	struct epd_head *h;
	int rc;

	if (epd_body_size(v) > EPD_FRAME_MAX / 2)
		return epd_why(why, EPD_ETOOBIG, "a version of %llu bytes",
		    LLU(epd_body_size(v)));
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	rc = epd_shard_find(s, id, &h);
	if (rc)
		epd_why(why, rc, "s%u: %s", id, epd_strerror(rc));
	else
		rc = held(s, lease, &l, why);
	if (!rc && l->state != id)
		rc = epd_why(why, EPD_ELEASE, "lease %llu is on s%u",
		    LLU(lease), l->state);
	if (!rc && l->kind != EPD_LEASE_DECODE)
		rc = epd_shard_free_to(s, id, why);
	if (!rc) {
		epd_shard_frame(s, id);
		epd_advance_pack(&s->frame, id, expect, 0, v);
		pack_drop(s, lease, "done");
		rc = epd_shard_append(s, why);
	}
	rc = epd_shard_end(s, rc, why);
	if (rc)
		return rc;
	epd_shard_advanced(s, id, expect, v);
	*version = expect + 1;
	return 0;
}

int
epd_shard_lease_next(struct epd_shard *s, uint64_t after,
    struct epd_lease *out)
{
	for (size_t i = 0; i < s->table->nleases; i++)
		if (s->table->lease[i].id > after) {
			*out = s->table->lease[i];
			return 0;
		}
	return -ENOENT;
}

int
epd_shard_drop_dead(struct epd_shard *s, struct epd_why *why)
{
	int n = 0, rc;

	epd_frame_begin(&s->frame);
	for (size_t i = 0; i < s->table->nleases && n < EPD_SHARD_RECLAIM; i++)
		if (!epd_shard_lease_stands(s, &s->table->lease[i])) {
			pack_drop(s, s->table->lease[i].id, over);
			n++;
		}
	rc = n ? append(s, why) : 0;
	return rc ? rc : n;
}
