/*
 * wire_proxy.h - between a link and its server: cuts the connection after so many
 * bytes of one way, or turns a byte of it into another.
 */
#ifndef TESTS_WIRE_PROXY_H
#define TESTS_WIRE_PROXY_H

#include <netinet/in.h>
#include <poll.h>

#include "tests/unit/wire.h"

struct wire_proxy {
	int listener, stop[2];
	char address[64];
	const char *to;			/* a server on v4 loopback */
	pthread_t thread;
	/* By atomics: of which way; after how many bytes cut, at which byte flip. */
	int from_server;
	uint64_t cut, flip;		/* UINT64_MAX: never */
	uint64_t passed[2];		/* of the connection now: to server, from it */
};

/* One way's bytes that are there.  0: it is over. */
static int
proxy_pass(struct wire_proxy *x, int from, int to, int is_from_server)
{
	static _Thread_local uint8_t b[65536];
	const int ours = __atomic_load_n(&x->from_server, __ATOMIC_SEQ_CST) ==
	    is_from_server;
	const uint64_t cut = __atomic_load_n(&x->cut, __ATOMIC_SEQ_CST);
	const uint64_t flip = __atomic_load_n(&x->flip, __ATOMIC_SEQ_CST);
	uint64_t *passed = &x->passed[is_from_server];
	ssize_t n = recv(from, b, sizeof b, 0);

	if (n <= 0)
		return 0;
	if (ours && flip >= *passed && flip < *passed + (uint64_t)n)
		b[flip - *passed] ^= 0x10;
	if (ours && cut < *passed + (uint64_t)n)
		n = (ssize_t)(cut - *passed);
	for (ssize_t at = 0, k; at < n; at += k)
		if ((k = send(to, b + at, (size_t)(n - at), MSG_NOSIGNAL)) < 0)
			return 0;
	*passed += (uint64_t)n;
	return !ours || *passed < cut;
}

static void
proxy_one(struct wire_proxy *x, int client, int server)
{
	struct pollfd p[3] = { { client, POLLIN, 0 }, { server, POLLIN, 0 },
		{ x->stop[0], POLLIN, 0 } };

	x->passed[0] = x->passed[1] = 0;
	if (!__atomic_load_n(&x->cut, __ATOMIC_SEQ_CST))
		return;
	while (poll(p, 3, -1) > 0 && !p[2].revents) {
		if (p[0].revents && !proxy_pass(x, client, server, 0))
			break;
		if (p[1].revents && !proxy_pass(x, server, client, 1))
			break;
	}
}

static void *
proxy_run(void *arg)
{
	struct wire_proxy *x = arg;
	struct pollfd p[2] = { { x->listener, POLLIN, 0 }, { x->stop[0], POLLIN, 0 } };

	while (poll(p, 2, -1) > 0 && !p[1].revents) {
		const int client = accept(x->listener, NULL, NULL);
		const int server = wire_socket(x->to);

		if (client >= 0 && server >= 0)
			proxy_one(x, client, server);
		close(client);
		close(server);
	}
	return NULL;
}

static inline void
proxy_set(struct wire_proxy *x, int from_server, uint64_t cut, uint64_t flip)
{
	__atomic_store_n(&x->from_server, from_server, __ATOMIC_SEQ_CST);
	__atomic_store_n(&x->cut, cut, __ATOMIC_SEQ_CST);
	__atomic_store_n(&x->flip, flip, __ATOMIC_SEQ_CST);
}

static inline int
proxy_start(struct wire_proxy *x, const char *to)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t n = sizeof a;

	*x = (struct wire_proxy){ .to = to };
	proxy_set(x, 0, UINT64_MAX, UINT64_MAX);
	x->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (x->listener < 0 || pipe(x->stop) ||
	    bind(x->listener, (void *)&a, sizeof a) || listen(x->listener, 8) ||
	    getsockname(x->listener, (void *)&a, &n))
		return -1;
	snprintf(x->address, sizeof x->address, "tcp://127.0.0.1:%d",
	    ntohs(a.sin_port));
	return pthread_create(&x->thread, NULL, proxy_run, x);
}

static inline void
proxy_stop(struct wire_proxy *x)
{
	(void)!write(x->stop[1], "", 1);
	pthread_join(x->thread, NULL);
	close(x->listener);
	close(x->stop[0]);
	close(x->stop[1]);
}

#endif
