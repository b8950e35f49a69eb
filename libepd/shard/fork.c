/*
 * fork.c - branches.  One record whatever the context: each branch holds the
 * parent's node and has a sampler's salt of its own.
 *
 * A salt is a function of the parent's and of the seed with the branch's place,
 * or without a seed of the branch's number, which no other state ever has: so
 * the same log gives the same branches, and no two draw alike.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "shard/shard_in.h"

static uint64_t
salt_of(const struct epd_fork_ask *f, uint64_t parent, uint32_t first,
    uint32_t i)
{
	const uint64_t with[4] = {
		htole64(parent), htole64(f->has_seed ? 1 : 0),
		htole64(f->has_seed ? f->seed : 0),
		htole64(f->has_seed ? (uint64_t)i : (uint64_t)first + i),
	};
	uint64_t salt = epd_xxh3_64(with, sizeof with);

	return salt ? salt : 1;
}

/* With the lock held: the parent, the version (0: the newest), and its salt. */
static int
parent_of(struct epd_shard *s, const struct epd_fork_ask *f,
    struct epd_head **out, uint32_t *version, uint64_t *salt,
    struct epd_why *why)
{
	struct epd_head *h;
	int rc = epd_shard_find(s, f->state, &h);

	if (rc)
		return epd_why(why, rc, "s%u: %s", f->state, epd_strerror(rc));
	*version = f->version ? f->version : h->state.versions;
	if (f->expect && f->expect != h->state.versions)
		return epd_why(why, EPD_EVERSION, "s%u: it is at @%u, not @%u",
		    f->state, h->state.versions, f->expect);
	rc = epd_shard_free_to(s, f->state, why);
	if (!rc)
		rc = epd_shard_salt(s, f->state, *version, salt);
	if (rc == EPD_ENOTHING)
		return epd_why(why, rc, "s%u: it has no version @%u", f->state,
		    *version);
	if (rc == EPD_ECORRUPT)
		return epd_why(why, rc, "s%u@%u: %s", f->state, *version,
		    epd_strerror(rc));
	*out = h;
	return rc;
}

static uint64_t
deadline(const struct epd_fork_ask *f, const struct epd_head *h)
{
	return f->ttl_ms ? epd_shard_in(epd_clock_wall_ms(), f->ttl_ms) :
	    h->state.ttl_deadline_ms;
}

/* With the lock held. */
static int
write_fork(struct epd_shard *s, const struct epd_fork_ask *f, uint64_t *salts,
    uint32_t *first, struct epd_why *why)
{
	struct epd_fork r = {
		.id = f->state, .count = f->branches,
		.replace = f->replace != 0, .salts = salts,
		.reason = f->reason,
	};
	uint64_t parent = 0;
	struct epd_head *h;
	int rc = parent_of(s, f, &h, &r.version, &parent, why);

	if (rc)
		return rc;
	r.ttl_deadline_ms = deadline(f, h);
	epd_shard_frame(s, f->state);
	r.first = s->table->next_state;
	for (uint32_t i = 0; i < f->branches; i++)
		salts[i] = salt_of(f, parent, r.first, i);
	epd_fork_pack(&s->frame, &r);
	*first = r.first;
	return epd_shard_append(s, why);
}

