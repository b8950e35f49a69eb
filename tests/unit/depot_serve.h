/* depot_serve.h - a data server of a depot, in a process of its own. */
#ifndef TESTS_DEPOT_SERVE_H
#define TESTS_DEPOT_SERVE_H

#include "tests/unit/depot.h"

/* How a server stands, in its own words. */
struct depot_health {
	struct epd_server_counts n;
	struct epd_credits credits;
	int fds;
};

struct depot_server {
	pid_t pid;			/* 0: none */
	int fd;				/* it ends when nobody has the other end */
	char address[256];
};

/* What it is to be like; 0: as serving and server have it. */
struct depot_serving {
	uint64_t bytes;
	uint32_t slots, idle_ms;
	int trust;
	const char *tenant;
};

static inline int
depot_io(int fd, void *p, size_t n, int out)
{
	for (size_t done = 0; done < n;) {
		const ssize_t k = out ? send(fd, (char *)p + done, n - done,
		    MSG_NOSIGNAL) : recv(fd, (char *)p + done, n - done, 0);

		if (k == 0 || (k < 0 && errno != EINTR))
			return -1;
		done += k > 0 ? (size_t)k : 0;
	}
	return 0;
}

static void *
depot_run(void *arg)
{
	return epd_server_run(arg, -1, NULL) < 0 ? arg : NULL;
}

/* Serve until nobody holds fd; for each byte the health. */
static inline int
depot_serve_on(int fd, struct epd_serving *serving, struct epd_server *server)
{
	struct depot_health h;
	char address[256] = "", c;
	pthread_t thread;
	void *bad;

	snprintf(address, sizeof address, "%s", epd_server_address(server, 0));
	if (pthread_create(&thread, NULL, depot_run, server) ||
	    depot_io(fd, address, sizeof address, 1))
		return 1;
	while (depot_io(fd, &c, 1, 0) == 0) {
		epd_server_counts(server, &h.n);
		epd_serving_credits(serving, &h.credits);
		h.fds = scratch_have("fd");
		if (depot_io(fd, &h, sizeof h, 1))
			break;
	}
	epd_server_stop(server);
	pthread_join(thread, &bad);
	return bad != NULL;
}

/* "serve PATH LISTEN BYTES SLOTS IDLE TRUST TENANT FD" */
static inline int
depot_serve_main(char **arg)
{
	struct depot d;
	struct epd_serving_options o = { .bytes = strtoull(arg[4], NULL, 10),
	    .slots = (uint32_t)atoi(arg[5]) };
	const char *at = arg[3];
	const struct epd_server_options so = { .listen = &at, .nlisten = 1,
	    .idle_ms = (uint32_t)atoi(arg[6]) };
	struct epd_serving *serving;
	struct epd_server *server;
	struct epd_host host;
	struct epd_why why = {{0}};
	int rc;

	depot_at(&d, arg[2]);
	d.config.trust_peers = atoi(arg[7]);
	d.tenant = arg[8];
	o.store = depot_options(&d);
	rc = epd_serving_new(&serving, &host, &o, &why);
	/* The one that was killed is gone as soon as its parent knows. */
	if (rc == 0)
		rc = epd_server_open(&server, &host, &so, &why);
	if (rc < 0) {
		printf("# no server: %s\n", why.text);
		return 1;
	}
	rc = depot_serve_on(atoi(arg[9]), serving, server);
	epd_server_close(server);
	epd_serving_free(serving);
	return rc;
}

static inline int
depot_serve(const struct depot *of, const char *listen,
    const struct depot_serving *how, struct depot_server *out)
{
	char bytes[32], slots[16], idle[16], trust[16], fd[16];
	int p[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0)
		return -errno;
	snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)how->bytes);
	snprintf(slots, sizeof slots, "%u", how->slots);
	snprintf(idle, sizeof idle, "%u", how->idle_ms);
	snprintf(trust, sizeof trust, "%d", how->trust);
	fflush(stdout);
	out->pid = fork();
	if (out->pid == 0) {
		snprintf(fd, sizeof fd, "%d", dup(p[1]));
		execl("/proc/self/exe", "serve", "serve", of->path, listen,
		    bytes, slots, idle, trust, how->tenant ? how->tenant : "",
		    fd, (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	out->fd = p[0];
	memset(out->address, 0, sizeof out->address);
	return depot_io(p[0], out->address, sizeof out->address, 0);
}

static inline struct depot_health
depot_health(const struct depot_server *s)
{
	struct depot_health h = { .fds = -1 };
	char c = 'h';

	if (depot_io(s->fd, &c, 1, 1) == 0)
		(void)depot_io(s->fd, &h, sizeof h, 0);
	return h;
}

/* Until nobody is there, for some seconds; all it had is given back then. */
static inline int
depot_settles(const struct depot_server *s, const struct depot_health *was,
    struct depot_health *out)
{
	for (int i = 0; i < 400; i++) {
		*out = depot_health(s);
		if (!out->n.guests && !out->n.strangers && !out->n.windows &&
		    out->credits.bytes == was->credits.bytes &&
		    out->credits.slots == was->credits.slots &&
		    out->fds == was->fds)
			return 1;
		epd_clock_sleep_ns(10 * MS);
	}
	printf("# %llu guests, %llu windows, %llu of %llu bytes, %u of %u "
	    "slots, %d of %d files\n", (unsigned long long)out->n.guests,
	    (unsigned long long)out->n.windows,
	    (unsigned long long)out->credits.bytes,
	    (unsigned long long)was->credits.bytes, out->credits.slots,
	    was->credits.slots, out->fds, was->fds);
	return 0;
}

/* It is told to end; or killed. */
static inline int
depot_unserve(struct depot_server *s, int by_signal)
{
	int rc;

	if (s->pid <= 0)
		return 0;
	if (by_signal)
		kill(s->pid, by_signal);
	close(s->fd);
	rc = scratch_wait(s->pid);
	s->pid = 0;
	return rc;
}

/* First in main: this program may be a server. */
#define DEPOT_MAIN(argc, argv) do { \
	if ((argc) == 10 && !strcmp((argv)[1], "serve")) \
		return depot_serve_main(argv); \
} while (0)

#endif
