/*
 * etcd.h - a real etcd for a test: on free ports of loopback, its folder within the
 * scratch one, stopped, gone on with, killed and begun again by its pid.
 */
#ifndef TESTS_ETCD_H
#define TESTS_ETCD_H

#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/http.h"
#include "base/metrics.h"
#include "dir/dir.h"
#include "tests/check.h"
#include "tests/unit/scratch.h"
#include "tests/unit/service.h"

#define MS 1000000ull

static struct {
	int fd;			/* the scratch folder */
	char path[256], base[64];
	int port, peer;
	pid_t pid;
} etcd;

static inline uint64_t
in_ms(uint64_t ms)
{
	return epd_clock_boot_ns() + ms * MS;
}

static inline int
etcd_installed(void)
{
	return !access("/usr/bin/etcd", X_OK) || !access("/usr/sbin/etcd", X_OK) ||
	    !access("/usr/local/bin/etcd", X_OK);
}

/* Ask it something: the status, or less than 0; the answer, if one is wanted. */
static inline long
etcd_ask(const char *method, const char *path, const char *body, char *out,
    size_t room)
{
	struct epd_http_request r = { .method = method, .path = path,
		.body = epd_span_str(body), .deadline_ns = in_ms(2000),
		.most = 1 << 20 };
	struct epd_http_done d;
	struct epd_http *h;
	long rc = epd_http_open(&h, etcd.base, 1, NULL);

	if (rc)
		return rc;
	rc = epd_http_do(h, &r, &d, NULL);
	epd_http_close(h);
	if (rc)
		return rc;
	if (out)
		snprintf(out, room, "%.*s", (int)d.answer.n,
		    d.answer.p ? (char *)d.answer.p : "");
	epd_buf_free(&d.answer);
	return d.status;
}

/* From the folder as it is.  Nonzero: it does not answer. */
static inline int
etcd_run(void)
{
	char data[300], client[64], peer[64], cluster[80], log[300];
	int null;

	snprintf(data, sizeof data, "%s/etcd", etcd.path);
	snprintf(log, sizeof log, "%s/log", etcd.path);
	snprintf(client, sizeof client, "http://127.0.0.1:%d", etcd.port);
	snprintf(peer, sizeof peer, "http://127.0.0.1:%d", etcd.peer);
	snprintf(cluster, sizeof cluster, "n0=%s", peer);
	strcpy(etcd.base, client);
	fflush(NULL);
	etcd.pid = fork();
	if (etcd.pid == 0) {
		/* Whoever ends a test by force ends it, too. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		null = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
		dup2(null, 1);
		dup2(null, 2);
		execlp("etcd", "etcd", "--name", "n0", "--data-dir", data,
		    "--listen-client-urls", client, "--advertise-client-urls", client,
		    "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		    "--initial-cluster", cluster, "--logger", "zap",
		    "--log-level", "error", (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 300; i++) {
		if (etcd_ask("GET", "/health", NULL, NULL, 0) == 200)
			return 0;
		epd_clock_sleep_ns(100 * MS);
	}
	return -1;
}

static inline int
etcd_begin(void)
{
	etcd.fd = scratch_open();
	strcpy(etcd.path, scratch_path);
	etcd.port = service_free_port();
	etcd.peer = service_free_port();
	return etcd.fd < 0 ? -1 : etcd_run();
}

static inline void
etcd_signal(int sig)
{
	kill(etcd.pid, sig);
}

static inline void
etcd_kill(void)
{
	int status;

	if (etcd.pid > 0) {
		kill(etcd.pid, SIGKILL);
		waitpid(etcd.pid, &status, 0);
	}
	etcd.pid = 0;
}

static inline void
etcd_end(void)
{
	etcd_kill();
	if (etcd.fd > 0)
		scratch_close(etcd.fd);
	etcd.fd = 0;
}

/* All tests of a program, on an etcd; passed over, aloud, where there is none. */
static inline int
etcd_main(const char *program, int argc, char **argv)
{
	int rc;

	if (!etcd_installed()) {
		printf("ok 1 - %s # SKIP\n# etcd-server is absent: "
		    "skipped\n1..1\n", program);
		return 0;
	}
	if (etcd_begin()) {
		printf("not ok 1 - etcd does not begin\n1..1\n");
		etcd_end();
		return 1;
	}
	rc = check_main(argc, argv);
	etcd_end();
	return rc;
}

/* A process of a test's: it goes with the test, and does not last. */
static inline pid_t
another(void)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(60);
	}
	return pid;
}

