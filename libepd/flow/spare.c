/*
 * spare.c - which runs nobody needs in memory while a state rests.  Nodes on the path of
 * whoever does not rest are busy; a walk up ends at the first that is known to be.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/litter.h"
#include "flow/runs.h"
#include "flow/spare.h"
#include "page/page.h"

/* When what waits was last used, as eviction is told. */
#define AGO_NS UINT64_C(1000000000000000)

struct spare {
	struct epd_workflow *w;
	uint32_t state;
	struct node {
		uint64_t id, parent;
		int busy;
	} *node;			/* all, ascending */
	size_t n;
	uint64_t freed, shared;
	int rc;
};

static int
by_id(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int
gather(struct spare *x)
{
	struct epd_outline o = { 0 };
	size_t cap = 0;
	void *p;

	while (epd_shard_outline_next(x->w->shard, o.node, &o) == 0) {
		if (!(p = epd_grow(x->node, x->n, &cap, sizeof *x->node)))
			return -ENOMEM;
		x->node = p;
		x->node[x->n++] = (struct node){ o.node, o.parent, 0 };
	}
	return 0;
}

static struct node *
find(const struct spare *x, uint64_t id)
{
	const struct node key = { .id = id };

	return id && x->n ? bsearch(&key, x->node, x->n, sizeof key, by_id) :
	    NULL;
}

static void
mark(const struct spare *x, uint64_t id)
{
	for (struct node *n = find(x, id); n && !n->busy; n = find(x, n->parent))
		n->busy = 1;
}

/* One that rests in memory has its pages there. */
static int
rests_below(const struct epd_state *st)
{
	return st->status == EPD_OFFLOADED &&
	    epd_tier_parse(st->tier) != EPD_TIER_CPU;
}

static void
mark_all(const struct spare *x)
{
	struct epd_shard *s = x->w->shard;
	struct epd_lease l = { .id = 0 };
	struct epd_state st;
	uint64_t node;

	for (uint32_t id = 0; epd_shard_next(s, id, &st) == 0; id = st.id)
		if (st.id != x->state && !rests_below(&st) &&
		    epd_shard_holds(s, st.id, 0, &node) == 0)
			mark(x, node);
	while (epd_shard_lease_next(s, l.id, &l) == 0)
		if (epd_shard_lease_stands(s, &l))
			mark(x, l.node);
}

static void
stamp_runs(struct spare *x, const struct epd_version *v)
{
	for (uint32_t i = 0, done = 0; done < v->npages;
	    done += epd_version_pages(v, i), i++)
		epd_run_used(x->w->runs, epd_version_run(v, i), AGO_NS -
		    v->first_page - done);
}

static void
unlink_runs(struct spare *x, const struct epd_version *v)
{
	for (uint32_t i = 0, done = 0; done < v->npages;
	    done += epd_version_pages(v, i), i++) {
		char name[EPD_RUN_NAME];
		struct stat st;

		epd_run_format(name, epd_version_run(v, i));
		if (fstatat(x->w->runs, name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (epd_run_free(x->w->runs, epd_version_run(v, i)) == 0)
			x->freed += epd_bytes_back(&st);
	}
}

/* What the state alone stands on: to each version's runs in memory. */
static void
each(struct spare *x,
    void (*fn)(struct spare *x, const struct epd_version *v))
{
	struct epd_chain c = { 0 };
	struct epd_version v;

	x->rc = gather(x);
	if (x->rc == 0)
		x->rc = epd_chain_of(&c, x->w->shard, x->state, 0);
	if (x->rc == 0)
		mark_all(x);
	for (size_t i = 0; x->rc == 0 && i < c.n; i++) {
		const struct node *n = find(x, c.node[i]);

		if (epd_shard_node(x->w->shard, c.node[i], &v))
			continue;
		if (!n || n->busy)
			x->shared += v.npages;
		else
			fn(x, &v);
	}
	epd_chain_free(&c);
	epd_free(x->node);
	x->node = NULL;
}

/* Under the workflow's lock. */
static void
clear(void *arg)
{
	each(arg, unlink_runs);
}

int
epd_spare_first(struct epd_workflow *w, uint32_t state)
{
	struct spare x = { .w = w, .state = state };

	if (w->runs >= 0)
		each(&x, stamp_runs);
	return x.rc;
}

int
epd_spare(struct epd_workflow *w, uint32_t state, uint64_t *freed,
    uint64_t *shared, struct epd_why *why)
{
	struct spare x = { .w = w, .state = state };
	int rc = w->runs < 0 ? 0 : epd_shard_at_rest(w->shard, state, clear, &x,
	    why);

	*freed += x.freed;
	*shared += x.shared;
	return rc < 0 ? rc : x.rc < 0 ? epd_why(why, x.rc, "%s",
	    epd_strerror(x.rc)) : 0;
}
