/*
 * wal_write.c - what the holder of the workflow's lock does to a log.
 *
 * Append: cut what is torn, write, mark the end; flushed and published it is
 * without the lock, in wal_flush.c.  Where it fails:
 *
 *	write	the fragment is cut off again, so that later frames follow the
 *		last whole one; the records are not in the log
 *	flush	the pages may be marked clean though the disk has not got them:
 *		the marker `unsure` is left, and this handle appends no more.
 *		Whoever opens or appends next copies what the disk gives back,
 *		past the page cache, to a new file of the same name
 *	tip	the records are durable but unpublished; the next adopt finds
 *		them
 *
 * Rotate flushes, makes the next segment whole before its name appears, and
 * moves the tip.  A segment is never written again once a next one exists.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "shard/wal_in.h"

/* What a file system's times may lag behind, or those of one with whole seconds. */
enum { TICK_MS = 50, TICK_WHOLE_MS = 2050 };

int
epd_wal_harden(struct epd_wal *w, struct epd_why *why)
{
	uint8_t b[16384];
	uint64_t at = w->soft;
	ssize_t n;
	int rc = 0;

	for (; !rc && w->soft && at < w->pos.offset; at += (uint64_t)n) {
		uint64_t left = w->pos.offset - at;

		n = epd_file_pread(w->fd, b, left < sizeof b ? (size_t)left :
		    sizeof b, at);
		if (n <= 0)
			rc = n ? (int)n : -ESTALE;
		else
			rc = epd_file_pwrite(w->fd, b, (size_t)n, at);
	}
	if (rc)
		return epd_why(why, rc, "log.%08u: %s", w->pos.segment,
		    epd_strerror(rc));
	w->soft = 0;
	w->fresh = 0;
	return 0;
}

/* With the lock: everything up to pos is to be durable. */
static int
flush(struct epd_wal *w, struct epd_why *why)
{
	int rc = epd_wal_harden(w, why);

	if (rc)
		return rc;
	rc = epd_file_datasync(w->fd);
	epd_count(w->metrics, EPD_M_LOG_FLUSHES, 1);
	/* Another's may have failed of what this one found clean. */
	if (!rc && epd_wal_exists(w, EPD_WAL_UNSURE))
		rc = -EIO;
	if (rc)
		return epd_wal_unsure(w, rc, 1, why);
	w->flushed = w->pos.lsn;
	return 0;
}

static int
cut(struct epd_wal *w, struct epd_why *why)
{
	int rc = 0;

	if (!w->torn)
		return 0;
	if (ftruncate(w->fd, (off_t)w->pos.offset) < 0)
		rc = -errno;
	if (rc)
		return epd_why(why, rc, "log.%08u: its torn tail: %s",
		    w->pos.segment, epd_strerror(rc));
	epd_count(w->metrics, EPD_M_TORN_TAILS, 1);
	w->torn = 0;
	w->win.n = 0;
	return w->flags & EPD_WAL_RELAXED ? 0 : flush(w, why);
}

int
epd_wal_trim(struct epd_wal *w, struct epd_why *why)
{
	return w->poisoned ? epd_wal_poisoned(why) : cut(w, why);
}

static int
make_segment(struct epd_wal *w, const struct epd_segment *s)
{
	uint8_t b[EPD_SEGMENT_HEAD];
	struct epd_span part = { b, sizeof b };
	char name[EPD_WAL_NAME];

	epd_segment_pack(b, s);
	epd_wal_name(name, s->number);
	return epd_file_replace(w->dirfd, name, &part, 1, 1);
}

int
epd_wal_begin(struct epd_wal *w, struct epd_why *why)
{
	struct epd_segment s = {
		.number = 1, .base = 1, .wall_ms = epd_clock_wall_ms(),
	};
	int rc = epd_wal_lost(w, why);

	if (rc)
		return rc;
	if (getrandom(s.uuid, 16, 0) != 16 ||
	    getrandom(&s.salt, sizeof s.salt, 0) != sizeof s.salt)
		return -EIO;
	s.uuid[6] = (uint8_t)((s.uuid[6] & 15) | 64);	/* RFC 9562, version 4 */
	s.uuid[8] = (uint8_t)((s.uuid[8] & 63) | 128);
	/* The tip first: where there is a log, a missing tip is damage. */
	w->seg = s;
	w->pos = (struct epd_wal_pos){ 1, EPD_SEGMENT_HEAD, 0 };
	w->flushed = 0;
	rc = epd_wal_publish(w);
	if (!rc)
		rc = epd_file_datasync(w->tipfd);
	if (!rc)
		rc = make_segment(w, &s);
	if (rc)
		return epd_why(why, rc, "making the log: %s", epd_strerror(rc));
	return epd_wal_seek(w, 1, 0, why);
}

