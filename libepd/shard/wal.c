/*
 * wal.c - reading a log: segments one after another, frames within, up to the
 * tip or, for the lock holder, to the end of what is whole.
 *
 * Segment n + 1 begins with the record behind the last of segment n.  A length
 * is believed only when the CRC over it is right.  Where no frame stands at pos:
 *
 *	another segment follows			damage
 *	the tip says that pos was durable	damage
 *	a whole frame behind says so		damage
 *	otherwise				a torn tail
 *
 * Damage is refused and nothing changed; a torn tail is not there.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "shard/wal_in.h"

enum { WINDOW = 65536, TIP_TRIES = 20 };

int
epd_wal_open(struct epd_wal **out, int dirfd, int flags,
    struct epd_metrics *m)
{
	struct epd_wal *w = epd_calloc(1, sizeof *w);

	if (!w)
		return -ENOMEM;
	w->dirfd = dirfd;
	w->flags = flags;
	w->metrics = m;
	w->tipfd = w->fd = w->flushfd = w->lent[0] = w->lent[1] = -1;
	*out = w;
	return 0;
}

void
epd_wal_close(struct epd_wal *w)
{
	if (!w)
		return;
	epd_wal_shut(w, w->fd);
	epd_wal_shut(w, w->flushfd);
	epd_wal_shut(w, w->tipfd);
	epd_buf_free(&w->win);
	epd_free(w);
}

void
epd_wal_shut(struct epd_wal *w, int fd)
{
	if (fd >= 0 && fd != w->lent[0] && fd != w->lent[1])
		close(fd);
}

const struct epd_wal_pos *
epd_wal_pos(const struct epd_wal *w)
{
	return &w->pos;
}

uint64_t
epd_wal_done(const struct epd_wal *w, int shown)
{
	return (shown || w->flags & EPD_WAL_RELAXED) &&
	    w->tip.lsn > w->flushed ? w->tip.lsn : w->flushed;
}

uint32_t
epd_wal_again(const struct epd_wal *w)
{
	return w->again;
}

void
epd_wal_uuid(const struct epd_wal *w, uint8_t uuid[16])
{
	memcpy(uuid, w->seg.uuid, 16);
}

int
epd_wal_damage(const struct epd_wal *w, struct epd_why *why, const char *what)
{
	return epd_why(why, EPD_ECORRUPT, "log.%08u: byte %llu: %s",
	    w->pos.segment, (unsigned long long)w->pos.offset, what);
}

/*
 * Where a file's time was looked at its next write costs three times as much, as
 * that gets a time of its own: so no stat of one that is written to, here or
 * below.
 */
int
epd_wal_unlinked(int fd)
{
	struct statx st;

	return !statx(fd, "", AT_EMPTY_PATH, STATX_NLINK, &st) &&
	    !st.stx_nlink;
}

/*
 * A reader may meet the tip half written, so it looks again for a while; the
 * lock holder need not.
 */
int
epd_wal_read_tip(struct epd_wal *w, int patient, struct epd_why *why)
{
	uint8_t b[2 * EPD_TIP_SIZE];
	struct epd_tip tip;
	ssize_t n = 0;

	/* Somebody removed it, and somebody may have restored it. */
	if (w->tipfd >= 0 && epd_wal_unlinked(w->tipfd)) {
		epd_wal_shut(w, w->tipfd);
		w->tipfd = -1;
	}
	if (w->tipfd < 0)
		w->tipfd = epd_file_open(w->dirfd, EPD_WAL_TIP, O_NONBLOCK |
		    (w->flags & EPD_WAL_READ ? O_RDONLY : O_RDWR), 0);
	w->tip_bad = 1;
	w->tip = w->mark = (struct epd_tip){ 0 };
	if (w->tipfd < 0)
		return w->tipfd == -ENOENT ? 0 : epd_why(why, w->tipfd,
		    "tip: %s", epd_strerror(w->tipfd));
	for (int i = 0; i < (patient ? TIP_TRIES : 1) && n >= 0; i++) {
		if (i > 0)
			epd_clock_sleep_ns(100000);
		n = epd_file_pread(w->tipfd, b, sizeof b, 0);
		if (n < EPD_TIP_SIZE ||
		    epd_tip_unpack(epd_span(b, EPD_TIP_SIZE), &tip))
			continue;
		w->tip = tip;
		w->tip_bad = 0;
		if (!epd_tip_unpack(epd_span(b + EPD_TIP_SIZE, (size_t)n -
		    EPD_TIP_SIZE), &tip))
			w->mark = tip;
		return 0;
	}
	return n < 0 ? epd_why(why, (int)n, "tip: %s", epd_strerror((int)n)) :
	    0;
}

