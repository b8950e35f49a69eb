/*
 * world.c - which workflows there are, and what has changed.
 *
 * A change of a workflow shows as a write to its tip or in its folder on the memory
 * tier; inotify says so before the writer's call returns, and sync reads that
 * before anything is answered.  So an answer is never older than the question.
 * Without inotify everything is looked at each time.
 */
#include "fs/world.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { OPEN = 1024, FILES = 8 };	/* at most, and of each */

/* ---- which there are ---- */

struct listing {
	struct epd_fs *fs;
	struct epd_fs_workflow **v;
	size_t n, cap, had;		/* had: of the old list, looked at */
};

static int
listed(void *arg, const char *name)
{
	struct listing *l = arg;
	struct epd_fs *fs = l->fs;
	struct epd_fs_workflow *w = NULL, **v;

	if (!(v = epd_grow(l->v, l->n, &l->cap, sizeof *v)))
		return -ENOMEM;
	l->v = v;
	for (size_t i = 0; i < fs->workflows && !w; i++) {
		size_t at = (l->had + i) % fs->workflows;

		if (fs->workflow[at] && !strcmp(fs->workflow[at]->name, name)) {
			w = fs->workflow[at];
			fs->workflow[at] = NULL;
			l->had = at + 1;
		}
	}
	if (w && epd_fs_workflow_is_another(fs, w)) {
		epd_fs_workflow_free(fs, w);
		w = NULL;
	}
	fs->heard |= !w && fs->listed;
	if (!w && !(w = epd_fs_workflow_new(fs, name, fs->listed ?
	    EPD_FS_HEARD : EPD_FS_UNSEEN)))
		return -ENOMEM;
	v[l->n++] = w;
	return 0;
}

/* Those that were not come to stay as they are; the next try puts them in order. */
static void
keep_rest(struct epd_fs *fs, struct listing *l)
{
	for (size_t i = 0; i < fs->workflows; i++) {
		struct epd_fs_workflow **v = fs->workflow[i] ? epd_grow(l->v,
		    l->n, &l->cap, sizeof *v) : NULL;

		if (!v)
			continue;
		l->v = v;
		v[l->n++] = fs->workflow[i];
		fs->workflow[i] = NULL;
	}
}

/* What is gone is let go; without a folder nothing is there. */
static void
relist(struct epd_fs *fs)
{
	struct listing l = { .fs = fs };
	int rc;

	fs->stale = 0;
	if (fs->notify >= 0 && fs->dir < 0)
		fs->dir = epd_fs_notify_on(fs, fs->store->workflows);
	rc = epd_workflow_each(fs->store, listed, &l);
	if (rc < 0) {
		fs->stale = 1;
		if (rc != -ENOENT)
			keep_rest(fs, &l);
	}
	for (size_t i = 0; i < fs->workflows; i++)
		if (fs->workflow[i]) {
			epd_fs_workflow_free(fs, fs->workflow[i]);
			epd_fs_wake(fs);
		}
	fs->listed = 1;
	epd_free(fs->workflow);
	fs->workflow = l.v;
	fs->workflows = l.n;
	for (size_t i = 0; i < l.n; i++)
		epd_fs_workflow_hear(fs, l.v[i]);
}

static struct epd_fs_workflow *
by_number(struct epd_fs *fs, int wd)
{
	for (size_t i = 0; i < fs->workflows; i++)
		if (fs->workflow[i]->dir == wd || fs->workflow[i]->runs == wd)
			return fs->workflow[i];
	return NULL;
}

static void
all_dirty(struct epd_fs *fs, int why)
{
	fs->stale = fs->heard = 1;
	for (size_t i = 0; i < fs->workflows; i++) {
		fs->workflow[i]->dirty = why;
		fs->workflow[i]->suspect = 1;
	}
}

/* A name in the folder of workflows came or went, perhaps to come back. */
static void
suspect(struct epd_fs *fs, const char *name)
{
	fs->stale = 1;
	for (size_t i = 0; i < fs->workflows; i++)
		if (!strcmp(fs->workflow[i]->name, name))
			fs->workflow[i]->suspect = 1;
}