/*
 * Whether no name in the folder was made, moved or removed since this was last
 * asked.  A change soon after another may have the same time.  The tip is asked
 * too, for clocks that are set back.
 */
static int
is_still(struct epd_wal *w)
{
	struct timespec now;
	struct stat st;
	int still;

	if (fstat(w->dirfd, &st) < 0 || clock_gettime(CLOCK_REALTIME, &now))
		return w->still = 0;
	still = w->still && st.st_mtim.tv_sec == w->changed.tv_sec &&
	    st.st_mtim.tv_nsec == w->changed.tv_nsec &&
	    !w->tip_bad && w->tip.again == w->again &&
	    w->tip.segment == w->pos.segment;
	w->changed = st.st_mtim;
	w->still = (now.tv_sec - st.st_mtim.tv_sec) * 1000 +
	    (now.tv_nsec - st.st_mtim.tv_nsec) / 1000000 >
	    (st.st_mtim.tv_nsec ? TICK_MS : TICK_WHOLE_MS);
	return still;
}

/* Nothing whole at pos: 1 to go on in the next segment, 0 at the end. */
static int
adopt_gap(struct epd_wal *w, uint64_t size, int still, struct epd_why *why)
{
	char next[EPD_WAL_NAME];
	int rc;

	if (size < w->pos.offset)
		return -ESTALE;
	epd_wal_name(next, w->pos.segment + 1);
	if (!still && epd_wal_exists(w, next)) {
		if (w->pos.offset < size)
			return epd_wal_damage(w, why,
			    "damaged, and another segment follows");
		rc = epd_wal_switch(w, w->pos.segment + 1, w->pos.lsn, why);
		return rc ? rc : 1;
	}
	if (w->pos.lsn < w->tip.flushed)
		return epd_wal_damage(w, why, size <= w->pos.offset ?
		    "the log ends before what was published" :
		    "damaged before the end of what was published");
	rc = w->pos.offset < size ? epd_wal_proof(w, size) : 0;
	if (rc < 0)
		return rc;
	if (rc)
		return epd_wal_damage(w, why,
		    "damaged, and a whole frame lies behind");
	w->torn = size > w->pos.offset ? size - w->pos.offset : 0;
	return 0;
}

int
epd_wal_settle(struct epd_wal *w, struct epd_why *why)
{
	int rc;

	if (!w->tip_bad && w->tip.lsn == w->pos.lsn &&
	    w->tip.segment == w->pos.segment)
		return 0;
	rc = flush(w, why);
	if (rc)
		return rc;
	rc = epd_wal_publish(w);
	return rc ? epd_why(why, rc, "tip: %s", epd_strerror(rc)) : 0;
}

/* Tip and mark say what was found; mostly they do. */
static int
put_right(struct epd_wal *w, struct epd_why *why)
{
	int rc = 0;

	if (w->tip_bad) {
		/* Nobody who waits may take the new tip for that he knew. */
		rc = epd_wal_renew(&w->again);
		w->begun = 1;
		return rc ? rc : epd_wal_settle(w, why);
	}
	/* Published and not flushed, and a crash took it. */
	if (w->tip.lsn > w->pos.lsn)
		rc = epd_wal_publish(w);
	else if (!epd_wal_marked(w))
		rc = epd_wal_mark_end(w);
	return rc ? epd_why(why, rc, "tip: %s", epd_strerror(rc)) : 0;
}

/* Read on to the end; still: no names have changed. */
static int
read_on(struct epd_wal *w, int still, epd_wal_fn *fn, void *arg,
    struct epd_why *why)
{
	struct epd_frame f;
	uint64_t size = 0;
	int rc;

	w->torn = 0;
	w->win.n = 0;
	do {
		rc = epd_wal_size(w, &size);
		while (!rc) {
			rc = epd_wal_step(w, size, &f, why);
			if (rc <= 0)
				break;
			rc = epd_wal_deliver(w, &f, fn, arg, why);
		}
		if (!rc)
			rc = adopt_gap(w, size, still, why);
	} while (rc > 0);
	return rc;
}

static int
adopt(struct epd_wal *w, epd_wal_fn *fn, void *arg, struct epd_why *why)
{
	int rc = epd_wal_read_tip(w, 0, why), still = !rc && is_still(w);

	if (!rc && !still && epd_wal_exists(w, EPD_WAL_UNSURE)) {
		rc = epd_wal_recover(w, why);
		if (!rc)
			rc = epd_wal_read_tip(w, 0, why);
	}
	if (rc)
		return rc;
	if (!w->tip_bad && memcmp(w->tip.uuid, w->seg.uuid, 16))
		return epd_why(why, EPD_ECORRUPT, "tip: of another workflow");
	rc = still ? 0 : epd_wal_same(w);
	if (rc)
		return rc == -ENOENT ? -ESTALE : rc;
	rc = read_on(w, still, fn, arg, why);
	if (rc)
		return rc;
	if (w->flushed < w->tip.flushed)
		w->flushed = w->tip.flushed;
	if (!(w->flags & EPD_WAL_RELAXED))
		rc = epd_wal_harden(w, why);
	return rc ? rc : put_right(w, why);
}

