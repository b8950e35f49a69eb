/*
 * tree.c - nodes in one array, in the order of their ids.
 *
 * 1. v[0..n) ascends strictly by id; dead slots keep theirs until packed away,
 *    which only reserve does, so that a node found stays put meanwhile.
 * 2. live counts the slots that are not dead.
 * 3. A live node's parent is live, stands before it, and counts it once.
 *
 * No node is an allocation of its own: ten thousand of them load at once.
 */
#include "tree/tree.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

struct slot {
	struct epd_node node;
	int dead;
};

struct epd_tree {
	struct slot *v;
	size_t n, cap, live;
	uint64_t last;		/* highest id ever added */
	void (*drop)(void *arg, const struct epd_node *n);
	void *arg;
};

int
epd_tree_new(struct epd_tree **out,
    void (*drop)(void *arg, const struct epd_node *n), void *arg)
{
	struct epd_tree *t = epd_calloc(1, sizeof *t);

	if (!t)
		return -ENOMEM;
	t->drop = drop;
	t->arg = arg;
	*out = t;
	return 0;
}

void
epd_tree_free(struct epd_tree *t)
{
	if (!t)
		return;
	/* Backwards: children have the higher ids. */
	for (size_t i = t->n; i-- > 0; )
		if (!t->v[i].dead && t->drop)
			t->drop(t->arg, &t->v[i].node);
	epd_free(t->v);
	epd_free(t);
}

/*
 * Index of the first slot whose id is at least id; n if none is.  Ids are
 * distinct and ascend, so the distance to either end bounds the index: where
 * ids are dense the first guess is right.
 */
static size_t
lower(const struct epd_tree *t, uint64_t id)
{
	size_t lo = 0, hi = t->n;

	if (!hi || id <= t->v[0].node.id)
		return 0;
	if (id - t->v[0].node.id < hi &&
	    t->v[id - t->v[0].node.id].node.id == id)
		return (size_t)(id - t->v[0].node.id);
	if (id > t->v[hi - 1].node.id)
		return hi;
	if (id - t->v[0].node.id < hi)
		hi = (size_t)(id - t->v[0].node.id);
	else
		hi--;
	if (t->v[t->n - 1].node.id - id < t->n)
		lo = t->n - 1 - (size_t)(t->v[t->n - 1].node.id - id);
	/* The answer is in [lo, hi]. */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->v[mid].node.id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct slot *
find(const struct epd_tree *t, uint64_t id)
{
	size_t i = lower(t, id);

	if (i == t->n || t->v[i].node.id != id || t->v[i].dead)
		return NULL;
	return &t->v[i];
}

static void
squeeze(struct epd_tree *t)
{
	size_t to = 0;

	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i].dead)
			t->v[to++] = t->v[i];
	t->n = to;
}

int
epd_tree_reserve(struct epd_tree *t, size_t more)
{
	size_t need, cap;
	struct slot *v;

	if (t->n - t->live > t->live)
		squeeze(t);
	if (more <= t->cap - t->n)
		return 0;
	if (__builtin_add_overflow(t->n, more, &need) ||
	    need > SIZE_MAX / 2 / sizeof *v)
		return -ENOMEM;
	cap = t->cap < 8 ? 8 : t->cap;
	while (cap < need)
		cap *= 2;
	v = epd_realloc(t->v, cap * sizeof *v);
	if (!v)
		return -ENOMEM;
	t->v = v;
	t->cap = cap;
	return 0;
}

int
epd_tree_add(struct epd_tree *t, uint64_t id, uint64_t parent,
    uint32_t tokens, void *body)
{
	struct slot *p = NULL;
	uint64_t start = 0;
	int rc;

	if (id <= t->last)
		return -EEXIST;
	rc = epd_tree_reserve(t, 1);
	if (rc)
		return rc;
	if (parent) {
		p = find(t, parent);
		if (!p)
			return -ENOENT;
		if (p->node.children == UINT32_MAX ||
		    __builtin_add_overflow(p->node.start, p->node.tokens,
		    &start))
			return -EOVERFLOW;
		p->node.children++;
	}
	t->v[t->n++] = (struct slot){ .node = {
		.id = id, .parent = parent,
		.root = p ? p->node.root : id, .start = start,
		.tokens = tokens, .body = body,
	} };
	t->live++;
	t->last = id;
	return 0;
}

const struct epd_node *
epd_tree_get(const struct epd_tree *t, uint64_t id)
{
	struct slot *s = find(t, id);

	return s ? &s->node : NULL;
}

int
epd_tree_hold(struct epd_tree *t, uint64_t id)
{
	struct slot *s = find(t, id);

	if (!s)
		return -ENOENT;
	if (s->node.heads == UINT32_MAX)
		return -EOVERFLOW;
	s->node.heads++;
	return 0;
}

int
epd_tree_drop(struct epd_tree *t, uint64_t id)
{
	struct slot *s = find(t, id);

	if (!s)
		return -ENOENT;
	if (!s->node.heads)
		return -EINVAL;
	s->node.heads--;
	while (s && !s->node.heads && !s->node.children) {
		if (t->drop)
			t->drop(t->arg, &s->node);
		s->dead = 1;
		t->live--;
		s = s->node.parent ? find(t, s->node.parent) : NULL;
		if (s)
			s->node.children--;
	}
	return 0;
}

size_t
epd_tree_count(const struct epd_tree *t)
{
	return t->live;
}

const struct epd_node *
epd_tree_next(const struct epd_tree *t, uint64_t after)
{
	size_t i;

	if (after == UINT64_MAX)
		return NULL;
	for (i = lower(t, after + 1); i < t->n; i++)
		if (!t->v[i].dead)
			return &t->v[i].node;
	return NULL;
}

/* Check one node against its parent and its own count of children. */
static int
check_node(const struct epd_tree *t, size_t i, const uint32_t *children,
    struct epd_why *why)
{
	const struct epd_node *n = &t->v[i].node;
	const struct slot *p = n->parent ? find(t, n->parent) : NULL;
	uint64_t start = p ? p->node.start + p->node.tokens : 0;

	if (n->parent && !p)
		return epd_why(why, EPD_ECORRUPT,
		    "node %llu: its parent %llu is gone",
		    (unsigned long long)n->id, (unsigned long long)n->parent);
	if (n->parent >= n->id || n->start != start)
		return epd_why(why, EPD_ECORRUPT,
		    "node %llu: starts at %llu, not at %llu",
		    (unsigned long long)n->id, (unsigned long long)n->start,
		    (unsigned long long)start);
	if (n->children != children[i])
		return epd_why(why, EPD_ECORRUPT,
		    "node %llu: counts %u children, has %u",
		    (unsigned long long)n->id, n->children, children[i]);
	return 0;
}

int
epd_tree_check(const struct epd_tree *t, struct epd_why *why)
{
	uint32_t *children = epd_calloc(t->n ? t->n : 1, sizeof *children);
	size_t live = 0;
	int rc = 0;

	if (!children)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		const struct slot *p;

		if (t->v[i].dead)
			continue;
		live++;
		p = t->v[i].node.parent ? find(t, t->v[i].node.parent) : NULL;
		if (p)
			children[p - t->v]++;
	}
	if (live != t->live)
		rc = epd_why(why, EPD_ECORRUPT, "%zu nodes, %zu counted",
		    live, t->live);
	for (size_t i = 0; !rc && i < t->n; i++)
		if (!t->v[i].dead)
			rc = check_node(t, i, children, why);
	epd_free(children);
	return rc;
}
