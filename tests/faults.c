/*
 * faults.c - system calls that fail on purpose, for any program, by LD_PRELOAD.
 *
 *	EPD_FAULT_CALL=pwrite EPD_FAULT_NTH=3 EPD_FAULT_DO=ENOSPC \
 *	    LD_PRELOAD=build/faults.so epd-prefill -p hello
 *
 * EPD_FAULT_CALL	write pwrite fdatasync fsync rename linkat ftruncate
 *			fallocate open unlink, several with commas between, or
 *			any.  Also read and pread, which any leaves out.
 * EPD_FAULT_NTH	which of these calls, from 1, in each process; 0: none
 * EPD_FAULT_DO		EIO ENOSPC EINTR EDQUOT EROFS EMFILE ENOMEM EACCES: it
 *			fails so and does nothing
 *			SHORT	a write writes half and says so; a read likewise
 *			KILL	SIGKILL instead of the call
 *			STOP	SIGSTOP before the call, which is made once
 *				somebody says SIGCONT
 *			TORN	a write writes half, another call is made whole;
 *				then SIGKILL
 * EPD_FAULT_EVER=1	the nth call and all after it
 * EPD_FAULT_PATH	only calls on files whose path holds this
 * EPD_FAULT_COUNT	a file that always holds, in decimal, how many calls
 *			there were so far in all processes that name it
 *
 * open stands for open, openat and openat2, rename for rename, renameat and
 * renameat2, unlink for unlink and unlinkat, fallocate for posix_fallocate too;
 * those made through syscall() count.  What the C library calls within itself
 * (stdio, opendir) does not.  Built with -D_GNU_SOURCE -shared -fPIC -ldl.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

enum what {
	WRITE, PWRITE, FDATASYNC, FSYNC, RENAME, LINKAT, FTRUNCATE, FALLOCATE,
	OPEN, UNLINK, READ, PREAD, KINDS
};
static const char *const names[KINDS] = {
	"write", "pwrite", "fdatasync", "fsync", "rename", "linkat",
	"ftruncate", "fallocate", "open", "unlink", "read", "pread",
};
enum { PASS, FAIL, SHORT, TORN, STOP };

static struct {
	long (*raw)(long, ...);
	unsigned calls;		/* bit per kind */
	long nth;
	int ever, err, act;
	const char *path, *count;
	atomic_long seen;
	atomic_int ready;
} set;

static int
errno_of(const char *s)
{
	static const struct { const char *name; int no; } list[] = {
		{ "EIO", EIO }, { "ENOSPC", ENOSPC }, { "EINTR", EINTR },
		{ "EDQUOT", EDQUOT }, { "EROFS", EROFS }, { "EMFILE", EMFILE },
		{ "ENOMEM", ENOMEM }, { "EACCES", EACCES },
	};

	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (!strcmp(list[i].name, s))
			return list[i].no;
	return 0;
}

static void
refuse(const char *what, const char *text)
{
	fprintf(stderr, "faults.so: %s=%s: unknown\n", what, text);
	_exit(2);
}

static void
parse_calls(const char *s)
{
	while (*s) {
		size_t n = strcspn(s, ",");
		unsigned bits = 0;

		if (n == 3 && !strncmp(s, "any", 3))
			bits = (1u << READ) - 1;
		for (int k = 0; k < KINDS; k++)
			if (strlen(names[k]) == n && !strncmp(names[k], s, n))
				bits |= 1u << k;
		if (!bits)
			refuse("EPD_FAULT_CALL", s);
		set.calls |= bits;
		s += n + (s[n] == ',');
	}
}

