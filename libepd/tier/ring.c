/*
 * ring.c - slots and their moves.
 *
 * 1. Memory is the kernel's from start to done, and close waits for all.
 * 2. A move that falls short goes on where it stopped, until the file ends.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef EPD_WITH_URING
#include <liburing.h>
#endif

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "tier/ring.h"

struct slot {
	int fd, write, busy;
	unsigned among;			/* under way when it began, and it */
	struct iovec part[EPD_RING_PARTS];
	int parts, next;		/* next: not yet moved whole */
	uint64_t at, moved, from_ns, ns;
	int64_t rc;
};

struct epd_ring {
	uint8_t *memory;
	size_t bytes;			/* of a slot's */
	int slots;
	struct slot slot[EPD_RING_SLOTS];
#ifdef EPD_WITH_URING
	int made, async;		/* a ring; and it takes more */
	struct io_uring ring;
#endif
};

int
epd_ring_open(struct epd_ring **out, int slots, size_t bytes)
{
	struct epd_ring *r = epd_calloc(1, sizeof *r);
	void *p;

	if (!r)
		return -ENOMEM;
	r->slots = slots < EPD_RING_SLOTS ? slots : EPD_RING_SLOTS;
	r->bytes = (bytes + EPD_RING_ALIGN - 1) & ~(size_t)(EPD_RING_ALIGN - 1);
	p = mmap(NULL, r->bytes * (size_t)r->slots, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		epd_free(r);
		return -ENOMEM;
	}
	r->memory = p;
#ifdef EPD_WITH_URING
	r->made = io_uring_queue_init(2 * EPD_RING_SLOTS, &r->ring, 0) == 0;
	r->async = r->made;
#endif
	*out = r;
	return 0;
}

void *
epd_ring_buffer(struct epd_ring *r, int slot)
{
	return r->memory + (size_t)slot * r->bytes;
}

size_t
epd_ring_bytes(const struct epd_ring *r)
{
	return r->bytes;
}

static void
ended(struct slot *s, int64_t rc)
{
	s->busy = 0;
	s->rc = rc < 0 ? rc : (int64_t)s->moved;
	s->ns = (epd_clock_boot_ns() - s->from_ns) / s->among;
}

/* So many bytes more have moved. */
static void
advance(struct slot *s, size_t n)
{
	s->moved += n;
	while (n) {
		struct iovec *v = s->part + s->next;
		const size_t step = n < v->iov_len ? n : v->iov_len;

		v->iov_base = (uint8_t *)v->iov_base + step;
		v->iov_len -= step;
		s->next += !v->iov_len;
		n -= step;
	}
}

/* All that is left, now. */
static void
move_now(struct slot *s)
{
	int64_t rc = 0;

	while (s->next < s->parts) {
		struct iovec v = s->part[s->next];
		const uint64_t at = s->at + s->moved;

		rc = s->write ?
		    epd_file_pwrite(s->fd, v.iov_base, v.iov_len, at) :
		    epd_file_pread(s->fd, v.iov_base, v.iov_len, at);
		if (rc < 0)
			break;
		advance(s, s->write ? v.iov_len : (size_t)rc);
		if (!s->write && (size_t)rc < v.iov_len)
			break;
	}
	ended(s, rc);
}

#ifdef EPD_WITH_URING
/*
 * Whether the kernel has it.  What it would not take stays in the ring, where it must
 * not be taken later: no more goes that way.
 */
static int
submit(struct epd_ring *r, int i)
{
	struct slot *s = r->slot + i;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
	int rc;

	if (!sqe)
		return 0;
	if (s->write)
		io_uring_prep_writev(sqe, s->fd, s->part + s->next,
		    (unsigned)(s->parts - s->next), s->at + s->moved);
	else
		io_uring_prep_readv(sqe, s->fd, s->part + s->next,
		    (unsigned)(s->parts - s->next), s->at + s->moved);
	io_uring_sqe_set_data64(sqe, (unsigned)i);
	do
		rc = io_uring_submit(&r->ring);
	while (rc == -EINTR);
	r->async = rc > 0;
	return r->async;
}

static void
completed(struct epd_ring *r, int i, int res)
{
	struct slot *s = r->slot + i;

	if (res > 0)
		advance(s, (size_t)res);
	else if (res < 0 && res != -EINTR && res != -EAGAIN)
		ended(s, res);
	else if (!res)
		ended(s, s->write ? -ENOSPC : 0);
	if (!s->busy)
		return;
	if (s->next == s->parts)
		ended(s, 0);
	else if (!r->async || !submit(r, i))
		move_now(s);
}

/* One that is done; 0 if there is none, or none was waited for. */
static int
reap(struct epd_ring *r, int wait)
{
	struct io_uring_cqe *cqe = NULL;
	int rc = wait ? io_uring_wait_cqe(&r->ring, &cqe) :
	    io_uring_peek_cqe(&r->ring, &cqe), i, res;

	if (rc || !cqe)
		return 0;	/* interrupted; the memory is the kernel's yet */
	i = (int)io_uring_cqe_get_data64(cqe);
	res = cqe->res;
	io_uring_cqe_seen(&r->ring, cqe);
	completed(r, i, res);
	return 1;
}
#endif

int
epd_ring_start(struct epd_ring *r, int slot, int fd, int write,
    const struct iovec *part, int parts, uint64_t at)
{
	struct slot *s = r->slot + slot;

	if (parts < 1 || parts > EPD_RING_PARTS || s->busy)
		return -EINVAL;
	*s = (struct slot){ .fd = fd, .write = write, .busy = 1,
		.parts = parts, .at = at, .from_ns = epd_clock_boot_ns() };
	memcpy(s->part, part, (size_t)parts * sizeof *part);
	for (int i = 0; i < r->slots; i++)
		s->among += (unsigned)r->slot[i].busy;
#ifdef EPD_WITH_URING
	if (r->async && submit(r, slot))
		return 0;
#endif
	move_now(s);
	return 0;
}

void
epd_ring_look(struct epd_ring *r)
{
#ifdef EPD_WITH_URING
	while (r->made && reap(r, 0))
		;
#else
	(void)r;
#endif
}

int64_t
epd_ring_done(struct epd_ring *r, int slot, uint64_t *ns)
{
	struct slot *s = r->slot + slot;
	int64_t rc;

#ifdef EPD_WITH_URING
	while (s->busy)
		(void)reap(r, 1);
#endif
	rc = s->rc;
	if (ns)
		*ns = s->ns;
	s->rc = 0;
	return rc;
}

void
epd_ring_close(struct epd_ring *r)
{
	if (!r)
		return;
	for (int i = 0; i < r->slots; i++)
		(void)epd_ring_done(r, i, NULL);
#ifdef EPD_WITH_URING
	if (r->made)
		io_uring_queue_exit(&r->ring);
#endif
	munmap(r->memory, r->bytes * (size_t)r->slots);
	epd_free(r);
}
