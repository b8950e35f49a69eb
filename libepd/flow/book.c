/*
 * book.c - counting.  A state's nodes are the path from its newest version to
 * the root, which its older versions lie on too; so every live state adds one
 * to each node of one path.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "page/page.h"

enum { UNIT = 4096 };		/* a tmpfs gives whole pages of memory */

static int
push(struct epd_chain *c, uint64_t node)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? 2 * c->cap : 64;
		void *p = epd_realloc(c->node, cap * sizeof *c->node);

		if (!p)
			return -ENOMEM;
		c->node = p;
		c->cap = cap;
	}
	c->node[c->n++] = node;
	return 0;
}

int
epd_chain_of(struct epd_chain *c, struct epd_shard *s, uint32_t state,
    uint32_t version)
{
	struct epd_chain made = {0};
	struct epd_version v;
	struct epd_state st;
	int rc = epd_shard_state(s, state, &st);

	if (rc < 0)
		return rc;
	if (version > st.versions)
		return EPD_ENOTHING;
	rc = epd_shard_version(s, state, version, &v);
	while (rc == 0 && (rc = push(&made, v.node)) == 0 && v.parent)
		rc = epd_shard_node(s, v.parent, &v);
	if (rc < 0) {
		epd_chain_free(&made);
		return rc;
	}
	for (size_t i = 0; i < made.n / 2; i++) {
		uint64_t x = made.node[i];

		made.node[i] = made.node[made.n - 1 - i];
		made.node[made.n - 1 - i] = x;
	}
	*c = made;
	return 0;
}

void
epd_chain_free(struct epd_chain *c)
{
	epd_free(c->node);
	*c = (struct epd_chain){0};
}

/* ---- runs in memory ---- */

struct found {
	struct run { uint64_t run, bytes; } *v;
	size_t n, cap;
};

static int
found(void *arg, uint64_t run, uint64_t bytes)
{
	struct found *f = arg;

	if (f->n == f->cap) {
		size_t cap = f->cap ? 2 * f->cap : 64;
		void *p = epd_realloc(f->v, cap * sizeof *f->v);

		if (!p)
			return -ENOMEM;
		f->v = p;
		f->cap = cap;
	}
	f->v[f->n++] = (struct run){ run, bytes };
	return 0;
}

