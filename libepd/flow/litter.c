/*
 * litter.c - three kinds of what need not be there.
 *
 *	damage	what shuts writers out and stays: a lock that is no file
 *	litter	what costs room or time and goes by gc: bytes in a file that has
 *		none, a cache that is no file, runs that no version shows
 *	none	what a crash leaves and the next command mends, or a cache that
 *		lies and is found out: a torn tail, an old tip, hints
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "flow/book.h"
#include "flow/litter.h"
#include "page/page.h"

#define LLU(x) ((unsigned long long)(x))

enum {
	PID = 11,		/* bytes of a pid and its newline */
	MEMO = 1 << 20,
	YOUNG_MS = 1000,	/* a run's record may be under way */
	DEEPEST = 16
};

/* A file with a fixed name, and the most it may hold. */
struct part {
	const char *path;
	off_t most;		/* -1: any */
	int cache;		/* done without, and made again */
};

static const struct part parts[] = {
	{ "procs", 0, 0 },
	{ "features/busy", 0, 0 },
	{ "features/memo", MEMO, 1 },
	{ "metrics", -1, 1 },
};
enum { PARTS = sizeof parts / sizeof *parts };

static const struct part lock = { "lock", PID, 0 };

struct teller {
	struct epd_store *s;
	epd_litter_fn *fn;
	void *arg;
	const char *about;	/* "w1: ", or "" */
};

static void tell(const struct teller *t, int damage, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void
tell(const struct teller *t, int damage, const char *fmt, ...)
{
	char text[256];
	size_t n = (size_t)snprintf(text, sizeof text, "%s", t->about);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, sizeof text - n, fmt, ap);
	va_end(ap);
	t->fn(t->arg, damage, text);
}

