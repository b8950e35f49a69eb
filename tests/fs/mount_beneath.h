/*
 * mount_beneath.h - what the mount stands on, taken away or spoilt while it is
 * looked at: that gives errors, and the daemon lives.
 */
#ifndef TESTS_MOUNT_BENEATH_H
#define TESTS_MOUNT_BENEATH_H

#include <sys/xattr.h>

#include "tests/fs/mount_known.h"

/* ---- looking at everything, whatever comes ---- */

struct bn { long ok, failed; int out; };

static inline void
bn_error(struct bn *b)
{
	b->failed++;
	b->out |= errno == ENOTCONN || errno == ECONNABORTED;
}

static inline void
bn_walk(struct bn *b, const char *path, int depth)
{
	static char buf[1 << 16];
	char next[1024], v[256];
	struct dirent *e;
	struct stat st;
	ssize_t n;
	int fd;
	DIR *d;

	if (lstat(path, &st)) {
		bn_error(b);
		return;
	}
	b->ok++;
	(void)getxattr(path, "user.epd.error", v, sizeof v);
	if (S_ISLNK(st.st_mode)) {
		if (readlink(path, buf, sizeof buf) < 0)
			bn_error(b);
	} else if (!S_ISDIR(st.st_mode)) {
		if ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0) {
			bn_error(b);
			return;
		}
		while ((n = read(fd, buf, sizeof buf)) > 0)
			;
		if (n < 0)
			bn_error(b);
		close(fd);
	} else if (depth) {
		if (!(d = opendir(path))) {
			bn_error(b);
			return;
		}
		while ((e = readdir(d))) {
			snprintf(next, sizeof next, "%.700s/%s", path,
			    e->d_name);
			if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
			    strcmp(e->d_name, "ctl"))
				bn_walk(b, next, depth - 1);
		}
		closedir(d);
	}
}

/* All of the mount, by several at once.  How much of it could be seen, or -1. */
static inline long
bn_stir(void)
{
	pid_t pid[3];
	long *ok = mt_share(4096), seen;
	int bad = 0;

	for (int i = 0; i < 3; i++)
		if ((pid[i] = mt_fork()) == 0) {
			struct bn b = {0};

			bn_walk(&b, mt.at, 8);
			ok[i] = b.ok;
			_exit(b.out);
		}
	for (int i = 0; i < 3; i++) {
		int rc = mt_wait(pid[i], 60000);

		if (rc == -ETIMEDOUT)
			kill(pid[i], SIGKILL);
		bad |= rc;
	}
	seen = ok[0];
	munmap(ok, 4096);
	return bad || mt_proc_state(mt.daemon) == 'Z' ? -1 : seen;
}

/* ---- what lies beneath ---- */

/* The largest file whose path ends so: runs of "known", or of its log. */
static inline int
bn_find(const char *dir, const char *end, char *out, off_t *size)
{
	struct dirent *e;
	struct stat st;
	DIR *d = opendir(dir);
	int found = 0;

	while (d && (e = readdir(d))) {
		char path[512];

		snprintf(path, sizeof path, "%.200s/%s", dir, e->d_name);
		if (*e->d_name == '.' || lstat(path, &st))
			continue;
		if (S_ISDIR(st.st_mode)) {
			found |= bn_find(path, end, out, size);
		} else if (strstr(path, end) && st.st_size > *size) {
			*size = st.st_size;
			snprintf(out, 512, "%s", path);
			found = 1;
		}
	}
	if (d)
		closedir(d);
	return found;
}

/* A page of the state's, by number, opened. */
static inline int
bn_page(int state, int i)
{
	return open(mt_path("workflows/known/states/s%d/pages/%04d", state, i),
	    O_RDONLY | O_CLOEXEC);
}

/* What a mapped page gives when it is touched: 0, or the signal. */
static inline int
bn_touch(const volatile uint8_t *p, size_t n)
{
	pid_t pid = mt_fork();

	if (pid == 0) {
		signal(SIGBUS, SIG_DFL);	/* a sanitizer's own is none */
		for (size_t i = 0; i < n; i += 4096)
			(void)p[i];
		_exit(0);
	}
	return -mt_wait(pid, 10000);
}

#endif
