/*
 * world.c - what is open, and what has changed.
 *
 *  1. A change of a workflow shows as a write to its tip or in its folder on the
 *     memory tier; inotify says so before the writer's call returns, and sync
 *     reads that before anything is answered.  So an answer is never older than
 *     the question.  Without inotify everything is looked at each time.
 *  2. So many workflows are held open and no more; of the others what was
 *     learned is kept, and what changes in them opens them.
 *  3. A stamp is never 0 and never comes back.
 *  4. A life is a hash of a folder's number and birth, so it is the same at every
 *     mount; a log that was made anew in its folder begins another.
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
	UNSEEN = 1, HEARD, UNHEARD,	/* why dirty */
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

/* Forget what was learned of it. */
static void
unlearn(struct epd_fs_workflow *w)
{
	for (size_t i = 0; i < w->reasons; i++)
		epd_free(w->reason[i].text);
	epd_free(w->reason);
	epd_free(w->page);
	epd_fs_stream_free(&w->log);
	epd_fs_stream_free(&w->events);
	w->reason = NULL;
	w->page = NULL;
	w->reasons = w->pages = 0;
	w->paged = w->told = w->changed_ms = 0;
}

static void
free_workflow(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	shut(fs, w);
	unwatch(fs, w);
	unlearn(w);
	epd_free(w);
}

/* What a name leads to; never 0. */
static uint64_t
folder_of(const struct epd_fs *fs, const char *name)
{
	struct statx st;
	uint64_t key[3] = {0}, out;

	if (statx(fs->store->workflows, name, AT_SYMLINK_NOFOLLOW, STATX_INO |
	    STATX_BTIME, &st) == 0) {
		key[0] = st.stx_ino;
		key[1] = (uint64_t)st.stx_btime.tv_sec;
		key[2] = st.stx_btime.tv_nsec;
	}
	out = epd_xxh3_64(key, sizeof key);
	return out ? out : 1;
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
	static const uint8_t none[16];
	uint8_t uuid[16];
	int rc;

	make_room(fs);
	if ((rc = epd_watch_open(&w->watch, fs->store, w->name, why)) < 0)
		return rc;
	fs->open++;
	epd_shard_uuid(epd_watch_shard(w->watch), uuid);
	if (memcmp(w->uuid, uuid, sizeof uuid) &&
	    memcmp(w->uuid, none, sizeof none)) {
		unlearn(w);
		w->life ^= epd_xxh3_64(uuid, sizeof uuid);
	}
	memcpy(w->uuid, uuid, sizeof uuid);
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

/* ---- what the kernel keeps ---- */

/* What never changes is there for as long as its state is. */
static int
is_lasting(struct epd_fs_workflow *w, const struct epd_fs_at *at)
{
	struct epd_state st;

	return at->version && at->life == w->life && w->watch &&
	    epd_shard_state(epd_watch_shard(w->watch), at->state, &st) == 0;
}

/* The kernel's attributes of n are to be called back. */
static void
call_back(struct epd_fs *fs, struct epd_fs_node *n)
{
	uint64_t *v = epd_grow(fs->stale_ino, fs->nstale, &fs->stales,
	    sizeof *v);

	if (!v)
		return;			/* the next change tries again */
	fs->stale_ino = v;
	v[fs->nstale++] = n->ino;
	epd_fs_node_unlist(n, EPD_FS_KEPT);
}

/* Nodes that show anything of w, or of all, are no more as the kernel has them. */
static void
changed(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	const uint64_t now = epd_clock_boot_ns();
	struct epd_fs_node *n, *next;
	uint32_t lasting = 0;		/* a state that does */

	w->stamp = ++fs->stamp;
	for (n = fs->nodes.list[EPD_FS_KEPT]; n; n = next) {
		next = n->in[EPD_FS_KEPT].next;
		if (n->until_ns <= now) {
			epd_fs_node_unlist(n, EPD_FS_KEPT);
			continue;
		}
		if (*n->at.workflow && strcmp(n->at.workflow, w->name))
			continue;
		if (n->at.version && (n->at.state == lasting ||
		    is_lasting(w, &n->at)))
			lasting = n->at.state;
		else
			call_back(fs, n);
	}
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
	if (w->watch && (rc = epd_watch_on(w->watch, why)) < 0) {
		shut(fs, w);
	} else if (w->watch && !(news = rc) && w->dirty != HEARD) {
		w->dirty = 0;
		return 0;
	}
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
	rc = rc < 0 ? rc : 0;
	if (news || rc != w->rc || w->dirty == HEARD || lsn != w->lsn)
		changed(fs, w);
	w->dirty = 0;
	w->rc = rc;
	w->lsn = lsn;
	if (w->watch && w->told)
		follow(fs, w);
	return rc;
}

/* ---- which there are ---- */

struct listing {
	struct epd_fs *fs;
	struct epd_fs_workflow **v;
	size_t n, cap, had;		/* had: of the old list, looked at */
};

static struct epd_fs_workflow *
new_workflow(const struct epd_fs *fs, const char *name, int dirty)
{
	struct epd_fs_workflow *w = epd_calloc(1, sizeof *w);

	if (!w)
		return NULL;
	strcpy(w->name, name);
	w->life = w->folder = folder_of(fs, name);
	w->dir = w->runs = -1;
	w->dirty = dirty;
	return w;
}

/* Whether a folder took the name of another since w was made. */
static int
is_another(const struct epd_fs *fs, struct epd_fs_workflow *w)
{
	const int suspect = w->suspect;

	w->suspect = 0;
	return suspect && folder_of(fs, w->name) != w->folder;
}

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
	if (w && is_another(fs, w)) {
		free_workflow(fs, w);
		w = NULL;
	}
	fs->heard |= !w && fs->workflow;
	if (!w && !(w = new_workflow(fs, name, fs->workflow ?
	    HEARD : UNSEEN)))
		return -ENOMEM;
	v[l->n++] = w;
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
		all_dirty(fs, HEARD);
	} else if (e->wd == fs->dir) {
		suspect(fs, e->len ? e->name : "");
		if (e->mask & IN_IGNORED)
			fs->dir = -1;
	} else if ((w = by_number(fs, e->wd))) {
		w->dirty = HEARD;
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

		if ((w->dirty == HEARD || (all && (w->watch || w->told) &&
		    (w->dirty || w->dir < 0))) &&
		    refresh(fs, w, NULL) == 0 && w->watch)
			follow(fs, w);
	}
}

void
epd_fs_sync(struct epd_fs *fs)
{
	hear(fs);
	if (fs->notify < 0 || fs->dir < 0)
		all_dirty(fs, UNHEARD);
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
		rc = refresh(fs, w, why);
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

	if (rc == 0 && (*out)->watch)
		follow(fs, *out);
	return rc;
}

uint64_t
epd_fs_stamp(struct epd_fs *fs, const struct epd_fs_at *at)
{
	const struct epd_fs_workflow *w = *at->workflow ?
	    known(fs, at->workflow) : NULL;

	return w && w->life == at->life && !w->dirty && w->dir >= 0 ?
	    w->stamp : 0;
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
	epd_free(fs->stale_ino);
	epd_fs_nodes_close(&fs->nodes);
	epd_fs_stream_free(&fs->events);
	if (fs->notify >= 0)
		close(fs->notify);
	if (fs->wake >= 0)
		close(fs->wake);
	epd_store_close(fs->store);
}
