/*
 * paths.c - what the path to each node comes to, from what its parent's does:
 * all states of a workflow are weighed in one pass over its nodes, however long
 * their paths are.
 *
 * A node writes the pages [first, upto) of its path's table.  Those of them that
 * were there before have another writer, mostly the nearest node above that has
 * any.  A node whose pages do not begin within what is there, or whose body
 * cannot be read, is odd, as are all below it: their states are weighed one by
 * one, and so what is wrong with them is told.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/runs.h"

enum { FAR = 64 };	/* nodes to look back over, for one's predecessors */

struct epd_book_path {
	uint64_t pages, missing;
	uint64_t private_bytes, shared_bytes, proportional_bytes;
	uint64_t odd_bytes;	/* of the nodes above too that have the same first */
	uint32_t images;
	uint32_t first, upto;	/* what the node writes itself */
	uint32_t wrote;		/* 1 + index of the nearest that writes any; 0 */
	uint32_t before;	/* the same above it */
	int shared, odd, linked, there;
};

/* How many of [from, to) of what a node wrote are not in memory. */
static int
missing_of(const struct epd_book *b, struct epd_shard *s, size_t i,
    uint32_t from, uint32_t to, uint64_t *out)
{
	const struct epd_book_path *p = b->path + i;
	struct epd_version v;
	int rc;

	*out = 0;
	if (!p->linked) {
		*out = p->there ? 0 : to - from;
		return 0;
	}
	if ((rc = epd_shard_node(s, b->node[i].node, &v)) < 0)
		return rc;
	for (uint32_t k = from; k < to; k++)
		*out += !epd_book_run(b, epd_version_where(&v,
		    k - v.first_page));
	return 0;
}

/* Of [from, to), which nodes from `wrote` on up wrote, those not in memory. */
static int
missing_above(const struct epd_book *b, struct epd_shard *s, uint32_t wrote,
    uint32_t from, uint32_t to, uint64_t *out)
{
	uint64_t n;
	int rc = 0;

	*out = 0;
	for (int far = 0; rc == 0 && from < to; far++) {
		const struct epd_book_path *p;

		if (!wrote || far == FAR)
			return EPD_ECORRUPT;
		p = b->path + wrote - 1;
		/* What is behind it is the one's above it. */
		if (p->first < to && p->upto >= to) {
			uint32_t at = p->first > from ? p->first : from;

			rc = missing_of(b, s, wrote - 1, at, to, &n);
			*out += n;
			to = at;
		} else if (p->upto > from && p->first < to) {
			return EPD_ECORRUPT;
		}
		wrote = p->before;
	}
	return rc;
}

static void
add_bytes(struct epd_book_path *p, const struct epd_book_node *n,
    const struct epd_book_node *up, const struct epd_room *r)
{
	const uint32_t states = n->states ? n->states : 1;

	p->shared |= states > 1;
	*(states > 1 ? &p->shared_bytes : &p->private_bytes) += r->alone;
	p->shared_bytes += r->named;
	p->proportional_bytes += r->bytes / states;
	if (!up || up->first != n->first)
		p->odd_bytes = 0;
	p->odd_bytes += r->bytes % states;
}

/* Its pages on those of its path. */
static int
add_pages(const struct epd_book *b, struct epd_shard *s, size_t i,
    const struct epd_glance *g, struct epd_book_path *p)
{
	const uint64_t upto = (uint64_t)g->first_page + g->npages;
	const uint64_t had = upto < p->pages ? upto : p->pages;
	uint64_t gone = 0, new = 0;
	int rc = 0;

	if (!g->npages)
		return 0;
	if (g->first_page > p->pages || upto > UINT32_MAX)
		return EPD_ECORRUPT;
	p->before = p->wrote;
	p->first = g->first_page;
	p->upto = (uint32_t)upto;
	if (g->first_page < had)
		rc = missing_above(b, s, p->wrote, p->first, (uint32_t)had,
		    &gone);
	p->wrote = (uint32_t)i + 1;
	b->path[i] = *p;
	if (rc == 0)
		rc = missing_of(b, s, i, p->first, p->upto, &new);
	p->missing = p->missing - gone + new;
	p->pages = upto > p->pages ? upto : p->pages;
	return rc;
}

static int
add(const struct epd_book *b, struct epd_shard *s, size_t i)
{
	const struct epd_book_node *n = b->node + i, *up = n->parent ?
	    epd_book_find(b, n->parent) : NULL;
	struct epd_book_path p = {0};
	struct epd_glance g;
	struct epd_room room;
	int rc = n->parent && !up ? EPD_ECORRUPT : 0;

	if (up)
		p = b->path[up - b->node];
	if (rc == 0 && !p.odd)
		rc = epd_shard_glance(s, n->node, &g);
	if (rc == 0 && !p.odd)
		rc = epd_book_room(b, s, &g, &room);
	if (rc == 0 && !p.odd) {
		p.there = epd_book_run(b, g.run) != NULL;
		p.linked = g.nlinks != 0;
		p.images += g.nimages;
		add_bytes(&p, n, up, &room);
		rc = add_pages(b, s, i, &g, &p);
	}
	p.odd |= rc < 0;
	b->path[i] = p;
	return rc == -ENOMEM ? rc : 0;
}

int
epd_book_paths(struct epd_book *b, struct epd_shard *s)
{
	int rc = 0;

	if (!b->n)
		return 0;
	if (b->n >= UINT32_MAX ||
	    !(b->path = epd_calloc(b->n, sizeof *b->path)))
		return -ENOMEM;
	/* Parents have the lower ids. */
	for (size_t i = 0; rc == 0 && i < b->n; i++)
		rc = add(b, s, i);
	return rc;
}

int
epd_book_path(const struct epd_book *b, uint64_t node, uint32_t state,
    struct epd_weight *out)
{
	const struct epd_book_node *n = b->path ? epd_book_find(b, node) : NULL;
	const struct epd_book_path *p = n ? b->path + (n - b->node) : NULL;

	if (!p || p->odd)
		return 0;
	out->images = p->images;
	out->pages = p->pages;
	out->missing = p->missing;
	out->private_bytes = p->private_bytes;
	out->shared_bytes = p->shared_bytes;
	out->proportional_bytes = p->proportional_bytes +
	    (n->first == state ? p->odd_bytes : 0);
	out->shared = p->shared;
	return 1;
}
