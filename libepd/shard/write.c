/*
 * write.c - the verbs that append: lock, catch up, validate, append, flush,
 * publish, apply, unlock.  What is validated are the very bytes to be written.
 *
 * A frame holds the releases of what has expired and then the verb's record.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "shard/checkpoint.h"
#include "shard/life.h"
#include "shard/shard_in.h"

enum { RECLAIM = 64, STRING_MAX = EPD_STRING_MAX - 1 };

int
epd_shard_expired(const struct epd_head *h)
{
	return h->state.ttl_deadline_ms &&
	    epd_clock_wall_ms() >= h->state.ttl_deadline_ms;
}

/* Keep the runs that went for whoever asks to be told. */
static void
collect(struct epd_shard *s)
{
	for (struct epd_body *b = s->table->freed; b; b = b->next)
		if (b->run)
			epd_pack_u64(&s->untold, b->run);
	s->table->freed = NULL;
	/* Without memory for them a sweep will find the files. */
	s->untold.failed = 0;
}

static void
tell(struct epd_shard *s, void (*freed)(void *arg, uint64_t run), void *arg)
{
	struct epd_cur c = epd_cur(epd_span(s->untold.p, s->untold.n));

	if (!freed)
		return;
	while (epd_cur_left(&c))
		freed(arg, epd_unpack_u64(&c));
	s->untold.n = 0;
}

static void
pack_release(struct epd_shard *s, uint32_t id, const char *reason)
{
	struct epd_release r = { id, reason };

	epd_release_pack(&s->frame, &r);
}

/* Pack the release of what has expired, but for one; how many. */
static uint32_t
reclaim(struct epd_shard *s, uint32_t but)
{
	struct epd_table *t = s->table;
	uint64_t soonest = UINT64_MAX;
	uint32_t n = 0;

	/* Mostly nothing has, and then nobody need be looked at. */
	if (t->soonest == UINT64_MAX || epd_clock_wall_ms() < t->soonest)
		return 0;
	for (size_t i = 0; i < t->n; i++) {
		const struct epd_state *st = &t->head[i]->state;

		if (st->ttl_deadline_ms && st->ttl_deadline_ms < soonest)
			soonest = st->ttl_deadline_ms;
		if (st->id == but || n == RECLAIM ||
		    !epd_shard_expired(t->head[i]) ||
		    !epd_life_state(epd_life_of(st->status),
		    EPD_STATE_FREE, EPD_KIND_RELEASE))
			continue;
		pack_release(s, st->id, "expired");
		n++;
	}
	t->soonest = soonest;
	return n;
}

/* Prepare every record of the frame; what was prepared is dropped on failure. */
static int
prepare(struct epd_shard *s, uint64_t wall_ms, struct epd_change *c,
    struct epd_why *why)
{
	struct epd_cur in = epd_cur(epd_span(s->frame.p + EPD_FRAME_HEAD,
	    s->frame.n - EPD_FRAME_HEAD));
	struct epd_rec r = {
		.lsn = s->table->lsn, .term = s->table->term,
		.wall_ms = wall_ms,
	};
	int n = 0, rc;

	while ((rc = epd_record_next(&in, &r)) > 0) {
		r.lsn++;
		rc = epd_apply_prepare(s->table, &r, &c[n], why);
		if (rc)
			break;
		n++;
	}
	if (!rc)
		return n;
	while (n-- > 0)
		epd_apply_drop(s->table, &c[n]);
	return rc;
}

/* Append the frame that was packed, and apply it. */
static int
append(struct epd_shard *s, struct epd_why *why)
{
	uint64_t wall_ms = epd_clock_wall_ms();
	struct epd_change c[RECLAIM + 1];
	int n, rc;

	if (s->frame.failed) {
		epd_buf_free(&s->frame);
		return -ENOMEM;
	}
	n = prepare(s, wall_ms, c, why);
	if (n < 0)
		return n;
	rc = epd_wal_append(s->wal, &s->frame, (uint32_t)n, s->table->term,
	    wall_ms, why);
	for (int i = 0; !rc && i < n; i++)
		epd_apply_commit(s->table, &c[i]);
	while (rc && n-- > 0)
		epd_apply_drop(s->table, &c[n]);
	collect(s);
	return rc;
}

/*
 * Whether the log has grown enough.  Where the checkpoint that was to come with
 * this segment is missing (a crash, a full disk) an eighth is enough.
 */
static int
is_due(struct epd_shard *s)
{
	const struct epd_wal_pos *pos = epd_wal_pos(s->wal);
	uint64_t due = s->o.checkpoint_bytes;

	if (pos->offset < due / 8)
		return 0;
	/* Another process may have written it. */
	if (s->checkpoint_segment != pos->segment)
		epd_checkpoint_peek(s->dirfd, &s->checkpoint_segment,
		    &s->checkpoint_size);
	if (due < s->checkpoint_size)
		due = s->checkpoint_size;
	if (pos->segment > 1 && s->checkpoint_segment != pos->segment)
		due /= 8;
	return pos->offset >= due;
}