/* A handle of a test's, with what is counted and said. */
struct seat {
	struct epd_config c;
	struct epd_dir_options o;
	struct epd_dir *d;
	int fd, bare;		/* bare: it will be killed, and counts nothing */
	_Atomic int gone, back;
	struct epd_why why;
};

static inline void
seat_say(void *arg, const char *text)
{
	struct seat *s = arg;

	if (strstr(text, "again"))
		s->back++;
	else
		s->gone++;
}

/* The nth node; prefix: the test's own.  Nothing is open yet. */
static inline void
seat_set(struct seat *s, int nth, const char *prefix)
{
	memset(s, 0, sizeof *s);
	epd_config_default(&s->c);
	strcpy(s->c.directory_backend, "etcd");
	strcpy(s->c.directory_endpoints, etcd.base);
	snprintf(s->c.directory_prefix, sizeof s->c.directory_prefix,
	    "/%s/", prefix);
	s->o.config = &s->c;
	memset(s->o.self.uuid, 0x10 + nth, sizeof s->o.self.uuid);
	snprintf(s->o.self.name, sizeof s->o.self.name, "node%d", nth);
	snprintf(s->o.self.address, sizeof s->o.self.address,
	    "tcp://127.0.0.1:%d", 7000 + nth);
	s->o.stays = 1;
	s->o.say = seat_say;
	s->o.arg = s;
}

static inline int
seat_open(struct seat *s)
{
	if (!s->bare) {
		s->fd = scratch_open();
		epd_metrics_open(&s->o.metrics, s->fd);
	}
	return epd_dir_open(&s->d, &s->o, &s->why);
}

static inline void
seat_close(struct seat *s)
{
	epd_dir_close(s->d);
	epd_metrics_close(s->o.metrics);
	scratch_close(s->fd);
	s->d = NULL;
}

static inline uint64_t
seat_count(const struct seat *s, enum epd_metric m)
{
	return epd_metrics_get(s->o.metrics, m);
}

/* A key for the nth thing. */
static inline const char *
key_of(enum epd_hint_kind kind, unsigned nth)
{
	static _Thread_local char key[4][EPD_HINT_KEY];
	static _Thread_local unsigned at;
	char *k = key[at++ % 4];

	if (kind == EPD_HINT_STATE)
		snprintf(k, EPD_HINT_KEY, "%032x/s%u", nth, nth + 1);
	else
		snprintf(k, EPD_HINT_KEY, "%064x", nth);
	return k;
}

static inline struct epd_hint
hint_of(enum epd_hint_kind kind, unsigned nth)
{
	struct epd_hint h = { .kind = kind, .version = nth + 3,
		.epoch = UINT64_MAX - nth, .checksum = 0x8000000000000001u + nth };

	strcpy(h.key, key_of(kind, nth));
	if (kind == EPD_HINT_STATE)
		snprintf(h.name, sizeof h.name, "w%u/s%u", nth, nth + 1);
	return h;
}

/* Ask till n are found, or for so long; what is found then. */
static inline int
find_till(struct seat *s, enum epd_hint_kind kind, unsigned nth, int n,
    struct epd_hint *out, int max, uint64_t ms)
{
	const uint64_t end = in_ms(ms);
	int rc;

	do {
		rc = epd_dir_find(s->d, kind, key_of(kind, nth), 0, out, max,
		    in_ms(2000), &s->why);
		if (rc == n)
			break;
		epd_clock_sleep_ns(5 * MS);
	} while (epd_clock_boot_ns() < end);
	return rc;
}

#endif
