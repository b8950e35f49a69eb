/*
 * world.c - what is open, and what has changed.
 *
 *  1. A change of a workflow shows as a write to its tip or in its folder on the
 *     memory tier; inotify says so before the writer's call returns, and sync
 *     reads that before anything is answered.  So an answer is never older than
 *     the question.  Without inotify everything is looked at each time.
 *  2. So many workflows are held open and no more; of the others what was learned is
 *     kept, and what changes in them opens them.
 *  3. A stamp is never 0 and never comes back.
 */
#include "fs/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

enum {
	OPEN = 1024, FILES = 8,		/* at most, and of each */
	UNSEEN = 1, HEARD = 2,		/* why dirty */
	REASONS = 65536
};

static const uint32_t CHANGES = IN_MODIFY | IN_CREATE | IN_DELETE |
    IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE_SELF | IN_ONLYDIR;

/* ---- one workflow ---- */

static void
shut(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	if (!w->watch)
		return;
	epd_follow_close(w->follow);
	epd_watch_close(w->watch);
	w->follow = NULL;
	w->watch = NULL;
	fs->open--;
}

static void
unwatch(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	if (w->dir >= 0)
		inotify_rm_watch(fs->notify, w->dir);
	if (w->runs >= 0)
		inotify_rm_watch(fs->notify, w->runs);
	w->dir = w->runs = -1;
}

static void
free_workflow(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	shut(fs, w);
	unwatch(fs, w);
	for (size_t i = 0; i < w->reasons; i++)
		epd_free(w->reason[i].text);
	epd_free(w->reason);
	epd_free(w->page);
	epd_fs_stream_free(&w->log);
	epd_fs_stream_free(&w->events);
	epd_free(w);
}

static int
notify_on(struct epd_fs *fs, int fd)
{
	char path[32];

	if (fs->notify < 0 || fd < 0)
		return -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return inotify_add_watch(fs->notify, path, CHANGES);
}

/* Hear of it from now on.  Where that fails it is looked at each time. */
static void
watch_for(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	int fd;

	if (w->dir < 0 && (fd = epd_file_open(fs->store->workflows, w->name,
	    O_RDONLY | O_DIRECTORY, 0)) >= 0) {
		w->dir = notify_on(fs, fd);
		close(fd);
	}
	if (w->runs < 0 && (fd = epd_memory_find(fs->store->memory,
	    w->name)) >= 0) {
		w->runs = notify_on(fs, fd);
		close(fd);
	}
}

/* The one used longest ago makes room. */
static void
make_room(struct epd_fs *fs)
{
	struct epd_fs_workflow *old = NULL;

	for (size_t i = 0; fs->open >= fs->most && i < fs->workflows; i++) {
		struct epd_fs_workflow *w = fs->workflow[i];

		if (w->watch && (!old || w->used < old->used))
			old = w;
	}
	if (old)
		shut(fs, old);
}

static int
open_watch(struct epd_fs *fs, struct epd_fs_workflow *w, struct epd_why *why)
{
	uint8_t uuid[16];
	uint64_t salt;
	int rc;

	make_room(fs);
	if ((rc = epd_watch_open(&w->watch, fs->store, w->name, why)) < 0)
		return rc;
	fs->open++;
	epd_shard_uuid(epd_watch_shard(w->watch), uuid);
	memcpy(&salt, uuid, sizeof salt);
	if (w->salt != salt) {		/* another one of its name */
		w->salt = salt;
		w->told = 0;
		epd_fs_stream_free(&w->log);
	}
	return 0;
}

struct telling {
	struct epd_fs *fs;
	struct epd_fs_workflow *w;
};

static void
keep_reason(struct epd_fs_workflow *w, const struct epd_record *r)
{
	struct epd_fs_reason *p;
	char *text;

	if (!*r->reason || r->lease || !(text = epd_strdup(r->reason)))
		return;
	if (w->reasons == REASONS) {	/* the older half goes */
		w->reasons /= 2;
		for (size_t i = 0; i < w->reasons; i++)
			epd_free(w->reason[i].text);
		memmove(w->reason, w->reason + w->reasons,
		    w->reasons * sizeof *w->reason);
	}
	if (!(w->reasons & (w->reasons + 1)) && (p = epd_realloc(w->reason,
	    (2 * w->reasons + 2) * sizeof *p)))
		w->reason = p;
	else if (!(w->reasons & (w->reasons + 1))) {
		epd_free(text);
		return;
	}
	w->reason[w->reasons++] = (struct epd_fs_reason){
		r->count ? r->first : r->state, r->count ? r->count : 1, text,
	};
}

