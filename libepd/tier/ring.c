/*
 * ring.c - slots and their moves.
 *
 * 1. A buffer is the kernel's from start to done, and close waits for all.
 * 2. A move that falls short goes on where it stopped, until the file ends.
 */
#include <errno.h>
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
	size_t n, moved;
	uint64_t at, from_ns, ns;
	int64_t rc;
};

struct epd_ring {
	uint8_t *memory;
	size_t bytes;			/* of a slot */
	int slots, async;
	struct slot slot[EPD_RING_SLOTS];
#ifdef EPD_WITH_URING
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
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		epd_free(r);
		return -ENOMEM;
	}
	r->memory = p;
#ifdef EPD_WITH_URING
	r->async = io_uring_queue_init(2 * EPD_RING_SLOTS, &r->ring, 0) == 0;
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
	s->ns = epd_clock_boot_ns() - s->from_ns;
}

/* All of it now. */
static void
move_now(struct epd_ring *r, int i)
{
	struct slot *s = r->slot + i;
	uint8_t *p = epd_ring_buffer(r, i);
	int64_t rc = s->write ?
	    epd_file_pwrite(s->fd, p + s->moved, s->n - s->moved,
	    s->at + s->moved) :
	    epd_file_pread(s->fd, p + s->moved, s->n - s->moved,
	    s->at + s->moved);

	if (rc >= 0)
		s->moved = s->write ? s->n : s->moved + (size_t)rc;
	ended(s, rc < 0 ? rc : 0);
}

#ifdef EPD_WITH_URING
static int
submit(struct epd_ring *r, int i)
{
	struct slot *s = r->slot + i;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);
	uint8_t *p = (uint8_t *)epd_ring_buffer(r, i) + s->moved;
	int rc;

	if (!sqe)
		return -EAGAIN;
	if (s->write)
		io_uring_prep_write(sqe, s->fd, p, (unsigned)(s->n - s->moved),
		    s->at + s->moved);
	else
		io_uring_prep_read(sqe, s->fd, p, (unsigned)(s->n - s->moved),
		    s->at + s->moved);
	io_uring_sqe_set_data64(sqe, (unsigned)i);
	do
		rc = io_uring_submit(&r->ring);
	while (rc == -EINTR || rc == -EAGAIN || rc == -EBUSY);
	return rc < 0 ? rc : 0;
}

static void
completed(struct epd_ring *r, int i, int res)
{
	struct slot *s = r->slot + i;

	if (res > 0)
		s->moved += (size_t)res;
	else if (res < 0 && res != -EINTR && res != -EAGAIN)
		ended(s, res);
	else if (!res)
		ended(s, s->write ? -ENOSPC : 0);
	if (!s->busy)
		return;
	if (s->moved == s->n)
		ended(s, 0);
	else if (submit(r, i))
		move_now(r, i);
}

/* Till that slot's is done; others' that come first are taken note of. */
static void
await(struct epd_ring *r, int slot)
{
	while (r->slot[slot].busy) {
		struct io_uring_cqe *cqe;
		int rc = io_uring_wait_cqe(&r->ring, &cqe), i, res;

		if (rc)
			continue;	/* interrupted; the memory is the kernel's yet */
		i = (int)io_uring_cqe_get_data64(cqe);
		res = cqe->res;
		io_uring_cqe_seen(&r->ring, cqe);
		completed(r, i, res);
	}
}
#endif

int
epd_ring_start(struct epd_ring *r, int slot, int fd, int write, size_t n,
    uint64_t at)
{
	struct slot *s = r->slot + slot;

	if (n > r->bytes || s->busy)
		return -EINVAL;
	*s = (struct slot){ .fd = fd, .write = write, .busy = 1, .n = n,
		.at = at, .from_ns = epd_clock_boot_ns() };
#ifdef EPD_WITH_URING
	if (r->async && submit(r, slot) == 0)
		return 0;
#endif
	move_now(r, slot);
	return 0;
}

int64_t
epd_ring_done(struct epd_ring *r, int slot, uint64_t *ns)
{
	struct slot *s = r->slot + slot;
	int64_t rc;

#ifdef EPD_WITH_URING
	await(r, slot);
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
	if (r->async)
		io_uring_queue_exit(&r->ring);
#endif
	munmap(r->memory, r->bytes * (size_t)r->slots);
	epd_free(r);
}
