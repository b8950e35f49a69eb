/*
 * workflow.c - one workflow: held open, its log taken in, and what of it the kernel
 * has.
 *
 *  1. So many are held open and no more; of the others what was learned is kept,
 *     and what changes in them opens them.
 *  2. A stamp is never 0 and never comes back.
 *  3. A life is a hash of a folder's number and birth, so it is the same at every
 *     mount; where a log is made anew in its folder while this one lasts, another
 *     begins.
 */
#include "fs/world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"

enum {
	REASONS = 65536,
	LOGS = 64 << 20		/* bytes of all logs, but for the one read last */
};

static const uint32_t CHANGES = IN_MODIFY | IN_CREATE | IN_DELETE |
    IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE_SELF | IN_ONLYDIR;

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
drop_log(struct epd_fs_workflow *w)
{
	epd_fs_stream_free(&w->log);
	w->logged = 0;
	w->wants_log = 0;
}

/* Forget what was learned of it. */
static void
unlearn(struct epd_fs_workflow *w)
{
	for (size_t i = 0; i < w->reasons; i++)
		epd_free(w->reason[i].text);
	epd_free(w->reason);
	epd_free(w->page);
	drop_log(w);
	epd_fs_stream_free(&w->events);
	w->reason = NULL;
	w->page = NULL;
	w->reasons = w->reasons_cap = w->pages = 0;
	w->paged = w->told = w->changed_ms = 0;
}

void
epd_fs_workflow_free(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	shut(fs, w);
	unwatch(fs, w);
	unlearn(w);
	epd_free(w);
}

/* What a name leads to; never 0. */
static uint64_t
folder_of(const struct epd_fs *fs, const char *name, uint64_t *made_ms)
{
	struct statx st;
	uint64_t key[3] = {0}, out;

	if (statx(fs->store->workflows, name, AT_SYMLINK_NOFOLLOW, STATX_INO |
	    STATX_BTIME, &st) == 0) {
		key[0] = st.stx_ino;
		key[1] = (uint64_t)st.stx_btime.tv_sec;
		key[2] = st.stx_btime.tv_nsec;
	}
	if (made_ms)
		*made_ms = key[1] * 1000 + key[2] / 1000000;
	out = epd_xxh3_64(key, sizeof key);
	return out ? out : 1;
}

int
epd_fs_notify_on(struct epd_fs *fs, int fd)
{
	char path[32];

	if (fs->notify < 0 || fd < 0)
		return -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return inotify_add_watch(fs->notify, path, CHANGES);
}

void
epd_fs_workflow_hear(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	int fd;

	if (w->dir < 0 && (fd = epd_file_open(fs->store->workflows, w->name,
	    O_RDONLY | O_DIRECTORY, 0)) >= 0) {
		w->dir = epd_fs_notify_on(fs, fd);
		close(fd);
	}
	if (w->runs < 0 && (fd = epd_memory_find(fs->store->memory,
	    w->name)) >= 0) {
		w->runs = epd_fs_notify_on(fs, fd);
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
	p = epd_grow(w->reason, w->reasons, &w->reasons_cap, sizeof *p);
	if (!p) {
		epd_free(text);
		return;
	}
	w->reason = p;
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

	struct epd_fs_workflow *w = t->w;
	const int news = r->lsn > w->told;
	const int says = news && r->wall_ms >= t->fs->began_ms;
	const int logs = w->wants_log && r->lsn > w->logged;

	if (news) {
		w->told = r->lsn;
		if (r->wall_ms > w->changed_ms)
			w->changed_ms = r->wall_ms;
		keep_reason(w, r);
	}
	if (!says && !logs)
		return 0;
	epd_jw_begin(&jw, NULL, '{');
	epd_jw_int(&jw, "schema_version", 1);
	epd_view_record(&jw, w->name, r);
	epd_jw_end(&jw, '}');
	if (!b.failed && logs) {
		epd_fs_stream_put(&w->log, epd_span(b.p, b.n));
		w->logged = r->lsn;
	}
	if (!b.failed && says)
		epd_fs_say(t->fs, w, epd_span(b.p, b.n));
	epd_buf_free(&b);
	return 0;
}

void
epd_fs_workflow_log(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	struct epd_fs_workflow *old;
	uint64_t bytes;

	if (w->wants_log)
		return;
	do {
		old = NULL;
		bytes = 0;
		for (size_t i = 0; i < fs->workflows; i++) {
			struct epd_fs_workflow *x = fs->workflow[i];

			bytes += x->log.kept.n;
			if (x->wants_log && (!old || x->used < old->used))
				old = x;
		}
		if (old && bytes > LOGS)
			drop_log(old);
	} while (old && bytes > LOGS);
	/* It is read again from its first record. */
	epd_follow_close(w->follow);
	w->follow = NULL;
	w->wants_log = 1;
}

void
epd_fs_workflow_follow(struct epd_fs *fs, struct epd_fs_workflow *w)
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
	fs->recalls++;
	epd_fs_node_unlist(n, EPD_FS_KEPT);
}

