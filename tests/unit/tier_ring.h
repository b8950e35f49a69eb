/*
 * tier_ring.h - a kernel without io_uring, one whose moves fail, and a file system
 * without O_DIRECT.  Include fault.h first: what is handed to the ring is a call of
 * its, "submit".
 */
#ifndef TESTS_TIER_RING_H
#define TESTS_TIER_RING_H

#include <dlfcn.h>
#include <stdint.h>
#if __has_include(<liburing.h>)
#include <liburing.h>
#endif

static struct {
	int no_uring, no_direct;
	int bad_at, count;		/* the move that goes wrong; 0: none */
} ring;

static inline void
ring_spoil(int at)
{
	ring.bad_at = at;
	ring.count = 0;
}

#ifdef LIB_URING_H
#define RING_HAS 1
int
io_uring_queue_init(unsigned n, struct io_uring *r, unsigned flags)
{
	struct io_uring_params p = { .flags = flags };

	return ring.no_uring ? -ENOSYS : io_uring_queue_init_params(n, r, &p);
}

/* Memory that is not there: reading and writing it is an I/O error. */
static int
ring_spoilt(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/mem",
		    O_RDWR | O_CLOEXEC);
	return fd;
}

int
io_uring_submit(struct io_uring *r)
{
	static int (*next)(struct io_uring *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "io_uring_submit");
	FAULT("submit", -fault.err);
	if (ring.bad_at && ++ring.count == ring.bad_at)
		r->sq.sqes[(r->sq.sqe_tail - 1) & r->sq.ring_mask].fd =
		    ring_spoilt();
	return next(r);
}
#else
#define RING_HAS 0
#endif

int
fcntl(int fd, int what, ...)
{
	va_list ap;
	long arg;

	va_start(ap, what);
	arg = va_arg(ap, long);
	va_end(ap);
	if (ring.no_direct && what == F_SETFL && arg & O_DIRECT) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_fcntl, fd, what, arg);
}

#endif