static const char *
s_of(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* ---- files ---- */

enum verdict { FINE, LITTER, NO_FILE, SHUT, OPEN };

static enum verdict
judge(int dirfd, const struct part *p, struct stat *st)
{
	if (fstatat(dirfd, p->path, st, AT_SYMLINK_NOFOLLOW))
		return FINE;
	if (!S_ISREG(st->st_mode))
		return NO_FILE;
	if ((st->st_mode & 0600) != 0600)
		return SHUT;
	if (st->st_mode & 022 && !p->cache)
		return OPEN;
	return p->most >= 0 && st->st_size > p->most ? LITTER : FINE;
}

static void
tell_part(const struct teller *t, int dirfd, const struct part *p)
{
	struct stat st;

	switch (judge(dirfd, p, &st)) {
	case FINE:
		return;
	case LITTER:
		tell(t, 0, "%s: %lld bytes, of at most %lld", p->path,
		    (long long)st.st_size, (long long)p->most);
		return;
	case NO_FILE:
		tell(t, !p->cache, "%s: no plain file", p->path);
		return;
	case SHUT:
		tell(t, !p->cache, "%s: mode %03o shuts its owner out",
		    p->path, (unsigned)st.st_mode & 0777);
		return;
	case OPEN:
		tell(t, 1, "%s: mode %03o lets others hold it", p->path,
		    (unsigned)st.st_mode & 0777);
	}
}

/* 1 if something was mended. */
static int
take_part(int dirfd, const struct part *p)
{
	struct stat st;
	enum verdict v = judge(dirfd, p, &st);
	int fd, rc;

	if (v == FINE || (v != LITTER && !p->cache))
		return 0;
	if (p->cache)
		return epd_file_remove(dirfd, p->path) == 0;
	/* Its locks stay: they are on bytes it need not have. */
	fd = epd_file_open(dirfd, p->path, O_WRONLY, 0);
	if (fd < 0)
		return 0;
	rc = ftruncate(fd, p->most);
	close(fd);
	return rc == 0;
}

/* ---- the memory folder ---- */

static int
tell_strange(void *arg, int dirfd, const char *folder, const char *name)
{
	(void)dirfd;
	tell(arg, 0, "memory folder: %s%s%.80s: no run, nor a folder of runs",
	    folder, *folder ? "/" : "", name);
	return 0;
}

/* A folder whose workflow is not in the store. */
static int
tell_adrift(void *arg, const char *name)
{
	const struct teller *t = arg;

	if (epd_workflow_name_ok(name) && faccessat(t->s->workflows, name, F_OK,
	    AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		tell(t, 0, "memory folder: %s: of no workflow", name);
	return 0;
}

uint64_t
epd_bytes_back(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_nlink == 1 ?
	    (uint64_t)st->st_blocks * 512 : 0;
}

struct weigh {
	int dir, deep;
	uint64_t bytes;
};

static int
weigh(void *arg, const char *name)
{
	struct weigh *w = arg, in = { .deep = w->deep + 1 };
	struct stat st;

	if (fstatat(w->dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	w->bytes += epd_bytes_back(&st);
	if (!S_ISDIR(st.st_mode) || in.deep > DEEPEST)
		return 0;
	in.dir = epd_file_open(w->dir, name, O_RDONLY | O_DIRECTORY, 0);
	if (in.dir < 0)
		return 0;
	(void)epd_dir_each(in.dir, weigh, &in);
	close(in.dir);
	w->bytes += in.bytes;
	return 0;
}

static int
take_strange(void *arg, int dirfd, const char *folder, const char *name)
{
	struct epd_swept *out = arg;
	struct weigh w = { .dir = dirfd };

	(void)folder;
	weigh(&w, name);
	if (epd_file_remove(dirfd, name) == 0) {
		out->temporaries++;
		out->other_bytes += w.bytes;
	}
	return 0;
}

/* ---- runs that no version shows ---- */

static int
add(struct epd_orphans *o, uint64_t run)
{
	if (o->n == o->cap) {
		size_t cap = o->cap ? 2 * o->cap : 64;
		void *p = epd_realloc(o->run, cap * sizeof *o->run);

		if (!p)
			return -ENOMEM;
		o->run = p;
		o->cap = cap;
	}
	o->run[o->n++] = run;
	return 0;
}

static int
lying(void *arg, uint64_t run, uint64_t bytes)
{
	(void)bytes;
	return add(arg, run);
}

static int
shown(void *arg, const struct epd_version *v)
{
	int rc = v->run ? add(arg, v->run) : 0;

	for (uint32_t i = 0; rc == 0 && i < v->nlinks; i++)
		rc = add(arg, v->links[i].run);
	return rc;
}

static int
by_run(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int
epd_orphans_find(struct epd_orphans *o, int runs)
{
	return runs < 0 ? 0 : epd_run_each(runs, lying, o);
}

int
epd_orphans_keep(struct epd_orphans *o, const struct epd_workflow *w,
    struct epd_why *why)
{
	struct epd_orphans live = {0};
	size_t n = 0;
	int rc = epd_shard_catch_up(w->shard, why);

	if (rc == 0)
		rc = epd_needed_runs(w->shard, shown, &live);
	if (rc == 0 && live.n)
		qsort(live.run, live.n, sizeof *live.run, by_run);
	for (size_t i = 0; rc == 0 && i < o->n; i++)
		if (!live.n || !bsearch(o->run + i, live.run, live.n,
		    sizeof *live.run, by_run))
			o->run[n++] = o->run[i];
	if (rc == 0)
		o->n = n;
	epd_orphans_free(&live);
	return rc;
}

void
epd_orphans_free(struct epd_orphans *o)
{
	epd_free(o->run);
	*o = (struct epd_orphans){0};
}

int
epd_is_pulled_into(const struct epd_workflow *w)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(w->runs, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

static void
tell_orphans(const struct teller *t, const struct epd_workflow *w,
    const struct epd_orphans *o)
{
	const uint64_t now = epd_clock_wall_ms();
	uint64_t n = 0, bytes = 0;
	char name[EPD_RUN_NAME], first[EPD_RUN_NAME] = "";
	struct stat st;

	for (size_t i = 0; i < o->n; i++) {
		epd_run_format(name, o->run[i]);
		if (fstatat(w->runs, name, &st, AT_SYMLINK_NOFOLLOW) ||
		    (uint64_t)st.st_ctim.tv_sec * 1000 +
		    (uint64_t)st.st_ctim.tv_nsec / 1000000 + YOUNG_MS > now)
			continue;
		if (n++ == 0)
			memcpy(first, name, sizeof first);
		bytes += epd_bytes_back(&st);
	}
	if (n)
		tell(t, 0, "%llu run%s that no version shows, %llu bytes: %s%s",
		    LLU(n), s_of(n), LLU(bytes), first, n > 1 ? " ..." : "");
}

static int
orphans_of(const struct teller *t, const struct epd_workflow *w)
{
	struct epd_orphans o = {0};
	int rc = epd_orphans_find(&o, w->runs);

	if (rc == 0 && o.n && epd_is_pulled_into(w))
		o.n = 0;
	if (rc == 0 && o.n)
		rc = epd_orphans_keep(&o, w, NULL);
	if (rc == 0)
		tell_orphans(t, w, &o);
	epd_orphans_free(&o);
	return rc;
}

/* ---- told and taken ---- */

int
epd_litter_of_workflow(struct epd_store *s, struct epd_workflow *w, int alone,
    epd_litter_fn *fn, void *arg)
{
	char about[EPD_WORKFLOW + 2];
	struct teller t = { s, fn, arg, about };
	struct epd_why why = {{0}};
	int rc;

	snprintf(about, sizeof about, "%s: ", w->name);
	tell_part(&t, w->dirfd, &lock);
	rc = epd_shard_tail(w->shard, &why);
	if (rc > 0 || rc == EPD_ECORRUPT)
		tell(&t, rc < 0, "%s", why.text);
	else if (rc < 0)
		return rc;
	if (alone && (rc = epd_memory_strange(s->memory, w->name, tell_strange,
	    &t)) < 0)
		return rc;
	return orphans_of(&t, w);
}

static int
is_folder(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    S_ISDIR(st.st_mode);
}

int
epd_litter_of_store(struct epd_store *s, epd_litter_fn *fn, void *arg)
{
	struct teller t = { s, fn, arg, "" };
	int rc;

	for (int i = 0; i < PARTS; i++)
		tell_part(&t, s->dirfd, parts + i);
	if (!is_folder(s->dirfd, "cache"))
		tell(&t, 1, "cache: no folder");
	rc = epd_index_check(s->memory);
	if (rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE)
		return rc;
	if (rc && rc != -ENOENT)
		tell(&t, 0, "memory folder: pages: the index is not to be "
		    "read: %s", epd_strerror(rc));
	if ((rc = epd_memory_each(s->memory, tell_adrift, &t)) < 0)
		return rc;
	return epd_memory_strange(s->memory, NULL, tell_strange, &t);
}

int
epd_litter_take(struct epd_store *s, struct epd_swept *out)
{
	struct epd_index *x;
	int rc;

	for (int i = 0; i < PARTS; i++)
		out->temporaries += (uint64_t)take_part(s->dirfd, parts + i);
	rc = epd_index_check(s->memory);
	if (rc && rc != -ENOENT && (x = epd_store_index(s)) &&
	    (epd_index_check(s->memory) == 0 || epd_index_rebuild(x) >= 0))
		out->temporaries++;
	return epd_memory_strange(s->memory, NULL, take_strange, out);
}
