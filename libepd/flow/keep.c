/*
 * keep.c - keeping house: release, and gc by mark and sweep.
 *
 * A run is published before the record that names it, so a run that no live
 * node has may be one whose record is under way.  The sweep therefore lists the
 * folder first, reads the log after, and gives what looks orphaned a moment to
 * be named.  Should a writer be slower than that, its pages are computed again.
 * A hand-off's target, which may have much to copy, holds a shared lock on its
 * folder from the first link to the record; there is no sweep then.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "flow/book.h"
#include "flow/handoff.h"
#include "flow/litter.h"
#include "page/page.h"

enum {
	GRACE_MS = 1000, MOMENT_MS = 200,
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
}

/* ---- gc ---- */

struct gc {
	struct epd_store *s;
	struct epd_swept *out;
	struct epd_why *why;
	struct epd_name *need;		/* features of live states */
	size_t needs, cap;
	int dir;			/* being looked through for leftovers */
	uint64_t grace_ms;		/* that younger ones have there */
	int failed;			/* rc of the first workflow that would not be read */
};

static int
sweep_runs(struct gc *g, struct epd_workflow *w, struct freeing *f,
    struct epd_why *why)
{
	struct epd_orphans o = {0};
	int rc = epd_orphans_find(&o, w->runs);

	/* Asked after listing: who begins now has none of those. */
	if (rc == 0 && o.n && epd_is_pulled_into(w))
		o.n = 0;
	if (rc == 0 && o.n)
		rc = epd_orphans_keep(&o, w, why);
	if (rc == 0 && o.n) {
		epd_clock_sleep_ns((uint64_t)MOMENT_MS * 1000000);
		rc = epd_orphans_keep(&o, w, why);
	}
	for (size_t i = 0; rc == 0 && i < o.n; i++)
		rc = take(f, o.run[i]);
	if (rc == 0)
		epd_count(g->s->metrics, EPD_M_ORPHAN_PAGES, o.n);
	epd_orphans_free(&o);
	return rc;
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
		if (g->needs == g->cap) {
			size_t cap = g->cap ? 2 * g->cap : 64;
			void *p = epd_realloc(g->need, cap * sizeof *g->need);

			if (!p)
				return -ENOMEM;
			g->need = p;
			g->cap = cap;
		}
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