void
epd_fs_call_back_events(struct epd_fs *fs, const struct epd_fs_workflow *w)
{
	struct epd_fs_node *n, *next;

	for (n = fs->nodes.list[EPD_FS_KEPT]; n; n = next) {
		next = n->in[EPD_FS_KEPT].next;
		if (n->at.kind == EPD_FS_EVENTS && (!*n->at.workflow ||
		    (w && n->at.life == w->life)))
			call_back(fs, n);
	}
}

/* Nodes that show anything of w, or of all, are no more as the kernel has them. */
static void
changed(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	const uint64_t now = epd_clock_boot_ns();
	struct epd_fs_node *n, *next;
	uint32_t lasting = 0;		/* a state of it that does */

	w->stamp = ++fs->stamp;
	for (n = fs->nodes.list[EPD_FS_KEPT]; n; n = next) {
		next = n->in[EPD_FS_KEPT].next;
		if (n->until_ns <= now) {
			epd_fs_node_unlist(n, EPD_FS_KEPT);
			continue;
		}
		if (*n->at.workflow && strcmp(n->at.workflow, w->name))
			continue;
		if (n->at.version && ((n->at.state == lasting &&
		    n->at.life == w->life) || is_lasting(w, &n->at)))
			lasting = n->at.state;
		else
			call_back(fs, n);
	}
	epd_fs_wake(fs);
}

int
epd_fs_workflow_on(struct epd_fs *fs, struct epd_fs_workflow *w, struct epd_why *why)
{
	uint64_t lsn;
	int rc = 0, news = 0;

	epd_fs_workflow_hear(fs, w);
	w->used = ++fs->count;
	if (w->watch && (rc = epd_watch_on(w->watch, why)) < 0) {
		shut(fs, w);
	} else if (w->watch && !(news = rc) && w->dirty != EPD_FS_HEARD) {
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
	if (news || rc != w->rc || w->dirty == EPD_FS_HEARD || lsn != w->lsn)
		changed(fs, w);
	w->dirty = 0;
	w->rc = rc;
	w->lsn = lsn;
	if (w->watch && w->told)
		epd_fs_workflow_follow(fs, w);
	return rc;
}

struct epd_fs_workflow *
epd_fs_workflow_new(const struct epd_fs *fs, const char *name, int dirty)
{
	struct epd_fs_workflow *w = epd_calloc(1, sizeof *w);

	if (!w)
		return NULL;
	strcpy(w->name, name);
	w->life = w->folder = folder_of(fs, name, &w->made_ms);
	w->dir = w->runs = -1;
	w->dirty = dirty;
	return w;
}

int
epd_fs_workflow_is_another(const struct epd_fs *fs, struct epd_fs_workflow *w)
{
	const int suspect = w->suspect;

	w->suspect = 0;
	return suspect && folder_of(fs, w->name, NULL) != w->folder;
}

const char *
epd_fs_reason(const struct epd_fs_workflow *w, uint32_t state)
{
	for (size_t i = w->reasons; i-- > 0;)
		if (state - w->reason[i].first < w->reason[i].count)
			return w->reason[i].text;
	return "";
}