static void
heard(struct epd_fs *fs, const struct inotify_event *e)
{
	struct epd_fs_workflow *w;

	if (e->mask & IN_Q_OVERFLOW) {
		all_dirty(fs, EPD_FS_HEARD);
	} else if (e->wd == fs->dir) {
		suspect(fs, e->len ? e->name : "");
		if (e->mask & IN_IGNORED)
			fs->dir = -1;
	} else if ((w = by_number(fs, e->wd))) {
		w->dirty = EPD_FS_HEARD;
		fs->heard = 1;
		if (e->mask & IN_IGNORED && w->dir == e->wd)
			w->dir = -1;
		else if (e->mask & IN_IGNORED)
			w->runs = -1;
	}
}

static void
hear(struct epd_fs *fs)
{
	char buf[16384] __attribute__((aligned(8)));
	ssize_t n;

	while (fs->notify >= 0 && (n = read(fs->notify, buf, sizeof buf)) > 0)
		for (ssize_t i = 0; i < n;) {
			const struct inotify_event *e = (const void *)(buf + i);

			heard(fs, e);
			i += (ssize_t)(sizeof *e + e->len);
		}
}

/* Those of which something was heard are brought up to now. */
static void
take_in(struct epd_fs *fs, int all)
{
	fs->heard = 0;
	for (size_t i = 0; i < fs->workflows; i++) {
		struct epd_fs_workflow *w = fs->workflow[i];

		if ((w->dirty == EPD_FS_HEARD || (all && (w->watch || w->told) &&
		    (w->dirty || w->dir < 0))) &&
		    epd_fs_workflow_on(fs, w, NULL) == 0 && w->watch)
			epd_fs_workflow_follow(fs, w);
	}
}

void
epd_fs_sync(struct epd_fs *fs)
{
	hear(fs);
	if (fs->notify < 0 || fs->dir < 0)
		all_dirty(fs, EPD_FS_UNHEARD);
	if (fs->stale)
		relist(fs);
	if (fs->heard)
		take_in(fs, 0);
}

int
epd_fs_look_around(struct epd_fs *fs)
{
	int deaf = fs->notify < 0 || fs->dir < 0;

	epd_fs_sync(fs);
	for (size_t i = 0; i < fs->workflows && !deaf; i++)
		deaf = fs->workflow[i]->dir < 0;
	if (deaf)
		take_in(fs, 1);
	return deaf;
}

/* Mostly the one that was asked for last. */
static struct epd_fs_workflow *
known(struct epd_fs *fs, const char *name)
{
	for (size_t i = 0; i < fs->workflows; i++) {
		const size_t at = (fs->last + i) % fs->workflows;

		if (!strcmp(fs->workflow[at]->name, name)) {
			fs->last = at;
			return fs->workflow[at];
		}
	}
	return NULL;
}

int
epd_fs_named(struct epd_fs *fs, const char *name,
    struct epd_fs_workflow **out, struct epd_why *why)
{
	struct epd_fs_workflow *w = known(fs, name);
	int rc = 0;

	*out = w;
	if (!w)
		return epd_why(why, EPD_ENOTHING, "%s: no such workflow",
		    name);
	if (w->dirty || !w->watch || w->dir < 0)
		rc = epd_fs_workflow_on(fs, w, why);
	w->used = ++fs->count;
	return rc;
}

int
epd_fs_workflow(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_fs_workflow **out, struct epd_why *why)
{
	int rc = epd_fs_named(fs, at->workflow, out, why);

	if (*out && (*out)->life != at->life)
		rc = epd_why(why, EPD_ENOTHING, "%s: another workflow has its "
		    "name by now", at->workflow);
	return rc;
}

int
epd_fs_watch(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_watch **out, struct epd_why *why)
{
	struct epd_fs_workflow *w;
	int rc = epd_fs_workflow(fs, at, &w, why);

	if (rc == 0 && !w->watch)
		rc = EPD_ENOSTATE;
	if (rc == 0)
		*out = w->watch;
	return rc;
}

