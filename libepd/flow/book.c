/*
 * book.c - counting.  A state's nodes are the path from its newest version to
 * the root, which its older versions lie on too; so every live state adds one
 * to each node of one path, and a node has those of its children and those that
 * end on it.  Children have the higher ids.
 *
 * A state may have ten thousand nodes: what is not needed of them is not read,
 * and where there is one state nothing need be counted.
 *
 * A state's time may be over at any call: EPD_ENOSTATE of one that a walk has
 * just found is no end of the walk.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/runs.h"
#include "page/page.h"

static int
push(struct epd_chain *c, uint64_t node)
{
	void *p = epd_grow(c->node, c->n, &c->cap, sizeof *c->node);

	if (!p)
		return -ENOMEM;
	c->node = p;
	c->node[c->n++] = node;
	return 0;
}

int
epd_chain_of(struct epd_chain *c, struct epd_shard *s, uint32_t state,
    uint32_t version)
{
	struct epd_chain made = {0};
	struct epd_outline o = {0};
	int rc = epd_shard_holds(s, state, version, &o.parent);

	while (rc == 0 && o.parent &&
	    (rc = epd_shard_outline(s, o.parent, &o)) == 0)
		rc = push(&made, o.node);
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

static int
by_first(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

/* ---- nodes ---- */

/* Every node of the workflow. */
static int
gather(struct epd_book *b, struct epd_shard *s)
{
	struct epd_outline o = {0};
	size_t cap = 0;
	int rc;

	while ((rc = epd_shard_outline_next(s, o.node, &o)) == 0) {
		void *p = epd_grow(b->node, b->n, &cap, sizeof *b->node);

		if (!p)
			return -ENOMEM;
		b->node = p;
		b->node[b->n++] = (struct epd_book_node){
			.node = o.node, .parent = o.parent,
			.first = UINT32_MAX,
		};
	}
	return rc == -ENOENT ? 0 : rc;
}

static struct epd_book_node *
at(const struct epd_book *b, uint64_t node)
{
	return b->n ? bsearch(&node, b->node, b->n, sizeof *b->node,
	    by_first) : NULL;
}

static void
stand(struct epd_book_node *n, uint32_t states, uint32_t leases,
    uint32_t first)
{
	n->states += states;
	n->leases += leases;
	if (first < n->first)
		n->first = first;
}

/* Whoever ends on a node; then, children first, what each hands down. */
static int
count(struct epd_book *b, struct epd_shard *s)
{
	struct epd_lease lease = {0};
	struct epd_state st;
	uint32_t after = 0;
	uint64_t node;
	int rc;

	while ((rc = epd_shard_next(s, after, &st)) == 0) {
		struct epd_book_node *n;

		after = st.id;
		rc = epd_shard_holds(s, st.id, 0, &node);
		if (rc == EPD_ENOSTATE)
			continue;
		if (rc < 0)
			return rc;
		if (!(n = at(b, node)))
			return EPD_ECORRUPT;
		stand(n, 1, 0, st.id);
	}
	while (rc == EPD_ENOSTATE &&
	    epd_shard_lease_next(s, lease.id, &lease) == 0) {
		struct epd_book_node *n = at(b, lease.node);

		if (!n)
			return EPD_ECORRUPT;
		stand(n, 0, 1, UINT32_MAX);
	}
	for (size_t i = b->n; i-- > 0;) {
		const struct epd_book_node *n = b->node + i;
		struct epd_book_node *up = i ? b->node + i - 1 : NULL;

		/* Mostly the one before it. */
		if (!n->parent || (!n->states && !n->leases))
			continue;
		if (!up || up->node != n->parent)
			up = at(b, n->parent);
		if (!up)
			return EPD_ECORRUPT;
		stand(up, n->states, n->leases, n->first);
	}
	return rc == EPD_ENOSTATE ? 0 : rc;
}

int
epd_book_open(struct epd_book *out, const struct epd_workflow *w,
    struct epd_names *names, struct epd_why *why)
{
	struct epd_book b = {0};
	struct epd_lease lease;
	struct epd_state st;
	int rc = epd_shard_next(w->shard, 0, &st);

