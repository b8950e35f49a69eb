/*
 * flow_stop.h - the nth call of a process that changes a file is where it is
 * killed, frozen or refused.  A program that includes this has its own pwrite and
 * so on; unarmed they pass through.
 *
 *	stop_arm(3, STOP_KILL)		SIGKILL instead of the third
 *	stop_arm(3, STOP_TORN)		SIGKILL after it; a write writes half
 *	stop_arm(3, STOP_FREEZE)	SIGSTOP before it
 *	stop_arm(3, STOP_FAIL)		it fails: EIO a flush, ENOSPC all else
 *	stop_arm(3, STOP_FAILS)		it and all like it from then on
 *	stop_arm(0, STOP_KILL)		they are counted
 *	stop.hasty			naps take no time
 *	stop.naps			a nap is a call too
 */
#ifndef TESTS_FLOW_STOP_H
#define TESTS_FLOW_STOP_H

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum stop_how {
	STOP_NOT, STOP_KILL, STOP_TORN, STOP_FREEZE, STOP_FAIL, STOP_FAILS,
};
enum { STOP_CALLS = 1024 };
enum stop_kind {
	STOP_PWRITE = 1, STOP_ALLOCATE, STOP_LINK, STOP_RENAME, STOP_MKDIR,
	STOP_FLUSH, STOP_UNLINK, STOP_CUT, STOP_NAP,
};

static struct {
	int at, hasty, naps, count, flushes;
	enum stop_how how;
	/* What they were, and whether it came to it: where others see it. */
	struct stop_seen {
		int count, hit;
		unsigned char kind[STOP_CALLS];
	} *seen;
} stop;

static inline void
stop_arm(int at, enum stop_how how)
{
	stop.count = 0;
	stop.at = at;
	stop.how = how;
}

/* 1: it is not to be made.  Killed and frozen ends or waits in here. */
static int
stop_here(enum stop_kind kind)
{
	const int flush = kind == STOP_FLUSH;
	int n;

	if (!stop.how)
		return 0;
	n = ++stop.count;
	if (stop.seen && n <= STOP_CALLS) {
		stop.seen->count = n;
		stop.seen->kind[n - 1] = (unsigned char)kind;
	}
	if (n != stop.at && !(stop.how == STOP_FAILS && stop.at &&
	    n > stop.at && stop.flushes == flush))
		return 0;
	stop.flushes = flush;
	if (stop.seen)
		stop.seen->hit = 1;
	if (stop.how == STOP_KILL)
		kill(getpid(), SIGKILL);
	if (stop.how == STOP_FREEZE)
		kill(getpid(), SIGSTOP);
	errno = flush ? EIO : ENOSPC;
	return stop.how == STOP_FAIL || stop.how == STOP_FAILS;
}

static inline void
stop_torn(void)
{
	if (stop.how == STOP_TORN && stop.count == stop.at)
		kill(getpid(), SIGKILL);
}

static long
stop_call(enum stop_kind kind, long no, long a, long b, long c, long d, long e)
{
	long rc;

	if (stop_here(kind))
		return -1;
	rc = syscall(no, a, b, c, d, e);
	stop_torn();
	return rc;
}

ssize_t
pwrite(int fd, const void *p, size_t n, off_t off)
{
	int here = stop_here(STOP_PWRITE);

	if (stop.how == STOP_TORN && stop.count == stop.at)
		n /= 2;
	if (here)
		return -1;
	n = (size_t)syscall(SYS_pwrite64, fd, p, n, off);
	stop_torn();
	return (ssize_t)n;
}

int
fdatasync(int fd)
{
	return (int)stop_call(STOP_FLUSH, SYS_fdatasync, fd, 0, 0, 0, 0);
}

int
fsync(int fd)
{
	return (int)stop_call(STOP_FLUSH, SYS_fsync, fd, 0, 0, 0, 0);
}

int
ftruncate(int fd, off_t n)
{
	return (int)stop_call(STOP_CUT, SYS_ftruncate, fd, n, 0, 0, 0);
}

int
mkdirat(int dirfd, const char *path, mode_t mode)
{
	return (int)stop_call(STOP_MKDIR, SYS_mkdirat, dirfd, (long)path,
	    (long)mode, 0, 0);
}

int
renameat(int a, const char *from, int b, const char *to)
{
	return (int)stop_call(STOP_RENAME, SYS_renameat2, a, (long)from, b,
	    (long)to, 0);
}

int
linkat(int a, const char *from, int b, const char *to, int flags)
{
	return (int)stop_call(STOP_LINK, SYS_linkat, a, (long)from, b,
	    (long)to, flags);
}

int
unlinkat(int dirfd, const char *path, int flags)
{
	return (int)stop_call(STOP_UNLINK, SYS_unlinkat, dirfd, (long)path,
	    flags, 0, 0);
}

/* Gives the error instead of setting errno. */
int
posix_fallocate(int fd, off_t off, off_t n)
{
	return stop_call(STOP_ALLOCATE, SYS_fallocate, fd, 0, off, n, 0) ?
	    errno : 0;
}

int
nanosleep(const struct timespec *t, struct timespec *left)
{
	if (stop.naps)
		(void)stop_here(STOP_NAP);
	return stop.hasty ? 0 : (int)syscall(SYS_nanosleep, t, left);
}

#endif
