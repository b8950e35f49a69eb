/* pages.c - walking a version's nodes, and counting who uses what. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "flow/pages.h"

struct grown {
	struct epd_used_page *page;
	struct epd_image_ref *image;
	uint32_t npages, cap, nimages, icap;
};

static int
take(struct grown *g, const struct epd_version *v)
{
	void *p;

	/* Walking from the newest node, what is there already stands. */
	if (v->first_page + v->npages > g->cap) {
		uint32_t cap = v->first_page + v->npages;

		if (!(p = epd_realloc(g->page, cap * sizeof *g->page)))
			return -ENOMEM;
		g->page = p;
		memset(g->page + g->cap, 0, (cap - g->cap) * sizeof *g->page);
		g->cap = cap;
		g->npages = cap;
	}
	for (uint32_t i = 0; i < v->npages; i++) {
		struct epd_used_page *u = g->page + v->first_page + i;

		if (!u->run)
			*u = (struct epd_used_page){
				.run = v->run, .node = v->node, .at = i,
				.logical = v->first_page + i,
				.ref = v->pages[i],
			};
	}
	if (!v->nimages)
		return 0;
	if (!(p = epd_realloc(g->image, (g->nimages + v->nimages) *
	    sizeof *g->image)))
		return -ENOMEM;
	g->image = p;
	/* Older images go before. */
	memmove(g->image + v->nimages, g->image, g->nimages *
	    sizeof *g->image);
	memcpy(g->image, v->images, v->nimages * sizeof *g->image);
	g->nimages += v->nimages;
	return 0;
}

int
epd_pages_of(struct epd_workflow *w, uint32_t state, uint32_t version,
    struct epd_used_page **out, uint32_t *n, struct epd_image_ref **images,
    uint32_t *nimages, uint64_t *tokens, struct epd_why *why)
{
	struct grown g = {0};
	struct epd_version v;
	uint32_t full = 0;
	int rc = epd_shard_version(w->shard, state, version, &v);

	if (rc < 0)
		return epd_why(why, rc, "%s/s%u: %s", w->name, state,
		    epd_strerror(rc));
	*tokens = v.start + v.nids;
	while ((rc = take(&g, &v)) == 0 && v.parent)
		if ((rc = epd_shard_node(w->shard, v.parent, &v)) < 0)
			break;
	if (rc < 0) {
		epd_free(g.page);
		epd_free(g.image);
		return epd_why(why, rc, "%s/s%u: %s", w->name, state,
		    epd_strerror(rc));
	}
	for (uint32_t i = 0; i < g.npages; i++)
		if (g.page[i].run)
			g.page[full++] = g.page[i];
	*out = g.page;
	*n = full;
	*images = g.image;
	*nimages = g.nimages;
	return 0;
}

struct epd_page_counts {
	struct count { uint64_t run; uint32_t at, refs; } *slot;
	size_t n, cap;
};

static struct count *
find(struct count *slot, size_t cap, uint64_t run, uint32_t at)
{
	size_t i = (run + at * 0x9e3779b97f4a7c15u) & (cap - 1);

	while (slot[i].refs && (slot[i].run != run || slot[i].at != at))
		i = (i + 1) & (cap - 1);
	return slot + i;
}

static int
add(struct epd_page_counts *c, uint64_t run, uint32_t at)
{
	struct count *s;

	if (2 * (c->n + 1) > c->cap) {
		size_t cap = c->cap ? 2 * c->cap : 256;
		struct count *slot = epd_calloc(cap, sizeof *slot);

		if (!slot)
			return -ENOMEM;
		for (size_t i = 0; i < c->cap; i++)
			if (c->slot[i].refs)
				*find(slot, cap, c->slot[i].run,
				    c->slot[i].at) = c->slot[i];
		epd_free(c->slot);
		c->slot = slot;
		c->cap = cap;
	}
	s = find(c->slot, c->cap, run, at);
	c->n += !s->refs;
	s->run = run;
	s->at = at;
	s->refs++;
	return 0;
}

int
epd_pages_count(struct epd_page_counts **out, struct epd_workflow *w,
    struct epd_why *why)
{
	struct epd_page_counts *c = epd_calloc(1, sizeof *c);
	struct epd_state st = {0};
	int rc = c ? 0 : -ENOMEM;

	while (rc == 0 && epd_shard_next(w->shard, st.id, &st) == 0) {
		struct epd_used_page *page = NULL;
		struct epd_image_ref *image = NULL;
		uint32_t n = 0, nimages;
		uint64_t tokens;

		rc = epd_pages_of(w, st.id, 0, &page, &n, &image, &nimages,
		    &tokens, why);
		for (uint32_t i = 0; rc == 0 && i < n; i++)
			rc = add(c, page[i].run, page[i].at);
		epd_free(page);
		epd_free(image);
	}
	if (rc < 0) {
		epd_pages_free(c);
		return rc == -ENOMEM ? epd_why(why, rc, "no memory") : rc;
	}
	*out = c;
	return 0;
}

uint32_t
epd_pages_refs(const struct epd_page_counts *c, uint64_t run, uint32_t at)
{
	return c->cap ? find(c->slot, c->cap, run, at)->refs : 0;
}

void
epd_pages_free(struct epd_page_counts *c)
{
	if (!c)
		return;
	epd_free(c->slot);
	epd_free(c);
}

int
epd_run_present(const struct epd_workflow *w, uint64_t run)
{
	char name[20];
	struct stat st;

	snprintf(name, sizeof name, "%016llx", (unsigned long long)run);
	return w->runs >= 0 &&
	    fstatat(w->runs, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}
