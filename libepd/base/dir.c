/*
 * dir.c - directories: making, flushing, listing and removing them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum {
	DEEPEST = 128,	/* of a tree to remove: each level holds descriptors */
	PASSES = 8,	/* over a directory that others still fill */
	MOUNTS = 1 << 24	/* bytes of the list of mounts */
};

/* A line of proc(5)'s mountinfo: "ID PARENT MAJ:MIN ROOT AT ... - TYPE ...". */
static int
is_mount(const char *line, const struct statx *x, const char *type)
{
	const char *rest = strstr(line, " - ");
	size_t n = strlen(type);
	unsigned maj, min;

	return rest && sscanf(line, "%*d %*d %u:%u ", &maj, &min) == 2 &&
	    maj == x->stx_dev_major && min == x->stx_dev_minor &&
	    !strncmp(rest + 3, type, n) && rest[3 + n] == ' ';
}

int
epd_dir_is(int dirfd, const char *type)
{
	struct epd_buf b = { 0 };
	struct statx x;
	char *line, *end;
	int fd, is = 0;

	if (statx(dirfd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &x) < 0)
		return 0;
	fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (epd_file_slurp(fd, MOUNTS, &b))
		b.n = 0;
	for (size_t at = 0; !is && at < b.n; at += strlen(line) + 1) {
		line = (char *)b.p + at;
		end = memchr(line, '\n', b.n - at);
		if (!end)
			break;
		*end = '\0';
		is = is_mount(line, &x, type);
	}
	close(fd);
	epd_buf_free(&b);
	return is;
}

int
epd_dir_sync(int dirfd)
{
	while (fsync(dirfd) < 0) {
		/* So say file systems that cannot flush a directory. */
		if (errno == EINVAL)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

/* Flush the directory that dirfd, perhaps O_PATH or AT_FDCWD, stands for. */
static int
sync_at(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = epd_dir_sync(fd);
	close(fd);
	return rc;
}

/* Make if wanted and open one component; follow says links are in order. */
static int
step_into(int at, const char *name, int flags, int make, int follow)
{
	int fd, rc;

	if (make) {
		if (!mkdirat(at, name, 0700)) {
			rc = sync_at(at);
			if (rc)
				return rc;
		} else if (errno != EEXIST) {
			/* EROFS and EACCES also come where it exists. */
			rc = -errno;
			if (faccessat(at, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
				return rc;
		}
	}
	do
		fd = openat(at, name, flags | O_DIRECTORY | O_CLOEXEC |
		    (follow ? 0 : O_NOFOLLOW));
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return -errno;
	return fd;
}

static int
walk(int dirfd, const char *path, int make, int follow)
{
	char name[NAME_MAX + 1];
	int at = dirfd, fd;

	if (!*path)
		return -ENOENT;
	for (;;) {
		size_t n = strcspn(path, "/");
		const char *next = path + n + strspn(path + n, "/");

		if (n > NAME_MAX)
			fd = -ENAMETOOLONG;
		else {
			memcpy(name, path, n);
			name[n] = '\0';
			if (!follow && !strcmp(name, ".."))
				fd = -EXDEV;
			else
				fd = step_into(at, name,
				    *next ? O_PATH : O_RDONLY, make, follow);
		}
		if (at != dirfd)
			close(at);
		if (fd < 0 || !*next)
			return fd;
		at = fd;
		path = next;
	}
}

int
epd_dir_make(int dirfd, const char *path)
{
	return *path == '/' ? -EXDEV : walk(dirfd, path, 1, 0);
}

int
epd_dir_root(const char *path, int make)
{
	int root, fd;

	if (*path != '/')
		return walk(AT_FDCWD, path, make, 1);
	path += strspn(path, "/");
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = walk(root, *path ? path : ".", make, 1);
	close(root);
	return fd;
}

int
epd_dir_each(int dirfd, int (*fn)(void *arg, const char *name), void *arg)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int rc = 0;

	if (!d) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	while (!rc) {
		struct dirent *e;

		errno = 0;
		e = readdir(d);
		if (!e) {
			rc = -errno;
			break;
		}
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			rc = fn(arg, e->d_name);
	}
	closedir(d);
	return rc;
}

struct remover {
	int dir, depth;
};

static int
remove_at(void *arg, const char *name)
{
	const struct remover *up = arg;
	struct remover r = { -1, up->depth + 1 };
	int rc = 0;

	if (!unlinkat(up->dir, name, 0) || errno == ENOENT)
		return 0;
	/* POSIX says EPERM for a directory where Linux says EISDIR. */
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (up->depth >= DEEPEST)
		return -ENAMETOOLONG;
	for (int pass = 0; pass < PASSES; pass++) {
		if (!unlinkat(up->dir, name, AT_REMOVEDIR) || errno == ENOENT)
			return 0;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -errno;
		r.dir = openat(up->dir, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (r.dir < 0)
			return errno == ENOENT ? 0 : -errno;
		rc = epd_dir_each(r.dir, remove_at, &r);
		close(r.dir);
		if (rc)
			return rc;
	}
	return -ENOTEMPTY;
}

int
epd_file_remove(int dirfd, const char *path)
{
	struct remover r = { -1, 0 };
	const char *name;
	int rc;

	r.dir = epd_file_split(dirfd, path, &name);
	if (r.dir < 0)
		return r.dir == -ENOENT ? 0 : r.dir;
	rc = remove_at(&r, name);
	close(r.dir);
	return rc;
}
