/*
 * server.h - the data server: what a host (base/host.h) has, for peers that have
 * shown who they are.  A thread a connection, as many as there may be; a peer that
 * is slow, silent or lies costs its own connection, until its deadline.
 *
 * Who may come: over a Unix socket the same user, or root.  Over TCP whoever has the
 * key; without one only this machine's loopback is listened on, and only the same
 * user is served.  Nothing is encrypted.
 */
#ifndef TRANSPORT_SERVER_H
#define TRANSPORT_SERVER_H

#include <stdint.h>

#include "base/err.h"
#include "base/host.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/span.h"

struct epd_server;

/*
 * What rdma adds (transport/rail.h).  Each is called from the guest's thread; guest
 * is a number of the server's that is never used again.
 */
struct epd_server_rail {
	void *arg;
	/* RAIL, EXPOSE: question and answer are between rdma's two ends. */
	int (*rail)(void *arg, uint64_t guest, int fd, struct epd_span ask,
	    struct epd_buf *answer, struct epd_why *why);
	int (*expose)(void *arg, uint64_t guest, const struct epd_opened *window,
	    struct epd_span ask, struct epd_buf *answer, struct epd_why *why);
	/*
	 * Before each call: no key to write is good any more, so that what the host
	 * looks at stays as it is.  Who goes on writing has it exposed again.
	 */
	void (*calm)(void *arg, uint64_t guest);
	/* COVER, and before a window is gone: no key of it is good any more. */
	void (*cover)(void *arg, uint64_t guest, uint64_t window);
	void (*end)(void *arg, uint64_t guest);
};

/* 0: what stands in brackets. */
struct epd_server_options {
	/* "tcp://HOST:PORT" (port 0: any), "unix:///PATH" */
	const char *const *listen;
	int nlisten;
	struct epd_span key;		/* empty: none */
	uint32_t guests;		/* [64] at once */
	uint32_t strangers;		/* [32] that have not shown who they are: of more the oldest goes */
	uint32_t windows;		/* [1024] a guest's */
	uint32_t extents;		/* [65536] a window's */
	uint32_t hello_ms;		/* [5000] to show who they are */
	uint32_t idle_ms;		/* [600000] from one question to the next */
	/* [30000] for a question that has begun or an answer to be taken; bulk has
	   a second more for each rate [65536] bytes */
	uint32_t stall_ms, rate;
	struct epd_log log;
	struct epd_metrics *metrics;	/* NULL: not counted there */
	const struct epd_server_rail *rail;	/* NULL: no rdma */
};

struct epd_server_counts {
	uint64_t guests, strangers, windows;	/* now */
	uint64_t accepted, refused, late;	/* peers; late: past a deadline */
	uint64_t calls, moves, corrupt;
	uint64_t bytes_in, bytes_out;		/* of moves */
};

/*
 * Listen.  A Unix socket's folder is made if it is missing, and is the user's alone;
 * a socket that nobody listens on is taken over.  Lent until close: host, options'
 * log, metrics and rail.
 * Fails: EPD_EUSAGE (an address it cannot have, or may not without a key), -EADDRINUSE,
 *        -errno.
 */
int epd_server_open(struct epd_server **out, const struct epd_host *host,
    const struct epd_server_options *options, struct epd_why *why);
/* The ith address as peers write it, with the port it was given. */
const char *epd_server_address(const struct epd_server *s, int i);
/*
 * Serve until stopped, or until there is something to read at stop_fd (-1: none).
 * All guests are gone when it returns.  Fails: -errno.
 */
int epd_server_run(struct epd_server *s, int stop_fd, struct epd_why *why);
/* From any thread, or a signal's handler; run returns soon. */
void epd_server_stop(struct epd_server *s);
void epd_server_counts(struct epd_server *s, struct epd_server_counts *out);
/* Not while it runs.  NULL is fine. */
void epd_server_close(struct epd_server *s);

#endif
