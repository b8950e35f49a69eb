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
epd_fs_page_rests(struct epd_store *s, const char *workflow, uint64_t run)
{
	uint64_t *v = NULL;
	size_t n = 0;
	int is = epd_view_packs(s, workflow, &v, &n) == 0 &&
	    is_among(run, v, n);

	epd_free(v);
	return is;
}

/* Ascending, each once; how many are left. */
static size_t
sort_names(struct epd_name *v, size_t n)
{
	size_t made = 0;

	qsort(v, n, sizeof *v, by_bytes);
	for (size_t i = 0; i < n; i++)
		if (!made || !epd_name_equal(v + made - 1, v + i))
			v[made++] = v[i];
	return made;
}

int
epd_fs_page_names(struct epd_fs *fs, struct epd_name **out, size_t *n)
{
	struct epd_name *v = NULL;
	size_t most = 0, had = 0;

	for (size_t i = 0; i < fs->workflows; i++)
		if (listed(fs, fs->workflow[i]) == 0)
			most += fs->workflow[i]->pages;
	if (!(v = epd_calloc(most + 1, sizeof *v)))
		return -ENOMEM;
	for (size_t i = 0; i < fs->workflows; i++) {
		const struct epd_fs_workflow *w = fs->workflow[i];

		for (size_t k = 0; k < w->pages && had < most; k++)
			v[had++] = w->page[k].name;
	}
	*n = sort_names(v, had);
	*out = v;
	return 0;
}

/* A workflow's pages, copied to be looked for without the lock. */
struct copied {
	char workflow[EPD_WORKFLOW];
	struct epd_fs_page *page;
	size_t n;
};

/* Some of it if there is no memory for all. */
static int
copy_all(struct epd_fs *fs, struct copied **out, size_t *n)
{
	struct copied *c = epd_calloc(fs->workflows + 1, sizeof *c);

	*out = c;
	*n = 0;
	for (size_t i = 0; c && i < fs->workflows; i++) {
		struct epd_fs_workflow *w = fs->workflow[i];

		if (listed(fs, w) < 0 || !w->pages)
			continue;
		c->page = epd_calloc(w->pages, sizeof *c->page);
		if (!c->page)
			return -ENOMEM;
		strcpy(c->workflow, w->name);
		memcpy(c->page, w->page, w->pages * sizeof *w->page);
		c++->n = w->pages;
		++*n;
	}
	return c ? 0 : -ENOMEM;
}

/* Those of c that are in the tier, added to v. */
static int
names_of(struct epd_store *s, const struct copied *c, enum epd_tier tier,
    struct epd_name *v, size_t *had)
{
	uint64_t *run = NULL;
	size_t n = 0;
	int rc = tier == EPD_TIER_NVME ? epd_view_packs(s, c->workflow, &run,
	    &n) : 0;

	for (size_t k = 0; rc == 0 && k < c->n; k++)
		if (tier == EPD_TIER_CPU ? c->page[k].in_memory :
		    is_among(c->page[k].run, run, n))
			v[(*had)++] = c->page[k].name;
	epd_free(run);
	return rc;
}

int
epd_fs_tier_pages(struct epd_fs *fs, struct epd_store *s, enum epd_tier tier,
    uint64_t *out)
{
	struct epd_name *v = NULL;
	struct copied *c = NULL;
	size_t n, most = 1, had = 0;
	int rc;

	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	rc = copy_all(fs, &c, &n);
	pthread_mutex_unlock(&fs->lock);
	for (size_t i = 0; i < n; i++)
		most += c[i].n;
	if (rc == 0 && !(v = epd_calloc(most, sizeof *v)))
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = names_of(s, c + i, tier, v, &had);
	if (rc == 0)
		*out = sort_names(v, had);
	epd_free(v);
	for (size_t i = 0; i < n; i++)
		epd_free(c[i].page);
	epd_free(c);
	return rc;
}
