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

/* With the lock held. */
static int
write_fork(struct epd_shard *s, const struct epd_fork_ask *f, uint64_t *salts,
    uint32_t *first, struct epd_why *why)
{
	struct epd_fork r = {
		.id = f->state, .version = f->version, .count = f->branches,
		.replace = f->replace != 0, .salts = salts,
		.reason = f->reason,
	};
	uint64_t parent = 0;
	struct epd_head *h;
	int rc = epd_shard_find(s, f->state, &h);

	if (rc)
		return epd_why(why, rc, "s%u: %s", f->state, epd_strerror(rc));
	if (!r.version)
		r.version = h->state.versions;
	if (f->expect && f->expect != h->state.versions)
		return epd_why(why, EPD_EVERSION, "s%u: is at @%u, not @%u",
		    f->state, h->state.versions, f->expect);
	r.ttl_deadline_ms = f->ttl_ms ? epd_shard_in(epd_clock_wall_ms(),
	    f->ttl_ms) : h->state.ttl_deadline_ms;
	rc = epd_shard_free_to(s, f->state, why);
	if (!rc)
		rc = epd_shard_salt(s, f->state, r.version, &parent);
	if (rc == EPD_ENOTHING)
		return epd_why(why, rc, "s%u: has no version @%u", f->state,
		    r.version);
	if (rc == EPD_ECORRUPT)
		return epd_why(why, rc, "s%u@%u: %s", f->state, r.version,
		    epd_strerror(rc));
	if (rc)
		return rc;
	epd_shard_frame(s, f->state);
	r.first = s->table->next_state;
	for (uint32_t i = 0; i < f->branches; i++)
		salts[i] = salt_of(f, parent, r.first, i);
	epd_fork_pack(&s->frame, &r);
	*first = r.first;
	return epd_shard_append(s, why);
}

int
epd_shard_fork(struct epd_shard *s, const struct epd_fork_ask *f,
    uint32_t *first, struct epd_why *why)
{
	uint64_t from = epd_clock_boot_ns(), *salts;
	uint32_t begin = 0;
	int rc;

	if (!f->branches || f->branches > EPD_FORK_MAX)
		return epd_why(why, -EINVAL, "%u branches; 1 to %d",
		    f->branches, EPD_FORK_MAX);
	if (epd_shard_long(f->reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
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
	epd_count(s->o.metrics, EPD_M_STATES_CREATED, f->branches);
	epd_count(s->o.metrics, EPD_M_STATES_RELEASED, f->replace != 0);
	epd_count(s->o.metrics, EPD_M_CLONE_FORK_COUNT, 1);
	epd_count(s->o.metrics, EPD_M_CLONE_FORK_NS,
	    epd_clock_boot_ns() - from);
	epd_log(s->o.log, "op=fork state=s%u branches=%u first=s%u replace=%d",
	    f->state, f->branches, begin, f->replace);
	*first = begin;
	return 0;
}
