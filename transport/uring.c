/*
 * uring.c - files beneath a folder, by io_uring: a window is a file.
 *
 * A file is open twice, once for O_DIRECT where its file system can; a move goes that
 * way if its offset, length and memory are aligned as the file wants, else through
 * the page cache, which the kernel keeps in step.
 *
 * 1. A slot is the kernel's from submit to its completion; memory is touched no
 *    longer.  close waits for all of them.
 * 2. A move that falls short goes on where it stopped, in the same slot.
 */
#include "transport/tables.h"

#ifdef EPD_WITH_URING

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "transport/address.h"
#include "transport/transport.h"

enum {
	SLOTS = 128, BLOCK = 4096, NAME = 1024, MOST = 1 << 30,
	WINDOWS = 1 << 16, LOOK_NS = 50000000
};

struct file {
	uint64_t window, size;
	int fd, direct;			/* direct -1: its file system cannot */
	int writable;
	uint32_t align_at, align_memory;
};

struct slot {
	int busy, told_off;		/* told_off: cancelled by us */
	int direct;
	struct epd_piece piece;
	struct file *f;
	uint64_t done;
};

struct link {
	EPD_LINK_OPS;
	struct io_uring ring;
	int folder, rc;
	struct file **file;
	size_t n, cap;
	uint64_t next_window;
	struct slot slot[SLOTS];
	int busy;
	/* Done and untold. */
	struct epd_piece_done done[SLOTS];
	int ndone;
	int synced, sync_rc;		/* the flush that a call waits for */
};

/* What a completion is of, beside slots. */
enum { OF_SYNC = SLOTS, OF_CANCEL };

static struct link *
of(struct epd_link *l)
{
	return (struct link *)(void *)l;
}

static int
probe(const struct epd_transport *t, struct epd_transport_facts *out,
    struct epd_why *why)
{
	struct io_uring ring;
	int rc = io_uring_queue_init(2, &ring, 0);

	(void)t;
	if (rc)
		return epd_why(why, EPD_EUNSUPPORTED,
		    "io_uring: refused by the kernel: %s", strerror(-rc));
	io_uring_queue_exit(&ring);
	*out = (struct epd_transport_facts){ .alignment = BLOCK,
	    .max_bytes = MOST, .max_inflight = SLOTS, .max_sge = 1 };
	return 0;
}

static int
open_link(const struct epd_transport *t, struct epd_link **out,
    const struct epd_peer *peer, struct epd_why *why)
{
	struct epd_address a;
	struct link *l;
	int rc = epd_address_parse(&a, peer->address, EPD_AT_FILE, why);

	if (rc)
		return rc;
	if (!(l = epd_calloc(1, sizeof *l)))
		return -ENOMEM;
	l->ops = t;
	l->folder = epd_dir_root(a.path, 0);
	if (l->folder < 0) {
		rc = epd_why(why, l->folder, "%.150s: %s", a.path,
		    epd_strerror(l->folder));
		epd_free(l);
		return rc;
	}
	rc = io_uring_queue_init(2 * SLOTS, &l->ring, 0);
	if (rc) {
		close(l->folder);
		epd_free(l);
		return epd_why(why, EPD_EUNSUPPORTED,
		    "io_uring: refused by the kernel: %s", strerror(-rc));
	}
	*out = (struct epd_link *)(void *)l;
	return 0;
}

/* ---- moves ---- */

static int
is_aligned(const struct file *f, const struct epd_piece *p, uint64_t done)
{
	const uint64_t at = p->offset + done, n = p->bytes - done;

	return f->direct >= 0 && f->align_at && at % f->align_at == 0 && n % f->align_at == 0 &&
	    ((uintptr_t)p->local + done) % f->align_memory == 0;
}

static struct io_uring_sqe *
entry(struct link *l)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&l->ring);

	/* There are two for each slot: full means not yet handed over. */
	if (!sqe && io_uring_submit(&l->ring) >= 0)
		sqe = io_uring_get_sqe(&l->ring);
	return sqe;
}

static int
start(struct link *l, struct slot *s)
{
	const uint64_t n = s->piece.bytes - s->done;
	uint8_t *here = (uint8_t *)s->piece.local + s->done;
	struct io_uring_sqe *sqe = entry(l);
	int fd;

	if (!sqe)
		return -EAGAIN;
	s->direct = is_aligned(s->f, &s->piece, s->done);
	fd = s->direct ? s->f->direct : s->f->fd;
	if (s->piece.op == EPD_OP_READ)
		io_uring_prep_read(sqe, fd, here, (unsigned)n,
		    s->piece.offset + s->done);
	else
		io_uring_prep_write(sqe, fd, here, (unsigned)n,
		    s->piece.offset + s->done);
	io_uring_sqe_set_data64(sqe, (uint64_t)(s - l->slot));
	return 0;
}

