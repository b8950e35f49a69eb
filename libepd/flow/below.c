/* below.c - the tier on the disk, told of and swept. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "flow/below.h"
#include "flow/folder.h"
#include "flow/packs.h"
#include "flow/release.h"
#include "flow/tiers.h"
#include "page/page.h"

#define LLU(x) ((unsigned long long)(x))

/* ---- told ---- */

static int
tell_orphans(const struct epd_teller *t, const struct epd_folder *f,
    const struct epd_workflow *w)
{
	struct epd_run_ids o = { 0 };
	int dir = epd_packs_dir(t->s, w->name), rc;

	if (dir < 0)
		return 0;
	rc = epd_orphans(&o, w, dir, NULL);
	if (rc == 0)
		epd_folder_tell_orphans(t, f, dir, &o);
	epd_run_ids_free(&o);
	close(dir);
	return rc;
}

/* Runs of a workflow that are in sight, and pages that are in none of them. */
struct held {
	struct epd_run_ids memory, disk;
	uint64_t lost;
};

static int
count(void *arg, const struct epd_lot *lot, uint32_t first,
    struct epd_why *why)
{
	struct held *x = arg;

	(void)first;
	(void)why;
	if (!epd_run_ids_has(&x->memory, lot->run) &&
	    !epd_run_ids_has(&x->disk, lot->run))
		x->lost += (uint64_t)lot->n;
	return 0;
}

/* Of states at rest in a tier that can be seen, pages that are in none. */
static int
tell_lost(const struct epd_teller *t, struct epd_workflow *w)
{
	struct held x = { .lost = 0 };
	struct epd_state st = { .id = 0 };
	int rc = epd_run_ids_list(&x.memory, w->runs);

	if (rc == 0)
		rc = epd_packs_list(&x.disk, t->s, w->name);
	while (rc == 0 && epd_shard_next(w->shard, st.id, &st) == 0) {
		if (st.status != EPD_OFFLOADED ||
		    epd_tier_parse(st.tier) == EPD_TIER_MOONCAKE)
			continue;
		x.lost = 0;
		rc = epd_lots_of(w, st.id, 0, 0, count, &x, NULL);
		rc = rc == EPD_ENOSTATE ? 0 : rc;
		if (rc == 0 && x.lost)
			epd_tell(t, EPD_LOST, "s%u rests in %s, and %llu of its "
			    "pages are in no tier here: they would be computed "
			    "again", st.id, st.tier, LLU(x.lost));
	}
	epd_run_ids_free(&x.memory);
	epd_run_ids_free(&x.disk);
	return rc;
}

static void
tell_unfinished(const struct epd_teller *t, struct epd_workflow *w)
{
	struct epd_state st = { .id = 0 };
	struct epd_lease left;

	while (epd_shard_unfinished(w->shard, st.id, &st, &left) == 0)
		epd_tell(t, EPD_LITTER, "s%u is %s, and who moved it is gone",
		    st.id, epd_status_name(st.status));
}

int
epd_below_tell(const struct epd_teller *t, struct epd_workflow *w, int alone)
{
	const struct epd_folder f = epd_folder_disk(t->s);
	struct epd_teller whole = *t;
	int rc = 0, index;

	tell_unfinished(t, w);
	whole.about = "";
	if (f.m && alone)
		rc = epd_folder_tell_strange(&whole, &f, w->name, &index);
	if (rc == 0 && f.m)
		rc = tell_orphans(t, &f, w);
	return rc < 0 ? rc : tell_lost(t, w);
}

int
epd_below_tell_all(const struct epd_teller *t)
{
	const struct epd_folder f = epd_folder_disk(t->s);
	int rc, index;

	if (!f.m && t->s->no_disk)
		epd_tell(t, EPD_FAULT, "nvme folder: %s; nothing can rest there "
		    "until that is mended", epd_strerror(t->s->no_disk));
	if (!f.m)
		return 0;
	epd_folder_tell_shut(t, &f);
	rc = epd_folder_tell_strange(t, &f, NULL, &index);
	return rc < 0 ? rc : epd_folder_tell_adrift(t, &f);
}

