/* release.c - many states at once: frames of many, under one lock and flush. */
#include "shard/shard_in.h"

/* Those in one frame; how many. */
static int
give_up_some(struct epd_shard *s, uint32_t id, int all, const char *reason,
    struct epd_why *why)
{
	struct epd_move m = { .to = EPD_ABORTED, .reason = reason };
	const struct epd_table *t = s->table;
	int n = 0, rc;

	epd_frame_begin(&s->frame);
	for (size_t i = 0; i < t->n && n < EPD_SHARD_RECLAIM; i++) {
		const struct epd_head *h = t->head[i];

		if (h->state.status != EPD_SUSPECT || h->pinned ||
		    !(all || h->state.id == id || epd_shard_expired(h)))
			continue;
		m.id = h->state.id;
		epd_move_pack(&s->frame, EPD_KIND_ABORT, &m);
		n++;
	}
	rc = n ? epd_shard_append(s, why) : 0;
	return rc ? rc : n;
}

int
epd_shard_give_up(struct epd_shard *s, uint32_t id, int all,
    const char *reason, struct epd_why *why)
{
	int rc;

	if (epd_shard_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	while ((rc = give_up_some(s, id, all, reason, why)) ==
	    EPD_SHARD_RECLAIM)
		;
	return epd_shard_end(s, rc < 0 ? rc : 0, why);
}

/* The newest ones in one frame; what has expired has one before. */
static int
release_some(struct epd_shard *s, uint32_t most, const char *reason,
    struct epd_why *why)
{
	const struct epd_table *t = s->table;
	uint32_t n = epd_shard_frame(s, 0);
	int rc;

	if (n)
		most = n;
	for (size_t i = t->n; i-- > 0 && n < most; )
		if (!epd_shard_expired(t->head[i])) {
			epd_shard_pack_release(s, t->head[i]->state.id, reason);
			n++;
		}
	if (!n)
		return 0;
	rc = epd_shard_append(s, why);
	return rc ? rc : (int)n;
}

/* Room in the log for the release of all: on a full disk none goes, not some. */
static int
reserve(struct epd_shard *s, const char *reason, struct epd_why *why)
{
	const uint64_t n = s->table->n, frames = n / EPD_SHARD_RECLAIM + 2;
	uint64_t one;

	epd_frame_begin(&s->frame);
	epd_shard_pack_release(s, 1, reason);
	if (s->frame.failed || !n)
		return 0;
	one = s->frame.n - EPD_FRAME_HEAD;
	return epd_wal_reserve(s->wal, n * one + frames * EPD_FRAME_HEAD, why);
}

int
epd_shard_release_all(struct epd_shard *s, const char *reason,
    void (*freed)(void *arg, uint64_t run), void *arg, struct epd_why *why)
{
	struct epd_why what = { "" };
	size_t all;
	int count = 0, n, rc;

	if (epd_shard_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	all = s->table->n;
	rc = reserve(s, reason, why);
	if (rc)
		return epd_shard_end(s, rc, why);
	while ((n = release_some(s, EPD_SHARD_RECLAIM, reason, &what)) > 0)
		count += n;
	/* A frame is refused whole: those before the one that may not go do. */
	while (n == EPD_ESTATUS && (rc = release_some(s, 1, reason,
	    &what)) > 0)
		count += rc;
	rc = epd_shard_end(s, n == EPD_ESTATUS ? rc : n, &what);
	if (rc && count)
		epd_why(why, rc, "%d of %zu states released, then: %s", count,
		    all, *what.text ? what.text : epd_strerror(rc));
	else if (rc)
		epd_why(why, rc, "%s", *what.text ? what.text :
		    epd_strerror(rc));
	if (count) {
		epd_count(s->o.metrics, EPD_M_STATES_RELEASED,
		    (uint64_t)count);
		epd_log(s->o.log, "op=release states=%d", count);
		epd_shard_tell(s, freed, arg);
	}
	return rc ? rc : count;
}
