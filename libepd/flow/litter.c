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
#include "flow/below.h"
#include "flow/draft.h"
#include "flow/folder.h"
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
		epd_litter_remove(s->dirfd, p->path, &out->temporaries,
		    &out->temporary_bytes);
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

int
epd_is_workflow(const struct epd_store *s, const char *name)
{
	struct stat st;

	return fstatat(s->workflows, name, &st, AT_SYMLINK_NOFOLLOW) ?
	    errno != ENOENT : S_ISDIR(st.st_mode);
}

/* ---- the memory folder ---- */

static int
tell_memory(const struct epd_teller *t)
{
	const struct epd_folder f = epd_folder_memory(t->s);
	int index = 0, rc;

	epd_folder_tell_shut(t, &f);
	if ((rc = epd_folder_tell_strange(t, &f, NULL, &index)) < 0)
		return rc;
	rc = epd_index_check(t->s->memory);
	if (rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE)
		return rc;
	if (rc && rc != -ENOENT && !index)
		epd_tell(t, EPD_LITTER, "memory folder: pages: the index is "
		    "not to be read: %s", epd_strerror(rc));
	return epd_folder_tell_adrift(t, &f);
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
epd_litter_remove(int dirfd, const char *name, uint64_t *n, uint64_t *bytes)
{
	struct weigh w = { .dir = dirfd };

	weigh(&w, name);
	if (epd_file_remove(dirfd, name) == 0) {
		++*n;
		*bytes += w.bytes;
	}
}

/* ---- runs that no version shows ---- */

static int
orphans_of(const struct epd_teller *t, const struct epd_workflow *w)
{
	struct epd_run_ids o = {0};
	struct epd_drafts d;
	const struct epd_folder f = epd_folder_memory(t->s);
	int rc = epd_orphans(&o, w, w->runs, NULL);

	if (rc == 0)
		epd_folder_tell_orphans(t, &f, w->runs, &o);
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
	const struct epd_folder f = epd_folder_memory(s);
	struct epd_why why = {{0}};
	int index, rc;

	snprintf(about, sizeof about, "%s: ", w->name);
	tell_part(&t, w->dirfd, &lock);
	rc = epd_shard_tail(w->shard, &why);
	if (rc > 0 || rc == EPD_ECORRUPT)
		epd_tell(&t, rc < 0 ? EPD_FAULT : EPD_LITTER, "%s", why.text);
	else if (rc < 0)
		return rc;
	if (alone && ((rc = epd_stray_tell(&whole, w->name)) < 0 ||
	    (rc = epd_folder_tell_strange(&whole, &f, w->name,
	    &index)) < 0))
		return rc;
	rc = orphans_of(&t, w);
	return rc < 0 ? rc : epd_below_tell(&t, w, alone);
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
	if ((rc = epd_stray_tell(&t, NULL)) < 0 || (rc = tell_memory(&t)) < 0)
		return rc;
	return epd_below_tell_all(&t);
}

int
epd_litter_take(struct epd_store *s, struct epd_swept *out)
{
	const struct epd_folder f = epd_folder_memory(s);
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
	return epd_folder_take_strange(s, &f, &out->temporaries,
	    &out->temporary_bytes);
}