int
epd_wal_adopt(struct epd_wal *w, epd_wal_fn *fn, void *arg,
    struct epd_why *why)
{
	int rc;

	if (w->poisoned)
		return epd_wal_poisoned(why);
	rc = adopt(w, fn, arg, why);
	/* What names it did not look at are to be looked at. */
	if (rc)
		w->still = 0;
	return rc;
}

void
epd_wal_relax(struct epd_wal *w, int lazy)
{
	w->lazy = lazy;
}

int
epd_wal_append(struct epd_wal *w, struct epd_buf *b, uint32_t count,
    uint64_t term, uint64_t wall_ms, struct epd_why *why)
{
	struct epd_frame f = {
		.lsn = w->pos.lsn + 1, .flushed = w->flushed, .term = term,
		.wall_ms = wall_ms, .count = count,
	};
	struct epd_wal_pos before = w->pos;
	/* Only what the tip ends with can be published without a flush. */
	const int relaxed = (w->flags & EPD_WAL_RELAXED || w->lazy) &&
	    !w->tip_bad && w->tip.lsn == w->pos.lsn;
	int rc;

	if (w->poisoned)
		return epd_wal_poisoned(why);
	if (b->failed)
		return -ENOMEM;
	if (b->n - EPD_FRAME_HEAD > EPD_FRAME_MAX)
		return epd_why(why, EPD_ETOOBIG, "a record of %zu bytes; the "
		    "limit is %d", b->n - EPD_FRAME_HEAD, EPD_FRAME_MAX);
	rc = cut(w, why);
	/* Whoever made the segment may have died before its name was flushed. */
	if (!rc && w->pos.offset == EPD_SEGMENT_HEAD &&
	    !(w->flags & EPD_WAL_RELAXED) && (rc = epd_dir_sync(w->dirfd)))
		epd_why(why, rc, "log.%08u: its name: %s", w->pos.segment,
		    epd_strerror(rc));
	if (rc)
		return rc;
	epd_frame_end(b, &w->seg, &f);
	rc = epd_file_pwrite(w->fd, b->p, b->n, w->pos.offset);
	if (rc) {
		epd_why(why, rc, "log.%08u: %s", w->pos.segment,
		    epd_strerror(rc));
		return ftruncate(w->fd, (off_t)w->pos.offset) < 0 ?
		    epd_wal_unsure(w, rc, 1, why) : rc;
	}
	w->pos.offset += b->n;
	w->pos.lsn += count;
	epd_count(w->metrics, EPD_M_LOG_APPENDS, count);
	rc = relaxed ? epd_wal_publish(w) : epd_wal_mark_end(w);
	if (!rc)
		return 0;
	w->pos = before;
	return epd_why(why, EPD_EUNSURE, "tip: %s; the record is written, but "
	    "not yet to be seen", epd_strerror(rc));
}

int
epd_wal_flush(struct epd_wal *w, struct epd_why *why)
{
	int rc;

	if (w->poisoned)
		return epd_wal_poisoned(why);
	if (w->flushed >= w->pos.lsn)
		return 0;
	rc = flush(w, why);
	return rc ? rc : epd_wal_publish(w);
}

int
epd_wal_rotate(struct epd_wal *w, struct epd_why *why)
{
	struct epd_segment s = w->seg;
	char name[EPD_WAL_NAME];
	int rc;

	if (w->poisoned)
		return epd_wal_poisoned(why);
	rc = cut(w, why);
	if (!rc && w->flushed < w->pos.lsn)
		rc = flush(w, why);
	if (rc || w->pos.offset == EPD_SEGMENT_HEAD)
		return rc;
	if (s.number == 99999999)
		return EPD_ETOOBIG;
	s.number++;
	s.base = w->pos.lsn + 1;
	s.wall_ms = epd_clock_wall_ms();
	if (getrandom(&s.salt, sizeof s.salt, 0) != sizeof s.salt)
		return -EIO;
	rc = make_segment(w, &s);
	epd_wal_name(name, s.number);
	if (rc == EPD_EUNSURE) {
		/* A name that a crash may take back must not take records. */
		unlinkat(w->dirfd, name, 0);
		return epd_wal_unsure(w, -EIO, 1, why);
	}
	if (!rc)
		rc = epd_wal_switch(w, s.number, w->pos.lsn, why);
	else
		epd_why(why, rc, "%s: %s", name, epd_strerror(rc));
	if (rc)
		return rc;
	w->fresh = 0;
	rc = epd_wal_publish(w);
	return rc ? epd_why(why, rc, "tip: %s", epd_strerror(rc)) : 0;
}
