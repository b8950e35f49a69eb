/*
 * host.h - the other process of a test: a host that does what it is told over a
 * socket, for which a program runs itself again as "PROGRAM host FD".
 */
#ifndef TESTS_RXE_HOST_H
#define TESTS_RXE_HOST_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/rxe/long.h"
#include "transport/rail.h"

#define SECOND UINT64_C(1000000000)
#define HERE "10.77.0.1"		/* rxe0: the guest's */
#define THERE "10.77.0.2"		/* rxe1: the host's */

enum { SLOTS = 4, REGIONS = 16 };
enum what {
	ASK_DOOR = 1,		/* open door slot */
	ASK_LET_IN,		/* wait a ms at it, have rail slot */
	ASK_SHUT,		/* close door slot */
	ASK_MEMORY,		/* region b of a bytes, filled by seed c */
	ASK_FILE,		/* the same, a file mapped to be read */
	ASK_EXPOSE,		/* region b by rail slot; a: to be written */
	ASK_COVER,		/* region b */
	ASK_SAME,		/* 1 if region b is as filled by seed c */
	ASK_FETCH,		/* region b's bytes follow the answer */
	ASK_FREE,		/* region b's memory */
	ASK_LOST,		/* whether rail slot is, after a ms at most */
	ASK_CLOSE,		/* rail slot */
	ASK_FDS,
};
struct ask {
	enum what what;
	int slot;
	uint64_t a, b, c;
};
struct answer {
	int rc;
	struct epd_why why;
	struct epd_rail_invite invite;
	struct epd_rail_key key;
	uint64_t n;
};

static inline uint64_t
in_ms(uint64_t ms)
{
	return epd_clock_boot_ns() + ms * 1000000;
}

/* Bytes that only this seed makes, and at this place. */
static inline uint64_t
word_of(uint64_t seed, uint64_t i)
{
	uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u;

	return x ^ x >> 29;
}

static inline void
fill(void *p, size_t n, uint64_t seed)
{
	unsigned char *c = p;

	for (size_t i = 0; i < n; i += 8) {
		const uint64_t w = word_of(seed, i / 8);

		memcpy(c + i, &w, n - i < 8 ? n - i : 8);
	}
}

/* How many bytes from the begin on are as filled. */
static inline size_t
same(const void *p, size_t n, uint64_t seed)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < n; i += 8) {
		const uint64_t w = word_of(seed, i / 8);

		if (memcmp(c + i, &w, n - i < 8 ? n - i : 8))
			return i;
	}
	return n;
}

static inline int
count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (!d)
		return -errno;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 3;
}

static inline void *
memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* n bytes by seed in a file, mapped shared and to be read. */
static inline void *
file_memory(size_t n, uint64_t seed)
{
	char path[] = "/dev/shm/rxe.XXXXXX";
	const int fd = mkstemp(path);
	void *p = MAP_FAILED;

	if (fd < 0)
		return NULL;
	unlink(path);
	if (!ftruncate(fd, (off_t)n))
		p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) {
		fill(p, n, seed);
		munmap(p, n);
		p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
	}
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static inline int
all(int fd, void *p, size_t n, int out)
{
	for (size_t done = 0; done < n;) {
		const ssize_t k = out ? write(fd, (char *)p + done, n - done)
		    : read(fd, (char *)p + done, n - done);

		if (k <= 0 && errno != EINTR)
			return -1;
		if (k > 0)
			done += (size_t)k;
	}
	return 0;
}

/* The host's process. */
struct hosting {
	int fd;
	struct epd_rail_door *door[SLOTS];
	struct epd_rail *rail[SLOTS];
	struct {
		char *p;
		size_t n;
		struct epd_rail_region *region;
		int slot;
	} r[REGIONS];
};