static int
tell(void *arg, const struct epd_record *r)
{
	struct telling *t = arg;
	struct epd_buf b = {0};
	struct epd_jw jw = { .out = &b };

	if (r->lsn <= t->w->told)
		return 0;
	t->w->told = r->lsn;
	if (r->wall_ms > t->w->changed_ms)
		t->w->changed_ms = r->wall_ms;
	keep_reason(t->w, r);
	epd_jw_begin(&jw, NULL, '{');
	epd_jw_int(&jw, "schema_version", 1);
	epd_view_record(&jw, t->w->name, r);
	epd_jw_end(&jw, '}');
	if (!b.failed) {
		epd_fs_stream_put(&t->w->log, epd_span(b.p, b.n));
		if (r->wall_ms >= t->fs->began_ms)
			epd_fs_say(t->fs, t->w, epd_span(b.p, b.n));
	}
	epd_buf_free(&b);
	return 0;
}

/* Its log is taken in; one that is damaged as far as it goes. */
static void
follow(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	struct telling t = { fs, w };

	if (!w->follow && epd_follow_open(&w->follow,
	    epd_watch_shard(w->watch)) < 0)
		return;
	(void)epd_follow_on(w->follow, tell, &t, NULL);
}

/* Nodes that show anything of it, or of all, are no more as the kernel has them. */
struct chill {
	struct epd_fs *fs;
	const char *workflow;
	uint64_t now;
};

static void
chill(void *arg, struct epd_fs_node *n)
{
	struct chill *c = arg;
	struct epd_fs *fs = c->fs;

	if (n->until_ns <= c->now ||
	    (*n->at.workflow && strcmp(n->at.workflow, c->workflow)))
		return;
	if (fs->ncold == fs->colds) {
		size_t more = fs->colds ? 2 * fs->colds : 256;
		void *p = epd_realloc(fs->cold, more * sizeof *fs->cold);

		if (!p)
			return;		/* it is over within a second */
		fs->cold = p;
		fs->colds = more;
	}
	n->until_ns = 0;
	fs->cold[fs->ncold++] = n->ino;
}

static void
changed(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	struct chill c = { fs, w->name, epd_clock_boot_ns() };
	const int shown = w->stamp != 0;

	w->stamp = ++fs->stamp;
	if (shown && fs->plus_ns > c.now)
		epd_fs_node_each(&fs->nodes, chill, &c);
	(void)!write(fs->wake, &(uint64_t){ 1 }, 8);
}

/* Bring it up to now, opening it if it is shut. */
static int
refresh(struct epd_fs *fs, struct epd_fs_workflow *w, struct epd_why *why)
{
	uint64_t lsn;
	int rc = 0, news = 0;

	watch_for(fs, w);
	w->used = ++fs->count;
	if (w->watch && (rc = epd_watch_on(w->watch, why)) < 0)
		shut(fs, w);
	else if (w->watch && !(news = rc) && !w->dirty)
		return 0;
	/* Gone, or gone and made again, or made and not yet written to. */
	if (!w->watch && (rc == 0 || rc == EPD_ENOTHING)) {
		rc = open_watch(fs, w, why);
		if (rc == EPD_ENOTHING)
			rc = faccessat(fs->store->workflows, w->name, F_OK,
			    AT_SYMLINK_NOFOLLOW) == 0 ? 0 : rc;
		fs->stale |= rc == EPD_ENOTHING;
	}
	/* Something was written there, be it only a draft; that it was shut is none. */
	lsn = w->watch ? epd_shard_lsn(epd_watch_shard(w->watch)) : 0;
	if (news || rc < 0 || w->dirty || lsn != w->lsn)
		changed(fs, w);
	w->dirty = 0;
	w->lsn = lsn;
	if (w->watch && w->told)
		follow(fs, w);
	return rc < 0 ? rc : 0;
}

/* ---- which there are ---- */

struct listing {
	struct epd_fs *fs;
	struct epd_fs_workflow **v;
	size_t n, cap, had;		/* had: of the old list, looked at */
};

static struct epd_fs_workflow *
new_workflow(const char *name, int dirty)
{
	struct epd_fs_workflow *w = epd_calloc(1, sizeof *w);

	if (!w)
		return NULL;
	strcpy(w->name, name);
	w->dir = w->runs = -1;
	w->dirty = dirty;
	return w;
}

static int
listed(void *arg, const char *name)
{
	struct listing *l = arg;
	struct epd_fs *fs = l->fs;
	struct epd_fs_workflow *w = NULL;

	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		void *p = epd_realloc(l->v, cap * sizeof *l->v);

		if (!p)
			return -ENOMEM;
		l->v = p;
		l->cap = cap;
	}
	for (size_t i = 0; i < fs->workflows && !w; i++) {
		size_t at = (l->had + i) % fs->workflows;

		if (fs->workflow[at] && !strcmp(fs->workflow[at]->name, name)) {
			w = fs->workflow[at];
			fs->workflow[at] = NULL;
			l->had = at + 1;
		}
	}
	fs->heard |= !w && fs->workflow;
	if (!w && !(w = new_workflow(name, fs->workflow ?
	    HEARD : UNSEEN)))
		return -ENOMEM;
	l->v[l->n++] = w;
	return 0;
}

