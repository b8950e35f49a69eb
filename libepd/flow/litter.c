/*
 * litter.c - four kinds of what need not be there.
 *
 *	fault	what shuts writers out and stays: a lock that is no file
 *	litter	what costs room or time and goes by gc: bytes in a file that has
 *		none, a cache that is no file, runs that no version shows, drafts
 *		of decodes that died
 *	foreign	what is in the store and not the store's: it stays (stray.c)
 *	none	what a crash leaves and the next command mends, or a cache that
 *		lies and is found out: a torn tail, an old tip, hints
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "flow/book.h"
#include "flow/draft.h"
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

void
epd_tell(const struct epd_teller *t, enum epd_finding what, const char *fmt,
    ...)
{
	char text[256];
	size_t n = (size_t)snprintf(text, sizeof text, "%s", t->about);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, sizeof text - n, fmt, ap);
	va_end(ap);
	t->fn(t->arg, what, text);
}

const char *
epd_kind_of(mode_t mode)
{
	return S_ISREG(mode) ? "a plain file" : S_ISDIR(mode) ? "a folder" :
	    S_ISLNK(mode) ? "a link" : S_ISFIFO(mode) ? "a pipe" :
	    S_ISSOCK(mode) ? "a socket" : "a device";
}

static const char *
s_of(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* ---- files ---- */

enum verdict { FINE, LITTER, NO_FILE, SHUT, OPEN };