static inline void
host_rails(struct hosting *h, const struct ask *q, struct answer *a)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	const uint64_t until = in_ms(q->a);

	inet_pton(AF_INET, THERE, &at.sin_addr);
	switch (q->what) {
	case ASK_DOOR:
		a->rc = epd_rail_door_open(&h->door[q->slot],
		    (struct sockaddr *)&at, NULL, &a->why);
		if (!a->rc)
			epd_rail_door_tell(h->door[q->slot], &a->invite);
		break;
	case ASK_LET_IN:
		a->rc = epd_rail_door_wait(h->door[q->slot], &h->rail[q->slot],
		    h->fd, until, &a->why);
		break;
	case ASK_SHUT:
		epd_rail_door_close(h->door[q->slot]);
		h->door[q->slot] = NULL;
		break;
	case ASK_CLOSE:
		epd_rail_close(h->rail[q->slot]);
		h->rail[q->slot] = NULL;
		break;
	default:
		while (!(a->rc = epd_rail_is_lost(h->rail[q->slot])) &&
		    epd_clock_boot_ns() < until)
			epd_clock_sleep_ns(SECOND / 100);
	}
}

static inline void
host_regions(struct hosting *h, const struct ask *q, struct answer *a)
{
	const uint64_t b = q->b % REGIONS;

	switch (q->what) {
	case ASK_MEMORY:
		h->r[b].n = q->a;
		if ((h->r[b].p = memory(q->a)))
			fill(h->r[b].p, q->a, q->c);
		a->rc = h->r[b].p ? 0 : -ENOMEM;
		break;
	case ASK_FILE:
		h->r[b].n = q->a;
		h->r[b].p = file_memory(q->a, q->c);
		a->rc = h->r[b].p ? 0 : -ENOMEM;
		break;
	case ASK_EXPOSE:
		h->r[b].slot = q->slot;
		a->rc = epd_rail_expose(h->rail[q->slot], h->r[b].p, h->r[b].n,
		    (int)q->a, &h->r[b].region, &a->key, &a->why);
		break;
	case ASK_COVER:
		epd_rail_cover(h->rail[h->r[b].slot], h->r[b].region);
		h->r[b].region = NULL;
		break;
	case ASK_SAME:
		a->n = same(h->r[b].p, h->r[b].n, q->c);
		a->rc = a->n == h->r[b].n;
		break;
	case ASK_FETCH:
		a->n = h->r[b].n;
		break;
	default:
		munmap(h->r[b].p, h->r[b].n);
		h->r[b].p = NULL;
	}
}

static inline int
host_main(int fd)
{
	static struct hosting h;
	struct ask q;

	h.fd = fd;
	while (!all(fd, &q, sizeof q, 0)) {
		struct answer a = { 0 };

		q.slot = (int)((unsigned)q.slot % SLOTS);
		if (q.what == ASK_FDS)
			a.rc = count_fds();
		else if (q.what <= ASK_SHUT || q.what == ASK_CLOSE ||
		    q.what == ASK_LOST)
			host_rails(&h, &q, &a);
		else
			host_regions(&h, &q, &a);
		if (all(fd, &a, sizeof a, 1) || (q.what == ASK_FETCH &&
		    all(fd, h.r[q.b % REGIONS].p, a.n, 1)))
			break;
	}
	for (int i = 0; i < SLOTS; i++) {
		epd_rail_close(h.rail[i]);
		epd_rail_door_close(h.door[i]);
	}
	return 0;
}

/* The test's side. */
struct host {
	pid_t pid;
	int fd;
	struct answer got;
};

static inline int
host_start(struct host *h)
{
	char no[16];
	int p[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0)
		return -errno;
	fflush(stdout);
	h->pid = fork();
	if (!h->pid) {
		const int fd = dup(p[1]);	/* not closed by exec */

		snprintf(no, sizeof no, "%d", fd);
		execl("/proc/self/exe", "host", "host", no, (char *)NULL);
		_exit(127);
	}
	close(p[1]);
	h->fd = p[0];
	return h->pid < 0 ? -errno : 0;
}

static inline int
host_ask(struct host *h, enum what what, int slot, uint64_t a, uint64_t b,
    uint64_t c)
{
	struct ask q = { what, slot, a, b, c };

	if (all(h->fd, &q, sizeof q, 1) || all(h->fd, &h->got, sizeof h->got, 0))
		return -EPIPE;
	return h->got.rc;
}

/* Its exit status, or 128 and the signal it ended by. */
static inline int
host_end(struct host *h)
{
	int s;

	close(h->fd);
	if (waitpid(h->pid, &s, 0) < 0)
		return -errno;
	return WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s);
}

#endif
