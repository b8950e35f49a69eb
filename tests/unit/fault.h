/*
 * fault.h - system calls that fail, or kill, at the nth.  A test program that
 * includes this has its own openat, pwrite and so on; unarmed they pass through.
 *
 *	fault_arm(3, ENOSPC, 0);	the third call fails, once
 *	fault_arm(3, EIO, FAULT_ON);	the third and all after it
 *	fault_arm(3, 0, FAULT_KILL);	SIGKILL at the third, writes half done
 *	fault_arm(3, 0, FAULT_HOOK);	fault.hook runs before the third
 *	fault_calls()			how many there were since
 */
#ifndef TESTS_FAULT_H
#define TESTS_FAULT_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { FAULT_ON = 1, FAULT_KILL = 2, FAULT_HOOK = 4 };

static struct {
	int at, err, how, count, no_tmpfile;
	const char *only;	/* of this call alone */
	void (*hook)(void);	/* may arm anew */
} fault;

static inline void
fault_arm(int at, int err, int how)
{
	fault.at = at;
	fault.err = err;
	fault.how = how;
	fault.count = 0;
}

static inline int
fault_calls(void)
{
	int n = fault.count;

	fault.at = 0;
	fault.only = NULL;
	return n;
}

static int
fault_hits(const char *what)
{
	if (!fault.at || (fault.only && strcmp(fault.only, what)))
		return 0;
	fault.count++;
	if (fault.count != fault.at &&
	    !(fault.how & FAULT_ON && fault.count > fault.at))
		return 0;
	if (fault.how & FAULT_HOOK) {
		fault.at = 0;
		fault.hook();
		return 0;
	}
	if (fault.how & FAULT_KILL)
		return 1;
	errno = fault.err;
	return 1;
}

static inline void
fault_die(void)
{
	if (fault.how & FAULT_KILL)
		kill(getpid(), SIGKILL);
}

#define FAULT(what, fail) do { \
	if (fault_hits(what)) { fault_die(); return fail; } } while (0)

int
openat(int dirfd, const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	if (fault.no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	FAULT("openat", -1);
	return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

ssize_t
pwrite(int fd, const void *p, size_t n, off_t off)
{
	if (fault_hits("pwrite")) {
		if (fault.how & FAULT_KILL)
			syscall(SYS_pwrite64, fd, p, n / 2, off);
		fault_die();
		return -1;
	}
	return syscall(SYS_pwrite64, fd, p, n, off);
}

ssize_t
pread(int fd, void *p, size_t n, off_t off)
{
	FAULT("pread", -1);
	return syscall(SYS_pread64, fd, p, n, off);
}

ssize_t
read(int fd, void *p, size_t n)
{
	FAULT("read", -1);
	return syscall(SYS_read, fd, p, n);
}

int
fdatasync(int fd)
{
	FAULT("fdatasync", -1);
	return (int)syscall(SYS_fdatasync, fd);
}

int
fsync(int fd)
{
	FAULT("fsync", -1);
	return (int)syscall(SYS_fsync, fd);
}

int
ftruncate(int fd, off_t n)
{
	FAULT("ftruncate", -1);
	return (int)syscall(SYS_ftruncate, fd, n);
}

int
fchmod(int fd, mode_t mode)
{
	FAULT("fchmod", -1);
	return (int)syscall(SYS_fchmod, fd, mode);
}

int
mkdirat(int dirfd, const char *path, mode_t mode)
{
	FAULT("mkdirat", -1);
	return (int)syscall(SYS_mkdirat, dirfd, path, mode);
}

int
renameat(int a, const char *from, int b, const char *to)
{
	FAULT("renameat", -1);
	return (int)syscall(SYS_renameat2, a, from, b, to, 0);
}

int
linkat(int a, const char *from, int b, const char *to, int flags)
{
	FAULT("linkat", -1);
	return (int)syscall(SYS_linkat, a, from, b, to, flags);
}

int
unlinkat(int dirfd, const char *path, int flags)
{
	FAULT("unlinkat", -1);
	return (int)syscall(SYS_unlinkat, dirfd, path, flags);
}

int
fallocate(int fd, int mode, off_t off, off_t n)
{
	FAULT("fallocate", -1);
	return (int)syscall(SYS_fallocate, fd, mode, off, n);
}

int
posix_fallocate(int fd, off_t off, off_t n)
{
	FAULT("posix_fallocate", fault.err);
	return syscall(SYS_fallocate, fd, 0, off, n) ? errno : 0;
}

#endif
