/*
 * lock.c - open file description locks, and who is alive.
 *
 * A lock file holds its holder's pid as text; nothing but words to a person
 * rests on that text.
 *
 * The file `procs` has no bytes.  A process holds a shared lock on the byte at
 * its pid, shared so that one process may open a store twice.  Its start time
 * tells it from later holders of the pid; the top 16 bits of that carry its pid
 * and time namespaces, since in others /proc speaks of other processes.
 */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"

struct epd_procs {
	int fd;
	struct epd_proc self;
};

static int
set_lock(int fd, int type, off_t at, off_t n)
{
	struct flock l = {
		.l_type = (short)type, .l_whence = SEEK_SET,
		.l_start = at, .l_len = n,
	};

	while (fcntl(fd, F_OFD_SETLK, &l) < 0) {
		if (errno == EAGAIN || errno == EACCES)
			return EPD_ELOCKED;
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int
epd_lock_try(int fd)
{
	return set_lock(fd, F_WRLCK, 0, 0);
}

/* The pid that the file says; 0 if it says none. */
static long
signed_by(int fd)
{
	char text[16];
	/* Once: what is cut short says nobody. */
	ssize_t n = pread(fd, text, sizeof text - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return strtol(text, NULL, 10);
}

/* Mostly the last holder was this process: then it stands there. */
static void
sign(int fd)
{
	const int pid = getpid();
	char text[16];
	int n;

	if (signed_by(fd) == pid)
		return;
	n = snprintf(text, sizeof text, "%d\n", pid);
	if (!epd_file_pwrite(fd, text, (size_t)n, 0) && ftruncate(fd, n) < 0)
		return;
}

/* Tell who holds the lock, as far as the file says. */
static int
held(int fd, uint64_t timeout_ms, struct epd_why *why)
{
	const long pid = signed_by(fd);

	if (pid > 0 && !timeout_ms)
		return epd_why(why, EPD_ELOCKED, "held by process %ld", pid);
	if (pid > 0)
		return epd_why(why, EPD_ELOCKED,
		    "held by process %ld for more than %llu ms", pid,
		    (unsigned long long)timeout_ms);
	return epd_why(why, EPD_ELOCKED,
	    "held by another process for more than %llu ms",
	    (unsigned long long)timeout_ms);
}

static int
wait_for(int fd, int type, uint64_t timeout_ms)
{
	const uint64_t begin = epd_clock_boot_ns();
	const uint64_t limit = timeout_ms > UINT64_MAX / 1000000u ?
	    UINT64_MAX : timeout_ms * 1000000u;
	uint64_t nap = 200000, slept = 0, gone;
	int rc;

	for (;;) {
		rc = set_lock(fd, type, 0, 0);
		if (rc != EPD_ELOCKED)
			return rc;
		gone = epd_clock_boot_ns() - begin;
		/* By what was slept, where a test stopped the clock. */
		if (gone < slept)
			gone = slept;
		if (gone >= limit || epd_is_stopped())
			return rc;
		if (nap > limit - gone)
			nap = limit - gone;
		epd_clock_sleep_ns(nap);
		slept += nap;
		nap = nap < 10000000 ? nap * 2 : nap;
	}
}

int
epd_lock_wait(int fd, uint64_t timeout_ms)
{
	return wait_for(fd, F_WRLCK, timeout_ms);
}

int
epd_lock_share(int fd, uint64_t timeout_ms)
{
	return wait_for(fd, F_RDLCK, timeout_ms);
}

int
epd_lock_take(int fd, uint64_t timeout_ms, struct epd_why *why)
{
	int rc = epd_lock_wait(fd, timeout_ms);

	if (rc == EPD_ELOCKED)
		return held(fd, timeout_ms, why);
	if (!rc)
		sign(fd);
	return rc;
}

void
epd_lock_drop(int fd)
{
	set_lock(fd, F_UNLCK, 0, 0);
}

int
epd_lock_is_held(int fd, off_t at, off_t n)
{
	struct flock l = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET,
		.l_start = at, .l_len = n,
	};

	return fcntl(fd, F_OFD_GETLK, &l) < 0 || l.l_type != F_UNLCK;
}

/* The start time of a process; 0 if there is none. */
static int
start_time(const char *who, uint64_t *start)
{
	char path[40], text[1024], *p, *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%s/stat", who);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		*start = 0;
		return errno == ENOENT ? 0 : -errno;
	}
	n = epd_file_pread(fd, text, sizeof text - 1, 0);
	close(fd);
	if (n == -ESRCH) {
		*start = 0;
		return 0;
	}
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	/* Field 22; the name, field 2, may hold spaces and parentheses. */
	p = strrchr(text, ')');
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	if (!p)
		return -EINVAL;
	*start = strtoull(p + 1, &end, 10);
	return end == p + 1 ? -EINVAL : 0;
}

/* Start times compare where both pids and clocks are the same. */
static uint64_t
namespace_tag(void)
{
	static const char *const names[] = {
		"/proc/self/ns/pid", "/proc/self/ns/time"
	};
	uint64_t tag = 0;
	struct stat st;

	for (size_t i = 0; i < 2; i++) {
		uint64_t n = stat(names[i], &st) < 0 ? 0 : (uint64_t)st.st_ino;

		tag = tag * 31 + (n ^ n >> 16);
	}
	return tag << 48;
}

static int
know_self(struct epd_proc *self)
{
	int rc = epd_clock_boot_id(self->boot);

	if (!rc)
		rc = start_time("self", &self->start);
	self->start = (self->start & UINT64_MAX >> 16) | namespace_tag();
	self->pid = (int32_t)getpid();
	return rc;
}

int
epd_procs_open(struct epd_procs **out, int dirfd)
{
	struct epd_procs *p = epd_calloc(1, sizeof *p);
	int rc;

	if (!p)
		return -ENOMEM;
	p->fd = epd_file_open(dirfd, "procs", O_RDWR | O_CREAT, 0600);
	rc = p->fd < 0 ? p->fd : know_self(&p->self);
	if (!rc)
		rc = set_lock(p->fd, F_RDLCK, p->self.pid, 1);
	if (rc) {
		epd_procs_close(p);
		return rc == EPD_ELOCKED ? -EBUSY : rc;
	}
	*out = p;
	return 0;
}

void
epd_procs_close(struct epd_procs *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	epd_free(p);
}

const struct epd_proc *
epd_procs_self(const struct epd_procs *p)
{
	return &p->self;
}

int
epd_procs_alive(struct epd_procs *p, const struct epd_proc *who)
{
	struct flock l = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET,
		.l_start = who->pid, .l_len = 1,
	};
	uint64_t start;
	char pid[12];
	int rc;

	if (memcmp(who->boot, p->self.boot, sizeof who->boot) || who->pid <= 0)
		return 0;
	/* One's own locks do not show. */
	if (who->pid == p->self.pid && who->start == p->self.start)
		return 1;
	if (fcntl(p->fd, F_OFD_GETLK, &l) < 0)
		return -errno;
	if (l.l_type == F_UNLCK)
		return 0;
	if ((who->start ^ p->self.start) >> 48)
		return 1;
	/* The byte may be a successor's, or kept by a child of the dead. */
	snprintf(pid, sizeof pid, "%d", (int)who->pid);
	rc = start_time(pid, &start);
	if (rc)
		return rc;
	return start && start == (who->start & UINT64_MAX >> 16);
}