	if (rc == 0) {
		b.only = (struct epd_book_node){ .states = 1, .first = st.id };
		rc = epd_shard_next(w->shard, st.id, &st);
		if (rc == EPD_ENOSTATE &&
		    epd_shard_lease_next(w->shard, 0, &lease) == 0)
			rc = 0;
		if (rc == 0 && (rc = gather(&b, w->shard)) == 0)
			rc = count(&b, w->shard);
	}
	if (rc == EPD_ENOSTATE)
		rc = 0;
	if (rc == 0 && w->runs >= 0)
		rc = epd_book_runs(&b, w->runs, names);
	if (rc < 0) {
		epd_book_close(&b);
		return epd_why(why, rc, "%s: %s", w->name, epd_strerror(rc));
	}
	if (b.nruns)
		qsort(b.run, b.nruns, sizeof *b.run, by_first);
	*out = b;
	return 0;
}

void
epd_book_close(struct epd_book *b)
{
	epd_free(b->node);
	epd_free(b->run);
	epd_free(b->path);
	*b = (struct epd_book){0};
}

int
epd_live_each(struct epd_shard *s, int (*fn)(void *arg, uint64_t node),
    void *arg)
{
	struct epd_book b = {0};
	int rc = gather(&b, s);

	if (rc == 0)
		rc = count(&b, s);
	for (size_t i = 0; rc == 0 && i < b.n; i++)
		if (b.node[i].states)
			rc = fn(arg, b.node[i].node);
	epd_book_close(&b);
	return rc;
}

const struct epd_book_node *
epd_book_find(const struct epd_book *b, uint64_t node)
{
	return b->n ? at(b, node) : &b->only;
}

const struct epd_book_run *
epd_book_run(const struct epd_book *b, uint64_t run)
{
	return b->nruns ? bsearch(&run, b->run, b->nruns, sizeof *b->run,
	    by_first) : NULL;
}

/* ---- one state ---- */

/* What a path comes to: of each page who wrote it last. */
struct sum {
	struct writer {
		uint64_t node, run;	/* node 0: nobody yet */
	} *page;
	uint64_t pages, cap;
	uint32_t images;
};

/* A number of pages is believed when the path has as many. */
static int
backed(struct epd_shard *s, const struct epd_glance *from, uint64_t pages)
{
	struct epd_glance g = *from;
	int rc = 0;

	for (uint64_t n = g.npages; rc == 0 && n < pages; n += g.npages)
		rc = g.parent ? epd_shard_glance(s, g.parent, &g) :
		    EPD_ECORRUPT;
	return rc;
}

/* Pages of the node that others made lie elsewhere. */
static int
add_links(struct sum *q, struct epd_shard *s, const struct epd_glance *g)
{
	struct epd_version v;
	int rc = epd_shard_node(s, g->node, &v);

	for (uint32_t k = 0; rc == 0 && k < v.npages; k++)
		if (q->page[v.first_page + k].node == v.node)
			q->page[v.first_page + k].run =
			    epd_version_where(&v, k);
	return rc;
}

/* The next node towards the root. */
static int
add(struct sum *q, struct epd_shard *s, const struct epd_glance *g)
{
	uint64_t upto = (uint64_t)g->first_page + g->npages;

	q->images += g->nimages;
	if (!g->npages)
		return 0;
	if (upto > q->cap) {
		uint64_t cap = upto + upto / 2;
		struct writer *p;
		int rc = backed(s, g, upto);

		if (rc < 0)
			return rc;
		if (!(p = epd_realloc(q->page, cap * sizeof *p)))
			return -ENOMEM;
		q->page = p;
		q->cap = cap;
	}
	for (; q->pages < upto; q->pages++)
		q->page[q->pages].node = 0;
	for (uint64_t i = g->first_page; i < upto; i++)
		if (!q->page[i].node)
			q->page[i] = (struct writer){ g->node, g->run };
	return g->nlinks ? add_links(q, s, g) : 0;
}

/* Pages follow one another from the first. */
static int
settle(const struct sum *q)
{
	for (uint64_t i = 0; i < q->pages; i++)
		if (!q->page[i].node)
			return EPD_ECORRUPT;
	return 0;
}

/* What a node takes up, in equal parts on those who stand on it. */
static void
share(struct epd_weight *w, const struct epd_book_node *n,
    const struct epd_room *r, uint32_t state)
{
	/* Nobody does if the state's time was over before they were counted. */
	uint32_t states = n->states ? n->states : 1;

	w->shared |= states > 1;
	*(states > 1 ? &w->shared_bytes : &w->private_bytes) += r->alone;
	w->shared_bytes += r->named;
	w->proportional_bytes += r->bytes / states +
	    (n->first == state ? r->bytes % states : 0);
}

