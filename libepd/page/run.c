/*
 * run.c - a run file while it is written.
 *
 *	header | page 0 | page 1 | ... | page n-1 | table
 *	4096     stride                              48 n
 *
 * A page begins at 4096 + i * stride, stride being its size rounded up to 4096,
 * so where it lies depends on nothing that comes later.
 *
 * Invariants
 * 1. What is mapped has been allocated: a full file system is an error at
 *    epd_run_add and never a SIGBUS at a store.
 * 2. A piece once mapped stays where it is until close; so do its pages.
 * 3. Header and table are written by pwrite, after the pages were made
 *    read-only and summed; the name comes last.  Before it, nobody can see the
 *    file; after it, nobody writes it.
 * 4. Nothing is flushed: pages are a cache.  What a power cut leaves under a
 *    name fails its checksums and is computed again.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "page/layout.h"

/* Pieces double until one is this long, so that few mappings hold a long run. */
static const size_t piece_max = (size_t)64 << 20;

int
epd_run_id(uint64_t *run)
{
	uint64_t v = 0;

	while (!v) {
		ssize_t n = getrandom(&v, sizeof v, 0);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n != (ssize_t)sizeof v)
			v = 0;
	}
	*run = v;
	return 0;
}

/* A name of our own, locked for as long as we live, for epd_run_sweep to see. */
static int
open_named(struct epd_run *r)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	r->fd = epd_file_temp(r->dirfd, r->tmp);
	if (r->fd < 0) {
		r->tmp[0] = 0;
		return r->fd;
	}
	fcntl(r->fd, F_OFD_SETLK, &lock);
	return 0;
}

