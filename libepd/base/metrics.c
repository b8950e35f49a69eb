/*
 * metrics.c - the mapped file `metrics`.
 *
 * It is a header of 64 bytes (struct head, in the machine's own byte order, for
 * it does not leave the machine or outlive the boot) and EPD_M_COUNT counters
 * of 64 bits.
 *
 * 1. A file under the name is whole: it is filled before it is linked there.
 * 2. It is replaced only by a holder of its lock, and never written in place
 *    but by atomic additions, nor shortened; its blocks are allocated.  So a
 *    mapping never faults, and counts of one boot go to one file.
 */
#include "base/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/lock.h"

struct head {
	char magic[8];
	uint64_t layout;	/* XXH3 of the names */
	uint8_t boot[16];
	uint64_t count;
	uint8_t zero[24];
};

struct file {
	struct head head;
	uint64_t counter[EPD_M_COUNT];
};

_Static_assert(sizeof(struct head) == 64, "the head is 64 bytes");
_Static_assert(__atomic_always_lock_free(8, 0), "or it is not shared");

struct epd_metrics {
	struct file *map;
};

enum { WAIT_MS = 2000, TRIES = 100 };

static const struct {
	const char *group, *name;
} table[] = {
#define X(id, group, name) { group, name },
	EPD_METRICS(X)
#undef X
};

static int
expect(struct head *h)
{
	static const char names[] =
#define X(id, group, name) group "." name "\n"
	    EPD_METRICS(X)
#undef X
	    ;

	memset(h, 0, sizeof *h);
	memcpy(h->magic, "EPDMETR1", sizeof h->magic);
	h->layout = epd_xxh3_64(names, sizeof names - 1);
	h->count = EPD_M_COUNT;
	return epd_clock_boot_id(h->boot);
}

/* 1 if the file at fd can be mapped as it is, 0 if not, or -errno. */
static int
is_good(int fd, const struct head *want)
{
	struct head have;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size != (off_t)sizeof(struct file))
		return 0;
	n = epd_file_pread(fd, &have, sizeof have, 0);
	if (n < 0)
		return (int)n;
	return n == (ssize_t)sizeof have && !memcmp(&have, want, sizeof have);
}

/* A whole new file under a temporary name; its descriptor or -errno. */
static int
make(int dirfd, char temp[EPD_TEMP], const struct head *want)
{
	int fd = epd_file_temp(dirfd, temp), rc;

	if (fd < 0)
		return fd;
	do
		rc = -posix_fallocate(fd, 0, (off_t)sizeof(struct file));
	while (rc == -EINTR);
	if (!rc)
		rc = epd_file_pwrite(fd, want, sizeof *want, 0);
	if (!rc)
		return fd;
	close(fd);
	unlinkat(dirfd, temp, 0);
	return rc;
}

/* Put a new file where there is none; 0 or -errno, -EEXIST among them. */
static int
begin(int dirfd, const struct head *want)
{
	char temp[EPD_TEMP];
	int fd = make(dirfd, temp, want), rc = 0;

	if (fd < 0)
		return fd;
	if (linkat(dirfd, temp, dirfd, "metrics", 0) < 0)
		rc = -errno;
	unlinkat(dirfd, temp, 0);
	close(fd);
	return rc;
}

