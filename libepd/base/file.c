/*
 * file.c - opening beneath a directory, whole reads and writes, replacing.
 * Directories (making, walking, removing) are in dir.c.
 *
 * 1. No path component is ever a symbolic link or "..", whatever the kernel, but
 *    for epd_file_open_within.
 * 2. A temporary is unlinked on every way out of epd_file_replace but success.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"

/*
 * For kernels before 5.6 and sandboxes that hide openat2: component by
 * component, none of them a link.
 */
static int
open_walk(int dirfd, const char *path, int flags, mode_t mode)
{
	char name[NAME_MAX + 1];
	int at = dirfd, fd, no;
	const char *p = path;

	if (*p == '/')
		return -EXDEV;
	for (;;) {
		size_t n = strcspn(p, "/");
		const char *next = p + n + strspn(p + n, "/");

		if (n > NAME_MAX) {
			no = ENAMETOOLONG;
			break;
		}
		memcpy(name, p, n);
		name[n] = '\0';
		if (!strcmp(name, "..")) {
			no = EXDEV;
			break;
		}
		/* A slash at the end asks for a directory, as openat does. */
		if (!*next)
			fd = openat(at, name, flags | O_NOFOLLOW |
			    (p[n] ? O_DIRECTORY : 0), mode);
		else
			fd = openat(at, name, O_PATH | O_DIRECTORY |
			    O_NOFOLLOW | O_CLOEXEC);
		no = errno;
		if (at != dirfd)
			close(at);
		if (fd < 0)
			return -no;
		if (!*next)
			return fd;
		at = fd;
		p = next;
	}
	if (at != dirfd)
		close(at);
	return -no;
}

static int
open_how(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = mode, .resolve = resolve,
	};
	long fd;

	/* EAGAIN: a rename went on, and the kernel cannot tell. */
	for (int tries = 0; ; tries++) {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);
		if (fd >= 0)
			return (int)fd;
		if (errno != EINTR && (errno != EAGAIN || tries >= 100))
			return -errno;
	}
}

int
epd_file_open_within(int dirfd, const char *path, int flags)
{
	int fd = open_how(dirfd, path, flags, 0, RESOLVE_NO_XDEV |
	    RESOLVE_NO_MAGICLINKS);

	return fd == -EPERM ? -ENOSYS : fd;
}