static int
may_ask(const struct epd_fork_ask *f, struct epd_why *why)
{
	if (!f->branches || f->branches > EPD_FORK_MAX)
		return epd_why(why, -EINVAL, "%u branches; 1 to %d",
		    f->branches, EPD_FORK_MAX);
	if (epd_shard_long(f->reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	return 0;
}

static void
forked(struct epd_shard *s, const struct epd_fork_ask *f, uint32_t first)
{
	epd_count(s->o.metrics, EPD_M_STATES_CREATED, f->branches);
	epd_count(s->o.metrics, EPD_M_STATES_RELEASED, f->replace != 0);
	epd_log(s->o.log, "op=fork state=s%u branches=%u first=s%u replace=%d",
	    f->state, f->branches, first, f->replace);
}

int
epd_shard_fork(struct epd_shard *s, const struct epd_fork_ask *f,
    uint32_t *first, struct epd_why *why)
{
	uint64_t from = epd_clock_boot_ns(), *salts;
	uint32_t begin = 0;
	int rc;

	rc = may_ask(f, why);
	if (rc)
		return rc;
	salts = epd_calloc(f->branches, sizeof *salts);
	if (!salts)
		return -ENOMEM;
	rc = epd_shard_begin(s, why);
	if (!rc)
		rc = epd_shard_end(s, write_fork(s, f, salts, &begin, why),
		    why);
	epd_free(salts);
	if (rc)
		return rc;
	epd_count(s->o.metrics, EPD_M_CLONE_FORK_COUNT, 1);
	epd_count(s->o.metrics, EPD_M_CLONE_FORK_NS,
	    epd_clock_boot_ns() - from);
	forked(s, f, begin);
	*first = begin;
	return 0;
}

/* ---- branches that share nothing ---- */

struct alone {
	const struct epd_fork_ask *f;
	struct epd_state traits;
	struct epd_version v;
	uint64_t salt;			/* of the parent */
	uint32_t first, made;
};

/* The next few in one frame, and with the last ones the parent's end. */
static int
create_some(struct epd_shard *s, struct alone *a, struct epd_why *why)
{
	enum { END = EPD_STRING_MAX + 64 };	/* bytes of that, at most */
	const uint32_t left = a->f->branches - a->made;
	uint32_t n = 0;
	size_t one = 0;
	int rc;

	epd_frame_begin(&s->frame);
	while (n < left && n < EPD_SHARD_RECLAIM &&
	    s->frame.n + one + END <= EPD_FRAME_MAX) {
		const size_t before = s->frame.n;

		a->v.sampling.salt = salt_of(a->f, a->salt, a->first,
		    a->made + n);
		epd_create_pack(&s->frame, a->first + a->made + n, &a->traits,
		    &a->v);
		one = s->frame.n - before;
		n++;
	}
	if (n == left && a->f->replace)
		epd_shard_pack_release(s, a->f->state, a->f->reason);
	rc = epd_shard_append(s, why);
	a->made += rc ? 0 : n;
	return rc;
}

/* Those made before one that failed go along. */
static int
release_made(struct epd_shard *s, struct alone *a, struct epd_why *why)
{
	int rc = 0;

	while (!rc && a->made) {
		const uint32_t to = a->made > EPD_SHARD_RECLAIM ?
		    a->made - EPD_SHARD_RECLAIM : 0;

		epd_frame_begin(&s->frame);
		for (uint32_t i = a->made; i-- > to; )
			epd_shard_pack_release(s, a->first + i,
			    "its fork failed");
		rc = epd_shard_append(s, why);
		a->made = rc ? a->made : to;
	}
	return rc;
}

/* With the lock held. */
static int
write_alone(struct epd_shard *s, struct alone *a, struct epd_why *why)
{
	struct epd_head *h;
	int rc = parent_of(s, a->f, &h, &a->traits.parent_version, &a->salt,
	    why);

	/* Nothing is moved by a fork of this sort, but what may be forked may. */
	if (!rc)
		rc = epd_apply_meant(s->table, a->f->state, EPD_KIND_FORK,
		    a->f->replace ? EPD_STATE_FREE : EPD_STATE_SHARED, &h, why);
	if (rc)
		return rc;
	a->traits.parent_state = a->f->state;
	a->traits.ttl_deadline_ms = deadline(a->f, h);
	a->first = s->table->next_state;
	while (!rc && a->made < a->f->branches)
		rc = create_some(s, a, why);
	if (rc && rc != EPD_EUNSURE && a->made && release_made(s, a, NULL))
		rc = EPD_EUNSURE;
	return rc;
}

int
epd_shard_fork_alone(struct epd_shard *s, const struct epd_fork_ask *f,
    const struct epd_state *traits, const struct epd_version *v,
    uint32_t *first, struct epd_why *why)
{
	struct alone a = { .f = f, .traits = *traits, .v = *v };
	struct epd_why what = { "" };
	int rc = may_ask(f, why);

	if (!rc)
		rc = epd_shard_may_create(traits, v, why);
	if (!rc)
		rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	rc = write_alone(s, &a, &what);
	rc = epd_shard_end(s, rc, &what);
	if (rc == EPD_EUNSURE)
		return epd_why(why, rc, "%.160s; any of s%u to s%u may be "
		    "there", what.text, a.first, a.first + f->branches - 1);
	if (rc)
		return epd_why(why, rc, "%s", *what.text ? what.text :
		    epd_strerror(rc));
	forked(s, f, a.first);
	*first = a.first;
	return 0;
}