/* After an append, which stands whatever becomes of the checkpoint. */
static void
save_if_due(struct epd_shard *s)
{
	struct epd_why why = { "" };
	int rc;

	if (!is_due(s))
		return;
	rc = epd_shard_save(s, &why);
	if (rc)
		epd_log(s->o.log, "op=checkpoint error=%s why=\"%s\"",
		    epd_errlabel(rc), why.text);
}

static int
too_long(const char *s)
{
	return s && strlen(s) > STRING_MAX;
}

int
epd_shard_create(struct epd_shard *s, const struct epd_state *state,
    const struct epd_version *v, uint32_t *id, struct epd_why *why)
{
	uint32_t new;
	int rc;

	if (epd_body_size(v) > EPD_FRAME_MAX / 2 ||
	    too_long(state->model_path) || too_long(state->tenant) ||
	    too_long(state->fingerprint))
		return epd_why(why, EPD_ETOOBIG, "a version of %llu bytes, or "
		    "a string of more than %d",
		    (unsigned long long)epd_body_size(v), STRING_MAX);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	epd_frame_begin(&s->frame);
	reclaim(s, 0);
	new = s->table->next_state;
	epd_create_pack(&s->frame, new, state, v);
	rc = append(s, why);
	if (!rc) {
		epd_count(s->o.metrics, EPD_M_STATES_CREATED, 1);
		epd_log(s->o.log, "op=create state=s%u lsn=%llu tokens=%u "
		    "pages=%u", new, (unsigned long long)s->table->lsn,
		    v->nids, v->npages);
		*id = new;
		save_if_due(s);
	}
	epd_shard_end(s);
	return rc;
}

/* Whether key gave version expect + 1 before. */
static int
done_before(const struct epd_head *h, uint32_t expect, uint64_t key)
{
	return key && expect && expect < h->state.versions &&
	    h->v[expect].key == key;
}

int
epd_shard_advance(struct epd_shard *s, uint32_t id, uint32_t expect,
    uint64_t key, const struct epd_version *v, uint32_t *version,
    struct epd_why *why)
{
	struct epd_head *h;
	int rc;

	if (epd_body_size(v) > EPD_FRAME_MAX / 2)
		return epd_why(why, EPD_ETOOBIG, "a version of %llu bytes",
		    (unsigned long long)epd_body_size(v));
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	rc = epd_shard_find(s, id, &h);
	if (rc) {
		epd_why(why, rc, "s%u: %s", id, epd_strerror(rc));
	} else if (done_before(h, expect, key)) {
		*version = expect + 1;
	} else {
		epd_frame_begin(&s->frame);
		reclaim(s, id);
		epd_advance_pack(&s->frame, id, expect, key, v);
		rc = append(s, why);
		if (!rc) {
			epd_count(s->o.metrics, EPD_M_STATES_ADVANCED, 1);
			epd_log(s->o.log, "op=advance state=s%u@%u lsn=%llu "
			    "tokens=%u pages=%u", id, expect + 1,
			    (unsigned long long)s->table->lsn, v->nids,
			    v->npages);
			*version = expect + 1;
			save_if_due(s);
		}
	}
	epd_shard_end(s);
	return rc;
}

int
epd_shard_release(struct epd_shard *s, uint32_t id, const char *reason,
    void (*freed)(void *arg, uint64_t run), void *arg, struct epd_why *why)
{
	int rc;

	if (too_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", STRING_MAX);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	if (epd_table_find(s->table, id)) {
		epd_frame_begin(&s->frame);
		reclaim(s, id);
		pack_release(s, id, reason);
		rc = append(s, why);
		if (!rc) {
			epd_count(s->o.metrics, EPD_M_STATES_RELEASED, 1);
			epd_log(s->o.log, "op=release state=s%u lsn=%llu", id,
			    (unsigned long long)s->table->lsn);
			save_if_due(s);
		}
	} else if (!id || id >= s->table->next_state) {
		rc = epd_why(why, EPD_ENOSTATE, "s%u: %s", id,
		    epd_strerror(EPD_ENOSTATE));
	}
	epd_shard_end(s);
	/* Unlinking takes no lock: what is told here nobody can reach. */
	if (!rc)
		tell(s, freed, arg);
	return rc;
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
		epd_frame_begin(&s->frame);
		n = reclaim(s, 0);
		if (n)
			rc = append(s, why);
		if (rc)
			break;
		count += (int)n;
	} while (n == RECLAIM);
	if (!rc && count) {
		epd_count(s->o.metrics, EPD_M_STATES_RELEASED,
		    (uint64_t)count);
		epd_log(s->o.log, "op=expire states=%d lsn=%llu", count,
		    (unsigned long long)s->table->lsn);
		save_if_due(s);
	}
	/* With the lock in hand any temporary is a dead one's. */
	if (!rc)
		rc = epd_wal_sweep(s->wal, 0);
	epd_shard_end(s);
	tell(s, freed, arg);
	return rc ? rc : count;
}