static void
tell(struct link *l, struct slot *s, int rc)
{
	l->done[l->ndone++] = (struct epd_piece_done){ s->piece.tag, rc,
	    s->done };
	s->busy = 0;
	l->busy--;
}

static void
completed(struct link *l, uint64_t what, int res)
{
	struct slot *s;
	int rc = 0;

	if (what == OF_SYNC) {
		l->synced = 1;
		l->sync_rc = res < 0 ? res : 0;
	}
	if (what >= SLOTS)
		return;
	s = l->slot + what;
	if (res > 0) {
		s->done += (uint64_t)res;
	} else if (!res) {
		/* The file ends before what it was said to have. */
		rc = s->piece.op == EPD_OP_READ ? -ENODATA : -ENOSPC;
	} else if (res == -EINVAL && s->direct) {
		/* It wants more than it says. */
		s->f->align_at = 0;
	} else if (res != -EINTR && res != -EAGAIN) {
		rc = res;
	}
	if (!rc && s->done < s->piece.bytes) {
		if (s->told_off)
			rc = -ECANCELED;
		else if (!(rc = start(l, s)))
			return;
	}
	tell(l, s, rc);
}

/* What has completed, after a wait for one if there is none. */
static int
reap(struct link *l, uint64_t deadline_ns)
{
	struct io_uring_cqe *cqe;
	int rc = io_uring_submit(&l->ring), n = 0;

	if (rc < 0 && rc != -EBUSY && rc != -EAGAIN && rc != -EINTR)
		return rc;
	for (;;) {
		while (io_uring_peek_cqe(&l->ring, &cqe) == 0) {
			const uint64_t what = io_uring_cqe_get_data64(cqe);
			const int res = cqe->res;

			io_uring_cqe_seen(&l->ring, cqe);
			completed(l, what, res);
			n++;
		}
		io_uring_submit(&l->ring);
		if (n)
			return n;
		const uint64_t now = epd_clock_boot_ns();
		const uint64_t left = now < deadline_ns ? deadline_ns - now : 0;
		struct __kernel_timespec ts = { (int64_t)(left / 1000000000),
			(long long)(left % 1000000000) };

		if (!left)
			return EPD_ETIMEOUT;
		rc = io_uring_wait_cqe_timeout(&l->ring, &cqe, &ts);
		if (rc && rc != -ETIME && rc != -EINTR && rc != -EAGAIN)
			return rc;
	}
}

/* The same, but that it can be called off. */
static int
heed(struct link *l, uint64_t deadline_ns)
{
	for (;;) {
		const uint64_t slice = epd_clock_boot_ns() + LOOK_NS;
		const uint64_t till = epd_is_heeding() && slice < deadline_ns ?
		    slice : deadline_ns;
		int rc;

		if (epd_is_stopped())
			return -ECANCELED;
		rc = reap(l, till);
		if (rc != EPD_ETIMEOUT || till == deadline_ns)
			return rc;
	}
}

static struct file *
find(struct link *l, uint64_t window)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->file[i]->window == window)
			return l->file[i];
	return NULL;
}

static int
submit(struct epd_link *link, const struct epd_piece *p, struct epd_why *why)
{
	struct link *l = of(link);
	struct file *f = find(l, p->window);
	struct slot *s = l->slot;
	uint64_t end;
	int rc;

	if (l->rc)
		return epd_why(why, l->rc, "the link has failed");
	if (!f)
		return epd_why(why, EPD_ENOTHING, "no such window");
	if (p->bytes > MOST)
		return epd_why(why, EPD_ETOOBIG, "a move of %llu bytes",
		    (unsigned long long)p->bytes);
	if (__builtin_add_overflow(p->offset, p->bytes, &end) || end > f->size)
		return epd_why(why, EPD_EUSAGE, "beyond the file's %llu bytes",
		    (unsigned long long)f->size);
	if (p->op == EPD_OP_WRITE && !f->writable)
		return epd_why(why, -EACCES, "the file is to be read only");
	if (l->busy + l->ndone >= SLOTS)
		return -EAGAIN;
	while (s->busy)
		s++;
	*s = (struct slot){ .piece = *p, .f = f };
	if (p->bytes && (rc = start(l, s)))
		return rc;
	s->busy = 1;
	l->busy++;
	if (!p->bytes)
		tell(l, s, 0);
	return 0;
}

