/*
 * shard.c - what a transition costs.
 *
 *	shard fork DIR TOKENS ROUNDS
 *		eight branches of a state of so many tokens, the log not
 *		flushed; they are released again between
 *	shard append DIR THREADS SECONDS
 *		durable transitions a second, each thread with a state of its
 *		own, all through one handle
 *	shard two DIR FLUSH SECONDS
 *		transitions a second of one process, then of two at once on two
 *		workflows; FLUSH 0: not flushed
 *	shard open DIR TRANSITIONS ROUNDS
 *		opening a workflow that has so many and a checkpoint
 *	shard sync DIR ROUNDS
 *		4 KiB written behind a file's end, and one fdatasync
 *
 * One JSON line; times in seconds.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shard/shard.h"

#include "tests/bench/measure.h"

enum { T = 16, BRANCHES = 8, THREADS = 64 };

static int
folder(const char *at, const char *name)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof path, "%s/%s", at, name);
	mkdir(at, 0700);
	mkdir(path, 0700);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(fd, path);
	return fd;
}

static struct epd_shard *
shard(int dir, int sync, int read_only)
{
	const struct epd_shard_options o = {
		.lock_timeout_ms = 60000, .checkpoint_bytes = 64 << 20,
		.sync = sync, .read_only = read_only,
	};
	struct epd_shard *s;

	must(epd_shard_open(&s, dir, &o, &why), "open");
	return s;
}

/* A version of n tokens, with all the pages they fill if `pages`. */
static struct epd_version
version(uint32_t n, int pages)
{
	int32_t *ids = calloc(n + 1, sizeof *ids);
	struct epd_page_ref *p = calloc(n / T + 1, sizeof *p);
	struct epd_version v = {
		.ids = ids, .nids = n, .pages = p, .run = 7,
	};

	if (!ids || !p)
		exit(1);
	for (uint32_t i = 0; i < n; i++)
		ids[i] = (int32_t)i;
	v.npages = pages ? n / T : 0;
	for (uint32_t i = 0; i < v.npages; i++) {
		memcpy(p[i].name.b, &i, sizeof i);
		p[i].rows = T;
	}
	if (!v.npages)
		v.run = 0;
	return v;
}

static uint32_t
state(struct epd_shard *s, const struct epd_version *v)
{
	const struct epd_state st = {
		.page_tokens = T, .kv_type = 1, .page_bytes = 4096,
		.model_path = "model", .tenant = "", .fingerprint = "{}",
	};
	uint32_t id;

	must(epd_shard_create(s, &st, v, &id, &why), "create");
	return id;
}

static void
print(const char *key, const double *t, long n)
{
	printf("{\"%s\":[", key);
	for (long i = 0; i < n; i++)
		printf("%s%.9g", i ? "," : "", t[i]);
	puts("]}");
}

static void
forks(const char *at, uint32_t tokens, long rounds)
{
	struct epd_version v = version(tokens, 1);
	struct epd_shard *s = shard(folder(at, "fork"), 0, 0);
	double *t = calloc((size_t)rounds, sizeof *t);
	struct epd_fork_ask ask = {
		.state = state(s, &v), .branches = BRANCHES,
		.reason = "agent_branch",
	};
	uint32_t first;

	for (long i = 0; i < rounds; i++) {
		double from = now();

		must(epd_shard_fork(s, &ask, &first, &why), "fork");
		t[i] = now() - from;
		for (uint32_t k = 0; k < BRANCHES; k++)
			must(epd_shard_release(s, first + k, "", NULL, NULL,
			    &why), "release");
	}
	print("fork", t, rounds);
	epd_shard_close(s);
}

/* ---- many at once ---- */

struct worker {
	pthread_t thread;
	struct epd_shard *s;
	double until;
	long done;
};

static void *
advance(void *arg)
{
	struct worker *w = arg;
	struct epd_version v = version(1, 0);
	uint32_t id = state(w->s, &v), at = 1;

	while (now() < w->until) {
		must(epd_shard_advance(w->s, id, at, 0, &v, &at, NULL),
		    "advance");
		w->done++;
	}
	return NULL;
}

static double
rate(int dir, int sync, int threads, double seconds)
{
	struct epd_shard *s = shard(dir, sync, 0);
	struct worker w[THREADS];
	double from = now();
	long done = 0;

	for (int i = 0; i < threads; i++) {
		w[i] = (struct worker){ .s = s, .until = from + seconds };
		must(-pthread_create(&w[i].thread, NULL, advance, w + i),
		    "thread");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(w[i].thread, NULL);
		done += w[i].done;
	}
	from = now() - from;
	epd_shard_close(s);
	return (double)done / from;
}

static double
process(int dir, int sync, double seconds, int *fd)
{
	int p[2];
	double r;

	must(pipe(p), "pipe");
	if (fork() == 0) {
		r = rate(dir, sync, 1, seconds);
		_exit(write(p[1], &r, sizeof r) != sizeof r);
	}
	close(p[1]);
	*fd = p[0];
	return 0;
}

static double
result(int fd)
{
	double r = 0;

	if (read(fd, &r, sizeof r) != sizeof r)
		exit(1);
	close(fd);
	wait(NULL);
	return r;
}

static void
two(const char *at, int sync, double seconds)
{
	int a = folder(at, "a"), b = folder(at, "b"), x, y;
	double one, both;

	process(a, sync, seconds, &x);
	one = result(x);
	process(a, sync, seconds, &x);
	process(b, sync, seconds, &y);
	both = result(x) + result(y);
	printf("{\"one\":%.6g,\"two\":%.6g}\n", one, both);
}

static void
opens(const char *at, long transitions, long rounds)
{
	struct epd_version v = version(4, 0);
	int dir = folder(at, "open");
	struct epd_shard *s = shard(dir, 0, 0);
	double *t = calloc((size_t)rounds, sizeof *t);
	uint32_t id = state(s, &v), n = 1;

	while (n < transitions)
		must(epd_shard_advance(s, id, n, 0, &v, &n, &why), "advance");
	must(epd_shard_checkpoint(s, &why), "checkpoint");
	epd_shard_close(s);
	for (long i = 0; i < rounds; i++) {
		double from = now();

		s = shard(dir, 1, 0);
		t[i] = now() - from;
		epd_shard_close(s);
	}
	print("open", t, rounds);
}

static void
syncs(const char *at, long rounds)
{
	double *t = calloc((size_t)rounds, sizeof *t);
	int fd = openat(folder(at, "sync"), "f", O_RDWR | O_CREAT, 0600);
	char b[4096] = { 1 };

	must(fd, "f");
	for (long i = 0; i < rounds; i++) {
		double from = now();

		if (write(fd, b, sizeof b) != sizeof b || fdatasync(fd))
			exit(1);
		t[i] = now() - from;
	}
	print("sync", t, rounds);
}

int
main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "fork"))
		forks(argv[2], (uint32_t)atol(argv[3]), atol(argv[4]));
	else if (argc == 5 && !strcmp(argv[1], "append"))
		printf("{\"rate\":%.6g}\n", rate(folder(argv[2], "append"), 1,
		    atoi(argv[3]), atof(argv[4])));
	else if (argc == 5 && !strcmp(argv[1], "two"))
		two(argv[2], atoi(argv[3]), atof(argv[4]));
	else if (argc == 5 && !strcmp(argv[1], "open"))
		opens(argv[2], atol(argv[3]), atol(argv[4]));
	else if (argc == 4 && !strcmp(argv[1], "sync"))
		syncs(argv[2], atol(argv[3]));
	else
		return 2;
	return 0;
}