static int
by_first(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

/* ---- nodes ---- */

static int
note(struct epd_book *b, size_t *cap, uint32_t state,
    const struct epd_version *v)
{
	if (b->n == *cap) {
		size_t more = *cap ? 2 * *cap : 64;
		void *p = epd_realloc(b->node, more * sizeof *b->node);

		if (!p)
			return -ENOMEM;
		b->node = p;
		*cap = more;
	}
	b->node[b->n++] = (struct epd_book_node){
		.node = v->node, .run = v->run, .npages = v->npages,
		.states = 1, .first = state,
	};
	return 0;
}

/* One entry for every state and node of its path. */
static int
gather(struct epd_book *b, struct epd_shard *s)
{
	struct epd_state st;
	struct epd_version v;
	uint32_t after = 0;
	size_t cap = 0;
	int rc;

	while ((rc = epd_shard_next(s, after, &st)) == 0) {
		after = st.id;
		rc = epd_shard_version(s, st.id, 0, &v);
		while (rc == 0 && (rc = note(b, &cap, st.id, &v)) == 0 &&
		    v.parent)
			rc = epd_shard_node(s, v.parent, &v);
		if (rc < 0)
			return rc;
	}
	return rc == EPD_ENOSTATE ? 0 : rc;
}

/* Equal nodes become one that has their count. */
static void
fold(struct epd_book *b)
{
	size_t n = 0;

	if (b->n == 0)
		return;
	qsort(b->node, b->n, sizeof *b->node, by_first);
	for (size_t i = 1; i < b->n; i++)
		if (b->node[i].node == b->node[n].node) {
			b->node[n].states++;
			if (b->node[i].first < b->node[n].first)
				b->node[n].first = b->node[i].first;
		} else {
			b->node[++n] = b->node[i];
		}
	b->n = n + 1;
}

int
epd_book_open(struct epd_book *out, const struct epd_workflow *w,
    struct epd_why *why)
{
	struct epd_book b = {0};
	struct found f = {0};
	int rc = gather(&b, w->shard);

	fold(&b);
	if (rc == 0 && w->runs >= 0)
		rc = epd_run_each(w->runs, found, &f);
	if (rc == 0 && f.n)
		qsort(f.v, f.n, sizeof *f.v, by_first);
	for (size_t i = 0; rc == 0 && i < b.n; i++) {
		struct epd_book_node *n = b.node + i;
		const struct run *r = f.n && n->run ? bsearch(&n->run, f.v,
		    f.n, sizeof *f.v, by_first) : NULL;

		n->there = r != NULL || n->npages == 0;
		n->bytes = r ? (r->bytes + UNIT - 1) / UNIT * UNIT : 0;
	}
	epd_free(f.v);
	if (rc < 0) {
		epd_book_close(&b);
		return epd_why(why, rc, "%s: %s", w->name, epd_strerror(rc));
	}
	*out = b;
	return 0;
}

void
epd_book_close(struct epd_book *b)
{
	epd_free(b->node);
	*b = (struct epd_book){0};
}

const struct epd_book_node *
epd_book_find(const struct epd_book *b, uint64_t node)
{
	return b->n ? bsearch(&node, b->node, b->n, sizeof *b->node,
	    by_first) : NULL;
}

/* ---- one state ---- */

int
epd_book_pages(struct epd_shard *s, const struct epd_chain *c,
    struct epd_page_row **out, uint64_t *n)
{
	struct epd_page_row *row = NULL;
	uint64_t count = 0, cap = 0;

	for (size_t i = 0; i < c->n; i++) {
		struct epd_version v;
		uint64_t upto;
		int rc = epd_shard_node(s, c->node[i], &v);

		upto = rc == 0 ? (uint64_t)v.first_page + v.npages : 0;
		if (rc == 0 && v.npages && v.first_page > count)
			rc = EPD_ECORRUPT;
		if (rc == 0 && upto > cap) {
			void *p;

			cap = upto + upto / 2;
			p = epd_realloc(row, cap * sizeof *row);
			rc = p ? 0 : -ENOMEM;
			row = p ? p : row;
		}
		if (rc < 0) {
			epd_free(row);
			return rc;
		}
		for (uint32_t k = 0; k < v.npages; k++)
			row[v.first_page + k] = (struct epd_page_row){
				.ref = v.pages[k], .node = v.node, .run = v.run,
			};
		count = upto > count ? upto : count;
	}
	*out = row;
	*n = count;
	return 0;
}

int
epd_book_weigh(const struct epd_book *b, struct epd_shard *s, uint32_t state,
    const struct epd_chain *c, struct epd_weight *out)
{
	struct epd_weight w = {0};
	struct epd_page_row *row;
	int rc = epd_book_pages(s, c, &row, &w.pages);

	if (rc < 0)
		return rc;
	for (uint64_t i = 0; i < w.pages; i++) {
		const struct epd_book_node *n = epd_book_find(b, row[i].node);

		w.missing += !n || !n->there;
	}
	epd_free(row);
	for (size_t i = 0; i < c->n; i++) {
		const struct epd_book_node *n = epd_book_find(b, c->node[i]);

		if ((rc = epd_shard_node(s, c->node[i], &w.head)) < 0)
			return rc;
		w.tokens = w.head.start + w.head.nids;
		w.images += w.head.nimages;
		if (!n)
			continue;
		w.shared |= n->states > 1;
		*(n->states > 1 ? &w.shared_bytes : &w.private_bytes) +=
		    n->bytes;
		w.proportional_bytes += n->bytes / n->states +
		    (n->first == state ? n->bytes % n->states : 0);
	}
	*out = w;
	return 0;
}

const char *
epd_book_status(const struct epd_state *st, const struct epd_weight *w)
{
	return st->status == EPD_ACTIVE && w->shared ? "SHARED" :
	    epd_status_name(st->status);
}