static int
open_nameless(struct epd_run *r)
{
	struct stat st;

	r->fd = openat(r->dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (r->fd >= 0)
		return 0;
	/* What ext4 says of a folder that was removed while it was open. */
	if (errno == EPERM)
		return !fstat(r->dirfd, &st) && !st.st_nlink ? -ENOENT : -EPERM;
	/* What kernels say when the file system, or they, have no O_TMPFILE. */
	if (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)
		return open_named(r);
	return -errno;
}

int
epd_run_new(struct epd_run **out, int dirfd, const struct epd_run_shape *shape)
{
	struct epd_run *r;
	int rc = epd_run_shape_check(shape);

	if (rc)
		return rc;
	r = epd_calloc(1, sizeof *r);
	if (!r)
		return -ENOMEM;
	r->shape = *shape;
	r->stride = epd_run_stride(shape);
	r->fd = -1;
	r->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
	rc = r->dirfd < 0 ? -errno : open_nameless(r);
	if (rc) {
		epd_run_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

static off_t
page_at(const struct epd_run *r, long i)
{
	return EPD_RUN_ALIGN + (off_t)i * (off_t)r->stride;
}

static int
allocate(int fd, off_t from, off_t n)
{
	int rc;

	do
		rc = posix_fallocate(fd, from, n);
	while (rc == EINTR);
	return -rc;
}

/* Allocate, then map, n more pages. */
static int
grow(struct epd_run *r, long n)
{
	size_t bytes = (size_t)n * r->stride;
	struct epd_run_piece *more;
	off_t from = r->room ? page_at(r, r->room) : 0;
	int rc;
	void *p;

	more = epd_realloc(r->piece,
	    (size_t)(r->npieces + 1) * sizeof *r->piece);
	if (!more)
		return -ENOMEM;
	r->piece = more;
	rc = allocate(r->fd, from, page_at(r, r->room + n) - from);
	if (rc)
		return rc;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
	    page_at(r, r->room));
	if (p == MAP_FAILED)
		return -errno;
	more[r->npieces++] = (struct epd_run_piece){ p, r->room, n };
	r->room += n;
	return 0;
}

int
epd_run_add(struct epd_run *r, void **page)
{
	long n = r->count ? r->count : 1;
	int rc = -ENOSPC;

	if (r->published)
		return -EROFS;
	if (r->failed)
		return r->failed;
	if (r->count == EPD_RUN_MAX_PAGES)
		return EPD_ETOOBIG;
	if ((size_t)n > piece_max / r->stride)
		n = (long)(piece_max / r->stride);
	if (n > EPD_RUN_MAX_PAGES - r->count)
		n = EPD_RUN_MAX_PAGES - r->count;
	if (n < 1)
		n = 1;
	/* Room for many may be wanting where room for one is left. */
	for (; r->count == r->room && n; n /= 2) {
		rc = grow(r, n);
		if (rc && rc != -ENOSPC)
			return rc;
	}
	if (r->count == r->room)
		return rc;
	r->count++;
	*page = (void *)(uintptr_t)epd_run_page(r, r->count - 1);
	return 0;
}

long
epd_run_count(const struct epd_run *r)
{
	return r->count;
}

void
epd_run_given(struct epd_run *r)
{
	if (!r->published)
		r->given = 1;
}

int
epd_run_is_given(const struct epd_run *r)
{
	return r->given;
}

/* Let go of what lies behind the last page, table included. */
static int
trim(struct epd_run *r)
{
	struct epd_run_piece *last = &r->piece[r->npieces - 1];
	long used = r->count - last->first;

	/* Mapped bytes never outlive their file: unmap before cutting. */
	if (used < last->n) {
		if (munmap(last->p + (size_t)used * r->stride,
		    (size_t)(last->n - used) * r->stride))
			return -errno;
		last->n = used;
		r->room = r->count;
	}
	return ftruncate(r->fd, page_at(r, r->count)) ? -errno : 0;
}

static int
protect(struct epd_run *r, int prot)
{
	for (int i = 0; i < r->npieces; i++)
		if (mprotect(r->piece[i].p,
		    (size_t)r->piece[i].n * r->stride, prot))
			return -errno;
	return 0;
}

static int
write_ends(struct epd_run *r, uint64_t run, const struct epd_page_entry *e)
{
	struct epd_run_head h = { .shape = r->shape, .run = run,
	    .count = (uint64_t)r->count,
	    .flags = r->given ? EPD_RUN_GIVEN : 0 };
	size_t table = (size_t)r->count * EPD_RUN_ENTRY;
	uint8_t *b = epd_malloc(EPD_RUN_ALIGN + table);
	int rc;

	if (!b)
		return -ENOMEM;
	h.table_crc = epd_run_table_pack(b + EPD_RUN_ALIGN, e, r->count);
	epd_run_head_pack(b, &h);
	rc = epd_file_pwrite(r->fd, b + EPD_RUN_ALIGN, table,
	    (uint64_t)page_at(r, r->count));
	if (!rc)
		rc = epd_file_pwrite(r->fd, b, EPD_RUN_ALIGN, 0);
	/* Readable only: no slip of ours or another's opens it for writing. */
	if (!rc && fchmod(r->fd, 0400))
		rc = -errno;
	epd_free(b);
	return rc;
}

static int
give_name(struct epd_run *r, uint64_t run)
{
	char name[EPD_RUN_NAME], self[32];

	epd_run_format(name, run);
	if (r->tmp[0]) {
		/* rename would replace a run of that name; link refuses. */
		if (linkat(r->dirfd, r->tmp, r->dirfd, name, 0))
			return -errno;
		unlinkat(r->dirfd, r->tmp, 0);
		r->tmp[0] = 0;
		return 0;
	}
	snprintf(self, sizeof self, "/proc/self/fd/%d", r->fd);
	if (!linkat(AT_FDCWD, self, r->dirfd, name, AT_SYMLINK_FOLLOW))
		return 0;
	/* Without /proc only the privileged may, and on new kernels anyone. */
	if (errno == ENOENT &&
	    !linkat(r->fd, "", r->dirfd, name, AT_EMPTY_PATH))
		return 0;
	return -errno;
}

static void
close_files(struct epd_run *r)
{
	if (r->tmp[0])
		unlinkat(r->dirfd, r->tmp, 0);
	r->tmp[0] = 0;
	if (r->fd >= 0)
		close(r->fd);
	if (r->dirfd >= 0)
		close(r->dirfd);
	r->fd = r->dirfd = -1;
}

/* Back to a writable run whose publishing did not come off. */
static void
reopen(struct epd_run *r)
{
	int rc = trim(r);

	if (!rc && fchmod(r->fd, 0600))
		rc = -errno;
	if (!rc)
		rc = protect(r, PROT_READ | PROT_WRITE);
	r->failed = rc;
}

static int
seal(struct epd_run *r, uint64_t run, struct epd_page_entry *e)
{
	int rc = protect(r, PROT_READ);

	for (long i = 0; !rc && i < r->count; i++)
		e[i].sum = epd_xxh3_64(epd_run_page(r, i),
		    (size_t)r->shape.bytes);
	if (!rc)
		rc = write_ends(r, run, e);
	return rc ? rc : give_name(r, run);
}

int
epd_run_publish(struct epd_run *r, uint64_t run, struct epd_page_entry *entry,
    long n)
{
	struct epd_page_entry *e;
	uint8_t *checked;
	int rc;

	if (r->failed)
		return r->failed;
	if (r->published || !run || n < 1 || n != r->count)
		return -EINVAL;
	for (long i = 0; i < n; i++)
		if (!entry[i].rows || entry[i].rows > r->shape.tokens)
			return -EINVAL;
	rc = trim(r);
	if (rc)
		return r->failed = rc;
	e = epd_malloc((size_t)n * sizeof *e);
	checked = epd_malloc((size_t)n);
	if (e)
		memcpy(e, entry, (size_t)n * sizeof *e);
	rc = e && checked ? seal(r, run, e) : -ENOMEM;
	if (rc) {
		epd_free(e);
		epd_free(checked);
		reopen(r);
		return rc;
	}
	memset(checked, 1, (size_t)n);
	memcpy(entry, e, (size_t)n * sizeof *e);
	r->entry = e;
	r->checked = checked;
	r->origin = run;
	r->published = 1;
	close_files(r);
	return 0;
}

void
epd_run_close(struct epd_run *r)
{
	if (!r)
		return;
	for (int i = 0; i < r->npieces; i++)
		munmap(r->piece[i].p, (size_t)r->piece[i].n * r->stride);
	close_files(r);
	epd_free(r->piece);
	epd_free(r->entry);
	epd_free(r->checked);
	epd_free(r);
}
