/*
 * stream.c - reading and writing without ever blocking but in poll.
 *
 * 1. at <= n <= EPD_STREAM; in[at..n) came and was not taken.
 * 2. A descriptor that came is in file[], or closed: where none may come the kernel
 *    has no room to put it and drops it.
 *
 * Sends copy.  MSG_ZEROCOPY was tried (blocks of 64 KiB and 1 MiB over loopback: 0.6
 * to 1.0 of a plain send, for loopback copies all the same and the notices come on
 * top), and sendfile of memory that is mapped anyway (0.55 to 0.75 of it, through
 * its pipe of sixteen pages).
 */
#include "transport/stream.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/stop.h"

enum { SENT_AT_ONCE = 64, LOOK_MS = 50, FEW = 16 << 10, MANY = 256 << 10 };

/* Milliseconds until then, rounded up, for poll. */
static int
left_ms(uint64_t deadline_ns)
{
	const uint64_t now = epd_clock_boot_ns();
	uint64_t ms;

	if (now >= deadline_ns)
		return 0;
	ms = (deadline_ns - now + 999999) / 1000000;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

int
epd_stream_poll(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	for (;;) {
		const int ms = left_ms(deadline_ns);

		if (epd_is_stopped())
			return -ECANCELED;
		n = poll(&p, 1, ms > LOOK_MS && epd_is_heeding() ? LOOK_MS : ms);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			break;
		if (!ms)
			return EPD_ETIMEOUT;
	}
	if (p.revents & events)
		return 0;
	return p.revents & POLLNVAL ? -EBADF : EPD_EPEER;
}

static void
wake_at(int fd, int n)
{
	/* Where it cannot be had, the wait ends with the first byte. */
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof n);
}

int
epd_stream_await(int fd, uint64_t n, short also, uint64_t deadline_ns)
{
	int rc;

	if (n >= FEW)
		wake_at(fd, n < MANY ? (int)n : MANY);
	rc = epd_stream_poll(fd, (short)(POLLIN | also), deadline_ns);
	/* Whoever else waits on it wants to know of any byte. */
	if (n >= FEW)
		wake_at(fd, 1);
	return rc;
}

/* ---- reading ---- */

/* Of a peer that went away while it was written to, or read from. */
static ssize_t
failed(int err)
{
	switch (err) {
	case EWOULDBLOCK:
		return -EAGAIN;
	case EPIPE:
	case ECONNRESET:
	case ETIMEDOUT:
	case ECONNABORTED:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENETDOWN:
		return EPD_EPEER;
	default:
		return -err;
	}
}

/* Fails: -EMFILE: there are no descriptors left for them; EPD_EPEER: too many came. */
static int
keep_files(struct epd_stream *s, struct msghdr *m)
{
	size_t all = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		all += n;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (s->files < s->max)
				s->file[s->files++] = fd;
			else
				close(fd);
		}
	}
	if (!(m->msg_flags & MSG_CTRUNC))
		return 0;
	return all < EPD_STREAM_FILES ? -EMFILE : EPD_EPEER;
}

static ssize_t
receive(struct epd_stream *s, struct iovec *iov, size_t n)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(EPD_STREAM_FILES * sizeof(int))];
	} u;
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = n };
	ssize_t got;
	int rc;

	if (s->max) {
		m.msg_control = u.room;
		m.msg_controllen = sizeof u.room;
	}
	do
		got = recvmsg(s->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return failed(errno);
	if (s->max && (rc = keep_files(s, &m)))
		return rc;
	return got ? got : EPD_EPEER;
}

ssize_t
epd_stream_take(struct epd_stream *s, void *p, size_t n, size_t ahead)
{
	struct iovec iov[2] = { { p, n }, { s->in, ahead } };
	size_t have = s->n - s->at;
	ssize_t got;

	if (have) {
		have = have < n ? have : n;
		memcpy(p, s->in + s->at, have);
		s->at += have;
		return (ssize_t)have;
	}
	got = receive(s, iov, ahead ? 2 : 1);
	if (got <= 0 || (size_t)got <= n)
		return got;
	s->at = 0;
	s->n = (size_t)got - n;
	return (ssize_t)n;
}

int
epd_stream_read(struct epd_stream *s, void *p, size_t n, size_t ahead,
    uint64_t deadline_ns)
{
	uint8_t *to = p;

	while (n) {
		ssize_t got = epd_stream_take(s, to, n, ahead);
		int rc;

		if (got > 0) {
			to += got;
			n -= (size_t)got;
			continue;
		}
		if (got != -EAGAIN)
			return (int)got;
		if ((rc = epd_stream_flush(s, deadline_ns)) ||
		    (rc = epd_stream_await(s->fd, n, 0, deadline_ns)))
			return rc;
	}
	return 0;
}

