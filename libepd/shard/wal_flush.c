/*
 * wal_flush.c - making durable what was appended, without the workflow's lock.
 *
 * One flush makes durable whatever was appended before it, by whom ever.  So
 * those who wait for one take turns at the lock of the tip's file, and who gets
 * it first looks whether the flush of the one before was theirs too.  The
 * workflow's lock is taken for an instant at the end, to move the tip.  Someone
 * stopped in the middle keeps nobody: whoever has waited enough flushes for
 * himself.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "shard/wal_in.h"

enum { TURN_MS = 200 };		/* to wait for another's flush */

int
epd_wal_poisoned(struct epd_why *why)
{
	return epd_why(why, EPD_EPOISONED, "%s; open the workflow again",
	    epd_strerror(EPD_EPOISONED));
}

int
epd_wal_unsure(struct epd_wal *w, int why_rc, int locked, struct epd_why *why)
{
	int fd = epd_file_open(w->dirfd, EPD_WAL_UNSURE, O_WRONLY | O_CREAT,
	    0600);

	w->poisoned = 1;
	if (fd >= 0) {
		close(fd);
		epd_dir_sync(w->dirfd);
	} else if (locked && !w->tip_bad &&
	    w->tip.segment == w->pos.segment &&
	    ftruncate(w->fd, (off_t)w->tip.offset) < 0) {
		w->torn = 0;	/* no way is left to warn the next one */
	}
	return epd_why(why, EPD_EUNSURE, "log.%08u: flush failed: %s; open "
	    "again to learn what survived", w->pos.segment,
	    epd_strerror(why_rc));
}

static int
write_at(struct epd_wal *w, uint64_t at, const struct epd_tip *tip)
{
	uint8_t b[EPD_TIP_SIZE];

	if (w->tipfd < 0) {
		w->tipfd = epd_file_open(w->dirfd, EPD_WAL_TIP,
		    O_RDWR | O_CREAT, 0600);
		if (w->tipfd < 0)
			return w->tipfd;
	}
	epd_tip_pack(b, tip);
	return epd_file_pwrite(w->tipfd, b, sizeof b, at);
}

/* The end of what this handle has read or written. */
static struct epd_tip
here(const struct epd_wal *w)
{
	struct epd_tip tip = {
		.segment = w->pos.segment, .offset = w->pos.offset,
		.lsn = w->pos.lsn, .flushed = w->flushed, .again = w->again,
	};

	memcpy(tip.uuid, w->seg.uuid, 16);
	return tip;
}

static int
publish(struct epd_wal *w, const struct epd_tip *tip)
{
	int rc = write_at(w, 0, tip);

	if (!rc) {
		w->tip = *tip;
		w->tip_bad = 0;
	}
	return rc;
}

int
epd_wal_publish(struct epd_wal *w)
{
	struct epd_tip tip = here(w);

	return publish(w, &tip);
}

int
epd_wal_retip(struct epd_wal *w)
{
	struct epd_tip tip = w->tip;

	return publish(w, &tip);
}

int
epd_wal_mark_end(struct epd_wal *w)
{
	struct epd_tip tip = here(w);

	return write_at(w, EPD_TIP_SIZE, &tip);
}

/* Where the log ends: further on, if another has appended behind pos. */
static struct epd_tip
end_of(const struct epd_wal *w)
{
	struct epd_tip end = here(w), more;
	uint8_t b[EPD_TIP_SIZE];

	if (epd_file_pread(w->tipfd, b, sizeof b, EPD_TIP_SIZE) == sizeof b &&
	    !epd_tip_unpack(epd_span(b, sizeof b), &more) &&
	    !memcmp(more.uuid, end.uuid, 16) && more.again == end.again &&
	    more.segment == end.segment && more.lsn > end.lsn)
		end = more;
	end.flushed = end.lsn;
	return end;
}

/* 1: all up to pos is durable; 0: not yet; EPD_EUNSURE: nobody can tell. */
static int
covered(struct epd_wal *w, struct epd_why *why)
{
	int rc = epd_wal_read_tip(w, 1, why);

	if (rc)
		return rc;
	if (w->tip_bad || w->tip.again != w->again) {
		w->poisoned = 1;
		return epd_why(why, EPD_EUNSURE, "log.%08u: written anew after "
		    "a failed flush; open again to learn what survived",
		    w->pos.segment);
	}
	if (w->tip.flushed < w->pos.lsn)
		return 0;
	w->flushed = w->tip.flushed < w->pos.lsn ? w->tip.flushed : w->pos.lsn;
	return 1;
}

/* With the lock: the tip moves on to what was flushed, never back. */
static int
move_tip(struct epd_wal *w, const struct epd_tip *end, struct epd_why *why)
{
	struct epd_tip tip;
	int rc = covered(w, why);

	if (rc)
		return rc > 0 ? 0 : rc;
	tip = w->tip;
	if (end->lsn > tip.lsn)
		tip = *end;
	else if (end->lsn > tip.flushed)
		tip.flushed = end->lsn;
	rc = publish(w, &tip);
	if (rc)
		return epd_why(why, EPD_EUNSURE, "tip: %s; the record is "
		    "written, but not yet to be seen", epd_strerror(rc));
	w->flushed = w->pos.lsn;
	return 0;
}

static int
flush(struct epd_wal *w, int lockfd, uint64_t timeout_ms, struct epd_why *why)
{
	struct epd_tip end = end_of(w);
	int rc, has_lock;

	if (epd_wal_exists(w, EPD_WAL_UNSURE))
		return epd_wal_unsure(w, -EIO, 0, why);
	rc = epd_file_datasync(w->fd);
	epd_count(w->metrics, EPD_M_LOG_FLUSHES, 1);
	has_lock = !epd_lock_take(lockfd, timeout_ms, why);
	if (rc)
		rc = epd_wal_unsure(w, rc, has_lock, why);
	else if (!has_lock)
		rc = epd_why(why, EPD_EUNSURE, "the record is durable, but not "
		    "yet to be seen: the lock is held");
	else
		rc = move_tip(w, &end, why);
	if (has_lock)
		epd_lock_drop(lockfd);
	return rc;
}

int
epd_wal_durable(struct epd_wal *w, int lockfd, uint64_t timeout_ms,
    struct epd_why *why)
{
	int turn, rc;

	if (w->flags & EPD_WAL_RELAXED || w->flushed >= w->pos.lsn)
		return 0;
	if (w->poisoned)
		return epd_why(why, EPD_EUNSURE, "log.%08u: a flush failed; "
		    "open again to learn what survived", w->pos.segment);
	turn = epd_lock_wait(w->tipfd, TURN_MS);
	rc = covered(w, why);
	if (!rc)
		rc = flush(w, lockfd, timeout_ms, why);
	if (!turn)
		epd_lock_drop(w->tipfd);
	if (rc >= 0 || rc == EPD_EUNSURE)
		return rc > 0 ? 0 : rc;
	/* The records are there, whatever kept us from publishing them. */
	w->poisoned = 1;
	return epd_why(why, EPD_EUNSURE, "log.%08u: %s; open again to learn "
	    "what survived", w->pos.segment, epd_strerror(rc));
}
