/*
 * open.c - published runs: mapped, checked, linked, listed, unlinked.
 *
 * Header and table are read by pread into memory of our own before anything is
 * mapped, so a file that is short, or made short meanwhile, is a short read and
 * damage.  Mapping cannot protect against a process that truncates a file, or writes
 * on it, after we have opened it.  Nothing of ours does that, published files are
 * mode 0400, and the folder is 0700.  Where it happens all the same base/cut.h makes
 * the load find zeros, and epd_run_again, which is asked before anything computed from
 * the pages is kept, finds both.
 *
 * Who only looks, and may have others to serve, never loads what is mapped: its
 * file stays open, pages are summed as pread gives them, and it hands the bytes
 * to the kernel, to which a page that is gone is an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "page/layout.h"

/* A writer holds its lock within this time of making its file. */
enum { SWEEP_GRACE_S = 60 };

static int
same_shape(const struct epd_run_shape *a, const struct epd_run_shape *b)
{
	return a->kind == b->kind && a->type == b->type &&
	    a->tokens == b->tokens && a->bytes == b->bytes;
}

static int
read_all(int fd, void *p, size_t n, uint64_t off, struct epd_why *why)
{
	ssize_t got = epd_file_pread(fd, p, n, off);

	if (got < 0)
		return (int)got;
	if ((size_t)got != n)
		return epd_why(why, EPD_ECORRUPT, "cut short");
	return 0;
}

static int
read_head(struct epd_run_head *h, int fd, uint64_t size, struct epd_why *why)
{
	uint8_t b[EPD_RUN_ALIGN];
	int rc;

	if (size < sizeof b)
		return epd_why(why, EPD_ECORRUPT, "shorter than a header");
	rc = read_all(fd, b, sizeof b, 0, why);
	return rc ? rc : epd_run_head_unpack(h, b, size, why);
}

static int
read_table(struct epd_run *r, const struct epd_run_head *h, int fd,
    struct epd_why *why)
{
	size_t n = (size_t)h->count * EPD_RUN_ENTRY;
	uint8_t *b = epd_malloc(n);
	int rc;

	r->entry = epd_calloc((size_t)h->count, sizeof *r->entry);
	r->checked = epd_calloc((size_t)h->count, 1);
	r->piece = epd_calloc(1, sizeof *r->piece);
	if (!b || !r->entry || !r->checked || !r->piece)
		rc = -ENOMEM;
	else
		rc = read_all(fd, b, n,
		    EPD_RUN_ALIGN + h->count * r->stride, why);
	if (!rc)
		rc = epd_run_table_unpack(r->entry, b, h, why);
	epd_free(b);
	return rc;
}

static int
compare(const struct epd_page_entry *e, const struct epd_page_entry *expect,
    long n, struct epd_why *why)
{
	for (long i = 0; i < n; i++, e++) {

		if (!epd_name_equal(&e->name, &expect[i].name))
			return epd_why(why, EPD_ECORRUPT,
			    "page %ld has another name", i);
		if (e->rows != expect[i].rows || e->sum != expect[i].sum)
			return epd_why(why, EPD_ECORRUPT,
			    "page %ld has other rows or checksum", i);
	}
	return 0;
}

/* Which of the file's pages these are; from here on r is those alone. */
static int
take(struct epd_run *r, uint64_t run, const struct epd_page_entry *expect,
    long n, struct epd_why *why)
{
	const int own = r->origin == run;
	long at = 0;
	int rc;

	if (!expect)
		return own ? 0 : epd_why(why, EPD_ECORRUPT,
		    "holds run %016" PRIx64, r->origin);
	if (own ? n != r->count : n < 1 || n > r->count)
		return epd_why(why, EPD_ECORRUPT, "%ld pages, not %ld",
		    r->count, n);
	while (at < r->count - n &&
	    !epd_name_equal(&r->entry[at].name, &expect->name))
		at++;
	rc = compare(r->entry + at, expect, n, why);
	if (rc)
		return rc;
	memmove(r->entry, r->entry + at, (size_t)n * sizeof *r->entry);
	r->first = at;
	r->count = n;
	return 0;
}

/* Who only looks leaves the time of last use alone; so must the kernel. */
static int
open_file(int dirfd, const char *name, int use)
{
	/* O_NONBLOCK: something else than a file must not make us wait. */
	const int flags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW;
	int fd = epd_file_open(dirfd, name, use ? flags : flags | O_NOATIME, 0);

	/* Only the file's owner may ask that. */
	return fd == -EPERM && !use ? epd_file_open(dirfd, name, flags, 0) : fd;
}