int
epd_book_pages(struct epd_shard *s, uint64_t head, struct epd_page_row **out,
    uint64_t *n)
{
	struct epd_page_row *row = NULL;
	struct epd_glance g = { .parent = head };
	struct epd_version v;
	struct sum q = {0};
	int rc = 0;

	while (rc == 0 && g.parent)
		if ((rc = epd_shard_glance(s, g.parent, &g)) == 0)
			rc = add(&q, s, &g);
	if (rc == 0)
		rc = settle(&q);
	if (rc == 0 && !(row = epd_calloc(q.pages + 1, sizeof *row)))
		rc = -ENOMEM;
	for (uint64_t i = 0; rc == 0 && i < q.pages; i++)
		if ((rc = epd_shard_node(s, q.page[i].node, &v)) == 0)
			row[i] = (struct epd_page_row){
				.ref = v.pages[i - v.first_page],
				.node = v.node, .run = q.page[i].run,
			};
	epd_free(q.page);
	if (rc < 0) {
		epd_free(row);
		return rc;
	}
	*out = row;
	*n = q.pages;
	return 0;
}

static void
add_room(struct epd_room *to, const struct epd_book_run *r)
{
	if (!r)
		return;
	*(r->whole ? &to->named : &to->alone) += r->whole ? r->whole : r->bytes;
	to->bytes += r->bytes;
}

int
epd_book_room(const struct epd_book *b, struct epd_shard *s,
    const struct epd_glance *g, struct epd_room *out)
{
	struct epd_version v;
	int rc = 0;

	*out = (struct epd_room){0};
	add_room(out, epd_book_run(b, g->run));
	if (g->nlinks)
		rc = epd_shard_node(s, g->node, &v);
	for (uint32_t i = 0; rc == 0 && i < g->nlinks; i++)
		add_room(out, epd_book_run(b, v.links[i].run));
	return rc;
}

int
epd_book_weigh(const struct epd_book *b, struct epd_shard *s, uint32_t state,
    uint32_t version, struct epd_weight *out)
{
	size_t n = b->n;
	struct epd_weight w = {0};
	struct epd_glance g = {0};
	struct sum q = {0};
	int rc = epd_shard_version(s, state, version, &w.head);

	if (rc == 0 && !version && epd_book_path(b, w.head.node, state, &w)) {
		w.tokens = w.head.start + w.head.nids;
		*out = w;
		return 0;
	}
	g.parent = w.head.node;
	while (rc == 0 && g.parent) {
		struct epd_room room;

		if ((rc = epd_shard_glance(s, g.parent, &g)) < 0 ||
		    (rc = add(&q, s, &g)) < 0)
			break;
		/* Both descend, and the book has them all. */
		while (b->n && (n == b->n || b->node[n].node > g.node))
			n--;
		if ((rc = epd_book_room(b, s, &g, &room)) == 0)
			share(&w, b->n ? b->node + n : &b->only, &room, state);
	}
	if (rc == 0)
		rc = settle(&q);
	for (uint64_t i = 0; rc == 0 && i < q.pages; i++)
		w.missing += !epd_book_run(b, q.page[i].run);
	epd_free(q.page);
	if (rc < 0)
		return rc;
	w.tokens = w.head.start + w.head.nids;
	w.images = q.images;
	w.pages = q.pages;
	*out = w;
	return 0;
}

const char *
epd_book_status(const struct epd_state *st, const struct epd_weight *w)
{
	return st->status == EPD_ACTIVE && w->shared ? "SHARED" :
	    epd_status_name(st->status);
}

void
epd_book_line(struct epd_state_line *out, const struct epd_workflow *w,
    const struct epd_state *st, const struct epd_weight *x)
{
	*out = (struct epd_state_line){
		.workflow = w->name,
		.state = st->id,
		.versions = st->versions,
		.status = epd_book_status(st, x),
		.tokens = x->tokens,
		.images = x->images,
		.pages = x->pages,
		.missing = x->missing,
		.tier = st->tier,
		.tool = st->tool,
		.private_bytes = x->private_bytes,
		.shared_bytes = x->shared_bytes,
		.proportional_bytes = x->proportional_bytes,
		.created_ms = st->created_ms,
		.changed_ms = st->changed_ms,
		.ttl_deadline_ms = st->ttl_deadline_ms,
		.parent_state = st->parent_state,
		.parent_version = st->parent_version,
	};
}