/* Put a new file in the place of the unfit one at old, if it is there still. */
static int
renew(int dirfd, int old, const struct head *want)
{
	char temp[EPD_TEMP];
	struct stat a, b;
	int fd, rc = epd_lock_wait(old, WAIT_MS);

	if (rc)
		return rc == EPD_ELOCKED ? -EBUSY : rc;
	if (fstat(old, &a) < 0)
		return -errno;
	if (fstatat(dirfd, "metrics", &b, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (a.st_ino != b.st_ino || a.st_dev != b.st_dev)
		return 0;
	fd = make(dirfd, temp, want);
	if (fd < 0)
		return fd;
	if (renameat(dirfd, temp, dirfd, "metrics") < 0) {
		rc = -errno;
		unlinkat(dirfd, temp, 0);
	}
	close(fd);
	return rc;
}

static int
open_good(int dirfd)
{
	struct head want;
	int fd, rc = expect(&want);

	for (int tries = 0; !rc && tries < TRIES; tries++) {
		fd = epd_file_open(dirfd, "metrics", O_RDWR, 0);
		if (fd == -ENOENT) {
			rc = begin(dirfd, &want);
			if (rc == -EEXIST)
				rc = 0;
			continue;
		}
		if (fd < 0)
			return fd;
		rc = is_good(fd, &want);
		if (rc > 0)
			return fd;
		if (!rc)
			rc = renew(dirfd, fd, &want);
		close(fd);
	}
	return rc ? rc : -EBUSY;
}

/* The counters at fd into zeroed ones, if they are of this boot. */
static int
copy(struct file *to, int fd)
{
	struct file have;
	struct head want;
	int rc = expect(&want);
	ssize_t n;

	if (!rc)
		rc = is_good(fd, &want);
	if (rc <= 0)
		return rc;
	n = epd_file_pread(fd, &have, sizeof have, 0);
	if (n == (ssize_t)sizeof have)
		memcpy(to, &have, sizeof have);
	return n < 0 ? (int)n : 0;
}

int
epd_metrics_read(struct epd_metrics **out, int dirfd)
{
	struct epd_metrics *m = epd_malloc(sizeof *m);
	int fd, rc = 0;

	if (!m)
		return -ENOMEM;
	m->map = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m->map == MAP_FAILED) {
		rc = -errno;
		epd_free(m);
		return rc;
	}
	fd = epd_file_open(dirfd, "metrics", O_RDONLY | O_NONBLOCK, 0);
	if (fd >= 0) {
		rc = copy(m->map, fd);
		close(fd);
	} else if (fd != -ENOENT) {
		rc = fd;
	}
	if (rc) {
		epd_metrics_close(m);
		return rc;
	}
	*out = m;
	return 0;
}

int
epd_metrics_open(struct epd_metrics **out, int dirfd)
{
	struct epd_metrics *m = epd_malloc(sizeof *m);
	int fd, rc = 0;

	if (!m)
		return -ENOMEM;
	fd = open_good(dirfd);
	if (fd < 0) {
		epd_free(m);
		return fd;
	}
	m->map = mmap(NULL, sizeof(struct file), PROT_READ | PROT_WRITE,
	    MAP_SHARED, fd, 0);
	if (m->map == MAP_FAILED)
		rc = -errno;
	close(fd);
	if (rc) {
		epd_free(m);
		return rc;
	}
	*out = m;
	return 0;
}

void
epd_metrics_close(struct epd_metrics *m)
{
	if (!m)
		return;
	munmap(m->map, sizeof(struct file));
	epd_free(m);
}

void
epd_count(struct epd_metrics *m, enum epd_metric id, uint64_t by)
{
	if (m && (unsigned)id < EPD_M_COUNT)
		__atomic_fetch_add(&m->map->counter[id], by, __ATOMIC_RELAXED);
}

void
epd_count_max(struct epd_metrics *m, enum epd_metric id, uint64_t v)
{
	uint64_t *c, have;

	if (!m || (unsigned)id >= EPD_M_COUNT)
		return;
	c = &m->map->counter[id];
	have = __atomic_load_n(c, __ATOMIC_RELAXED);
	while (have < v && !__atomic_compare_exchange_n(c, &have, v, 1,
	    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
}

uint64_t
epd_metrics_get(const struct epd_metrics *m, enum epd_metric id)
{
	if (!m || (unsigned)id >= EPD_M_COUNT)
		return 0;
	return __atomic_load_n(&m->map->counter[id], __ATOMIC_RELAXED);
}

void
epd_metrics_reset(struct epd_metrics *m)
{
	for (int i = 0; m && i < EPD_M_COUNT; i++)
		__atomic_store_n(&m->map->counter[i], 0, __ATOMIC_RELAXED);
}

const char *
epd_metric_name(enum epd_metric id)
{
	return (unsigned)id < EPD_M_COUNT ? table[id].name : "unknown";
}

const char *
epd_metric_group(enum epd_metric id)
{
	return (unsigned)id < EPD_M_COUNT ? table[id].group : "unknown";
}
