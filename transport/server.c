/*
 * server.c - listening, and the list of connections.
 *
 * 1. lock is for the list and what stands first in each connection; while it is
 *    held a connection's socket is open, and so may be shut down.
 * 2. A connection leaves the list when its thread is joined, by run alone.
 */
#include "transport/server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "transport/hello.h"
#include "transport/listen.h"
#include "transport/serve.h"

enum { LISTENERS = 16, OUT_OF_FILES_MS = 50, ENDING_MS = 200 };

struct epd_server {
	struct epd_server_common common;
	struct epd_listener *listener;
	int nlisteners, wake;		/* an eventfd */
	int is_stopped;			/* atomic */
	uint64_t next_number;		/* run's */
	pthread_mutex_t lock;
	struct epd_serve *first, **last;	/* the oldest first */
};

struct epd_server_common *
epd_server_common(struct epd_server *s)
{
	return &s->common;
}

static void
wake(struct epd_server *s)
{
	const uint64_t one = 1;

	/* It counts up or is full, and run wakes either way. */
	(void)!write(s->wake, &one, sizeof one);
}

/* ---- opening ---- */

static int
set_options(struct epd_server_options *o, const struct epd_server_options *from,
    struct epd_why *why)
{
	static const struct epd_server_options usual = { .guests = 64,
		.strangers = 32, .windows = 1024, .extents = 65536,
		.hello_ms = 5000, .idle_ms = 600000, .stall_ms = 30000,
		.rate = 65536 };

	*o = *from;
#define USUAL(f) (o->f = o->f ? o->f : usual.f)
	USUAL(guests);
	USUAL(strangers);
	USUAL(windows);
	USUAL(extents);
	USUAL(hello_ms);
	USUAL(idle_ms);
	USUAL(stall_ms);
	USUAL(rate);
#undef USUAL
	if (o->nlisten < 1 || o->nlisten > LISTENERS)
		return epd_why(why, EPD_EUSAGE, "a server listens on 1 to %d "
		    "addresses", LISTENERS);
	if (o->key.n && (o->key.n < EPD_AUTH_KEY_LEAST ||
	    o->key.n > EPD_PEER_KEY))
		return epd_why(why, EPD_EUSAGE, "a key has %d to %d bytes",
		    EPD_AUTH_KEY_LEAST, EPD_PEER_KEY);
	return 0;
}

