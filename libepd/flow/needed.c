/*
 * needed.c - which runs some version still shows, and which any workflow may
 * take pages from.
 *
 * A version's part-full last page is copied into the next one's run and filled
 * on there.  Once nobody holds the older version, its run has nothing that
 * anybody can ask for, though its node stays for its tokens: every way on from
 * it begins with that page's copy.  Pages only go up along a path, so looking at
 * a node's children is enough.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/book.h"
#include "flow/litter.h"

struct node {
	uint64_t id, parent;
	uint32_t first_page, npages;
	int needed;
};

static int
by_id(const void *a, const void *b)
{
	const struct node *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Every node, by ascending id; one that a version or a lease holds is needed. */
static int
gather(struct epd_shard *s, struct node **out, size_t *n)
{
	struct epd_outline o = {0};
	struct node *v = NULL;
	size_t cap = 0;
	int rc;

	*n = 0;
	while ((rc = epd_shard_outline_next(s, o.node, &o)) == 0) {
		uint32_t heads, children;
		struct epd_glance g;
		void *p = epd_grow(v, *n, &cap, sizeof *v);

		if (!p) {
			rc = -ENOMEM;
			break;
		}
		v = p;
		if ((rc = epd_shard_glance(s, o.node, &g)) < 0 ||
		    (rc = epd_shard_counts(s, o.node, &heads, &children)) < 0)
			break;
		v[(*n)++] = (struct node){
			o.node, o.parent, g.first_page, g.npages, heads > 0,
		};
	}
	*out = v;
	return rc == -ENOENT ? 0 : rc;
}

int
epd_needed_runs(struct epd_shard *s,
    int (*fn)(void *arg, const struct epd_version *v), void *arg)
{
	struct epd_version v;
	struct node *node;
	size_t n;
	int rc = gather(s, &node, &n);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct node key = { .id = node[i].parent }, *up = key.id ?
		    bsearch(&key, node, n, sizeof *node, by_id) : NULL;

		if (up && !(node[i].npages &&
		    node[i].first_page == up->first_page))
			up->needed = 1;
	}
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (node[i].needed && node[i].npages &&
		    (rc = epd_shard_node(s, node[i].id, &v)) == 0)
			rc = fn(arg, &v);
	epd_free(node);
	return rc;
}

/* ---- what others may take up ---- */

static int
put(struct epd_run_ids *own, uint64_t run)
{
	return run ? epd_run_ids_add(own, run) : 0;
}

static int
computed_here(void *arg, const struct epd_version *v)
{
	int rc = v->given ? 0 : put(arg, v->run);

	for (uint32_t i = 0; rc == 0 && !v->given && i < v->nlinks; i++)
		rc = put(arg, v->links[i].run);
	return rc;
}

int
epd_own_runs(void *arg, const char *workflow, uint64_t **run, size_t *n)
{
	struct epd_workflow w;
	struct epd_run_ids o = {0};
	int rc = epd_workflow_open(&w, arg, workflow, 1, NULL);

	/* Of one that cannot be read nothing is known. */
	if (rc == 0) {
		rc = epd_shard_runs(w.shard, computed_here, &o);
		epd_workflow_close(&w);
	}
	if (rc < 0) {
		epd_run_ids_free(&o);
		return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE ? rc : 0;
	}
	*run = o.v;
	*n = o.n;
	return 0;
}