int
epd_wal_lost(struct epd_wal *w, struct epd_why *why)
{
	int rc = epd_wal_read_tip(w, 0, why);

	if (!rc && !w->tip_bad && w->tip.lsn)
		rc = epd_why(why, EPD_ECORRUPT, "tip: speaks of record %llu, "
		    "but there is no log", (unsigned long long)w->tip.lsn);
	return rc;
}

static int
is_one_file(int a, int b)
{
	struct stat x, y;

	if (fstat(a, &x) < 0 || fstat(b, &y) < 0)
		return -errno;
	return x.st_ino == y.st_ino && x.st_dev == y.st_dev ? 0 : -ESTALE;
}

/* The segment's file, twice if it is flushed: 0, or -ESTALE if it changed. */
static int
open_segment(const struct epd_wal *w, const char *name, int *fd, int *flushfd)
{
	int rc;

	*flushfd = -1;
	*fd = epd_file_open(w->dirfd, name, O_NONBLOCK |
	    (w->flags & EPD_WAL_READ ? O_RDONLY : O_RDWR), 0);
	if (*fd < 0)
		return *fd;
	if (w->flags & EPD_WAL_READ)
		return 0;
	*flushfd = epd_file_open(w->dirfd, name, O_NONBLOCK | O_RDWR, 0);
	rc = *flushfd < 0 ? *flushfd : is_one_file(*fd, *flushfd);
	if (!rc)
		return 0;
	close(*fd);
	if (*flushfd >= 0)
		close(*flushfd);
	return rc;
}

int
epd_wal_switch(struct epd_wal *w, uint32_t segment, uint64_t lsn,
    struct epd_why *why)
{
	uint8_t b[EPD_SEGMENT_HEAD];
	char name[EPD_WAL_NAME];
	struct epd_segment seg;
	int fd, flushfd, rc;
	ssize_t n;

	epd_wal_name(name, segment);
	rc = open_segment(w, name, &fd, &flushfd);
	if (rc)
		return epd_why(why, rc, "%s: %s", name, epd_strerror(rc));
	n = epd_file_pread(fd, b, sizeof b, 0);
	rc = n < 0 ? (int)n : epd_segment_unpack(epd_span(b, (size_t)n), &seg);
	if (rc)
		epd_why(why, rc, "%s: byte 0: segment head: %s", name,
		    epd_strerror(rc));
	else if (seg.number != segment || !seg.base ||
	    (lsn != EPD_WAL_ANY && seg.base != lsn + 1) ||
	    (w->known && memcmp(seg.uuid, w->seg.uuid, 16)))
		rc = epd_why(why, EPD_ECORRUPT, "%s: begins with record %llu "
		    "of segment %u; it does not belong here", name,
		    (unsigned long long)seg.base, seg.number);
	if (rc) {
		close(fd);
		if (flushfd >= 0)
			close(flushfd);
		return rc;
	}
	epd_wal_shut(w, w->fd);
	epd_wal_shut(w, w->flushfd);
	w->fd = fd;
	w->flushfd = flushfd;
	w->known = w->fresh = 1;
	w->seg = seg;
	w->pos = (struct epd_wal_pos){
		segment, EPD_SEGMENT_HEAD, seg.base - 1,
	};
	w->win.n = 0;
	w->torn = w->soft = 0;
	return 0;
}

int
epd_wal_seek(struct epd_wal *w, uint32_t segment, uint64_t lsn,
    struct epd_why *why)
{
	int rc = epd_wal_switch(w, segment, lsn, why);

	if (!rc)
		w->begun = w->still = 0;
	return rc;
}

