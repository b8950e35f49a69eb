/*
 * wal_flush.c - making durable what was appended, without the workflow's lock.
 *
 * One flush makes durable whatever was appended before it, by whom ever.  So
 * those who wait for one take turns at the lock of the tip's file, and who gets
 * it first looks whether the flush of the one before was theirs too.  The
 * workflow's lock is taken for an instant at the end, to move the tip.  Someone
 * stopped in the middle keeps nobody: whoever has waited enough flushes for
 * himself.
 *
 * The flush itself touches nothing of the handle, so that other threads of it
 * append meanwhile; the files it uses are lent to it.  Where it fails the marker
 * is made before anything else: till then others may take what they see in the
 * file for what the disk has.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
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

/* 0, or it could not be made. */
static int
make_marker(int dirfd)
{
	int fd = epd_file_open(dirfd, EPD_WAL_UNSURE, O_WRONLY | O_CREAT, 0600);

	if (fd < 0)
		return fd;
	close(fd);
	epd_dir_sync(dirfd);
	return 0;
}

/*
 * With the lock, and no way to leave a marker: take what is not published from
 * the page cache, and tell by the tip those who wait for it.
 */
static void
unappend(struct epd_wal *w)
{
	if (epd_wal_read_tip(w, 0, NULL) || w->tip_bad ||
	    w->tip.segment != w->pos.segment || epd_wal_retip(w) ||
	    ftruncate(w->fd, (off_t)w->tip.offset) < 0)
		w->torn = 0;	/* nothing is left to warn the next one */
}

static int
failed(struct epd_wal *w, int rc, struct epd_why *why)
{
	w->poisoned = 1;
	return epd_why(why, EPD_EUNSURE, "log.%08u: flush failed: %s; open "
	    "again to learn what survived", w->pos.segment, epd_strerror(rc));
}

int
epd_wal_unsure(struct epd_wal *w, int why_rc, int locked, struct epd_why *why)
{
	if (make_marker(w->dirfd) && locked)
		unappend(w);
	return failed(w, why_rc, why);
}