/* What the file says of itself; a shape of no bytes is to be learnt. */
static int
read_ends(struct epd_run *r, int fd, struct epd_why *why)
{
	struct epd_run_head h;
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return epd_why(why, EPD_ECORRUPT, "not a regular file");
	if ((rc = read_head(&h, fd, (uint64_t)st.st_size, why)))
		return rc;
	if (!r->shape.bytes)
		r->shape = h.shape;
	if (!same_shape(&h.shape, &r->shape))
		return epd_why(why, EPD_ECORRUPT, "pages of another shape");
	r->stride = epd_run_stride(&r->shape);
	r->count = (long)h.count;
	r->origin = h.run;
	r->given = h.flags & EPD_RUN_GIVEN;
	return read_table(r, &h, fd, why);
}

static int
map(struct epd_run *r, int fd)
{
	void *p = mmap(NULL, (size_t)r->count * r->stride, PROT_READ,
	    MAP_SHARED, fd, EPD_RUN_ALIGN + (off_t)r->first *
	    (off_t)r->stride);

	if (p == MAP_FAILED)
		return -errno;
	r->piece[r->npieces++] = (struct epd_run_piece){ p, 0, r->count };
	return 0;
}

/* A handle and a descriptor of the run's file, or neither. */
static int
begin(struct epd_run **out, int dirfd, const char *name, int use,
    struct epd_why *why)
{
	int fd = open_file(dirfd, name, use);
	struct epd_run *r;

	if (fd < 0)
		return epd_why(why, fd, "run %s: %s", name, epd_strerror(fd));
	r = epd_calloc(1, sizeof *r);
	if (!r) {
		close(fd);
		return -ENOMEM;
	}
	r->fd = r->dirfd = -1;
	r->published = 1;
	*out = r;
	return fd;
}

static int
finish(struct epd_run **out, struct epd_run *r, int fd, const char *name,
    int rc, const struct epd_why *reason, struct epd_why *why)
{
	if (r->fd < 0)
		close(fd);
	if (rc) {
		epd_run_close(r);
		return epd_why(why, rc, "run %s: %s", name, reason->text[0] ?
		    reason->text : epd_strerror(rc));
	}
	*out = r;
	return 0;
}

static int
open_run(struct epd_run **out, int dirfd, uint64_t run, int use,
    const struct epd_run_shape *shape, const struct epd_page_entry *expect,
    long n, struct epd_why *why)
{
	const struct timespec used[2] = { { .tv_nsec = UTIME_NOW },
	    { .tv_nsec = UTIME_OMIT } };
	struct epd_why reason = { "" };
	char name[EPD_RUN_NAME];
	struct epd_run *r;
	int rc = epd_run_shape_check(shape), fd;

	if (rc)
		return rc;
	epd_run_format(name, run);
	fd = begin(&r, dirfd, name, use, why);
	if (fd < 0)
		return fd;
	r->shape = *shape;
	rc = read_ends(r, fd, &reason);
	if (!rc)
		rc = take(r, run, expect, n, &reason);
	if (!rc)
		rc = map(r, fd);
	/* The memory tier goes by this time; the file system may not keep it. */
	if (!rc && use)
		futimens(fd, used);
	else if (!rc)
		r->fd = fd;
	return finish(out, r, fd, name, rc, &reason, why);
}

int
epd_run_table(struct epd_run **out, int dirfd, uint64_t run,
    struct epd_run_shape *shape, struct epd_why *why)
{
	struct epd_why reason = { "" };
	char name[EPD_RUN_NAME];
	struct epd_run *r;
	int rc, fd;

	epd_run_format(name, run);
	fd = begin(&r, dirfd, name, 0, why);
	if (fd < 0)
		return fd;
	rc = read_ends(r, fd, &reason);
	if (!rc)
		*shape = r->shape;
	return finish(out, r, fd, name, rc, &reason, why);
}

uint64_t
epd_run_origin_id(const struct epd_run *r)
{
	return r->origin;
}

long
epd_run_first(const struct epd_run *r)
{
	return r->first;
}

int
epd_run_open(struct epd_run **out, int dirfd, uint64_t run,
    const struct epd_run_shape *shape, const struct epd_page_entry *expect,
    long n, struct epd_why *why)
{
	return open_run(out, dirfd, run, 1, shape, expect, n, why);
}

int
epd_run_look(struct epd_run **out, int dirfd, uint64_t run,
    const struct epd_run_shape *shape, const struct epd_page_entry *expect,
    long n, struct epd_why *why)
{
	return open_run(out, dirfd, run, 0, shape, expect, n, why);
}

const struct epd_page_entry *
epd_run_entries(const struct epd_run *r)
{
	return r->entry;
}

const void *
epd_run_page(const struct epd_run *r, long i)
{
	int k = r->npieces - 1;

	if (i < 0 || i >= r->count || k < 0)
		return NULL;
	while (r->piece[k].first > i)
		k--;
	return r->piece[k].p + (size_t)(i - r->piece[k].first) * r->stride;
}

