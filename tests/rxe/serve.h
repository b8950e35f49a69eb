/*
 * serve.h - a data server with rdma in a process of its own ("PROGRAM serve FD"),
 * and links to it.  Its host is that of unit/wire.h; it tells counts when it is asked
 * to and ends when nobody holds the socket any more.
 */
#ifndef TESTS_RXE_SERVE_H
#define TESTS_RXE_SERVE_H

#include "tests/unit/wire.h"
#include "tests/rxe/long.h"

#include <arpa/inet.h>
#include <sys/wait.h>

#define KEY "no key but that of a test: 0123456789"
#define SECOND UINT64_C(1000000000)

struct served {
	struct epd_server_counts server;
	struct epd_rdma_counts rdma;
	int fds;
};

struct serve {
	pid_t pid;
	int fd;
	char address[64];
};

static inline int
all(int fd, void *p, size_t n, int out)
{
	for (size_t done = 0; done < n;) {
		const ssize_t k = out ? write(fd, (char *)p + done, n - done)
		    : read(fd, (char *)p + done, n - done);

		if (k == 0 || (k < 0 && errno != EINTR))
			return -1;
		if (k > 0)
			done += (size_t)k;
	}
	return 0;
}

/* Serve host until nobody holds fd. */
static inline int
serve_host(int fd, const struct epd_host *host, const struct epd_server_rail *rail,
    struct epd_rdma_host *rdma)
{
	const char *at = "tcp://10.77.0.2:0";
	const struct epd_server_options o = { .listen = &at, .nlisten = 1,
		.key = epd_span_str(KEY), .rail = rail };
	struct epd_server *s;
	struct epd_why why;
	pthread_t thread;
	struct wire w = { .server = NULL };
	char address[64] = "", c;

	if (epd_server_open(&s, host, &o, &why)) {
		fprintf(stderr, "# no server: %s\n", why.text);
		return 1;
	}
	w.server = s;
	snprintf(address, sizeof address, "%s", epd_server_address(s, 0));
	if (pthread_create(&thread, NULL, wire_run, &w) ||
	    all(fd, address, sizeof address, 1))
		return 1;
	while (read(fd, &c, 1) == 1) {
		struct served n;

		epd_server_counts(s, &n.server);
		epd_rdma_host_counts(rdma, &n.rdma);
		n.fds = scratch_have("fd");
		if (all(fd, &n, sizeof n, 1))
			break;
	}
	epd_server_stop(s);
	pthread_join(thread, NULL);
	epd_server_close(s);
	return w.rc != 0;
}

static inline int
serve_main(int fd, int with_rail)
{
	struct epd_rdma_host *rdma;
	struct wire_host h;
	struct epd_why why;
	int rc;

	if (wire_host_open(&h) || epd_rdma_host_open(&rdma, NULL, &why))
		return 1;
	rc = serve_host(fd, &h.host, with_rail ? epd_rdma_host_rail(rdma) : NULL,
	    rdma);
	epd_rdma_host_close(rdma);
	if (h.opened != h.gone || h.begun != h.ended)
		rc = 2;
	wire_host_close(&h);
	return rc;
}

/* This program again, as role; its end of a socket is *fd. */
static inline pid_t
serve_role(const char *role, int *fd, int also)
{
	char no[16], more[16];
	pid_t pid;
	int p[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0)
		return -1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		snprintf(no, sizeof no, "%d", dup(p[1]));
		snprintf(more, sizeof more, "%d", also < 0 ? -1 : dup(also));
		execl("/proc/self/exe", role, role, no, more, (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	*fd = p[0];
	return pid;
}

static inline int
serve_start(struct serve *s, const char *role, int also)
{
	s->pid = serve_role(role, &s->fd, also);
	return s->pid < 0 || all(s->fd, s->address, sizeof s->address, 0);
}

static inline int
serve_end(struct serve *s)
{
	int st;

	close(s->fd);
	if (waitpid(s->pid, &st, 0) < 0)
		return -errno;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

static inline struct served
serve_counts(struct serve *s)
{
	struct served n = { .fds = -1 };

	if (!all(s->fd, "c", 1, 1))
		all(s->fd, &n, sizeof n, 0);
	return n;
}

/* Until it has no guest and nothing exposed, for some seconds. */
static inline int
serve_settles(struct serve *s, struct served *out)
{
	for (int i = 0; i < 100; i++) {
		*out = serve_counts(s);
		if (!out->server.guests && !out->server.windows &&
		    !out->rdma.guests && !out->rdma.regions)
			return 1;
		epd_clock_sleep_ns(SECOND / 20);
	}
	return 0;
}

static inline struct epd_link *
serve_link(const char *address, const char *key, const char *device, int ms,
    int *rc)
{
	const struct epd_transport *t = wire_table(EPD_VIA_RDMA);
	struct epd_peer peer = { .address = address, .device = device,
		.key = epd_span_str(key), .deadline_ns = wire_in(ms) };
	struct epd_link *l = NULL;

	*rc = t->open(t, &l, &peer, &wire_why);
	return *rc ? NULL : l;
}

#endif