int
epd_server_open(struct epd_server **out, const struct epd_host *host,
    const struct epd_server_options *options, struct epd_why *why)
{
	struct epd_server *s = epd_calloc(1, sizeof *s);
	struct epd_server_common *c = &s->common;
	int rc;

	if (!s)
		return -ENOMEM;
	s->wake = -1;
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	c->host = *host;
	rc = set_options(&c->o, options, why);
	if (!rc)
		epd_buf_put(&c->key, c->o.key.p, c->o.key.n);
	if (!rc && (c->key.failed || !(s->listener = epd_calloc(
	    (size_t)c->o.nlisten, sizeof *s->listener))))
		rc = -ENOMEM;
	if (!rc && (s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
		rc = -errno;
	for (int i = 0; !rc && i < c->o.nlisten; i++) {
		rc = epd_listen_open(s->listener + i, c->o.listen[i],
		    c->key.n != 0, why);
		s->nlisteners += !rc;
	}
	c->o.key = epd_span(c->key.p, c->key.n);
	c->o.listen = NULL;
	if (rc) {
		epd_server_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

const char *
epd_server_address(const struct epd_server *s, int i)
{
	return i >= 0 && i < s->nlisteners ? s->listener[i].address : "";
}

void
epd_server_close(struct epd_server *s)
{
	if (!s)
		return;
	while (s->nlisteners)
		epd_listen_close(s->listener + --s->nlisteners);
	epd_free(s->listener);
	if (s->wake >= 0)
		close(s->wake);
	if (s->common.key.p)
		explicit_bzero(s->common.key.p, s->common.key.cap);
	epd_buf_free(&s->common.key);
	pthread_mutex_destroy(&s->lock);
	epd_free(s);
}

/* ---- connections ---- */

int
epd_server_admit(struct epd_server *s, struct epd_serve *c)
{
	struct epd_server_counts *n = &s->common.counts;
	int rc = 0;

	pthread_mutex_lock(&s->lock);
	if (__atomic_load_n(&n->guests, __ATOMIC_RELAXED) >= s->common.o.guests) {
		rc = EPD_ECREDIT;
	} else {
		c->is_guest = 1;
		epd_server_count(&n->guests, 1);
		epd_server_count(&n->strangers, -1);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void
epd_server_over(struct epd_server *s, struct epd_serve *c)
{
	struct epd_server_counts *n = &s->common.counts;

	pthread_mutex_lock(&s->lock);
	close(c->in.fd);
	c->in.fd = -1;
	epd_server_count(c->is_guest ? &n->guests : &n->strangers, -1);
	c->is_over = 1;
	pthread_mutex_unlock(&s->lock);
	wake(s);
}

/* Under the lock. */
static void
let_go(struct epd_serve *c)
{
	c->is_let_go = 1;
	if (!c->is_over)
		shutdown(c->in.fd, SHUT_RDWR);
}

/* Strangers; if they are as many as may be, the oldest is let go. */
static uint32_t
press(struct epd_server *s)
{
	struct epd_serve *oldest = NULL;
	uint32_t n = 0;

	pthread_mutex_lock(&s->lock);
	for (struct epd_serve *c = s->first; c; c = c->next) {
		if (c->is_guest || c->is_over)
			continue;
		n++;
		if (!oldest && !c->is_let_go)
			oldest = c;
	}
	if (n >= s->common.o.strangers && oldest)
		let_go(oldest);
	pthread_mutex_unlock(&s->lock);
	return n;
}

/*
 * Room for one more stranger.  Those let go of end at once, for they wait for
 * nothing but their sockets; so if they are many there is a moment to wait.
 */
static int
make_room(struct epd_server *s)
{
	for (int i = 0; i < ENDING_MS; i++) {
		if (press(s) < 2 * s->common.o.strangers)
			return 1;
		epd_clock_sleep_ns(1000000);
	}
	return 0;
}

static int
begin(struct epd_server *s, struct epd_serve *c)
{
	int rc;

	/* No signal reaches it; and sendfile has its SIGPIPE. */
	pthread_mutex_lock(&s->lock);
	rc = epd_thread_begin(&c->thread, epd_serve_thread, c);
	if (!rc) {
		*s->last = c;
		s->last = &c->next;
		epd_server_count(&s->common.counts.strangers, 1);
		epd_server_count(&s->common.counts.accepted, 1);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

/* 0, or -errno where accept should be left alone for a moment. */
static int
accept_one(struct epd_server *s, const struct epd_listener *l)
{
	const int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct epd_serve *c;

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
		    errno == ENOMEM ? -errno : 0;
	epd_socket_settle(fd);
	if (!make_room(s)) {
		epd_hello_refuse(fd, EPD_ECREDIT, "too many come at once");
	} else if ((c = epd_calloc(1, sizeof *c))) {
		c->server = s;
		c->number = ++s->next_number;
		c->scheme = l->scheme;
		c->in.fd = fd;
		if (!begin(s, c))
			return 0;
		epd_free(c);
	}
	epd_server_count(&s->common.counts.refused, 1);
	close(fd);
	return 0;
}

/* Join those that are over; all: let go of the rest first, and wait for them. */
static void
reap(struct epd_server *s, int all)
{
	struct epd_serve **at, *c;

	pthread_mutex_lock(&s->lock);
	for (c = s->first; all && c; c = c->next)
		let_go(c);
	for (at = &s->first; (c = *at);) {
		if (!all && !c->is_over) {
			at = &c->next;
			continue;
		}
		if (!(*at = c->next))
			s->last = at;
		/* Its thread may still want the lock. */
		pthread_mutex_unlock(&s->lock);
		pthread_join(c->thread, NULL);
		epd_free(c);
		pthread_mutex_lock(&s->lock);
		/* Only this thread adds or takes away, so `at` is good. */
	}
	pthread_mutex_unlock(&s->lock);
}

int
epd_server_run(struct epd_server *s, int stop_fd, struct epd_why *why)
{
	struct pollfd p[LISTENERS + 2] = { { .fd = s->wake, .events = POLLIN },
		{ .fd = stop_fd, .events = POLLIN } };
	int busy = 0, rc = 0;

	for (int i = 0; i < s->nlisteners; i++)
		p[i + 2] = (struct pollfd){ .fd = s->listener[i].fd,
		    .events = POLLIN };
	while (!__atomic_load_n(&s->is_stopped, __ATOMIC_ACQUIRE)) {
		uint64_t drained;
		int n = poll(p, (nfds_t)(busy ? 2 : s->nlisteners + 2),
		    busy ? OUT_OF_FILES_MS : -1);

		if (n < 0 && errno != EINTR) {
			rc = epd_why(why, -errno, "poll: %s", strerror(errno));
			break;
		}
		if (n > 0 && p[1].revents)
			break;
		if (n > 0 && p[0].revents)
			(void)!read(s->wake, &drained, sizeof drained);
		reap(s, 0);
		for (int i = 0; n > 0 && !busy && i < s->nlisteners; i++)
			if (p[i + 2].revents)
				rc |= accept_one(s, s->listener + i);
		busy = rc != 0;
		rc = 0;
	}
	reap(s, 1);
	return rc;
}

void
epd_server_stop(struct epd_server *s)
{
	__atomic_store_n(&s->is_stopped, 1, __ATOMIC_RELEASE);
	wake(s);
}

void
epd_server_counts(struct epd_server *s, struct epd_server_counts *out)
{
	const uint64_t *from = (const uint64_t *)&s->common.counts;
	uint64_t *to = (uint64_t *)out;

	for (size_t i = 0; i < sizeof *out / sizeof *to; i++)
		to[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
}
