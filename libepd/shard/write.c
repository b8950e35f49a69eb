/*
 * write.c - the verbs that create, advance, move and release states.  What they
 * go through is append.c.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "shard/life.h"
#include "shard/shard_in.h"

int
epd_shard_may_create(const struct epd_state *state,
    const struct epd_version *v, struct epd_why *why)
{
	if (epd_body_size(v) > EPD_FRAME_MAX / 2 ||
	    epd_shard_long(state->model_path) || epd_shard_long(state->tenant) ||
	    epd_shard_long(state->fingerprint))
		return epd_why(why, EPD_ETOOBIG, "a version of %llu bytes, or "
		    "a string of more than %d",
		    (unsigned long long)epd_body_size(v), EPD_STRING_MAX - 1);
	return 0;
}

int
epd_shard_create(struct epd_shard *s, const struct epd_state *state,
    const struct epd_version *v, uint32_t *id, struct epd_why *why)
{
	uint32_t new;
	int rc = epd_shard_may_create(state, v, why);

	if (!rc)
		rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	epd_shard_frame(s, 0);
	new = s->table->next_state;
	epd_create_pack(&s->frame, new, state, v);
	rc = epd_shard_end(s, epd_shard_append(s, why), why);
	if (rc)
		return rc;
	epd_count(s->o.metrics, EPD_M_STATES_CREATED, 1);
	epd_log(s->o.log, "op=create state=s%u tokens=%u pages=%u", new,
	    v->nids, v->npages);
	*id = new;
	return 0;
}

/* Whether key gave version expect + 1 before. */
static int
done_before(const struct epd_head *h, uint32_t expect, uint64_t key)
{
	return key && expect && expect < h->state.versions &&
	    h->v[expect].key == key;
}

void
epd_shard_advanced(struct epd_shard *s, uint32_t id, uint32_t expect,
    const struct epd_version *v)
{
	epd_count(s->o.metrics, EPD_M_STATES_ADVANCED, 1);
	epd_log(s->o.log, "op=advance state=s%u@%u tokens=%u pages=%u", id,
	    expect + 1, v->nids, v->npages);
}

int
epd_shard_advance(struct epd_shard *s, uint32_t id, uint32_t expect,
    uint64_t key, const struct epd_version *v, uint32_t *version,
    struct epd_why *why)
{
	struct epd_head *h;
	int rc, before = 0;

	if (epd_body_size(v) > EPD_FRAME_MAX / 2)
		return epd_why(why, EPD_ETOOBIG, "a version of %llu bytes",
		    (unsigned long long)epd_body_size(v));
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	rc = epd_shard_find(s, id, &h);
	if (rc)
		epd_why(why, rc, "s%u: %s", id, epd_strerror(rc));
	else
		before = done_before(h, expect, key);
	if (!rc && !before)
		rc = epd_shard_free_to(s, id, why);
	if (!rc && !before) {
		epd_shard_frame(s, id);
		epd_advance_pack(&s->frame, id, expect, key, v);
		rc = epd_shard_append(s, why);
	}
	rc = epd_shard_end(s, rc, why);
	if (!rc && !before)
		epd_shard_advanced(s, id, expect, v);
	if (!rc)
		*version = expect + 1;
	return rc;
}

int
epd_shard_release(struct epd_shard *s, uint32_t id, const char *reason,
    void (*freed)(void *arg, uint64_t run), void *arg, struct epd_why *why)
{
	int rc, there;

	if (epd_shard_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	there = epd_table_find(s->table, id) != NULL;
	if (there) {
		epd_shard_frame(s, id);
		epd_shard_pack_release(s, id, reason);
		rc = epd_shard_append(s, why);
	} else if (!id || id >= s->table->next_state) {
		rc = epd_why(why, EPD_ENOSTATE, "s%u: %s", id,
		    epd_strerror(EPD_ENOSTATE));
	}
	rc = epd_shard_end(s, rc, why);
	if (rc)
		return rc;
	if (there) {
		epd_count(s->o.metrics, EPD_M_STATES_RELEASED, 1);
		epd_log(s->o.log, "op=release state=s%u", id);
	}
	/* Unlinking takes no lock: what is told here nobody can reach. */
	epd_shard_tell(s, freed, arg);
	return 0;
}

int
epd_shard_expire(struct epd_shard *s,
    void (*freed)(void *arg, uint64_t run), void *arg, struct epd_why *why)
{
	int count = 0, rc = epd_shard_begin(s, why);
	uint32_t n;

	if (rc)
		return rc;
	do {
		n = epd_shard_frame(s, 0);
		if (n)
			rc = epd_shard_append(s, why);
		if (rc)
			break;
		count += (int)n;
	} while (n == EPD_SHARD_RECLAIM);
	while (rc >= 0 && (rc = epd_shard_drop_dead(s, why)) ==
	    EPD_SHARD_RECLAIM)
		;
	rc = rc > 0 ? 0 : rc;
	if (!rc)
		rc = epd_wal_trim(s->wal, why);
	/* With the lock in hand any temporary is a dead one's. */
	if (!rc)
		rc = epd_wal_sweep(s->wal, 0);
	rc = epd_shard_end(s, rc, why);
	if (rc)
		return rc;
	if (count) {
		epd_count(s->o.metrics, EPD_M_STATES_RELEASED,
		    (uint64_t)count);
		epd_log(s->o.log, "op=expire states=%d", count);
	}
	epd_shard_tell(s, freed, arg);
	return count;
}

static int
move(struct epd_shard *s, uint32_t id, enum epd_kind verb,
    const char *reason, struct epd_why *why)
{
	struct epd_move m = { .id = id, .reason = reason };
	struct epd_head *h;
	int rc;

	if (epd_shard_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	/* Over is over; but the other two let what expired be reclaimed. */
	if (verb == EPD_KIND_SUSPECT && (rc = epd_shard_find(s, id, &h)))
		return epd_shard_end(s, epd_why(why, rc, "s%u: %s", id,
		    epd_strerror(rc)), why);
	m.to = verb == EPD_KIND_SUSPECT ? EPD_SUSPECT :
	    verb == EPD_KIND_ABORT ? EPD_ABORTED : EPD_ACTIVE;
	epd_shard_frame(s, id);
	epd_move_pack(&s->frame, verb, &m);
	rc = epd_shard_end(s, epd_shard_append(s, why), why);
	if (!rc)
		epd_log(s->o.log, "op=%s state=s%u", epd_kind_name(verb), id);
	return rc;
}

int
epd_shard_suspect(struct epd_shard *s, uint32_t id, const char *reason,
    struct epd_why *why)
{
	return move(s, id, EPD_KIND_SUSPECT, reason, why);
}

int
epd_shard_clear(struct epd_shard *s, uint32_t id, const char *reason,
    struct epd_why *why)
{
	return move(s, id, EPD_KIND_RESTORE, reason, why);
}

int
epd_shard_abort(struct epd_shard *s, uint32_t id, const char *reason,
    struct epd_why *why)
{
	return move(s, id, EPD_KIND_ABORT, reason, why);
}
