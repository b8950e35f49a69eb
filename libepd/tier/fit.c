/*
 * fit.c - how much there is on the memory tier, and making room.
 *
 * The folder itself is the book: nothing is counted beside it, so nothing can
 * drift.  Bytes are what the file system has allocated, a file linked several
 * times once, and the index of pages, which stays.  Two that make room at once
 * may both unlink the same run, which is one unlink, or each another, which is
 * room to spare.
 *
 * A run's last use is its atime, which epd_run_open sets, or its mtime where
 * that is later.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/span.h"
#include "page/page.h"
#include "tier/inner.h"

struct file {
	uint64_t run;		/* 0: not a published run */
	uint64_t dev, ino, bytes, links;
	int64_t used_ns;
	double worth;		/* to keep it: cost of a byte by age */
	size_t workflow;	/* where its name begins in names */
};

struct walk {
	int w, dir;
	struct epd_buf names;	/* NUL-terminated, one after another */
	struct file *at;
	size_t n, cap, workflow;
};

static int64_t
ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int
walk_file(void *arg, const char *name)
{
	struct walk *k = arg;
	struct stat st;
	struct file *f;

	if (epd_memory_is_draft(name) ||
	    fstatat(k->dir, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return 0;
	if (!(f = epd_grow(k->at, k->n, &k->cap, sizeof *f)))
		return -ENOMEM;
	k->at = f;
	f = &k->at[k->n++];
	if (epd_run_parse(name, &f->run))
		f->run = 0;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->bytes = (uint64_t)st.st_blocks * 512;
	f->links = st.st_nlink;
	f->used_ns = ns(st.st_atim) > ns(st.st_mtim) ? ns(st.st_atim) :
	    ns(st.st_mtim);
	f->workflow = k->workflow;
	return 0;
}

static int
walk_workflow(void *arg, const char *name)
{
	struct walk *k = arg;
	int rc;

	k->dir = epd_file_open(k->w, name, O_RDONLY | O_DIRECTORY, 0);
	/* It went, or is no folder; of one that cannot be looked at nobody knows. */
	if (k->dir < 0)
		return k->dir == -ENOENT || k->dir == -ENOTDIR ||
		    k->dir == -ELOOP ? 0 : k->dir;
	k->workflow = k->names.n;
	epd_buf_put(&k->names, name, strlen(name) + 1);
	rc = k->names.failed ? -ENOMEM : epd_dir_each(k->dir, walk_file, k);
	close(k->dir);
	return rc;
}

static int
by_inode(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

/* The least first; links of one file stay together. */
static int
by_worth(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	if (x->worth < y->worth || x->worth > y->worth)
		return x->worth < y->worth ? -1 : 1;
	if (x->used_ns != y->used_ns)
		return x->used_ns < y->used_ns ? -1 : 1;
	return by_inode(a, b);
}

static void
walk_free(struct walk *k)
{
	epd_buf_free(&k->names);
	epd_free(k->at);
}

/* All files beneath w; used counts each once, and so does bytes of its links. */
static int
walk(struct walk *k, int w, uint64_t *used)
{
	int rc;

	*k = (struct walk){ .w = w };
	rc = epd_dir_each(w, walk_workflow, k);
	if (rc) {
		walk_free(k);
		return rc;
	}
	*used = 0;
	if (k->n)
		qsort(k->at, k->n, sizeof *k->at, by_inode);
	for (size_t i = 0; i < k->n; i++) {
		if (i && !by_inode(&k->at[i - 1], &k->at[i])) {
			k->at[i].bytes = 0;
			k->at[i].used_ns = k->at[i - 1].used_ns;
		}
		*used += k->at[i].bytes;
	}
	return 0;
}

int
epd_memory_measure(int w, uint64_t *bytes)
{
	struct walk k;
	int rc = walk(&k, w, bytes);

	if (!rc)
		walk_free(&k);
	return rc;
}

/* Bytes of files all of whose names are among those walked, and these. */
static void
alone(struct walk *k, uint64_t *names, uint64_t *bytes)
{
	*names = k->n;
	*bytes = 0;
	if (k->n)
		qsort(k->at, k->n, sizeof *k->at, by_inode);
	for (size_t i = 0, j; i < k->n; i = j) {
		uint64_t whole = 0;

		for (j = i; j < k->n && !by_inode(&k->at[i], &k->at[j]); j++)
			whole = k->at[j].bytes > whole ? k->at[j].bytes : whole;
		*bytes += j - i == k->at[i].links ? whole : 0;
	}
}

int
epd_memory_alone(int w, uint64_t *bytes)
{
	uint64_t used, names;
	struct walk k;
	int rc = walk(&k, w, &used);

	if (rc)
		return rc;
	alone(&k, &names, bytes);
	walk_free(&k);
	return 0;
}

int
epd_memory_weigh(int dir, uint64_t *names, uint64_t *bytes)
{
	struct walk k = { .w = -1, .dir = dir };
	int rc = epd_dir_each(dir, walk_file, &k);

	if (!rc)
		alone(&k, names, bytes);
	walk_free(&k);
	return rc;
}

int
epd_memory_used(struct epd_memory *m, uint64_t *bytes)
{
	uint64_t n = 0;
	int rc = m->w < 0 ? 0 : epd_memory_measure(m->w, &n);

	if (!rc)
		*bytes = n + epd_index_bytes(m);
	return rc;
}

struct fit {
	const struct epd_memory_ask *ask;
	struct epd_memory_fit sum;
	uint64_t kept;
	const struct file *first_kept;
	int walks, again;
};

/* Others name files anew while we walk; not for ever. */
enum { WALKS = 8 };

static const char *
workflow_of(const struct walk *k, const struct file *f)
{
	return (const char *)k->names.p + f->workflow;
}

/* Whether a file has more names than so many. */
static int
more_names(int dir, uint64_t run, nlink_t n)
{
	char name[EPD_RUN_NAME];
	struct stat st;

	epd_run_format(name, run);
	return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_nlink > n;
}

/*
 * The links at[from] .. at[to - 1] of one file.  One linked once more since the
 * walk gives nothing back, and what there is must be looked at again.
 */
static int
evict(struct walk *k, struct fit *t, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		const struct file *f = &k->at[i];

		if (!f->run || (t->ask->keep &&
		    t->ask->keep(t->ask->arg, workflow_of(k, f), f->run))) {
			t->kept++;
			if (!t->first_kept)
				t->first_kept = f;
			return 0;
		}
	}
	for (size_t i = from; t->ask->going && i < to; i++)
		t->ask->going(t->ask->arg, workflow_of(k, &k->at[i]),
		    k->at[i].run, workflow_of(k, &k->at[from]),
		    k->at[from].run);
	for (size_t i = from; i < to; i++) {
		int dir = epd_file_open(k->w, workflow_of(k, &k->at[i]),
		    O_RDONLY | O_DIRECTORY, 0);
		int rc;

		if (dir >= 0 && i == to - 1 && t->walks < WALKS)
			t->again = more_names(dir, k->at[i].run, 1);
		rc = dir < 0 ? dir : epd_run_free(dir, k->at[i].run);
		if (dir >= 0)
			close(dir);
		if (rc && rc != -ENOENT)
			return rc;
	}
	if (t->again)
		return 0;
	t->sum.runs++;
	t->sum.evicted += k->at[from].bytes;
	t->sum.used -= k->at[from].bytes;
	return 0;
}

static void
blame(const struct walk *k, const struct fit *t, struct epd_why *why)
{
	if (!t->first_kept)
		epd_why(why, 0, "%" PRIu64 " bytes of it are the index's",
		    t->sum.used);
	else
		epd_why(why, 0, "%" PRIu64 " bytes too many in the memory "
		    "tier: %" PRIu64 " files are in use, the first in %s, run %016"
		    PRIx64, t->sum.over, t->kept, workflow_of(k, t->first_kept),
		    t->first_kept->run);
}

/* Links of one file have one time, and the cost of the first. */
static void
weigh(struct walk *k, const struct epd_memory_ask *ask)
{
	const int64_t now = (int64_t)epd_clock_wall_ms() * 1000000;

	for (size_t i = 0; i < k->n; i++) {
		struct file *f = &k->at[i];
		const int64_t age = now > f->used_ns ? now - f->used_ns : 1;
		double cost = 1;

		if (i && !by_inode(f - 1, f)) {
			f->worth = f[-1].worth;
			continue;
		}
		if (ask->cost && f->run && f->bytes)
			cost = ask->cost(ask->arg, workflow_of(k, f), f->run,
			    f->bytes) / (double)f->bytes;
		f->worth = cost / (double)age;
	}
}

/* Look at what there is and let go of what is too much. */
static int
pass(struct epd_memory *m, struct fit *t, struct epd_why *why)
{
	const uint64_t to = t->ask->to;
	struct walk k;
	int rc = walk(&k, m->w, &t->sum.used);

	if (rc)
		return rc;
	t->sum.used += epd_index_bytes(m);
	t->walks++;
	t->again = 0;
	t->kept = 0;
	t->first_kept = NULL;
	if (t->sum.used > to)
		weigh(&k, t->ask);
	if (t->sum.used > to && k.n)
		qsort(k.at, k.n, sizeof *k.at, by_worth);
	for (size_t i = 0, j; !rc && !t->again && i < k.n; i = j) {
		uint64_t whole = 0;

		for (j = i; j < k.n && !by_inode(&k.at[i], &k.at[j]); j++)
			whole += k.at[j].bytes;
		k.at[i].bytes = whole;
		if (t->sum.used <= to)
			break;
		rc = evict(&k, t, i, j);
	}
	t->sum.over = t->sum.used > to ? t->sum.used - to : 0;
	if (!rc && !t->again && t->sum.over)
		blame(&k, t, why);
	walk_free(&k);
	return rc;
}

int
epd_memory_evict(struct epd_memory *m, const struct epd_memory_ask *ask,
    struct epd_memory_fit *out, struct epd_why *why)
{
	struct fit t = { .ask = ask };
	int rc;

	if (m->look)
		return -EBADF;
	do
		rc = pass(m, &t, why);
	while (!rc && t.again);
	if (!rc && out)
		*out = t.sum;
	return rc;
}

int
epd_memory_fit(struct epd_memory *m, uint64_t bytes,
    int (*keep)(void *arg, const char *workflow, uint64_t run), void *arg,
    struct epd_memory_fit *out, struct epd_why *why)
{
	const struct epd_memory_ask ask = { .keep = keep, .arg = arg,
		.to = bytes < m->cap ? m->cap - bytes : 0 };
	struct epd_memory_fit fit;
	int rc = epd_memory_evict(m, &ask, &fit, why);

	if (rc)
		return rc;
	if (bytes > m->cap)
		fit.over += bytes - m->cap;
	/* Nothing is left that could go. */
	if (fit.over && fit.used && fit.used == epd_index_bytes(m))
		epd_why(why, 0, "%" PRIu64 " bytes and the index's %" PRIu64
		    " are more than the memory tier's %" PRIu64, bytes,
		    fit.used, m->cap);
	else if (fit.over && !fit.used)
		epd_why(why, 0, "%" PRIu64 " bytes are more than the memory "
		    "tier's %" PRIu64, bytes, m->cap);
	if (out)
		*out = fit;
	return 0;
}
