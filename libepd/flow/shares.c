/*
 * shares.c - what the runs in a folder take up.  A file of several names weighs
 * on each of them alike, so that all names of the tier come to what it holds;
 * bytes that do not divide go to the names that come first.  A name another
 * store has of it bears nothing here, though the file system counts it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flow/book.h"
#include "page/page.h"

/* A run's file, which may have other names. */
struct file {
	uint64_t run, bytes, ino, names;
};

struct found {
	int dirfd;
	struct file *v;
	size_t n, cap;
};

static int
found(void *arg, const char *name)
{
	struct found *f = arg;
	struct stat st;
	uint64_t run;
	void *p;

	if (epd_run_parse(name, &run) ||
	    fstatat(f->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return 0;
	if (!(p = epd_grow(f->v, f->n, &f->cap, sizeof *f->v)))
		return -ENOMEM;
	f->v = p;
	f->v[f->n++] = (struct file){
		.run = run, .bytes = (uint64_t)st.st_blocks * 512,
		.ino = st.st_ino, .names = st.st_nlink ? st.st_nlink : 1,
	};
	return 0;
}

static int
by_file(const void *a, const void *b)
{
	const struct epd_named *x = a, *y = b;

	return x->ino != y->ino ? (x->ino > y->ino) - (x->ino < y->ino) :
	    (x->run > y->run) - (x->run < y->run);
}

static int
add_names(struct epd_names *t, const struct found *f)
{
	size_t n = t->n;
	void *p;

	for (size_t i = 0; i < f->n; i++)
		n += f->v[i].names > 1;
	if (n == t->n)
		return 0;
	if (!(p = epd_realloc(t->v, n * sizeof *t->v)))
		return -ENOMEM;
	t->v = p;
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].names > 1)
			t->v[t->n++] = (struct epd_named){
				f->v[i].ino, f->v[i].run,
			};
	return 0;
}

static int
names_of(void *arg, const char *workflow)
{
	struct epd_names *t = arg;
	struct found f = { .dirfd = epd_memory_find(t->memory, workflow) };
	int rc = f.dirfd < 0 ? f.dirfd : epd_dir_each(f.dirfd, found, &f);

	if (rc == 0)
		rc = add_names(t, &f);
	if (f.dirfd >= 0)
		close(f.dirfd);
	epd_free(f.v);
	return rc == -ENOENT ? 0 : rc;
}

static int
gather_names(struct epd_names *t)
{
	int rc = epd_memory_each(t->memory, names_of, t);

	t->made = rc == 0;
	if (rc == 0 && t->n)
		qsort(t->v, t->n, sizeof *t->v, by_file);
	return rc;
}

void
epd_names_free(struct epd_names *t)
{
	epd_free(t->v);
	*t = (struct epd_names){ .memory = t->memory };
}

/* How many names of the tier come before this one. */
static size_t
before(const struct epd_names *t, uint64_t ino, uint64_t run)
{
	const struct epd_named at = { ino, run };
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (by_file(t->v + mid, &at) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* What a name bears of its file, which has others. */
static uint64_t
share(const struct epd_names *t, const struct file *f)
{
	const size_t first = before(t, f->ino, 0);
	uint64_t n = before(t, f->ino, UINT64_MAX) - first;

	/* It may have come since they were gathered. */
	n += !n;
	return f->bytes / n + (before(t, f->ino, f->run) - first <
	    f->bytes % n);
}

static int
divide(struct epd_book *b, const struct found *f, struct epd_names *names)
{
	int rc = 0;

	if (f->n && !(b->run = epd_calloc(f->n, sizeof *b->run)))
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < f->n; i++) {
		const struct file *x = f->v + i;

		if (x->names > 1 && names && !names->made)
			rc = gather_names(names);
		b->run[i] = (struct epd_book_run){
			x->run, x->names > 1 && names && rc == 0 ?
			    share(names, x) : x->bytes / x->names,
			x->names > 1 ? x->bytes : 0,
		};
	}
	b->nruns = f->n;
	return rc;
}

int
epd_book_runs(struct epd_book *b, int dirfd, struct epd_names *names)
{
	struct found f = { .dirfd = dirfd };
	int rc = epd_dir_each(dirfd, found, &f);

	if (rc == 0)
		rc = divide(b, &f, names);
	epd_free(f.v);
	return rc;
}
