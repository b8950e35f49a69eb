/*
 * keep.c - keeping house: gc by mark and sweep.
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
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "flow/idle.h"
#include "flow/ahead.h"
#include "flow/below.h"
#include "flow/draft.h"
#include "flow/folder.h"
#include "flow/litter.h"
#include "flow/release.h"
#include "flow/room.h"
#include "flow/sweep.h"

enum {
	GRACE_MS = 1000,
	TICK_MS = 20		/* what a file's times may lag behind the clock */
};
/* How long all peers together are waited for. */
static const uint64_t PEERS_NS = UINT64_C(10000000000);

void
epd_sweep_tell(struct epd_sweep *g, int rc, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	g->failed += rc < 0;
	g->fn(g->arg, rc, text);
}

void
epd_sweep_step(struct epd_sweep *g, const char *what, int rc)
{
	if (rc < 0)
		epd_sweep_tell(g, rc, "%s: %s", what, epd_strerror(rc));
}

/* ---- one workflow ---- */

static int
sweep_runs(struct epd_sweep *g, struct epd_workflow *w, struct epd_freeing *f,
    struct epd_why *why)
{
	struct epd_run_ids o = {0};
	int rc = epd_orphans(&o, w, w->runs, why);

	for (size_t i = 0; rc == 0 && i < o.n; i++)
		rc = epd_run_take(w->runs, o.v[i], &f->runs, &f->bytes);
	if (rc == 0)
		epd_count(g->s->metrics, EPD_M_ORPHAN_PAGES, o.n);
	epd_run_ids_free(&o);
	return rc < 0 ? rc : epd_below_sweep_of(g, w, why);
}

static int
sweep_drafts(struct epd_sweep *g, struct epd_workflow *w)
{
	struct epd_drafts d;
	int rc = epd_drafts_dead(w->runs, 1, &d);

	if (rc < 0)
		return rc;
	g->out->temporaries += d.n;
	g->out->temporary_bytes += d.bytes;
	return 0;
}

/* What its lock is needed for, beginning with what is cut and counted. */
static int
sweep_log(struct epd_sweep *g, struct epd_workflow *w, struct epd_freeing *f,
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
	if ((rc = epd_sweep_log_leftovers(g, w->dirfd)) < 0 ||
	    (rc = epd_sweep_dead(g, w, why)) < 0 ||
	    (rc = epd_shard_give_up(w->shard, 0, 0, "expired", why)) < 0 ||
	    (rc = epd_shard_expire(w->shard, epd_freed, f, why)) < 0)
		return rc;
	g->out->states += (uint64_t)rc;
	if ((rc = epd_shard_mend(w->shard, why)) < 0)
		return rc;
	g->out->checkpoints += (uint64_t)rc;
	return 0;
}

static int
collect_one(struct epd_sweep *g, const char *name, struct epd_why *why)
{
	struct epd_workflow w;
	struct epd_freeing f = { .w = &w };
	int rc = epd_workflow_open(&w, g->s, name, 1, why), swept;

	if (rc == EPD_ENOTHING)
		return epd_sweep_bury(g, name) ? 0 : epd_sweep_begun(g, name);
	if (rc < 0)
		return rc;
	if (epd_shard_lsn(w.shard) == 0 && epd_sweep_bury(g, name)) {
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
		rc = epd_need_of(&g->need, w.shard);
	g->out->runs += f.runs;
	g->out->run_bytes += f.bytes;
	epd_workflow_close(&w);
	return rc;
}

/* One that is damaged, or held, does not keep the others from being swept. */
static int
collect(void *arg, const char *name)
{
	struct epd_sweep *g = arg;
	struct epd_why why = {{0}};
	const size_t n = strlen(name);
	int rc = collect_one(g, name, &why), named;

	if (rc == 0)
		return 0;
	named = !strncmp(why.text, name, n) && why.text[n] == ':';
	epd_sweep_tell(g, rc, "%s%s%s", named ? "" : name, named ? "" : ": ",
	    *why.text ? why.text : epd_strerror(rc));
	if (epd_need_add(&g->need, g->s, name, NULL) < 0)
		g->need.all = 1;
	return 0;
}

static int
needed(void *arg, const struct epd_name *fp)
{
	return epd_need_has(arg, fp);
}

/* ---- all of them ---- */

static void
sweep_features(struct epd_sweep *g)
{
	struct epd_feature_swept f = {0};

	epd_need_sort(&g->need);
	epd_sweep_step(g, "features", epd_feature_sweep(g->s->features,
	    TICK_MS, needed, &g->need, &f));
	g->out->features = f.expired;
	g->out->orphans = f.orphans;
	g->out->feature_bytes = f.bytes;
}

static void
failed_at(void *arg, int rc, const char *text)
{
	epd_sweep_tell(arg, rc, "%s", text);
}

static void
sweep_memory(struct epd_sweep *g)
{
	const struct epd_folder f = epd_folder_memory(g->s);
	struct epd_memory_fit fit = {0};
	struct epd_why why = {{0}};
	uint64_t bytes = 0;
	int failed = 0, rc;

	epd_sweep_step(g, f.name, epd_folder_take_adrift(g->s, &f,
	    &g->out->memory_folders, &g->out->folder_bytes, failed_at, g));
	rc = epd_memory_sweep(g->s->config.memory_dir, &bytes, &failed);
	epd_sweep_step(g, "memory folders of other stores",
	    rc < 0 ? rc : failed);
	g->out->memory_folders += rc > 0 ? (uint64_t)rc : 0;
	g->out->folder_bytes += bytes;
	if ((rc = epd_store_room(g->s, 0, &fit, &why)) < 0)
		epd_sweep_step(g, *why.text ? why.text : "memory tier", rc);
	g->out->evicted = fit.runs;
	g->out->evicted_bytes = fit.evicted;
}

/* No failure: it will be settled when its peer is there. */
static void
waits(void *arg, const char *text)
{
	const struct epd_sweep *g = arg;

	g->fn(g->arg, 0, text);
}

/* Who may rest, and who is expected; neither is a failure where it cannot be. */
static void
idle(struct epd_store *s, struct epd_swept *out)
{
	int n = epd_flow_idle(s);

	out->rested = n > 0 ? (uint64_t)n : 0;
	n = strcmp(s->config.transfer_prefetch, "speculative") ? 0 :
	    epd_flow_expected(s);
	out->expected = n > 0 ? (uint64_t)n : 0;
}

int
epd_flow_sweep(struct epd_store *s, struct epd_swept *out,
    void (*failed)(void *arg, int rc, const char *text), void *arg)
{
	struct epd_swept swept = {0};
	struct epd_sweep g = { .s = s, .out = &swept, .fn = failed,
		.arg = arg };
	uint64_t from = epd_clock_boot_ns();
	int rc;

	g.settling = (struct epd_settling){ from + PEERS_NS, waits, &g };
	rc = epd_workflow_each(s, collect, &g);
	epd_sweep_step(&g, "w", rc);
	g.need.all |= rc < 0;
	sweep_features(&g);
	epd_sweep_step(&g, s->path, epd_sweep_leftovers(&g, s->dirfd,
	    GRACE_MS));
	if (s->cache >= 0)
		epd_sweep_step(&g, "cache", epd_sweep_leftovers(&g, s->cache,
		    GRACE_MS));
	epd_sweep_step(&g, "w", epd_sweep_leftovers(&g, s->workflows,
	    GRACE_MS));
	epd_sweep_step(&g, "litter", epd_litter_take(s, &swept));
	idle(s, &swept);
	sweep_memory(&g);
	epd_below_sweep(&g);
	epd_need_free(&g.need);
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
