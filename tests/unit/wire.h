/*
 * wire.h - a host with a few windows, its server in a thread, and links to it.
 *
 * The host's bytes lie in one memory file, which is mapped too.  OPEN: how u32 (enum
 * wire_kind), writable u32; its answer is window u64, bytes u64.
 */
#ifndef TESTS_WIRE_H
#define TESTS_WIRE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/host.h"
#include "tests/check.h"
#include "tests/unit/scratch.h"
#include "transport/transport.h"

enum wire_verb { WIRE_OPEN = 1, WIRE_ECHO, WIRE_FAIL, WIRE_SLEEP, WIRE_BIG };
enum wire_kind { WIRE_BOTH, WIRE_MEMORY, WIRE_FILE, WIRE_MIXED, WIRE_KINDS };
enum { WIRE_BYTES = 3 << 20, WIRE_PARTS = 97 };

struct wire_host {
	struct epd_host host;
	int fd;
	uint8_t *p;
	uint64_t next;			/* ids; these by atomics */
	int guests, begun, ended, opened, gone;
};

struct epd_guest {
	struct wire_host *h;
	struct epd_extent extent[WIRE_PARTS];
	uint64_t open[2048];		/* ids not yet gone */
	int n;
};

static inline uint64_t
wire_in(int ms)
{
	return epd_clock_boot_ns() + (uint64_t)ms * 1000000;
}

static inline uint8_t
wire_byte(uint64_t at)
{
	return (uint8_t)(at * 2654435761u >> 13);
}

/* All of them, from the first byte on. */
static uint8_t wire_want[WIRE_BYTES];
static pthread_mutex_t wire_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void
wire_make_want(void)
{
	for (uint64_t i = 0; i < WIRE_BYTES; i++)
		wire_want[i] = wire_byte(i);
}

static inline int
wire_is_right(const uint8_t *p, uint64_t at, uint64_t n)
{
	return !memcmp(p, wire_want + at, n);
}

/* What another thread did to the host's bytes is seen behind this. */
static inline void
wire_see(void)
{
	pthread_mutex_lock(&wire_lock);
	pthread_mutex_unlock(&wire_lock);
}

static int
wire_begin(void *arg, pid_t near, struct epd_guest **out, struct epd_why *why)
{
	(void)near;
	struct wire_host *h = arg;
	struct epd_guest *g = epd_calloc(1, sizeof *g);

	(void)why;
	if (!g)
		return -ENOMEM;
	g->h = h;
	__atomic_fetch_add(&h->begun, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&h->guests, 1, __ATOMIC_SEQ_CST);
	*out = g;
	return 0;
}

static void
wire_end(struct epd_guest *g)
{
	wire_see();
	/* All windows are to be gone by now. */
	if (g->n)
		abort();
	__atomic_fetch_add(&g->h->ended, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&g->h->guests, 1, __ATOMIC_SEQ_CST);
	epd_free(g);
}

/* The window in pieces of uneven sizes, memory and file in turn. */
static uint32_t
wire_extents(struct epd_guest *g, uint32_t kind)
{
	struct wire_host *h = g->h;
	uint64_t at = 0;
	uint32_t n = 0;

	if (kind != WIRE_MIXED) {
		g->extent[0] = (struct epd_extent){ kind == WIRE_MEMORY ? -1 :
		    h->fd, 0, kind == WIRE_FILE ? NULL : h->p, WIRE_BYTES };
		return 1;
	}
	for (; at < WIRE_BYTES; n++) {
		uint64_t k = 1 + (uint64_t)(n * 7919u) % 70000;

		if (k > WIRE_BYTES - at || n == WIRE_PARTS - 1)
			k = WIRE_BYTES - at;
		g->extent[n] = (struct epd_extent){ n % 3 == 1 ? -1 : h->fd, at,
		    n % 3 == 2 ? NULL : h->p + at, k };
		at += k;
	}
	return n;
}