/* What is gone is let go; without memory or a folder nothing is there. */
static void
relist(struct epd_fs *fs)
{
	struct listing l = { .fs = fs };
	int rc;

	fs->stale = 0;
	if (fs->notify >= 0 && fs->dir < 0)
		fs->dir = notify_on(fs, fs->store->workflows);
	rc = epd_workflow_each(fs->store, listed, &l);
	if (rc < 0)
		fs->stale = 1;
	for (size_t i = 0; i < fs->workflows; i++)
		if (fs->workflow[i])
			free_workflow(fs, fs->workflow[i]);
	epd_free(fs->workflow);
	fs->workflow = l.v;
	fs->workflows = l.n;
	for (size_t i = 0; i < l.n; i++)
		watch_for(fs, l.v[i]);
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
all_dirty(struct epd_fs *fs)
{
	fs->stale = fs->heard = 1;
	for (size_t i = 0; i < fs->workflows; i++)
		fs->workflow[i]->dirty = HEARD;
}

static void
heard(struct epd_fs *fs, const struct inotify_event *e)
{
	struct epd_fs_workflow *w;

	if (e->mask & IN_Q_OVERFLOW) {
		all_dirty(fs);
	} else if (e->wd == fs->dir) {
		fs->stale = 1;
	} else if ((w = by_number(fs, e->wd))) {
		w->dirty = HEARD;
		fs->heard = 1;
		if (e->mask & IN_IGNORED && w->dir == e->wd)
			w->dir = -1;
		else if (e->mask & IN_IGNORED)
			w->runs = -1;
	}
}

void
epd_fs_sync(struct epd_fs *fs)
{
	char buf[16384] __attribute__((aligned(8)));
	ssize_t n;

	if (fs->notify < 0)
		all_dirty(fs);
	else while ((n = read(fs->notify, buf, sizeof buf)) > 0)
		for (ssize_t i = 0; i < n;) {
			const struct inotify_event *e = (const void *)(buf + i);

			heard(fs, e);
			i += (ssize_t)(sizeof *e + e->len);
		}
	/* Nobody says when there is another workflow. */
	if (fs->stale || fs->dir < 0)
		relist(fs);
	if (fs->notify < 0 || !fs->heard)
		return;
	fs->heard = 0;
	for (size_t i = 0; i < fs->workflows; i++) {
		struct epd_fs_workflow *w = fs->workflow[i];

		if (w->dirty == HEARD && refresh(fs, w, NULL) == 0 && w->watch)
			follow(fs, w);
	}
}

int
epd_fs_workflow(struct epd_fs *fs, const char *name,
    struct epd_fs_workflow **out, struct epd_why *why)
{
	/* Mostly the one that was asked for last. */
	for (size_t i = 0; i < fs->workflows; i++) {
		const size_t at = (fs->last + i) % fs->workflows;
		struct epd_fs_workflow *w = fs->workflow[at];
		int rc = 0;

		if (strcmp(w->name, name))
			continue;
		fs->last = at;
		if (w->dirty || !w->watch || w->dir < 0)
			rc = refresh(fs, w, why);
		w->used = ++fs->count;
		if (rc == 0)
			*out = w;
		return rc;
	}
	return epd_why(why, EPD_ENOTHING, "%s: no such workflow", name);
}

int
epd_fs_followed(struct epd_fs *fs, const char *name,
    struct epd_fs_workflow **out, struct epd_why *why)
{
	int rc = epd_fs_workflow(fs, name, out, why);

	if (rc == 0 && (*out)->watch)
		follow(fs, *out);
	return rc;
}

const char *
epd_fs_reason(const struct epd_fs_workflow *w, uint32_t state)
{
	for (size_t i = w->reasons; i-- > 0;)
		if (state - w->reason[i].first < w->reason[i].count)
			return w->reason[i].text;
	return "";
}

void
epd_fs_say(struct epd_fs *fs, struct epd_fs_workflow *w, struct epd_span line)
{
	epd_fs_stream_put(&fs->events, line);
	if (w)
		epd_fs_stream_put(&w->events, line);
	(void)!write(fs->wake, &(uint64_t){ 1 }, 8);
}

/* ---- all of it ---- */

int
epd_fs_same_store(const struct epd_fs *fs)
{
	struct stat own, st;

	if (fstat(fs->store->dirfd, &own) < 0 ||
	    stat(fs->o.store.path, &st) < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	return own.st_dev == st.st_dev && own.st_ino == st.st_ino ? 0 :
	    -ESTALE;
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
		free_workflow(fs, fs->workflow[i]);
	epd_free(fs->workflow);
	epd_free(fs->cold);
	epd_fs_nodes_close(&fs->nodes);
	epd_fs_stream_free(&fs->events);
	if (fs->notify >= 0)
		close(fs->notify);
	if (fs->wake >= 0)
		close(fs->wake);
	epd_store_close(fs->store);
}