int
epd_file_open(int dirfd, const char *path, int flags, mode_t mode)
{
	int makes = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
	int fd = open_how(dirfd, path, flags, makes ? mode & 07777 : 0,
	    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	if (fd != -ENOSYS && fd != -EPERM)
		return fd;
	do
		fd = open_walk(dirfd, path, flags | O_CLOEXEC, mode);
	while (fd == -EINTR);
	return fd;
}

ssize_t
epd_file_pread(int fd, void *p, size_t n, uint64_t off)
{
	uint8_t *b = p;
	size_t done = 0;

	if (n > SSIZE_MAX || off > INT64_MAX - (uint64_t)n)
		return -EINVAL;
	while (done < n) {
		ssize_t got = pread(fd, b + done, n - done,
		    (off_t)(off + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (!got)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

int
epd_file_pwrite(int fd, const void *p, size_t n, uint64_t off)
{
	const uint8_t *b = p;
	size_t done = 0;

	if (n > SSIZE_MAX || off > INT64_MAX - (uint64_t)n)
		return -EFBIG;
	while (done < n) {
		ssize_t put = pwrite(fd, b + done, n - done,
		    (off_t)(off + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		if (!put)
			return -EIO;
		done += (size_t)put;
	}
	return 0;
}

int
epd_file_datasync(int fd)
{
	while (fdatasync(fd) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* What read gives, or -errno; waits if fd does not block. */
static ssize_t
read_some(int fd, void *p, size_t n)
{
	for (;;) {
		ssize_t got = read(fd, p, n);

		if (got >= 0)
			return got;
		if (errno == EAGAIN) {
			struct pollfd pf = { .fd = fd, .events = POLLIN };

			if (poll(&pf, 1, -1) < 0 && errno != EINTR)
				return -errno;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
}

int
epd_file_slurp(int fd, size_t max, struct epd_buf *out)
{
	struct epd_buf b = { 0 };
	size_t step = 65536;
	struct stat st;
	ssize_t got;
	uint8_t *p;
	int rc;

	/* One byte above what is there shows the end without another round. */
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= 0)
		step = (uint64_t)st.st_size < max ? (size_t)st.st_size + 1 :
		    max;
	for (;;) {
		if (step > max - b.n)
			step = max - b.n;
		/* At the cap, one more byte tells a full file from too much. */
		p = epd_buf_add(&b, step ? step : 1);
		rc = -ENOMEM;
		if (!p)
			break;
		b.n -= step ? step : 1;
		got = read_some(fd, p, step ? step : 1);
		rc = (int)got;
		if (got < 0)
			break;
		if (!got) {
			epd_buf_free(out);
			*out = b;
			return 0;
		}
		rc = EPD_ETOOBIG;
		if (!step)
			break;
		b.n += (size_t)got;
		step = b.cap > b.n ? b.cap - b.n : b.n;
	}
	epd_buf_free(&b);
	return rc;
}

int
epd_file_read(int dirfd, const char *path, size_t max, struct epd_buf *out)
{
	struct stat st;
	int fd, rc;

	/* Not to hang on a pipe that someone put there. */
	fd = epd_file_open(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		rc = -errno;
	else if (S_ISDIR(st.st_mode))
		rc = -EISDIR;
	else if (!S_ISREG(st.st_mode))
		rc = -EINVAL;
	else if ((uint64_t)st.st_size > max)
		rc = EPD_ETOOBIG;
	else
		rc = epd_file_slurp(fd, max, out);
	close(fd);
	return rc;
}

int
epd_file_split(int dirfd, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;
	char dir[PATH_MAX];
	size_t n = (size_t)(last - path);

	if (!*last || !strcmp(last, ".") || !strcmp(last, ".."))
		return -EINVAL;
	if (n >= sizeof dir)
		return -ENAMETOOLONG;
	memcpy(dir, n ? path : ".", n ? n : 1);
	dir[n ? n : 1] = '\0';
	*name = last;
	return epd_file_open(dirfd, dir, O_RDONLY | O_DIRECTORY, 0);
}

static int
write_parts(int fd, const struct epd_span *parts, int n, int sync)
{
	uint64_t off = 0;
	int rc = 0;

	for (int i = 0; !rc && i < n; i++) {
		rc = epd_file_pwrite(fd, parts[i].p, parts[i].n, off);
		off += parts[i].n;
	}
	return rc || !sync ? rc : epd_file_datasync(fd);
}

int
epd_file_temp(int dir, char name[EPD_TEMP])
{
	uint8_t r[8];
	char hex[17];
	int fd;

	for (int tries = 0; tries < 100; tries++) {
		if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
			return -EIO;
		epd_hex_format(hex, r, sizeof r);
		snprintf(name, EPD_TEMP, EPD_TEMP_PREFIX "%s", hex);
		fd = epd_file_open(dir, name, O_RDWR | O_CREAT | O_EXCL, 0600);
		if (fd != -EEXIST)
			return fd;
	}
	return -EEXIST;
}

int
epd_is_temp(const char *name)
{
	return !strncmp(name, EPD_TEMP_PREFIX, strlen(EPD_TEMP_PREFIX));
}

int
epd_file_replace(int dirfd, const char *path, const struct epd_span *parts,
    int n, int sync)
{
	char temp[EPD_TEMP];
	const char *name;
	int dir, fd, rc;

	dir = epd_file_split(dirfd, path, &name);
	if (dir < 0)
		return dir;
	fd = epd_file_temp(dir, temp);
	if (fd < 0) {
		close(dir);
		return fd;
	}
	rc = write_parts(fd, parts, n, sync);
	/* Some file systems keep a failed write back for close to tell. */
	if (close(fd) < 0 && !rc && errno != EINTR)
		rc = -errno;
	if (!rc && renameat(dir, temp, dir, name) < 0)
		rc = -errno;
	if (rc)
		unlinkat(dir, temp, 0);
	else if (sync && epd_dir_sync(dir))
		rc = EPD_EUNSURE;
	close(dir);
	return rc;
}

void
epd_file_limit(void)
{
	enum { MOST = 65536 };
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max < MOST ? r.rlim_max : MOST;
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

int
epd_file_lies_in(int fd, const struct stat *st)
{
	struct stat at, last = {0};
	int is = 0, up;

	while (!is && fd >= 0 && fstat(fd, &at) == 0 &&
	    (at.st_ino != last.st_ino || at.st_dev != last.st_dev)) {
		is = at.st_ino == st->st_ino && at.st_dev == st->st_dev;
		last = at;
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = up;
	}
	if (fd >= 0)
		close(fd);
	return is;
}