static int
wire_call(struct epd_guest *g, uint16_t verb, struct epd_span ask,
    struct epd_buf *answer, struct epd_opened *opened, struct epd_why *why)
{
	struct epd_cur c = epd_cur(ask);
	const uint32_t a = epd_unpack_u32(&c), b = epd_unpack_u32(&c);

	wire_see();
	switch ((enum wire_verb)verb) {
	case WIRE_OPEN:
		if (c.failed || a >= WIRE_KINDS || g->n == 2048)
			return EPD_EFORMAT;
		*opened = (struct epd_opened){ .id = __atomic_add_fetch(
		    &g->h->next, 1, __ATOMIC_SEQ_CST), .writable = (int)b,
		    .extent = g->extent, .n = wire_extents(g, a) };
		epd_pack_u64(answer, opened->id);
		epd_pack_u64(answer, WIRE_BYTES);
		g->open[g->n++] = opened->id;
		__atomic_fetch_add(&g->h->opened, 1, __ATOMIC_SEQ_CST);
		return 0;
	case WIRE_ECHO:
		epd_buf_put(answer, ask.p, ask.n);
		return 0;
	case WIRE_FAIL:
		return epd_why(why, -(int)a, "as you like");
	case WIRE_SLEEP:
		epd_clock_sleep_ns((uint64_t)a * 1000000);
		return 0;
	case WIRE_BIG:
		epd_buf_add(answer, a);
		return 0;
	}
	return EPD_EUNSUPPORTED;
}

static void
wire_gone(struct epd_guest *g, uint64_t id)
{
	for (int i = 0; i < g->n; i++)
		if (g->open[i] == id) {
			g->open[i] = g->open[--g->n];
			__atomic_fetch_add(&g->h->gone, 1, __ATOMIC_SEQ_CST);
			return;
		}
	abort();
}

static inline void
wire_fill(struct wire_host *h)
{
	memcpy(h->p, wire_want, WIRE_BYTES);
}

static inline int
wire_host_open(struct wire_host *h)
{
	*h = (struct wire_host){ .host = { h, wire_begin, wire_end, wire_call,
	    wire_gone }, .fd = memfd_create("wire", MFD_CLOEXEC) };
	if (h->fd < 0 || ftruncate(h->fd, WIRE_BYTES))
		return -1;
	h->p = mmap(NULL, WIRE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, h->fd,
	    0);
	if (h->p == MAP_FAILED)
		return -1;
	wire_fill(h);
	return 0;
}

static inline void
wire_host_close(struct wire_host *h)
{
	munmap(h->p, WIRE_BYTES);
	close(h->fd);
}

/* ---- a server in a thread ---- */

struct wire {
	struct wire_host host;
	struct epd_server *server;
	pthread_t thread;
	int rc;
	struct epd_why why;
};

static void *
wire_run(void *arg)
{
	struct wire *w = arg;

	w->rc = epd_server_run(w->server, -1, &w->why);
	return NULL;
}

/* One address; o may be NULL. */
static inline int
wire_start(struct wire *w, const char *address, const char *key,
    const struct epd_server_options *o)
{
	struct epd_server_options own = { 0 };

	memset(w, 0, sizeof *w);
	if (o)
		own = *o;
	own.listen = &address;
	own.nlisten = 1;
	if (key)
		own.key = epd_span_str(key);
	if (wire_host_open(&w->host))
		return -1;
	w->rc = epd_server_open(&w->server, &w->host.host, &own, &w->why);
	if (!w->rc)
		w->rc = -pthread_create(&w->thread, NULL, wire_run, w);
	return w->rc;
}

static inline void
wire_stop(struct wire *w)
{
	if (w->server) {
		epd_server_stop(w->server);
		pthread_join(w->thread, NULL);
		epd_server_close(w->server);
	}
	wire_host_close(&w->host);
}