int
epd_fs_followed(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_fs_workflow **out, struct epd_why *why)
{
	int rc = epd_fs_workflow(fs, at, out, why);

	if (rc < 0 || !(*out)->watch)
		return rc;
	if (at->kind == EPD_FS_LOG)
		epd_fs_workflow_log(fs, *out);
	epd_fs_workflow_follow(fs, *out);
	return 0;
}

uint64_t
epd_fs_stamp(struct epd_fs *fs, const struct epd_fs_at *at)
{
	const struct epd_fs_workflow *w = *at->workflow ?
	    known(fs, at->workflow) : NULL;

	return w && w->life == at->life && !w->dirty && w->dir >= 0 ?
	    w->stamp : 0;
}

void
epd_fs_say(struct epd_fs *fs, struct epd_fs_workflow *w, struct epd_span line)
{
	epd_fs_stream_put(&fs->events, line);
	if (w)
		epd_fs_stream_put(&w->events, line);
	epd_fs_call_back_events(fs, w);
	epd_fs_wake(fs);
}

void
epd_fs_wake(const struct epd_fs *fs)
{
	(void)!write(fs->wake, &(uint64_t){ 1 }, 8);
}

/* ---- all of it ---- */

static int
is_same(const struct epd_fs *fs, const struct stat *st)
{
	struct stat own;

	return fstat(fs->store->dirfd, &own) < 0 ? -errno :
	    own.st_dev == st->st_dev && own.st_ino == st->st_ino ? 0 : -ESTALE;
}

int
epd_fs_same_store(const struct epd_fs *fs)
{
	struct stat st;

	if (stat(fs->o.store.path, &st) < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	return is_same(fs, &st);
}

int
epd_fs_another(const struct epd_fs *fs, int look, struct epd_store **out,
    struct epd_why *why)
{
	struct epd_store_options o = fs->o.store;
	struct epd_store *s = NULL;
	struct stat st;
	int rc = epd_fs_same_store(fs);

	o.create = 0;
	if (!look)
		o.look = o.still = 0;
	if (rc == 0 && (rc = epd_store_open(&s, &o, why)) < 0)
		return rc;
	if (rc == 0)
		rc = fstat(s->dirfd, &st) < 0 ? -errno : is_same(fs, &st);
	if (rc == 0) {
		*out = s;
		return 0;
	}
	epd_store_close(s);
	return epd_why(why, rc, "%s: another store, or none, is there by now",
	    o.path);
}

int
epd_fs_world_open(struct epd_fs *fs, struct epd_why *why)
{
	struct rlimit r;
	int rc = epd_store_open(&fs->store, &fs->o.store, why);

	if (rc < 0)
		return rc;
	fs->began_ms = epd_clock_wall_ms();
	fs->uid = geteuid();
	fs->gid = getegid();
	fs->stamp = 1;
	fs->most = getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur / (2 *
	    FILES) < OPEN ? (size_t)r.rlim_cur / (2 * FILES) : OPEN;
	fs->stale = 1;
	fs->dir = -1;
	fs->notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	fs->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (fs->wake < 0)
		return epd_why(why, -errno, "%s", strerror(errno));
	if ((rc = epd_fs_nodes_open(&fs->nodes)) < 0)
		return epd_why(why, rc, "no memory");
	epd_fs_sync(fs);
	return 0;
}

void
epd_fs_world_close(struct epd_fs *fs)
{
	for (size_t i = 0; i < fs->workflows; i++)
		epd_fs_workflow_free(fs, fs->workflow[i]);
	epd_free(fs->workflow);
	epd_free(fs->stale_ino);
	epd_fs_nodes_close(&fs->nodes);
	epd_fs_stream_free(&fs->events);
	if (fs->notify >= 0)
		close(fs->notify);
	if (fs->wake >= 0)
		close(fs->wake);
	epd_store_close(fs->store);
}