/* ---- swept ---- */

int
epd_below_sweep_of(struct epd_sweep *g, struct epd_workflow *w,
    struct epd_why *why)
{
	struct epd_swept_disk *out = &g->out->disk;
	int dir = epd_packs_dir(g->s, w->name), rc;
	struct epd_run_ids o = { 0 };

	if (dir < 0)
		return 0;
	rc = epd_orphans(&o, w, dir, why);
	for (size_t i = 0; rc == 0 && i < o.n; i++)
		rc = epd_run_take(dir, o.v[i], &out->runs, &out->run_bytes);
	epd_run_ids_free(&o);
	close(dir);
	return rc < 0 ? rc : epd_packs_take(g->s, w, &out->runs,
	    &out->run_bytes, why);
}

static void
failed(void *arg, int rc, const char *text)
{
	epd_sweep_tell(arg, rc, "%s", text);
}

/* What writers that died left in a folder. */
static void
leftovers_in(struct epd_swept_disk *out, int dir)
{
	uint64_t names, had = 0, has = 0;
	int n;

	(void)epd_memory_weigh(dir, &names, &had);
	n = epd_run_sweep(dir);
	if (n > 0 && epd_memory_weigh(dir, &names, &has) == 0) {
		out->leftovers += (uint64_t)n;
		out->leftover_bytes += had > has ? had - has : 0;
	}
}

static int
leftovers(void *arg, const char *workflow)
{
	struct epd_sweep *g = arg;
	int dir = epd_packs_dir(g->s, workflow);

	if (dir >= 0) {
		leftovers_in(&g->out->disk, dir);
		close(dir);
	}
	return 0;
}

static void
unseen(void *arg, const char *name)
{
	const struct epd_sweep *g = arg;
	const struct epd_listener *l = &g->s->listener;
	char text[PATH_MAX + 160];

	g->out->disk.unseen++;
	if (!l->fn)
		return;
	snprintf(text, sizeof text, "%s/%s stays: its store is not seen from "
	    "here; if it is gone for good: rm -r %s/%s",
	    g->s->config.tier_nvme_dir, name, g->s->config.tier_nvme_dir, name);
	l->fn(l->arg, text);
}

/*
 * Other stores' folders are theirs: one that is not seen may be another container's, or
 * not mounted for the moment.  The folder in the store itself is nobody else's.
 */
static void
others(struct epd_sweep *g)
{
	if (*g->s->config.tier_nvme_dir)
		epd_sweep_step(g, "nvme folders of other stores",
		    epd_memory_unseen(g->s->config.tier_nvme_dir, unseen, g));
}

void
epd_below_sweep(struct epd_sweep *g)
{
	const struct epd_folder f = epd_folder_disk(g->s);
	struct epd_swept_disk *out = &g->out->disk;
	struct epd_memory_fit fit = { 0 };

	if (!f.m) {
		epd_sweep_step(g, "nvme folder", g->s->no_disk);
		return;
	}
	epd_sweep_step(g, f.name, epd_folder_take_strange(g->s, &f,
	    &out->leftovers, &out->leftover_bytes));
	epd_sweep_step(g, f.name, epd_folder_take_adrift(g->s, &f,
	    &out->folders, &out->folder_bytes, failed, g));
	leftovers_in(out, epd_memory_folder(f.m));
	epd_sweep_step(g, f.name, epd_memory_each(f.m, leftovers, g));
	others(g);
	epd_sweep_step(g, "nvme tier", epd_memory_fit(f.m, 0, NULL, NULL, &fit,
	    NULL));
	out->evicted = fit.runs;
	out->evicted_bytes = fit.evicted;
	epd_count(g->s->metrics, EPD_M_EVICT_RUNS, fit.runs);
	epd_count(g->s->metrics, EPD_M_EVICT_BYTES, fit.evicted);
}