/* Not by the mode, which keeps no root out. */
static int
is_shut(const struct epd_store *s, int dirfd, const char *path)
{
	return !s->read_only && faccessat(dirfd, path, R_OK | W_OK,
	    AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0 && errno == EACCES;
}

static enum verdict
judge(const struct epd_store *s, int dirfd, const struct part *p,
    struct stat *st)
{
	if (fstatat(dirfd, p->path, st, AT_SYMLINK_NOFOLLOW))
		return FINE;
	if (!S_ISREG(st->st_mode))
		return NO_FILE;
	if (is_shut(s, dirfd, p->path))
		return SHUT;
	if (st->st_mode & 022 && !p->cache)
		return OPEN;
	return p->most >= 0 && st->st_size > p->most ? LITTER : FINE;
}

static void
tell_part(const struct epd_teller *t, int dirfd, const struct part *p)
{
	const enum epd_finding worse = p->cache ? EPD_LITTER : EPD_FAULT;
	struct stat st;

	switch (judge(t->s, dirfd, p, &st)) {
	case FINE:
		return;
	case LITTER:
		epd_tell(t, EPD_LITTER, "%s: %lld bytes, of at most %lld",
		    p->path, (long long)st.st_size, (long long)p->most);
		return;
	case NO_FILE:
		epd_tell(t, worse, "%s: no plain file", p->path);
		return;
	case SHUT:
		epd_tell(t, worse, "%s: mode %03o shuts its owner out",
		    p->path, (unsigned)st.st_mode & 0777);
		return;
	case OPEN:
		epd_tell(t, EPD_FAULT, "%s: mode %03o lets others hold it",
		    p->path, (unsigned)st.st_mode & 0777);
	}
}

static void
take_part(struct epd_store *s, const struct part *p, struct epd_swept *out)
{
	struct stat st, now;
	enum verdict v = judge(s, s->dirfd, p, &st);
	int fd;

	if (v == FINE || (v != LITTER && !p->cache))
		return;
	if (p->cache) {
		epd_litter_remove(s->dirfd, p->path, out);
		return;
	}
	/* Its locks stay: they are on bytes it need not have. */
	fd = epd_file_open(s->dirfd, p->path, O_WRONLY, 0);
	if (fd < 0)
		return;
	if (ftruncate(fd, p->most) == 0 && fstat(fd, &now) == 0) {
		out->temporaries++;
		out->temporary_bytes += st.st_blocks > now.st_blocks ?
		    (uint64_t)(st.st_blocks - now.st_blocks) * 512 : 0;
	}
	close(fd);
}

/* ---- the memory folder ---- */

int
epd_is_workflow(const struct epd_store *s, const char *name)
{
	struct stat st;

	return fstatat(s->workflows, name, &st, AT_SYMLINK_NOFOLLOW) ?
	    errno != ENOENT : S_ISDIR(st.st_mode);
}

/* In a workflow's folder that goes as a whole. */
static int
is_adrift(const struct epd_store *s, const char *path)
{
	char name[NAME_MAX + 1];
	const char *end = strncmp(path, "w/", 2) ? NULL : strchr(path + 2, '/');

	if (!end)
		return 0;
	snprintf(name, sizeof name, "%.*s", (int)(end - path - 2), path + 2);
	return !epd_is_workflow(s, name);
}

struct strange {
	const struct epd_teller *t;
	int index;		/* something else stands in its place */
};

static int
tell_strange(void *arg, int dirfd, const char *path)
{
	struct strange *k = arg;
	const char *last = strrchr(path, '/');
	struct stat st;

	if (is_adrift(k->t->s, path) || fstatat(dirfd, last ? last + 1 : path,
	    &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (!strcmp(path, "pages")) {
		k->index = 1;
		epd_tell(k->t, EPD_LITTER, "memory folder: pages: %s, and no "
		    "index", epd_kind_of(st.st_mode));
	} else if (!strcmp(path, "store")) {
		epd_tell(k->t, EPD_LITTER, "memory folder: store: %s, and not "
		    "the store's path", epd_kind_of(st.st_mode));
	} else {
		epd_tell(k->t, EPD_LITTER, "memory folder: %.140s: no run, "
		    "nor a folder of runs", path);
	}
	return 0;
}

/* A folder whose workflow is not in the store. */
static int
tell_adrift(void *arg, const char *name)
{
	const struct epd_teller *t = arg;

	if (!epd_is_workflow(t->s, name))
		epd_tell(t, EPD_LITTER, "memory folder: w/%.140s: of no "
		    "workflow", name);
	return 0;
}

/* What writers would be refused; another user's is not theirs to have. */
static void
tell_shut(const struct epd_teller *t)
{
	struct epd_why why = {{0}};
	struct stat st;

	if (fstat(t->s->dirfd, &st) == 0 && st.st_uid == geteuid() &&
	    epd_memory_shut(t->s->memory, &why) < 0)
		epd_tell(t, EPD_FAULT, "memory folder: %s; nobody can write "
		    "here until that is gone", why.text);
}

static int
tell_memory(const struct epd_teller *t)
{
	struct strange k = { t, 0 };
	int rc;

	tell_shut(t);
	if ((rc = epd_memory_strange(t->s->memory, NULL, tell_strange,
	    &k)) < 0)
		return rc;
	rc = epd_index_check(t->s->memory);
	if (rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE)
		return rc;
	if (rc && rc != -ENOENT && !k.index)
		epd_tell(t, EPD_LITTER, "memory folder: pages: the index is "
		    "not to be read: %s", epd_strerror(rc));
	return epd_memory_each(t->s->memory, tell_adrift, (void *)t);
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

void
epd_litter_remove(int dirfd, const char *name, struct epd_swept *out)
{
	struct weigh w = { .dir = dirfd };

	weigh(&w, name);
	if (epd_file_remove(dirfd, name) == 0) {
		out->temporaries++;
		out->temporary_bytes += w.bytes;
	}
}

struct taking {
	struct epd_store *s;
	struct epd_swept *out;
};

static int
take_strange(void *arg, int dirfd, const char *path)
{
	const struct taking *k = arg;
	const char *last = strrchr(path, '/');

	if (!is_adrift(k->s, path))
		epd_litter_remove(dirfd, last ? last + 1 : path, k->out);
	return 0;
}

/* ---- runs that no version shows ---- */

static void
tell_orphans(const struct epd_teller *t, const struct epd_workflow *w,
    const struct epd_run_ids *o)
{
	const uint64_t now = epd_clock_wall_ms();
	uint64_t n = 0, bytes = 0;
	char name[EPD_RUN_NAME], first[EPD_RUN_NAME] = "";
	struct stat st;

	for (size_t i = 0; i < o->n; i++) {
		epd_run_format(name, o->v[i]);
		if (fstatat(w->runs, name, &st, AT_SYMLINK_NOFOLLOW) ||
		    (uint64_t)st.st_ctim.tv_sec * 1000 +
		    (uint64_t)st.st_ctim.tv_nsec / 1000000 + YOUNG_MS > now)
			continue;
		if (n++ == 0)
			memcpy(first, name, sizeof first);
		bytes += epd_bytes_back(&st);
	}
	if (n)
		epd_tell(t, EPD_LITTER, "%llu run%s that no version shows, "
		    "%llu bytes: %s%s", LLU(n), s_of(n), LLU(bytes), first,
		    n > 1 ? " ..." : "");
}

static int
orphans_of(const struct epd_teller *t, const struct epd_workflow *w)
{
	struct epd_run_ids o = {0};
	struct epd_drafts d;
	int rc = epd_orphans(&o, w, NULL);

	if (rc == 0)
		tell_orphans(t, w, &o);
	epd_run_ids_free(&o);
	if (rc == 0 && (rc = epd_drafts_dead(w->runs, 0, &d)) == 0 && d.n)
		epd_tell(t, EPD_LITTER, "%llu draft%s of decodes that died, "
		    "%llu bytes: %s%s", LLU(d.n), s_of(d.n), LLU(d.bytes),
		    d.first, d.n > 1 ? " ..." : "");
	return rc;
}

/* ---- told and taken ---- */

int
epd_litter_of_workflow(struct epd_store *s, struct epd_workflow *w, int alone,
    epd_litter_fn *fn, void *arg)
{
	char about[EPD_WORKFLOW + 2];
	struct epd_teller t = { s, fn, arg, about }, whole = { s, fn, arg, "" };
	struct strange k = { &whole, 0 };
	struct epd_why why = {{0}};
	int rc;

	snprintf(about, sizeof about, "%s: ", w->name);
	tell_part(&t, w->dirfd, &lock);
	rc = epd_shard_tail(w->shard, &why);
	if (rc > 0 || rc == EPD_ECORRUPT)
		epd_tell(&t, rc < 0 ? EPD_FAULT : EPD_LITTER, "%s", why.text);
	else if (rc < 0)
		return rc;
	if (alone && ((rc = epd_stray_tell(&whole, w->name)) < 0 ||
	    (rc = epd_memory_strange(s->memory, w->name, tell_strange,
	    &k)) < 0))
		return rc;
	return orphans_of(&t, w);
}

int
epd_litter_of_store(struct epd_store *s, epd_litter_fn *fn, void *arg)
{
	struct epd_teller t = { s, fn, arg, "" };
	struct stat st;
	int rc;

	for (int i = 0; i < PARTS; i++)
		tell_part(&t, s->dirfd, parts + i);
	if (fstatat(s->dirfd, "cache", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !S_ISDIR(st.st_mode))
		epd_tell(&t, EPD_LITTER, "cache: %s, and no folder",
		    epd_kind_of(st.st_mode));
	rc = epd_stray_tell(&t, NULL);
	return rc < 0 ? rc : tell_memory(&t);
}

int
epd_litter_take(struct epd_store *s, struct epd_swept *out)
{
	struct taking k = { s, out };
	struct epd_index *x;
	int rc;

	for (int i = 0; i < PARTS; i++)
		take_part(s, parts + i, out);
	rc = epd_index_check(s->memory);
	if (rc && rc != -ENOENT && (x = epd_store_index(s)) &&
	    (epd_index_check(s->memory) == 0 || epd_index_rebuild(x) >= 0))
		out->temporaries++;
	if ((rc = epd_stray_take(s, out)) < 0)
		return rc;
	return epd_memory_strange(s->memory, NULL, take_strange, &k);
}
