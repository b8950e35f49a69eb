/*
 * orphans.c - runs in a tier's folder that no version shows.  Its record may be under
 * way, or a release be about to unlink it, so a run is believed to be one only if it
 * lay there before the log was read, and a moment later still.  What leaves memory
 * before its record came lies on the disk, under the same lock of memory's folder.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/book.h"
#include "flow/litter.h"
#include "page/page.h"

/* From a record to the unlinking that follows it, or to one from its run. */
enum { MOMENT_MS = 200 };

int
epd_run_ids_add(struct epd_run_ids *l, uint64_t run)
{
	void *p = epd_grow(l->v, l->n, &l->cap, sizeof *l->v);

	if (!p)
		return -ENOMEM;
	l->v = p;
	l->v[l->n++] = run;
	return 0;
}

void
epd_run_ids_free(struct epd_run_ids *l)
{
	epd_free(l->v);
	*l = (struct epd_run_ids){0};
}

static int
lying(void *arg, uint64_t run, uint64_t bytes)
{
	(void)bytes;
	return epd_run_ids_add(arg, run);
}

static int
by_run(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void
sort(struct epd_run_ids *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof *l->v, by_run);
}

int
epd_run_ids_list(struct epd_run_ids *l, int dir)
{
	int rc = dir < 0 ? 0 : epd_run_each(dir, lying, l);

	sort(l);
	return rc;
}

int
epd_run_ids_has(const struct epd_run_ids *l, uint64_t run)
{
	return l->n && bsearch(&run, l->v, l->n, sizeof *l->v, by_run);
}

static int
shown(void *arg, const struct epd_version *v)
{
	int rc = v->run ? epd_run_ids_add(arg, v->run) : 0;

	for (uint32_t i = 0; rc == 0 && i < v->nlinks; i++)
		rc = epd_run_ids_add(arg, v->links[i].run);
	return rc;
}

/* Of those, the ones that no version shows now. */
static int
keep(struct epd_run_ids *o, const struct epd_workflow *w,
    struct epd_why *why)
{
	struct epd_run_ids live = {0};
	size_t n = 0;
	int rc = epd_shard_catch_up(w->shard, why);

	if (rc == 0)
		rc = epd_needed_runs(w->shard, shown, &live);
	sort(&live);
	for (size_t i = 0; rc == 0 && i < o->n; i++)
		if (!epd_run_ids_has(&live, o->v[i]))
			o->v[n++] = o->v[i];
	if (rc == 0)
		o->n = n;
	epd_run_ids_free(&live);
	return rc;
}

/* A hand-off links runs there that no record has yet; unsure counts as that. */
static int
is_pulled_into(const struct epd_workflow *w)
{
	return epd_lock_is_held(w->runs, 0, 0);
}

int
epd_orphans(struct epd_run_ids *o, const struct epd_workflow *w, int dir,
    struct epd_why *why)
{
	int rc = dir < 0 ? 0 : epd_run_each(dir, lying, o);

	/* Asked after listing: who begins now has none of those. */
	if (rc == 0 && o->n && is_pulled_into(w))
		o->n = 0;
	if (rc == 0 && o->n)
		rc = keep(o, w, why);
	if (rc == 0 && o->n) {
		epd_clock_sleep_ns((uint64_t)MOMENT_MS * 1000000);
		rc = keep(o, w, why);
	}
	return rc;
}