/* 1: its bytes are those that were summed.  0, -errno. */
static int
is_whole(struct epd_run *r, long i)
{
	const uint64_t n = r->shape.bytes;
	uint64_t sum;
	int rc;

	if (r->fd < 0)
		return epd_xxh3_64(epd_run_page(r, i), (size_t)n) ==
		    r->entry[i].sum;
	rc = epd_xxh3_64_file(r->fd, EPD_RUN_ALIGN +
	    (uint64_t)(r->first + i) * r->stride, n, &sum);
	if (rc == -ENODATA)
		return 0;
	return rc < 0 ? rc : sum == r->entry[i].sum;
}

int
epd_run_verify(struct epd_run *r, long i)
{
	int whole;

	if (!epd_run_page(r, i) || !r->published)
		return -EINVAL;
	if (!r->checked[i]) {
		if ((whole = is_whole(r, i)) < 0)
			return whole;
		r->checked[i] = whole ? 1 : 2;
	}
	return r->checked[i] == 1 ? 0 : EPD_ECORRUPT;
}

int
epd_run_again(struct epd_run *r)
{
	int whole;

	for (long i = 0; i < r->count; i++) {
		if (r->checked[i] != 1)
			continue;
		if ((whole = is_whole(r, i)) < 0)
			return whole;
		if (!whole) {
			r->checked[i] = 2;
			return EPD_ECORRUPT;
		}
	}
	return 0;
}

int
epd_run_free(int dirfd, uint64_t run)
{
	char name[EPD_RUN_NAME];

	epd_run_format(name, run);
	if (unlinkat(dirfd, name, 0) && errno != ENOENT)
		return -errno;
	return 0;
}

int
epd_run_link(int fromfd, uint64_t run, int dirfd, uint64_t as)
{
	struct stat a, b;
	char from[EPD_RUN_NAME], to[EPD_RUN_NAME];
	int rc;

	if (!as)
		return -EINVAL;
	epd_run_format(from, run);
	epd_run_format(to, as);
	if (!linkat(fromfd, from, dirfd, to, 0))
		return 0;
	rc = -errno;
	if (rc == -EEXIST &&
	    !fstatat(fromfd, from, &a, AT_SYMLINK_NOFOLLOW) &&
	    !fstatat(dirfd, to, &b, AT_SYMLINK_NOFOLLOW) &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return 0;
	return rc;
}

struct each {
	int dirfd;
	int (*fn)(void *arg, uint64_t run, uint64_t bytes);
	void *arg;
	int gone;
};

static int
each_name(void *arg, const char *name)
{
	struct each *e = arg;
	struct stat st;
	uint64_t run;

	if (epd_run_parse(name, &run) ||
	    fstatat(e->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return 0;
	return e->fn(e->arg, run, (uint64_t)st.st_size);
}

int
epd_run_each(int dirfd, int (*fn)(void *arg, uint64_t run, uint64_t bytes),
    void *arg)
{
	struct each e = { .dirfd = dirfd, .fn = fn, .arg = arg };

	return epd_dir_each(dirfd, each_name, &e);
}

/* Locked by us; of one that its maker has shut to writers, locked by nobody. */
static int
is_let_go(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR)
		return fcntl(fd, F_OFD_SETLK, &lock) == 0;
	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

static int
sweep_name(void *arg, const char *name)
{
	struct each *e = arg;
	struct stat st, now;
	int fd;

	if (!epd_is_temp(name))
		return 0;
	fd = epd_file_open(e->dirfd, name, O_RDWR | O_NONBLOCK, 0);
	if (fd == -EACCES)
		fd = epd_file_open(e->dirfd, name, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return 0;
	if (!fstat(fd, &st) &&
	    (uint64_t)st.st_mtime + SWEEP_GRACE_S <= epd_clock_wall_ms() / 1000 &&
	    is_let_go(fd) &&
	    /* Another sweep, and another maker, may have come in between. */
	    !fstatat(e->dirfd, name, &now, AT_SYMLINK_NOFOLLOW) &&
	    now.st_ino == st.st_ino && !unlinkat(e->dirfd, name, 0))
		e->gone++;
	close(fd);
	return 0;
}

int
epd_run_sweep(int dirfd)
{
	struct each e = { .dirfd = dirfd };
	int rc = epd_dir_each(dirfd, sweep_name, &e);

	return rc ? rc : e.gone;
}

void
epd_run_used(int dirfd, uint64_t run, uint64_t wall_ns)
{
	const struct timespec at = { (time_t)(wall_ns / 1000000000),
	    (long)(wall_ns % 1000000000) };
	const struct timespec used[2] = { at, at };
	char name[EPD_RUN_NAME];

	epd_run_format(name, run);
	(void)utimensat(dirfd, name, used, AT_SYMLINK_NOFOLLOW);
}
