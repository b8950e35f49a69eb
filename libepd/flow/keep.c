/*
 * keep.c - keeping house: release, and gc by mark and sweep.
 *
 * A run is published before the record that names it, so a run that no live
 * node has may be one whose record is under way.  The sweep therefore lists the
 * folder first, reads the log after, and gives what looks orphaned a moment to
 * be named.  Should a writer be slower than that, its pages are computed again.
 * A hand-off's target, which may have much to copy, holds a shared lock on its
 * folder from the first link to the record; there is no sweep then.
 *
 * What cannot be swept is told of, and all else is swept: only what rests on
 * knowing all workflows, as which pictures are needed, stays if one of them cannot
 * be read.
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
#include "flow/draft.h"
#include "flow/handoff.h"
#include "flow/litter.h"
#include "flow/room.h"
#include "flow/tiers.h"
#include "page/page.h"

enum {
	GRACE_MS = 1000,
	TICK_MS = 20,		/* what a file's times may lag behind the clock */
	BEGINNING_MS = 60000,	/* from a workflow's folder to its log, */
	COMPUTING_MS = 3600000	/* and to its first record */
};

/* ---- runs ---- */

struct freeing {
	const struct epd_workflow *w;
	uint64_t runs, bytes;
};

/* Unlink a run, and count it if it was there. */
static int
take(struct freeing *f, uint64_t run)
{
	char name[EPD_RUN_NAME];
	struct stat st;
	int rc;

	epd_run_format(name, run);
	if (fstatat(f->w->runs, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if ((rc = epd_run_free(f->w->runs, run)) == 0) {
		f->runs++;
		f->bytes += epd_bytes_back(&st);
	}
	return rc;
}

static void
freed(void *arg, uint64_t run)
{
	struct freeing *f = arg;

	if (f->w->runs >= 0)
		(void)take(f, run);
	epd_workflow_drop(f->w, run);
}

/* ---- gc ---- */

struct gc {
	struct epd_store *s;
	struct epd_swept *out;
	struct epd_why *why;
	struct epd_name *need;		/* features of live states */
	size_t needs, cap;
	int unread;			/* some cannot be read: any may be needed */
	int dir;			/* being looked through for leftovers */
	uint64_t grace_ms;		/* that younger ones have there */
	void (*fn)(void *arg, int rc, const char *text);
	void *arg;
	int failed;			/* how often fn was told of a failure */
	struct epd_settling settling;
};

/* How long all peers together are waited for. */
static const uint64_t PEERS_NS = UINT64_C(10000000000);

static void tell(struct gc *g, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void
tell(struct gc *g, int rc, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	g->failed++;
	g->fn(g->arg, rc, text);
}

/* A step of the sweep, that failed or not. */
static void
step(struct gc *g, const char *what, int rc)
{
	if (rc < 0)
		tell(g, rc, "%s: %s", what, epd_strerror(rc));
}

static int
sweep_runs(struct gc *g, struct epd_workflow *w, struct freeing *f,
    struct epd_why *why)
{
	struct epd_run_ids o = {0};
	int rc = epd_orphans(&o, w, why);

	for (size_t i = 0; rc == 0 && i < o.n; i++)
		rc = take(f, o.v[i]);
	if (rc == 0)
		epd_count(g->s->metrics, EPD_M_ORPHAN_PAGES, o.n);
	epd_run_ids_free(&o);
	return rc;
}

static int
sweep_drafts(struct gc *g, struct epd_workflow *w)
{
	struct epd_drafts d;
	int rc = epd_drafts_dead(w->runs, 1, &d);

	if (rc < 0)
		return rc;
	g->out->temporaries += d.n;
	g->out->temporary_bytes += d.bytes;
	return 0;
}

struct shown {
	struct gc *g;
	struct epd_shard *s;
};

static int
remember(void *arg, uint64_t node)
{
	const struct shown *x = arg;
	struct gc *g = x->g;
	struct epd_glance few;
	struct epd_version v;
	int rc = epd_shard_glance(x->s, node, &few);

	if (rc < 0 || !few.nimages)
		return rc;
	rc = epd_shard_node(x->s, node, &v);
	for (uint32_t i = 0; rc == 0 && i < v.nimages; i++) {
		void *p = epd_grow(g->need, g->needs, &g->cap, sizeof *g->need);

		if (!p)
			return -ENOMEM;
		g->need = p;
		g->need[g->needs++] = v.images[i].fp;
	}
	return rc;
}

/* The images of every node that a live state stands on. */
static int
remember_all(struct gc *g, struct epd_shard *s)
{
	struct shown x = { g, s };

	return epd_live_each(s, remember, &x);
}

static int
leftover(void *arg, const char *name)
{
	struct gc *g = arg;
	struct stat st;

	if (!epd_is_temp(name) ||
	    fstatat(g->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	/* One linked into place has done its work, and may be written on. */
	if (st.st_nlink < 2 && g->grace_ms && (uint64_t)st.st_mtim.tv_sec *
	    1000 + g->grace_ms > epd_clock_wall_ms())
		return 0;
	if (unlinkat(g->dir, name, 0) == 0) {
		g->out->temporaries++;
		g->out->temporary_bytes += epd_bytes_back(&st);
	}
	return 0;
}

static int
leftovers(struct gc *g, int dirfd, uint64_t grace_ms)
{
	g->dir = dirfd;
	g->grace_ms = grace_ms;
	return epd_dir_each(dirfd, leftover, g);
}

struct waiting {
	struct epd_store *s;
	const char *name;		/* of the workflow waited for */
	int found;
};

/* Whether a workflow has something prepared for the one of that name. */
static int
waits_for(void *arg, const char *name)
{
	struct waiting *x = arg;
	struct epd_handoff h;
	struct epd_workflow w;
	uint64_t lsn = 0;
	int rc;

	if (x->found || !strcmp(name, x->name))
		return 0;
	/* One that cannot be read may have. */
	if ((rc = epd_workflow_open(&w, x->s, name, 1, NULL)) < 0) {
		x->found = rc != EPD_ENOTHING;
		return 0;
	}
	for (; epd_shard_handoff_next(w.shard, lsn, &h) == 0; lsn = h.lsn)
		x->found |= !h.target && !*h.store &&
		    !strcmp(h.workflow, x->name);
	epd_workflow_close(&w);
	return 0;
}

static int
is_waited_for(struct epd_store *s, const char *name)
{
	struct waiting x = { .s = s, .name = name };

	return epd_workflow_each(s, waits_for, &x) < 0 || x.found;
}

/*
 * A folder whose maker died or failed before its first record; that of one who
 * may still be at it stays, and that of a hand-off's target.  1 if it is gone.
 */
static int
bury(struct gc *g, const char *name)
{
	struct epd_workflow w;
	struct stat st;
	uint64_t now = epd_clock_wall_ms(), grace;
	int rc, gone, empty;

	if (fstatat(g->s->workflows, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	rc = epd_workflow_open(&w, g->s, name, 1, NULL);
	empty = rc == EPD_ENOTHING || (rc == 0 && epd_shard_lsn(w.shard) == 0);
	grace = rc == 0 ? COMPUTING_MS : BEGINNING_MS;
	if (rc == 0)
		epd_workflow_close(&w);
	if (!empty || (uint64_t)st.st_mtim.tv_sec * 1000 + grace > now ||
	    is_waited_for(g->s, name))
		return 0;
	w = (struct epd_workflow){ .runs = -1 };
	snprintf(w.name, sizeof w.name, "%s", name);
	w.dirfd = epd_file_open(g->s->workflows, name, O_RDONLY | O_DIRECTORY,
	    0);
	gone = epd_workflow_unmake(g->s, &w);
	epd_workflow_close(&w);
	g->out->temporaries += (uint64_t)gone;
	return gone;
}

/* A log's temporaries are its lock holder's; while one is at it they stay. */
static int
log_leftovers(struct gc *g, int dirfd)
{
	int lock = epd_file_open(dirfd, "lock", O_RDWR | O_NONBLOCK, 0), rc = 0;

	if (lock < 0)
		return 0;
	if (epd_lock_try(lock) == 0)
		rc = leftovers(g, dirfd, 0);
	close(lock);
	return rc;
}

/* In one that has no log yet. */
static int
begun_leftovers(struct gc *g, const char *name)
{
	int fd = epd_file_open(g->s->workflows, name, O_RDONLY | O_DIRECTORY,
	    0), rc;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	rc = log_leftovers(g, fd);
	close(fd);
	return rc;
}

/* What its lock is needed for, beginning with what is cut and counted. */
static int
sweep_log(struct gc *g, struct epd_workflow *w, struct freeing *f,
    struct epd_why *why)
{
	uint64_t cut = 0;
	int rc = epd_shard_trim(w->shard, &cut, why);

	if (rc < 0)
		return rc;
	g->out->tails += cut > 0;
	g->out->tail_bytes += cut;
	g->out->handoffs += (uint64_t)(g->s->transports ?
	    epd_flow_handoff_settle_by(g->s, w, &g->settling) :
	    epd_flow_handoff_settle(g->s, w));
	/* Before they go uncounted. */
	if ((rc = log_leftovers(g, w->dirfd)) < 0 ||
	    (rc = epd_shard_give_up(w->shard, 0, 0, "expired", why)) < 0 ||
	    (rc = epd_shard_expire(w->shard, freed, f, why)) < 0)
		return rc;
	g->out->states += (uint64_t)rc;
	if ((rc = epd_shard_mend(w->shard, why)) < 0)
		return rc;
	g->out->checkpoints += (uint64_t)rc;
	return 0;
}

static int
collect_one(struct gc *g, const char *name, struct epd_why *why)
{
	struct epd_workflow w;
	struct freeing f = { .w = &w };
	int rc = epd_workflow_open(&w, g->s, name, 1, why), swept;

	if (rc == EPD_ENOTHING)
		return bury(g, name) ? 0 : begun_leftovers(g, name);
	if (rc < 0)
		return rc;
	if (epd_shard_lsn(w.shard) == 0 && bury(g, name)) {
		epd_workflow_close(&w);
		return 0;
	}
	epd_workflow_close(&w);
	if ((rc = epd_workflow_open(&w, g->s, name, 0, why)) < 0)
		return rc;
	rc = sweep_log(g, &w, &f, why);
	/* With the lock held for so long somebody may be about to name them. */
	if (rc != EPD_ELOCKED) {
		swept = sweep_runs(g, &w, &f, rc < 0 ? NULL : why);
		rc = rc < 0 ? rc : swept;
	}
	swept = sweep_drafts(g, &w);
	rc = rc < 0 ? rc : swept;
	if (rc == 0)
		rc = remember_all(g, w.shard);
	g->out->runs += f.runs;
	g->out->run_bytes += f.bytes;
	epd_workflow_close(&w);
	return rc;
}

/* One workflow's images; one that cannot be read may need any. */
static int
remember_workflow(void *arg, const char *name)
{
	struct gc *g = arg;
	struct epd_workflow w;
	int rc = epd_workflow_open(&w, g->s, name, 1, g->why);

	if (rc < 0)
		return rc == EPD_ENOTHING ? 0 : rc;
	rc = remember_all(g, w.shard);
	epd_workflow_close(&w);
	return rc;
}

/* One that is damaged, or held, does not keep the others from being swept. */
static int
collect(void *arg, const char *name)
{
	struct gc *g = arg;
	struct epd_why why = {{0}};
	const size_t n = strlen(name);
	int rc = collect_one(g, name, &why), named;

	if (rc == 0)
		return 0;
	named = !strncmp(why.text, name, n) && why.text[n] == ':';
	tell(g, rc, "%s%s%s", named ? "" : name, named ? "" : ": ",
	    *why.text ? why.text : epd_strerror(rc));
	if (remember_workflow(g, name) < 0)
		g->unread = 1;
	return 0;
}

static int
by_name(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct epd_name));
}

static int
needed(void *arg, const struct epd_name *fp)
{
	const struct gc *g = arg;

	return g->unread || (g->needs && bsearch(fp, g->need, g->needs,
	    sizeof *g->need, by_name));
}

/* A memory folder whose workflow is not in the store. */
static int
adrift(void *arg, const char *name)
{
	struct gc *g = arg;
	uint64_t names, bytes = 0;
	int rc, dir;

	if (epd_is_workflow(g->s, name))
		return 0;
	if ((dir = epd_memory_find(g->s->memory, name)) >= 0) {
		(void)epd_memory_weigh(dir, &names, &bytes);
		close(dir);
	}
	if ((rc = epd_memory_remove(g->s->memory, name)) < 0) {
		tell(g, rc, "memory folder: w/%.140s: %s", name,
		    epd_strerror(rc));
		return 0;
	}
	g->out->memory_folders++;
	g->out->folder_bytes += bytes;
	return 0;
}

static void
sweep_features(struct gc *g)
{
	struct epd_feature_swept f = {0};

	if (g->needs)
		qsort(g->need, g->needs, sizeof *g->need, by_name);
	step(g, "features", epd_feature_sweep(g->s->features, TICK_MS, needed,
	    g, &f));
	g->out->features = f.expired;
	g->out->orphans = f.orphans;
	g->out->feature_bytes = f.bytes;
}

static void
sweep_memory(struct gc *g)
{
	struct epd_memory_fit fit = {0};
	struct epd_why why = {{0}};
	uint64_t bytes = 0;
	int failed = 0, rc;

	step(g, "memory folder", epd_memory_each(g->s->memory, adrift, g));
	rc = epd_memory_sweep(g->s->config.memory_dir, &bytes, &failed);
	step(g, "memory folders of other stores", rc < 0 ? rc : failed);
	g->out->memory_folders += rc > 0 ? (uint64_t)rc : 0;
	g->out->folder_bytes += bytes;
	if ((rc = epd_store_room(g->s, 0, &fit, &why)) < 0)
		step(g, *why.text ? why.text : "memory tier", rc);
	g->out->evicted = fit.runs;
	g->out->evicted_bytes = fit.evicted;
}

/* No failure: it will be settled when its peer is there. */
static void
waits(void *arg, const char *text)
{
	const struct gc *g = arg;

	g->fn(g->arg, 0, text);
}

int
epd_flow_sweep(struct epd_store *s, struct epd_swept *out,
    void (*failed)(void *arg, int rc, const char *text), void *arg)
{
	struct epd_swept swept = {0};
	struct gc g = { .s = s, .out = &swept, .fn = failed, .arg = arg };
	uint64_t from = epd_clock_boot_ns();
	int rc;

	g.settling = (struct epd_settling){ from + PEERS_NS, waits, &g };
	rc = epd_workflow_each(s, collect, &g);
	step(&g, "w", rc);
	g.unread |= rc < 0;
	sweep_features(&g);
	step(&g, s->path, leftovers(&g, s->dirfd, GRACE_MS));
	if (s->cache >= 0)
		step(&g, "cache", leftovers(&g, s->cache, GRACE_MS));
	step(&g, "w", leftovers(&g, s->workflows, GRACE_MS));
	step(&g, "litter", epd_litter_take(s, &swept));
	sweep_memory(&g);
	epd_free(g.need);
	swept.ns = epd_clock_boot_ns() - from;
	epd_count(s->metrics, EPD_M_GC_COUNT, 1);
	epd_count(s->metrics, EPD_M_GC_NS, swept.ns);
	epd_log(&s->log, "op=gc states=%llu runs=%llu orphans=%llu failed=%d",
	    (unsigned long long)swept.states, (unsigned long long)swept.runs,
	    (unsigned long long)swept.orphans, g.failed);
	*out = swept;
	return g.failed;
}

struct first {
	int rc;
	struct epd_why *why;
};

static void
first_failed(void *arg, int rc, const char *text)
{
	struct first *x = arg;

	if (x->rc == 0 && rc < 0)
		x->rc = epd_why(x->why, rc, "%s", text);
}

int
epd_flow_gc(struct epd_store *s, struct epd_swept *out, struct epd_why *why)
{
	struct first x = { 0, why };
	struct epd_swept swept;

	if (epd_flow_sweep(s, &swept, first_failed, &x) == 0)
		*out = swept;
	return x.rc;
}

/* ---- release ---- */

/* What live states show is kept as a picture, so that they can go on. */
static int
release_feature(struct epd_store *s, const struct epd_name *fp,
    struct epd_why *why)
{
	struct gc g = { .s = s, .why = why };
	struct epd_feature_meta m;
	int rc;

	if (epd_feature_meta(s->features, fp, &m) == -ENOENT)
		return epd_why(why, EPD_ENOTHING, "no such feature");
	rc = epd_workflow_each(s, remember_workflow, &g);
	if (rc == 0 && g.needs)
		qsort(g.need, g.needs, sizeof *g.need, by_name);
	if (rc == 0 && !needed(&g, fp))
		rc = epd_feature_remove(s->features, fp);
	else if (rc == 0 && (rc = epd_feature_evict(s->features, fp)) ==
	    -ENOENT)
		rc = epd_why(why, EPD_ESTATUS, "live states show it, and no "
		    "picture is kept to make it from again");
	epd_free(g.need);
	return rc;
}

int
epd_flow_release(struct epd_store *s, const struct epd_ref *ref,
    const char *reason, struct epd_why *why)
{
	struct epd_workflow w;
	struct freeing f = { .w = &w };
	const int all = ref->kind == EPD_REF_WORKFLOW;
	int rc;

	if (ref->kind == EPD_REF_FEATURE)
		return release_feature(s, &ref->feature, why);
	if (ref->version)
		return epd_why(why, EPD_EUSAGE, "a version goes with its "
		    "state; release the state");
	if ((rc = epd_workflow_open(&w, s, ref->workflow, 0, why)) < 0)
		return rc;
	(void)epd_flow_handoff_settle(s, &w);
	rc = epd_shard_give_up(w.shard, ref->state, all, reason, why);
	if (rc == 0)
		rc = all ? epd_shard_release_all(w.shard, reason, freed, &f,
		    why) : epd_shard_release(w.shard, ref->state, reason,
		    freed, &f, why);
	rc = rc < 0 ? rc : 0;
	epd_log(&s->log, "op=release workflow=%s state=%u runs=%llu rc=%d",
	    ref->workflow, ref->state, (unsigned long long)f.runs, rc);
	epd_workflow_close(&w);
	return rc;
}