int
epd_stream_skip(struct epd_stream *s, uint64_t n, uint64_t deadline_ns)
{
	uint8_t sink[16384];
	int rc = 0;

	while (n && !rc) {
		const size_t k = n < sizeof sink ? (size_t)n : sizeof sink;

		rc = epd_stream_read(s, sink, k, 0, deadline_ns);
		n -= k;
	}
	return rc;
}

/* ---- writing ---- */

/* Take k bytes off the front of iov; how many of n are left, moved to the front. */
static int
eat(struct iovec *iov, int n, size_t k)
{
	int i = 0;

	for (; i < n && k >= iov[i].iov_len; i++)
		k -= iov[i].iov_len;
	if (i < n) {
		iov[i].iov_base = (uint8_t *)iov[i].iov_base + k;
		iov[i].iov_len -= k;
	}
	if (i)
		memmove(iov, iov + i, (size_t)(n - i) * sizeof *iov);
	return n - i;
}

/* All of it; more: something follows at once. */
static int
send_all(int fd, struct msghdr *m, int more, uint64_t deadline_ns)
{
	struct iovec *iov = m->msg_iov;
	int n = (int)m->msg_iovlen, rc;
	ssize_t k;

	while (n) {
		m->msg_iovlen = (size_t)(n < SENT_AT_ONCE ? n : SENT_AT_ONCE);
		k = sendmsg(fd, m, MSG_DONTWAIT | MSG_NOSIGNAL |
		    (more ? MSG_MORE : 0));
		if (k >= 0) {
			m->msg_control = NULL;
			m->msg_controllen = 0;
			n = eat(iov, n, (size_t)k);
			continue;
		}
		if (errno == EINTR)
			continue;
		k = failed(errno);
		if (k != -EAGAIN)
			return (int)k;
		if ((rc = epd_stream_poll(fd, POLLOUT, deadline_ns)))
			return rc;
	}
	return 0;
}

int
epd_stream_flush(struct epd_stream *s, uint64_t deadline_ns)
{
	return s->nout ? epd_stream_send(s, NULL, 0, 0, deadline_ns) : 0;
}

int
epd_stream_put(struct epd_stream *s, const void *p, size_t n, uint64_t deadline_ns)
{
	int rc;

	if (n > sizeof s->out - s->nout &&
	    (rc = epd_stream_flush(s, deadline_ns)))
		return rc;
	if (n > sizeof s->out) {
		struct iovec iov = { (void *)(uintptr_t)p, n };

		return epd_stream_send(s, &iov, 1, 0, deadline_ns);
	}
	memcpy(s->out + s->nout, p, n);
	s->nout += n;
	return 0;
}

int
epd_stream_send(struct epd_stream *s, struct iovec *iov, int n, int more,
    uint64_t deadline_ns)
{
	struct iovec both[SENT_AT_ONCE];
	struct msghdr m = { .msg_iov = both };
	int first = n < SENT_AT_ONCE ? n : SENT_AT_ONCE - 1, rc;

	both[0] = (struct iovec){ s->out, s->nout };
	if (first)
		memcpy(both + 1, iov, (size_t)first * sizeof *iov);
	m.msg_iovlen = (size_t)first + 1;
	s->nout = 0;
	rc = send_all(s->fd, &m, more || first < n, deadline_ns);
	if (rc || first == n)
		return rc;
	m = (struct msghdr){ .msg_iov = iov + first,
	    .msg_iovlen = (size_t)(n - first) };
	return send_all(s->fd, &m, more, deadline_ns);
}

int
epd_stream_send_file(struct epd_stream *s, int fd, uint64_t at, uint64_t n,
    uint64_t deadline_ns)
{
	struct iovec iov = { s->out, s->nout };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	off_t from = (off_t)at;
	int rc = 0;

	if (s->nout)
		rc = send_all(s->fd, &m, n != 0, deadline_ns);
	s->nout = 0;
	while (!rc && n) {
		const ssize_t k = sendfile(s->fd, fd, &from,
		    n < 1 << 30 ? (size_t)n : 1 << 30);

		if (k > 0)
			n -= (uint64_t)k;
		else if (!k)
			rc = -ENODATA;
		else if (errno == EAGAIN)
			rc = epd_stream_poll(s->fd, POLLOUT, deadline_ns);
		else if (errno != EINTR)
			rc = (int)failed(errno);
	}
	return rc;
}

int
epd_stream_send_files(struct epd_stream *s, struct epd_span bytes, const int *fds,
    int nfds, uint64_t deadline_ns)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(EPD_STREAM_FILES * sizeof(int))];
	} u = { .room = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)bytes.p, bytes.n };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	const size_t size = sizeof *fds * (size_t)nfds;
	struct cmsghdr *c = &u.align;
	int rc = epd_stream_flush(s, deadline_ns);

	if (rc)
		return rc;
	if (nfds) {
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(c), fds, size);
		m.msg_control = u.room;
		m.msg_controllen = CMSG_SPACE(size);
	}
	return send_all(s->fd, &m, 0, deadline_ns);
}