/* So many tips at a place in their file. */
static int
write_at(struct epd_wal *w, uint64_t at, const struct epd_tip *tip, size_t n)
{
	uint8_t b[2 * EPD_TIP_SIZE];

	if (w->tipfd < 0) {
		w->tipfd = epd_file_open(w->dirfd, EPD_WAL_TIP,
		    O_RDWR | O_CREAT, 0600);
		if (w->tipfd < 0)
			return w->tipfd;
	}
	for (size_t i = 0; i < n; i++)
		epd_tip_pack(b + i * EPD_TIP_SIZE, &tip[i]);
	return epd_file_pwrite(w->tipfd, b, n * EPD_TIP_SIZE, at);
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
set_tip(struct epd_wal *w, const struct epd_tip *tip)
{
	int rc = write_at(w, 0, tip, 1);

	if (!rc) {
		w->tip = *tip;
		w->tip_bad = 0;
	}
	return rc;
}

int
epd_wal_publish(struct epd_wal *w)
{
	const struct epd_tip both[2] = { here(w), here(w) };
	int rc = write_at(w, 0, both, 2);

	if (rc)
		return rc;
	w->tip = w->mark = both[0];
	w->tip_bad = 0;
	return 0;
}

int
epd_wal_renew(uint32_t *again)
{
	uint32_t r;

	if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
		return -EIO;
	*again += r ? r : 1;
	return 0;
}

int
epd_wal_retip(struct epd_wal *w)
{
	struct epd_tip tip = w->tip;
	int rc = epd_wal_renew(&tip.again);

	return rc ? rc : set_tip(w, &tip);
}

int
epd_wal_mark_end(struct epd_wal *w)
{
	const struct epd_tip end = here(w);
	int rc = write_at(w, EPD_TIP_SIZE, &end, 1);

	if (!rc)
		w->mark = end;
	return rc;
}

int
epd_wal_marked(const struct epd_wal *w)
{
	const struct epd_tip *m = &w->mark;

	return m->lsn == w->pos.lsn && m->offset == w->pos.offset &&
	    m->segment == w->pos.segment && m->again == w->again &&
	    !memcmp(m->uuid, w->seg.uuid, 16);
}

static int
read_at(int tipfd, uint64_t at, struct epd_tip *out)
{
	uint8_t b[EPD_TIP_SIZE];

	return epd_file_pread(tipfd, b, sizeof b, at) == sizeof b &&
	    !epd_tip_unpack(epd_span(b, sizeof b), out);
}

int
epd_wal_flush_begin(struct epd_wal *w, struct epd_flush *f,
    struct epd_why *why)
{
	if (w->poisoned)
		return epd_why(why, EPD_EUNSURE, "log.%08u: a flush failed; "
		    "open again to learn what survived", w->pos.segment);
	*f = (struct epd_flush){
		.end = here(w), .fd = w->flushfd, .tipfd = w->tipfd,
		.dirfd = w->dirfd,
	};
	w->lent[0] = f->fd;
	w->lent[1] = f->tipfd;
	return 0;
}

void
epd_wal_flush_run(struct epd_flush *f)
{
	struct epd_tip tip, more;

	f->turn = !epd_lock_wait(f->tipfd, TURN_MS);
	if (read_at(f->tipfd, 0, &tip) && tip.again == f->end.again &&
	    tip.flushed >= f->end.lsn) {
		f->covered = 1;
		return;
	}
	/* Another has appended behind: then it is flushed too. */
	if (read_at(f->tipfd, EPD_TIP_SIZE, &more) &&
	    !memcmp(more.uuid, f->end.uuid, 16) &&
	    more.again == f->end.again && more.segment == f->end.segment &&
	    more.lsn > f->end.lsn)
		f->end = more;
	f->rc = epd_file_datasync(f->fd);
	f->marked = f->rc && !make_marker(f->dirfd);
}

/* With the lock: the tip moves on to what was flushed, never back. */
static int
move_tip(struct epd_wal *w, const struct epd_tip *end, struct epd_why *why)
{
	struct epd_tip tip;
	int rc = epd_wal_read_tip(w, 1, why);

	if (!rc && (w->tip_bad || w->tip.again != end->again))
		return epd_why(why, EPD_EUNSURE, "log.%08u: written anew after "
		    "a failed flush; open again to learn what survived",
		    w->pos.segment);
	tip = w->tip;
	if (end->lsn > tip.lsn) {
		tip = *end;
		tip.flushed = end->lsn;
	} else if (end->lsn > tip.flushed) {
		tip.flushed = end->lsn;
	}
	if (!rc)
		rc = set_tip(w, &tip);
	return rc ? epd_why(why, EPD_EUNSURE, "tip: %s; the record is written, "
	    "but not yet to be seen", epd_strerror(rc)) : 0;
}

int
epd_wal_flush_end(struct epd_wal *w, struct epd_flush *f, int has_lock,
    struct epd_why *why)
{
	int rc = 0, unseen = !f->covered && !has_lock;

	if (!f->covered)
		epd_count(w->metrics, EPD_M_LOG_FLUSHES, 1);
	if (f->rc && !f->marked)
		rc = epd_wal_unsure(w, f->rc, has_lock, why);
	else if (f->rc || (!f->covered && epd_wal_exists(w, EPD_WAL_UNSURE)))
		rc = failed(w, f->rc ? f->rc : -EIO, why);
	else if (unseen)
		rc = epd_why(why, EPD_EUNSURE, "the record is durable, but not "
		    "yet to be seen: the lock is held");
	else if (!f->covered)
		rc = move_tip(w, &f->end, why);
	if (f->turn)
		epd_lock_drop(f->tipfd);
	w->lent[0] = w->lent[1] = -1;
	if (f->fd != w->flushfd)
		close(f->fd);
	if (f->tipfd != w->tipfd)
		close(f->tipfd);
	/* Where the lock was not to be had the next one who has it publishes. */
	if (rc)
		w->poisoned |= !unseen;
	else if (w->flushed < f->end.lsn)
		w->flushed = f->end.lsn < w->pos.lsn ? f->end.lsn : w->pos.lsn;
	return rc;
}