	if (strncmp(name, EPD_TEMP_PREFIX, strlen(EPD_TEMP_PREFIX)) ||
	    fstatat(g->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	/* One linked into place has done its work, and may be written on. */
	if (st.st_nlink < 2 && g->grace_ms && (uint64_t)st.st_mtim.tv_sec *
	    1000 + g->grace_ms > epd_clock_wall_ms())
		return 0;
	if (unlinkat(g->dir, name, 0) == 0) {
		g->out->temporaries++;
		g->out->other_bytes += epd_bytes_back(&st);
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
	int dir, lock, rc, gone = 0;

	if (fstatat(g->s->workflows, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (dir = epd_file_open(g->s->workflows, name, O_RDONLY | O_DIRECTORY,
	    0)) < 0)
		return 0;
	/* With its lock in hand nobody writes there meanwhile. */
	lock = epd_file_open(dir, "lock", O_RDWR | O_NONBLOCK, 0);
	if (lock == -ENOENT || (lock >= 0 && epd_lock_try(lock) == 0)) {
		rc = epd_workflow_open(&w, g->s, name, 1, NULL);
		grace = rc == 0 ? COMPUTING_MS : BEGINNING_MS;
		if ((rc == EPD_ENOTHING ||
		    (rc == 0 && epd_shard_lsn(w.shard) == 0)) &&
		    (uint64_t)st.st_mtim.tv_sec * 1000 + grace <= now &&
		    !is_waited_for(g->s, name))
			gone = epd_file_remove(g->s->workflows, name) == 0;
		if (rc == 0)
			epd_workflow_close(&w);
	}
	if (lock >= 0)
		close(lock);
	close(dir);
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

static int
collect_one(struct gc *g, const char *name)
{
	struct epd_workflow w;
	struct freeing f = { .w = &w };
	struct epd_why why = {{0}};
	int rc = epd_workflow_open(&w, g->s, name, 1, g->why);

	if (rc == EPD_ENOTHING) {
		bury(g, name);
		return 0;
	}
	if (rc < 0)
		return rc;
	if (epd_shard_lsn(w.shard) == 0 && bury(g, name)) {
		epd_workflow_close(&w);
		return 0;
	}
	epd_workflow_close(&w);
	if ((rc = epd_workflow_open(&w, g->s, name, 0, g->why)) < 0)
		return rc;
	(void)epd_flow_handoff_settle(g->s, &w);
	/* Before they go uncounted. */
	rc = log_leftovers(g, w.dirfd);
	if (rc == 0)
		rc = epd_shard_give_up(w.shard, 0, 0, "expired", &why);
	if (rc == 0)
		rc = epd_shard_expire(w.shard, freed, &f, &why);
	if (rc >= 0) {
		g->out->states += (uint64_t)rc;
		rc = sweep_runs(g, &w, &f, &why);
	}
	if (rc == 0)
		rc = remember_all(g, w.shard);
	g->out->runs += f.runs;
	g->out->run_bytes += f.bytes;
	epd_workflow_close(&w);
	return rc < 0 ? epd_why(g->why, rc, "%s: %s", name, *why.text ?
	    why.text : epd_strerror(rc)) : 0;
}

/* One that is damaged does not keep the others from being swept. */
static int
collect(void *arg, const char *name)
{
	struct gc *g = arg;
	struct epd_why *why = g->why;
	int rc;

	if (g->failed)
		g->why = NULL;
	rc = collect_one(g, name);
	g->why = why;
	if (rc < 0 && !g->failed)
		g->failed = rc;
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

	return g->needs && bsearch(fp, g->need, g->needs, sizeof *g->need,
	    by_name);
}

/* A memory folder whose workflow is not in the store. */
static int
adrift(void *arg, const char *name)
{
	struct gc *g = arg;
	uint64_t names, bytes = 0;
	int rc, dir;

	if (faccessat(g->s->workflows, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    errno != ENOENT)
		return 0;
	if ((dir = epd_memory_find(g->s->memory, name)) >= 0) {
		(void)epd_memory_weigh(dir, &names, &bytes);
		close(dir);
	}
	if ((rc = epd_memory_remove(g->s->memory, name)) == 0) {
		g->out->memory_folders++;
		g->out->other_bytes += bytes;
	}
	return rc;
}

static int
sweep_rest(struct gc *g)
{
	struct epd_feature_swept f = {0};
	uint64_t bytes = 0;
	int rc;

	if (g->needs)
		qsort(g->need, g->needs, sizeof *g->need, by_name);
	rc = epd_feature_sweep(g->s->features, TICK_MS, needed, g, &f);
	if (rc < 0)
		return epd_why(g->why, rc, "features: %s", epd_strerror(rc));
	g->out->features = f.expired;
	g->out->orphans = f.orphans;
	g->out->feature_bytes = f.bytes;
	if ((rc = leftovers(g, g->s->dirfd, GRACE_MS)) < 0 ||
	    (rc = leftovers(g, g->s->cache, GRACE_MS)) < 0 ||
	    (rc = leftovers(g, g->s->workflows, GRACE_MS)) < 0 ||
	    (rc = epd_litter_take(g->s, g->out)) < 0 ||
	    (rc = epd_memory_each(g->s->memory, adrift, g)) < 0 ||
	    (rc = epd_memory_sweep(g->s->config.memory_dir, &bytes)) < 0)
		return epd_why(g->why, rc, "%s", epd_strerror(rc));
	g->out->memory_folders += (uint64_t)rc;
	g->out->other_bytes += bytes;
	return 0;
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

int
epd_flow_gc(struct epd_store *s, struct epd_swept *out, struct epd_why *why)
{
	struct epd_swept swept = {0};
	struct gc g = { .s = s, .out = &swept, .why = why };
	struct epd_memory_fit fit = {0};
	uint64_t from = epd_clock_boot_ns();
	int rc = epd_workflow_each(s, collect, &g);

	/* A log that cannot be read may need any picture: then none goes. */
	if (rc == 0)
		rc = g.failed ? g.failed : sweep_rest(&g);
	if (rc == 0)
		rc = epd_memory_fit(s->memory, 0, NULL, NULL, &fit, why);
	epd_free(g.need);
	swept.evicted = fit.runs;
	swept.evicted_bytes = fit.evicted;
	swept.ns = epd_clock_boot_ns() - from;
	epd_count(s->metrics, EPD_M_GC_COUNT, 1);
	epd_count(s->metrics, EPD_M_GC_NS, swept.ns);
	epd_log(&s->log, "op=gc states=%llu runs=%llu orphans=%llu rc=%d",
	    (unsigned long long)swept.states, (unsigned long long)swept.runs,
	    (unsigned long long)swept.orphans, rc);
	if (rc == 0)
		*out = swept;
	return rc;
}