int
epd_wal_same(struct epd_wal *w)
{
	struct statx named, open;
	char name[EPD_WAL_NAME];

	if (w->begun && !w->tip_bad && w->tip.again != w->again)
		return -ESTALE;
	epd_wal_name(name, w->pos.segment);
	if (statx(w->dirfd, name, AT_SYMLINK_NOFOLLOW, STATX_INO, &named) < 0 ||
	    statx(w->fd, "", AT_EMPTY_PATH, STATX_INO, &open) < 0)
		return -errno;
	if (named.stx_ino != open.stx_ino ||
	    named.stx_dev_major != open.stx_dev_major ||
	    named.stx_dev_minor != open.stx_dev_minor)
		return -ESTALE;
	if (!w->tip_bad) {
		w->again = w->tip.again;
		w->begun = 1;
	}
	return 0;
}

int
epd_wal_size(const struct epd_wal *w, uint64_t *size)
{
	off_t end = lseek(w->fd, 0, SEEK_END);

	if (end < 0)
		return -errno;
	*size = (uint64_t)end;
	return 0;
}

/*
 * At least n bytes at off, if the file of that size has them; less room is
 * never taken than the file fills.  A count, or -errno.
 */
static ssize_t
window(struct epd_wal *w, uint64_t off, size_t n, uint64_t size,
    struct epd_span *out)
{
	size_t want, skip;
	ssize_t got;

	if (off < w->win_at || off + n > w->win_at + w->win.n) {
		if (off >= size)
			want = 0;
		else if (size - off < (n > WINDOW ? n : WINDOW))
			want = (size_t)(size - off);
		else
			want = n > WINDOW ? n : WINDOW;
		w->win.n = 0;
		w->win.failed = 0;
		w->win_at = off;
		if (!epd_buf_add(&w->win, want))
			return -ENOMEM;
		got = epd_file_pread(w->fd, w->win.p, want, off);
		w->win.n = got < 0 ? 0 : (size_t)got;
		if (got < 0)
			return got;
	}
	skip = (size_t)(off - w->win_at);
	*out = epd_span(w->win.p + skip, w->win.n - skip);
	return (ssize_t)out->n;
}

/* The frame at off; its payload lies in the window. */
static int
frame_at(struct epd_wal *w, uint64_t off, uint64_t size, struct epd_frame *f)
{
	struct epd_span s;
	size_t claim;
	ssize_t n;

	n = window(w, off, EPD_FRAME_HEAD, size, &s);
	if (n < EPD_FRAME_HEAD)
		return n < 0 ? (int)n : 0;
	claim = epd_frame_claim(s, &w->seg);
	if (!claim || claim > size - off)
		return 0;
	n = window(w, off, claim, size, &s);
	return n < 0 ? (int)n : epd_frame_parse(s, &w->seg, f);
}

int
epd_wal_step(struct epd_wal *w, uint64_t size, struct epd_frame *f,
    struct epd_why *why)
{
	int rc = w->pos.offset < size ?
	    frame_at(w, w->pos.offset, size, f) : 0;

	if (rc < 0)
		return epd_why(why, rc, "log.%08u: %s", w->pos.segment,
		    epd_strerror(rc));
	if (rc && f->lsn != w->pos.lsn + 1)
		return epd_wal_damage(w, why,
		    "this frame's records do not follow those before");
	return rc;
}

int
epd_wal_pass(void *arg, const struct epd_rec *r, struct epd_why *why)
{
	(void)arg;
	(void)r;
	(void)why;
	return 0;
}

int
epd_wal_deliver(struct epd_wal *w, const struct epd_frame *f,
    epd_wal_fn *fn, void *arg, struct epd_why *why)
{
	struct epd_cur c = epd_cur(f->payload);
	struct epd_rec r = {
		.term = f->term, .wall_ms = f->wall_ms, .lsn = f->lsn,
	};
	uint32_t n = 0;
	int rc;

	/* All of it is looked at before any of it is believed. */
	while ((rc = epd_record_next(&c, &r)) > 0)
		n++;
	if (rc < 0 || n != f->count)
		return epd_wal_damage(w, why, "a frame's records do not fill it");
	/* Mostly there is one, and r still is it. */
	rc = n == 1 ? fn(arg, &r, why) : 0;
	c = epd_cur(f->payload);
	for (; !rc && n > 1 && epd_record_next(&c, &r) > 0; r.lsn++)
		rc = fn(arg, &r, why);
	if (rc)
		return rc;
	if (w->fresh && !w->soft && w->pos.lsn + f->count > w->tip.flushed)
		w->soft = w->pos.offset;
	w->pos.offset += EPD_FRAME_HEAD + f->payload.n;
	w->pos.lsn += f->count;
	return 0;
}