static int
wait_for(struct epd_link *link, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct link *l = of(link);
	int rc = 0, n;

	while (rc >= 0 && !l->ndone && l->busy)
		rc = heed(l, deadline_ns);
	n = l->ndone < max ? l->ndone : max;
	if (n > 0) {
		memcpy(done, l->done, (size_t)n * sizeof *done);
		l->ndone -= n;
		memmove(l->done, l->done + n, (size_t)l->ndone * sizeof *done);
		return n;
	}
	if (rc == EPD_ETIMEOUT)
		return epd_why(why, rc, "nothing was done in time");
	if (rc < 0)
		l->rc = rc;
	return rc < 0 ? epd_why(why, rc, "io_uring: %s", strerror(-rc)) :
	    epd_why(why, EPD_EUSAGE, "nothing is under way");
}

/* It is told when the kernel has let go of its memory. */
static int
cancel(struct epd_link *link, uint64_t tag)
{
	struct link *l = of(link);
	struct io_uring_sqe *sqe;

	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = l->slot + i;

		if (!s->busy || s->told_off || s->piece.tag != tag)
			continue;
		if (!(sqe = entry(l)))
			return -EAGAIN;
		io_uring_prep_cancel64(sqe, (__u64)i, 0);
		io_uring_sqe_set_data64(sqe, OF_CANCEL);
		s->told_off = 1;
		io_uring_submit(&l->ring);
		return 0;
	}
	return EPD_ENOTHING;
}

/* ---- files ---- */

/* What O_DIRECT wants of this file; f->direct is -1 where it cannot. */
static void
open_direct(struct link *l, struct file *f, const char *name)
{
	struct statx st;

	f->align_at = f->align_memory = BLOCK;
	f->direct = epd_file_open(l->folder, name, O_DIRECT |
	    (f->writable ? O_RDWR : O_RDONLY), 0);
#ifdef STATX_DIOALIGN
	if (f->direct >= 0 && !statx(f->direct, "", AT_EMPTY_PATH,
	    STATX_DIOALIGN, &st) && st.stx_mask & STATX_DIOALIGN) {
		if (!st.stx_dio_offset_align) {
			close(f->direct);
			f->direct = -1;
			return;
		}
		f->align_at = st.stx_dio_offset_align;
		f->align_memory = st.stx_dio_mem_align ? st.stx_dio_mem_align : 1;
	}
#else
	(void)st;
#endif
}

static int
open_file(struct link *l, struct file *f, const char *name, uint32_t flags,
    uint64_t size)
{
	const int make = (flags & EPD_FILE_CREATE) != 0;
	struct stat st;
	int rc = 0;

	f->writable = (flags & EPD_FILE_WRITE) || make;
	f->fd = epd_file_open(l->folder, name, (f->writable ? O_RDWR : O_RDONLY) |
	    (make ? O_CREAT | O_EXCL : 0), 0600);
	if (f->fd < 0)
		return f->fd;
	/* Room for all of it now, or no file. */
	if (make && size && (rc = -posix_fallocate(f->fd, 0, (off_t)size))) {
		unlinkat(l->folder, name, 0);
	} else if (fstat(f->fd, &st)) {
		rc = -errno;
	} else if (!S_ISREG(st.st_mode)) {
		rc = -EINVAL;
	}
	if (rc) {
		close(f->fd);
		return rc;
	}
	f->size = (uint64_t)st.st_size;
	open_direct(l, f, name);
	return 0;
}

static void
close_file(struct file *f)
{
	if (f->direct >= 0)
		close(f->direct);
	close(f->fd);
	epd_free(f);
}

/* OPEN. */
static int
call_open(struct link *l, struct epd_cur *c, struct epd_buf *answer,
    struct epd_why *why)
{
	const uint32_t flags = epd_unpack_u32(c);
	const uint64_t size = epd_unpack_u64(c);
	struct epd_span s = epd_unpack_bytes(c, epd_cur_left(c));
	struct file **all, *f;
	char name[NAME];
	int rc;

	if (c->failed || !s.n || s.n >= sizeof name || memchr(s.p, 0, s.n) ||
	    flags & ~(uint32_t)(EPD_FILE_WRITE | EPD_FILE_CREATE) ||
	    size > INT64_MAX)
		return epd_why(why, EPD_EUSAGE, "no name of a file");
	if (l->n >= WINDOWS)
		return EPD_ECREDIT;
	memcpy(name, s.p, s.n);
	name[s.n] = '\0';
	if (!(all = epd_grow(l->file, l->n, &l->cap, sizeof *all)))
		return -ENOMEM;
	l->file = all;
	if (!(f = epd_calloc(1, sizeof *f)))
		return -ENOMEM;
	if ((rc = open_file(l, f, name, flags, size))) {
		epd_free(f);
		return epd_why(why, rc, "%.150s: %s", name, epd_strerror(rc));
	}
	f->window = ++l->next_window;
	epd_pack_u64(answer, f->window);
	epd_pack_u64(answer, f->size);
	epd_pack_u32(answer, f->direct < 0 ? 1 : f->align_at);
	if (answer->failed) {
		close_file(f);
		return -ENOMEM;
	}
	l->file[l->n++] = f;
	return 0;
}