/* Until no guest is there, or ms are over. */
static inline int
wire_settles(struct wire *w, int ms)
{
	struct epd_server_counts n;

	for (const uint64_t end = wire_in(ms); epd_clock_boot_ns() < end;
	    epd_clock_sleep_ns(1000000)) {
		epd_server_counts(w->server, &n);
		if (!n.guests && !n.strangers && !n.windows &&
		    !__atomic_load_n(&w->host.guests, __ATOMIC_SEQ_CST))
			return 1;
	}
	return 0;
}

/* ---- links ---- */

static struct epd_why wire_why;

static inline const struct epd_transport *
wire_table(enum epd_backend b)
{
	return epd_transport_of(epd_transports(), b);
}

static inline struct epd_link *
wire_link(enum epd_backend b, const char *address, const char *key, int checksum)
{
	const struct epd_transport *t = wire_table(b);
	struct epd_peer peer = { .address = address, .checksum = checksum,
		.deadline_ns = wire_in(5000) };
	struct epd_link *l = NULL;

	if (key)
		peer.key = epd_span_str(key);
	*wire_why.text = '\0';
	return t->open(t, &l, &peer, &wire_why) ? NULL : l;
}

static inline int
wire_ask(struct epd_link *l, enum wire_verb verb, uint32_t a, uint32_t b,
    struct epd_buf *answer)
{
	struct epd_buf q = { 0 };
	int rc;

	epd_pack_u32(&q, a);
	epd_pack_u32(&q, b);
	rc = epd_link_ops(l)->call(l, (uint16_t)verb, epd_span(q.p, q.n), answer,
	    wire_in(5000), &wire_why);
	epd_buf_free(&q);
	return rc;
}

/* A window's number; 0: none. */
static inline uint64_t
wire_open(struct epd_link *l, enum wire_kind kind, int writable)
{
	struct epd_buf a = { 0 };
	struct epd_cur c;
	uint64_t id = 0;

	if (!wire_ask(l, WIRE_OPEN, kind, (uint32_t)writable, &a)) {
		c = epd_cur(epd_span(a.p, a.n));
		id = epd_unpack_u64(&c);
	}
	epd_buf_free(&a);
	return id;
}

/* One move to its end: what it came to, or what the link did. */
static inline struct epd_piece_done
wire_move(struct epd_link *l, enum epd_op op, uint64_t window, uint64_t offset,
    void *p, uint64_t n)
{
	const struct epd_piece piece = { 7, op, window, offset, n, p,
		wire_in(10000) };
	struct epd_piece_done d = { .rc = -1000000 };
	int rc = epd_link_ops(l)->submit(l, &piece, &wire_why);

	if (!rc)
		rc = epd_link_ops(l)->wait(l, &d, 1, wire_in(10000), &wire_why);
	if (rc != 1)
		d = (struct epd_piece_done){ .rc = rc };
	return d;
}

/*
 * The server's thread and this one meet: what either did to the host's bytes before
 * the other has seen, and a sanitizer sees that it has.
 */
static inline int
wire_meet(struct epd_link *l)
{
	struct epd_buf a = { 0 };
	int rc;

	wire_see();
	rc = wire_ask(l, WIRE_ECHO, 0, 0, &a);
	wire_see();
	epd_buf_free(&a);
	return rc;
}

/* A plain socket to what a server of TCP over v4 loopback listens on. */
static inline int
wire_socket(const char *address)
{
	struct sockaddr_storage at = { 0 };
	unsigned port = 0;
	int fd;

	if (sscanf(address, "tcp://127.0.0.1:%u", &port) != 1)
		return -1;
	at.ss_family = AF_INET;
	((uint8_t *)&at)[2] = (uint8_t)(port >> 8);
	((uint8_t *)&at)[3] = (uint8_t)port;
	((uint8_t *)&at)[4] = 127;
	((uint8_t *)&at)[7] = 1;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, 16)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

#endif