__attribute__((constructor)) static void
begin(void)
{
	const char *act = getenv("EPD_FAULT_DO");
	const char *nth = getenv("EPD_FAULT_NTH");
	const char *calls = getenv("EPD_FAULT_CALL");

	if (atomic_exchange(&set.ready, 1))
		return;
	*(void **)&set.raw = dlsym(RTLD_NEXT, "syscall");
	set.nth = nth ? atol(nth) : 0;
	set.ever = getenv("EPD_FAULT_EVER") != NULL;
	set.path = getenv("EPD_FAULT_PATH");
	set.count = getenv("EPD_FAULT_COUNT");
	if (calls)
		parse_calls(calls);
	if (!act)
		return;
	set.err = errno_of(act);
	if (set.err)
		set.act = FAIL;
	else if (!strcmp(act, "SHORT"))
		set.act = SHORT;
	else if (!strcmp(act, "TORN"))
		set.act = TORN;
	else if (!strcmp(act, "STOP"))
		set.act = STOP;
	else if (strcmp(act, "KILL"))
		refuse("EPD_FAULT_DO", act);
}

static void
die(void)
{
	set.raw(SYS_kill, getpid(), SIGKILL);
}

/* One more in the file that counts; errno is the caller's. */
static void
count_up(void)
{
	char text[24] = "";
	int no = errno, fd, n;

	fd = (int)set.raw(SYS_openat, AT_FDCWD, set.count,
	    O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && !flock(fd, LOCK_EX)) {
		if (set.raw(SYS_pread64, fd, text, sizeof text - 1, 0L) < 0)
			*text = '\0';
		n = snprintf(text, sizeof text, "%ld\n", atol(text) + 1);
		set.raw(SYS_pwrite64, fd, text, (long)n, 0L);
	}
	if (fd >= 0)
		set.raw(SYS_close, fd);
	errno = no;
}

/* Whether the path, or that of the descriptor, is one that is meant. */
static int
meant(int fd, const char *path)
{
	char link[40], full[2 * PATH_MAX];
	int no = errno;
	long n;

	if (!set.path || (path && strstr(path, set.path)))
		return 1;
	if (fd < 0 || (path && *path == '/'))
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = set.raw(SYS_readlinkat, AT_FDCWD, link, full, PATH_MAX);
	errno = no;
	if (n <= 0)
		return 0;
	snprintf(full + n, sizeof full - (size_t)n, "%s%s", path ? "/" : "",
	    path ? path : "");
	return strstr(full, set.path) != NULL;
}

/* What is to become of this call.  KILL does not return. */
static int
fate(enum what w, int fd, const char *path)
{
	long n;

	begin();
	if (!(set.calls & 1u << w) || !meant(fd, path))
		return PASS;
	n = atomic_fetch_add(&set.seen, 1) + 1;
	if (set.count)
		count_up();
	if (!set.nth || (n != set.nth && !(set.ever && n > set.nth)))
		return PASS;
	if (set.act == PASS)
		die();
	if (set.act == STOP)
		return set.raw(SYS_kill, getpid(), SIGSTOP), PASS;
	if (set.act == FAIL)
		errno = set.err;
	return set.act;
}

/* A call that is made whole or not at all. */
static long
whole(int f, long no, long a, long b, long c, long d, long e)
{
	long rc;

	if (f == FAIL)
		return -1;
	rc = set.raw(no, a, b, c, d, e);
	if (f == TORN)
		die();
	return rc;
}

/* A call that moves n bytes. */
static long
bytes(int f, long no, int fd, const void *p, size_t n, off_t off)
{
	if (f == SHORT || f == TORN)
		n = n / 2 ? n / 2 : n;
	return whole(f, no, fd, (long)p, (long)n, off, 0);
}

ssize_t
write(int fd, const void *p, size_t n)
{
	return bytes(fate(WRITE, fd, NULL), SYS_write, fd, p, n, 0);
}

ssize_t
pwrite(int fd, const void *p, size_t n, off_t off)
{
	return bytes(fate(PWRITE, fd, NULL), SYS_pwrite64, fd, p, n, off);
}

ssize_t
pwrite64(int fd, const void *p, size_t n, off64_t off)
{
	return pwrite(fd, p, n, off);
}

ssize_t
read(int fd, void *p, size_t n)
{
	return bytes(fate(READ, fd, NULL), SYS_read, fd, p, n, 0);
}

