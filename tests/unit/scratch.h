/* scratch.h - a folder for one test, beneath $TMPDIR, /dev/shm or /tmp. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

static char scratch_path[256];

/* A descriptor of a new empty folder; its path in scratch_path. */
static inline int
scratch_open(void)
{
	const char *tmp = getenv("TMPDIR");

	if (!tmp || !*tmp)
		tmp = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
	snprintf(scratch_path, sizeof scratch_path, "%s/epd-test.XXXXXX", tmp);
	if (!mkdtemp(scratch_path))
		return -1;
	return open(scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The folder by its descriptor: a test may have several open. */
static inline void
scratch_close(int fd)
{
	char link[32], path[256];
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	close(fd);
	if (n < 1)
		return;
	path[n] = '\0';
	fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	epd_file_remove(fd, path + 1);
	close(fd);
}

/* Files beneath the folder, folders not counted, but for those named skip. */
static inline int
scratch_count(int dirfd, const char *skip)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int n = 0;

	if (!d)
		return -1;
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    (skip && !strcmp(e->d_name, skip)))
			continue;
		if (e->d_type == DT_DIR) {
			int sub = openat(dirfd, e->d_name,
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

			n += scratch_count(sub, skip);
			close(sub);
		} else {
			n++;
		}
	}
	closedir(d);
	return n;
}

/* What this process has of a kind: "fd", "task". */
static inline int
scratch_have(const char *kind)
{
	char path[32];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof path, "/proc/self/%s", kind);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Allocations that fail: the nth, or from the nth on. */
static struct { int at, on, count; } scratch_mem;

static int
scratch_refuse(void *arg, size_t n)
{
	(void)arg;
	(void)n;
	scratch_mem.count++;
	return scratch_mem.count == scratch_mem.at ||
	    (scratch_mem.on && scratch_mem.count > scratch_mem.at);
}

static inline void
scratch_starve(int at, int on)
{
	scratch_mem.at = at;
	scratch_mem.on = on;
	scratch_mem.count = 0;
	epd_alloc_hook(at ? scratch_refuse : NULL, NULL);
}

/* Exit status of the child, or -signal. */
static inline int
scratch_wait(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1000;
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