/*
 * Where there may be a mark from off on: what was never written has none, but for
 * zeros that one begins with.
 */
static uint64_t
written(const struct epd_wal *w, uint64_t off, uint64_t size)
{
	off_t at = lseek(w->fd, (off_t)off, SEEK_DATA);

	if (at < 0)
		return errno == ENXIO ? size : off;
	return (uint64_t)at > off + 3 ? (uint64_t)at - 3 : off;
}

int
epd_wal_proof(struct epd_wal *w, uint64_t size)
{
	uint64_t off = w->pos.offset + 1;
	struct epd_frame f;
	struct epd_span s;
	ssize_t n;
	int rc;

	while (off < size && size - off >= EPD_FRAME_HEAD) {
		size_t at;

		n = window(w, off, EPD_FRAME_HEAD, size, &s);
		if (n < EPD_FRAME_HEAD)
			return n < 0 ? (int)n : 0;
		at = epd_frame_mark(s, 0, &w->seg);
		if (at == s.n) {
			off = written(w, off + s.n - 3, size);
			continue;
		}
		off += at;
		rc = frame_at(w, off, size, &f);
		if (rc < 0)
			return rc;
		if (rc && f.flushed > w->pos.lsn)
			return 1;
		off++;
	}
	return 0;
}

/* Nothing whole at pos, short of the tip: go on elsewhere (1), end (0), or fail. */
static int
read_gap(struct epd_wal *w, uint64_t size, struct epd_why *why)
{
	int rc;

	if (w->pos.offset == size && w->pos.segment < w->tip.segment) {
		rc = epd_wal_switch(w, w->pos.segment + 1, w->pos.lsn, why);
		return rc == -ENOENT ? -ESTALE : rc ? rc : 1;
	}
	/* A failed flush may have had the segment written anew meanwhile. */
	rc = epd_wal_same(w);
	if (rc)
		return rc == -ENOENT ? -ESTALE : rc;
	if (w->pos.lsn >= w->tip.flushed && w->pos.segment == w->tip.segment)
		return 0;
	return epd_wal_damage(w, why, size <= w->pos.offset ?
	    "the log ends before what was published" :
	    "damaged before the end of what was published");
}

int
epd_wal_read(struct epd_wal *w, epd_wal_fn *fn, void *arg,
    struct epd_why *why)
{
	struct epd_frame f;
	uint64_t size = 0;
	int rc;

	w->win.n = 0;
	if ((rc = epd_wal_read_tip(w, 1, why)))
		return rc;
	if (w->tip_bad)
		return epd_why(why, EPD_ECORRUPT, "tip: missing or damaged; "
		    "opening the workflow for writing restores it");
	if (memcmp(w->tip.uuid, w->seg.uuid, 16))
		return epd_why(why, EPD_ECORRUPT, "tip: of another workflow");
	/* One that was swept is written no more: go on. */
	rc = epd_wal_same(w);
	if (!rc || rc == -ENOENT)
		rc = epd_wal_size(w, &size);
	while (!rc && w->pos.lsn < w->tip.lsn) {
		rc = epd_wal_step(w, size, &f, why);
		if (rc > 0 && f.count > w->tip.lsn - w->pos.lsn)
			return epd_wal_damage(w, why,
			    "a frame reaches beyond the tip");
		if (rc > 0) {
			rc = epd_wal_deliver(w, &f, fn, arg, why);
		} else if (!rc) {
			rc = read_gap(w, size, why);
			if (!rc)
				break;
			if (rc > 0)
				rc = epd_wal_size(w, &size);
		}
	}
	return rc;
}

int
epd_wal_unsettled(struct epd_wal *w)
{
	char next[EPD_WAL_NAME];
	uint64_t size = 0;

	epd_wal_name(next, w->pos.segment + 1);
	return w->tip_bad || epd_wal_exists(w, EPD_WAL_UNSURE) ||
	    epd_wal_exists(w, next) || epd_wal_size(w, &size) ||
	    size != w->pos.offset;
}

int
epd_wal_tipless(const struct epd_wal *w)
{
	return w->tip_bad;
}