ssize_t
pread(int fd, void *p, size_t n, off_t off)
{
	return bytes(fate(PREAD, fd, NULL), SYS_pread64, fd, p, n, off);
}

ssize_t
pread64(int fd, void *p, size_t n, off64_t off)
{
	return pread(fd, p, n, off);
}

int
fdatasync(int fd)
{
	return (int)whole(fate(FDATASYNC, fd, NULL), SYS_fdatasync, fd, 0, 0,
	    0, 0);
}

int
fsync(int fd)
{
	return (int)whole(fate(FSYNC, fd, NULL), SYS_fsync, fd, 0, 0, 0, 0);
}

int
renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
	int f = set.path && strstr(b, set.path) ? fate(RENAME, to, b) :
	    fate(RENAME, from, a);

	return (int)whole(f, SYS_renameat2, from, (long)a, to, (long)b,
	    (long)flags);
}

int
renameat(int from, const char *a, int to, const char *b)
{
	return renameat2(from, a, to, b, 0);
}

int
rename(const char *a, const char *b)
{
	return renameat2(AT_FDCWD, a, AT_FDCWD, b, 0);
}

int
linkat(int from, const char *a, int to, const char *b, int flags)
{
	return (int)whole(fate(LINKAT, to, b), SYS_linkat, from, (long)a, to,
	    (long)b, flags);
}

int
unlinkat(int fd, const char *path, int flags)
{
	return (int)whole(fate(UNLINK, fd, path), SYS_unlinkat, fd,
	    (long)path, flags, 0, 0);
}

int
unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}

int
ftruncate(int fd, off_t n)
{
	return (int)whole(fate(FTRUNCATE, fd, NULL), SYS_ftruncate, fd, n, 0,
	    0, 0);
}

int
ftruncate64(int fd, off64_t n)
{
	return ftruncate(fd, n);
}

int
fallocate(int fd, int mode, off_t off, off_t n)
{
	return (int)whole(fate(FALLOCATE, fd, NULL), SYS_fallocate, fd, mode,
	    off, n, 0);
}

int
fallocate64(int fd, int mode, off64_t off, off64_t n)
{
	return fallocate(fd, mode, off, n);
}

/* Gives the error instead of setting errno. */
int
posix_fallocate(int fd, off_t off, off_t n)
{
	int no = errno, rc = fallocate(fd, 0, off, n) ? errno : 0;

	errno = no;
	return rc;
}

int
posix_fallocate64(int fd, off64_t off, off64_t n)
{
	return posix_fallocate(fd, off, n);
}

static int
open_at(int fd, const char *path, int flags, va_list ap)
{
	int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;

	return (int)whole(fate(OPEN, fd, path), SYS_openat, fd, (long)path,
	    flags, mode, 0);
}

#define OPENING(fd) do { \
	va_list ap; int rc; \
	va_start(ap, flags); \
	rc = open_at(fd, path, flags, ap); \
	va_end(ap); \
	return rc; } while (0)

int open(const char *path, int flags, ...) { OPENING(AT_FDCWD); }
int open64(const char *path, int flags, ...) { OPENING(AT_FDCWD); }
int openat(int fd, const char *path, int flags, ...) { OPENING(fd); }
int openat64(int fd, const char *path, int flags, ...) { OPENING(fd); }

/* For calls the C library has no function for; at most six arguments. */
long
syscall(long no, ...)
{
	long a[6];
	va_list ap;

	begin();
	va_start(ap, no);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (no == SYS_openat2)
		return whole(fate(OPEN, (int)a[0], (const char *)a[1]), no,
		    a[0], a[1], a[2], a[3], 0);
	if (no == SYS_renameat2)
		return renameat2((int)a[0], (const char *)a[1], (int)a[2],
		    (const char *)a[3], (unsigned)a[4]);
	return set.raw(no, a[0], a[1], a[2], a[3], a[4], a[5]);
}
