/*
 * pages.c - all pages that live states show, by name.  Each workflow's are listed
 * anew when it has changed; pages of one name in several are one file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fs/world.h"

struct gathering {
	struct epd_fs_page *v;
	size_t n, cap;
};

static int
gather(void *arg, const struct epd_page_sight *p)
{
	struct gathering *g = arg;
	struct epd_fs_page *v = epd_grow(g->v, g->n, &g->cap, sizeof *v), *to;

	if (!v)
		return -ENOMEM;
	g->v = v;
	to = v + g->n++;
	*to = (struct epd_fs_page){
		.name = p->ref->name, .node = p->node, .run = p->run, .sum = p->ref->sum,
		.bytes = p->bytes, .wall_ms = p->wall_ms, .k = p->k,
		.rows = p->ref->rows, .page_tokens = p->page_tokens,
		.states = p->states, .leases = p->leases,
		.in_memory = p->in_memory,
	};
	snprintf(to->kv_dtype, sizeof to->kv_dtype, "%s", p->kv_dtype);
	return 0;
}

/* Of one name that which is in memory comes first. */
static int
by_name(const void *a, const void *b)
{
	const struct epd_fs_page *x = a, *y = b;
	int by = memcmp(x->name.b, y->name.b, EPD_NAME);

	return by ? by : y->in_memory - x->in_memory;
}

static void
add(struct epd_fs_page *to, const struct epd_fs_page *p)
{
	to->states += p->states;
	to->leases += p->leases;
	if (p->wall_ms < to->wall_ms)
		to->wall_ms = p->wall_ms;
}

static int
list(struct epd_fs_workflow *w, struct epd_why *why)
{
	struct gathering g = {0};
	size_t n = 0;
	int rc = w->watch ? epd_watch_pages(w->watch, gather, &g, why) : 0;

	if (rc < 0) {
		epd_free(g.v);
		return rc;
	}
	if (g.n)
		qsort(g.v, g.n, sizeof *g.v, by_name);
	for (size_t i = 0; i < g.n; i++)
		if (n && epd_name_equal(&g.v[n - 1].name, &g.v[i].name))
			add(g.v + n - 1, g.v + i);
		else
			g.v[n++] = g.v[i];
	epd_free(w->page);
	w->page = g.v;
	w->pages = n;
	w->paged = w->stamp;
	return 0;
}

/* As they are now; a workflow that cannot be read hides none of the others'. */
static int
listed(struct epd_fs *fs, struct epd_fs_workflow *w)
{
	int rc = 0;

	if (w->paged == 0 || w->dirty || w->dir < 0)
		rc = epd_fs_named(fs, w->name, &w, NULL);
	if (rc == 0 && w->paged != w->stamp) {
		if (!w->watch)
			rc = epd_fs_named(fs, w->name, &w, NULL);
		if (rc == 0)
			rc = list(w, NULL);
	}
	return rc;
}

int
epd_fs_page(struct epd_fs *fs, const struct epd_name *name,
    struct epd_fs_page *out, struct epd_fs_workflow **in)
{
	int found = 0;

	for (size_t i = 0; i < fs->workflows; i++) {
		struct epd_fs_workflow *w = fs->workflow[i];
		const struct epd_fs_page *p;
		size_t lo = 0, hi;

		if (listed(fs, w) < 0)
			continue;
		for (hi = w->pages; lo < hi;) {
			size_t mid = lo + (hi - lo) / 2;

			if (memcmp(w->page[mid].name.b, name->b,
			    EPD_NAME) < 0)
				lo = mid + 1;
			else
				hi = mid;
		}
		p = w->page + lo;
		if (lo == w->pages || !epd_name_equal(&p->name, name))
			continue;
		if (!found || (p->in_memory && !out->in_memory)) {
			struct epd_fs_page had = *out;

			*out = *p;
			*in = w;
			if (found)
				add(out, &had);
		} else {
			add(out, p);
		}
		found = 1;
	}
	return found ? 0 : EPD_ENOTHING;
}

static int
by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, EPD_NAME);
}

static int
is_among(uint64_t run, const uint64_t *v, size_t n)
{
	size_t lo = 0;

	while (lo < n) {
		const size_t mid = lo + (n - lo) / 2;

		if (v[mid] == run)
			return 1;
		if (v[mid] < run)
			lo = mid + 1;
		else
			n = mid;
	}
	return 0;
}

int
epd_fs_page_rests(const struct epd_fs *fs, const char *workflow,
    const struct epd_fs_page *p)
{
	uint64_t *run = NULL;
	size_t n = 0;
	int is = epd_view_packs(fs->store, workflow, &run, &n) == 0 &&
	    is_among(p->run, run, n);

	epd_free(run);
	return is;
}

/* Those of a workflow's that are in the tier, added to v. */
static int
names_of(const struct epd_fs *fs, const struct epd_fs_workflow *w,
    enum epd_tier tier, struct epd_name *v, size_t most, size_t *had)
{
	uint64_t *run = NULL;
	size_t n = 0;
	int rc = tier == EPD_TIER_NVME ? epd_view_packs(fs->store, w->name,
	    &run, &n) : 0;

	for (size_t k = 0; rc == 0 && k < w->pages && *had < most; k++)
		if (tier == EPD_TIER_NONE || (tier == EPD_TIER_CPU &&
		    w->page[k].in_memory) || is_among(w->page[k].run, run, n))
			v[(*had)++] = w->page[k].name;
	epd_free(run);
	return rc;
}

int
epd_fs_page_names(struct epd_fs *fs, enum epd_tier tier, struct epd_name **out,
    size_t *n)
{
	int rc = 0;
	struct epd_name *v = NULL;
	size_t most = 0, had = 0, made = 0;

	for (size_t i = 0; i < fs->workflows; i++)
		if (listed(fs, fs->workflow[i]) == 0)
			most += fs->workflow[i]->pages;
	if (!(v = epd_calloc(most + 1, sizeof *v)))
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < fs->workflows && had < most; i++)
		rc = names_of(fs, fs->workflow[i], tier, v, most, &had);
	if (rc < 0) {
		epd_free(v);
		return rc;
	}
	qsort(v, had, sizeof *v, by_bytes);
	for (size_t i = 0; i < had; i++)
		if (!made || !epd_name_equal(v + made - 1, v + i))
			v[made++] = v[i];
	*out = v;
	*n = made;
	return 0;
}
