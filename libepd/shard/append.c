/*
 * append.c - what every verb that appends goes through: lock, catch up,
 * validate, append, apply; what follows is group.c.  What is validated are the
 * very bytes to be written.
 *
 * A frame holds the releases of what has expired and then the verb's record.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "shard/checkpoint.h"
#include "shard/life.h"
#include "shard/shard_in.h"

enum {
	VERB = 3,	/* records of a verb, at most */
	UNTOLD = 16	/* bytes of one that is */
};

int
epd_shard_expired(const struct epd_head *h)
{
	return h->state.ttl_deadline_ms &&
	    epd_clock_wall_ms() >= h->state.ttl_deadline_ms;
}

static int
untold(void *arg, uint64_t run)
{
	struct epd_shard *s = arg;

	epd_pack_u64(&s->untold, s->table->lsn);
	epd_pack_u64(&s->untold, run);
	return 0;
}

/* Keep the runs that went for whoever asks to be told. */
static void
collect(struct epd_shard *s)
{
	struct epd_span body;

	for (struct epd_body *b = s->table->freed; b; b = b->next)
		if (!b->nlinks && b->run)
			(void)untold(s, b->run);
		else if (b->nlinks && !epd_table_body(s->table, b, &body))
			(void)epd_body_runs(body, untold, s);
	s->table->freed = NULL;
	/* Without memory for them a sweep will find the files. */
	s->untold.n -= s->untold.n % UNTOLD;
	s->untold.failed = 0;
}

/* How many bytes of what is untold may be told. */
static size_t
durable(const struct epd_shard *s)
{
	const uint64_t to = epd_wal_done(s->wal, 0);
	struct epd_cur c = epd_cur(epd_span(s->untold.p, s->untold.n));
	size_t n = 0;

	for (; epd_cur_left(&c) && epd_unpack_u64(&c) <= to; n += UNTOLD)
		epd_unpack_u64(&c);
	return n;
}

void
epd_shard_forget_untold(struct epd_shard *s)
{
	s->untold.n = durable(s);
}

void
epd_shard_tell(struct epd_shard *s, void (*freed)(void *arg, uint64_t run),
    void *arg)
{
	struct epd_buf mine;
	struct epd_cur c;
	size_t n;

	if (!freed)
		return;
	pthread_mutex_lock(&s->mutex);
	n = durable(s);
	mine = s->untold;
	s->untold = (struct epd_buf){ 0 };
	/* Without memory a sweep will find these too. */
	if (mine.n > n)
		epd_buf_put(&s->untold, mine.p + n, mine.n - n);
	s->untold.failed = 0;
	pthread_mutex_unlock(&s->mutex);
	c = epd_cur(epd_span(mine.p, n));
	while (epd_cur_left(&c)) {
		epd_unpack_u64(&c);
		freed(arg, epd_unpack_u64(&c));
	}
	epd_buf_free(&mine);
}

void
epd_shard_pack_release(struct epd_shard *s, uint32_t id, const char *reason)
{
	struct epd_release r = { id, reason };

	epd_release_pack(&s->frame, &r);
}

uint32_t
epd_shard_frame(struct epd_shard *s, uint32_t but)
{
	struct epd_table *t = s->table;
	uint64_t soonest = UINT64_MAX;
	uint32_t n = 0;

	epd_frame_begin(&s->frame);
	/* Mostly nothing has, and then nobody need be looked at. */
	if (t->soonest == UINT64_MAX || epd_clock_wall_ms() < t->soonest)
		return 0;
	for (size_t i = 0; i < t->n; i++) {
		const struct epd_state *st = &t->head[i]->state;

		if (st->ttl_deadline_ms && st->ttl_deadline_ms < soonest)
			soonest = st->ttl_deadline_ms;
		if (st->id == but || n == EPD_SHARD_RECLAIM || t->head[i]->pinned ||
		    !epd_shard_expired(t->head[i]) ||
		    !epd_life_state(epd_life_of(st->status),
		    EPD_STATE_FREE, EPD_KIND_RELEASE))
			continue;
		epd_shard_pack_release(s, st->id, "expired");
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

int
epd_shard_append(struct epd_shard *s, struct epd_why *why)
{
	uint64_t wall_ms = epd_clock_wall_ms();
	struct epd_change c[EPD_SHARD_RECLAIM + VERB];
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
	/* What was appended stands whatever becomes of the checkpoint. */
	if (!rc)
		save_if_due(s);
	return rc;
}

int
epd_shard_long(const char *s)
{
	return s && strlen(s) > EPD_STRING_MAX - 1;
}