/* Moves of this file that are under way; NULL: of any. */
static int
is_busy(const struct link *l, const struct file *f)
{
	for (int i = 0; l->busy && i < SLOTS; i++)
		if (l->slot[i].busy && (!f || l->slot[i].f == f))
			return 1;
	return 0;
}

/* Till no move of f is under way, and if asked a flush is over. */
static int
settle(struct link *l, const struct file *f, int sync, uint64_t deadline_ns)
{
	int rc = 0;

	while (rc >= 0 && (is_busy(l, f) || (sync && !l->synced)))
		rc = heed(l, deadline_ns);
	if (rc < 0)
		l->rc = rc;
	return rc < 0 ? rc : 0;
}

/* SYNC: behind the writes that came before it. */
static int
call_sync(struct link *l, struct epd_cur *c, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct file *f = find(l, epd_unpack_u64(c));
	struct io_uring_sqe *sqe;
	int rc;

	if (c->failed || !f)
		return epd_why(why, EPD_ENOTHING, "no such window");
	if ((rc = settle(l, f, 0, deadline_ns)))
		return epd_why(why, rc, "the writes before it: %s",
		    epd_strerror(rc));
	if (!(sqe = entry(l)))
		return -EAGAIN;
	io_uring_prep_fsync(sqe, f->fd, IORING_FSYNC_DATASYNC);
	io_uring_sqe_set_data64(sqe, OF_SYNC);
	l->synced = 0;
	if ((rc = settle(l, f, 1, deadline_ns)))
		return epd_why(why, rc, "the flush: %s", epd_strerror(rc));
	return l->sync_rc ? epd_why(why, EPD_EUNSURE, "the flush failed: %s",
	    strerror(-l->sync_rc)) : 0;
}

static int
call(struct epd_link *link, uint16_t verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why)
{
	struct link *l = of(link);
	struct epd_cur c = epd_cur(ask);
	const size_t had = answer->n;
	int rc = l->rc;

	if (!rc && verb == EPD_FILE_OPEN)
		rc = call_open(l, &c, answer, why);
	else if (!rc && verb == EPD_FILE_SYNC)
		rc = call_sync(l, &c, deadline_ns, why);
	else if (!rc)
		rc = epd_why(why, EPD_EUSAGE, "a folder has no call %u", verb);
	if (rc)
		answer->n = had;
	return rc;
}

static int
map(struct epd_link *link, uint64_t window, uint64_t offset,
    struct epd_stretch *out, uint64_t deadline_ns, struct epd_why *why)
{
	const struct file *f = find(of(link), window);

	(void)deadline_ns;
	if (!f || offset >= f->size)
		return epd_why(why, f ? EPD_EUSAGE : EPD_ENOTHING, "%s",
		    f ? "beyond the file" : "no such window");
	*out = (struct epd_stretch){ f->fd, offset, f->size - offset };
	return 0;
}

static int
shut(struct epd_link *link, uint64_t window, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct link *l = of(link);
	size_t i = 0;
	int rc;

	while (i < l->n && l->file[i]->window != window)
		i++;
	if (i == l->n)
		return epd_why(why, EPD_ENOTHING, "no such window");
	if ((rc = settle(l, l->file[i], 0, deadline_ns)))
		return epd_why(why, rc, "moves under way: %s", epd_strerror(rc));
	close_file(l->file[i]);
	l->file[i] = l->file[--l->n];
	return 0;
}

/*
 * The kernel has the memory until it says otherwise; what a disk has begun cannot be
 * called off, so this lasts as long as the disk takes.
 */
static void
close_link(struct epd_link *link)
{
	struct link *l = of(link);

	if (!l)
		return;
	for (int i = 0; i < SLOTS; i++)
		if (l->slot[i].busy)
			cancel(link, l->slot[i].piece.tag);
	for (int rc = 0; is_busy(l, NULL) && (rc >= 0 || rc == EPD_ETIMEOUT);) {
		l->ndone = 0;
		rc = reap(l, epd_clock_boot_ns() + 1000000000);
	}
	io_uring_queue_exit(&l->ring);
	while (l->n)
		close_file(l->file[--l->n]);
	epd_free(l->file);
	close(l->folder);
	epd_free(l);
}

const struct epd_transport epd_transport_uring = {
	.backend = EPD_VIA_IO_URING, .probe = probe, .open = open_link,
	.close = close_link, .call = call, .submit = submit, .wait = wait_for,
	.cancel = cancel, .map = map, .shut = shut,
};

#endif
