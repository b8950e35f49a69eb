/*
 * view.c - reading a shard's tables.  A version is unpacked when it is asked
 * for, once a lending, into memory that goes with the next append or catch-up.
 * What walks all nodes takes outlines, which the tables have, or glances, which
 * read a body and keep nothing of it.
 */
#include <errno.h>
#include <string.h>

#include "shard/shard_in.h"

int
epd_shard_find(struct epd_shard *s, uint32_t id, struct epd_head **out)
{
	struct epd_head *h = epd_table_find(s->table, id);

	if (!h || epd_shard_expired(h))
		return EPD_ENOSTATE;
	*out = h;
	return 0;
}

int
epd_shard_state(struct epd_shard *s, uint32_t id, struct epd_state *out)
{
	struct epd_head *h;
	int rc = epd_shard_find(s, id, &h);

	if (!rc)
		*out = h->state;
	return rc;
}

int
epd_shard_next(struct epd_shard *s, uint32_t after, struct epd_state *out)
{
	struct epd_head *h = epd_table_above(s->table, after);

	while (h && epd_shard_expired(h))
		h = epd_table_above(s->table, h->state.id);
	if (!h)
		return EPD_ENOSTATE;
	*out = h->state;
	return 0;
}

static void
outline(const struct epd_node *n, struct epd_outline *out)
{
	const struct epd_body *b = n->body;

	*out = (struct epd_outline){
		.node = n->id, .parent = n->parent, .run = b->run,
		.wall_ms = b->wall_ms, .nlinks = b->nlinks,
	};
}

int
epd_shard_outline(struct epd_shard *s, uint64_t node, struct epd_outline *out)
{
	const struct epd_node *n = epd_tree_get(s->table->tree, node);

	if (!n)
		return -ENOENT;
	outline(n, out);
	return 0;
}

int
epd_shard_outline_next(struct epd_shard *s, uint64_t after,
    struct epd_outline *out)
{
	const struct epd_node *n = epd_tree_next(s->table->tree, after);

	if (!n)
		return -ENOENT;
	outline(n, out);
	return 0;
}

static int
unpack(struct epd_shard *s, const struct epd_node *n, struct epd_arena *a,
    struct epd_version *out)
{
	const struct epd_body *b = n->body;
	struct epd_version v;
	struct epd_span bytes;
	int rc;

	rc = epd_shard_body(s, n, &bytes);
	if (!rc)
		rc = epd_body_unpack(bytes, a, &v);
	if (rc)
		return rc;
	if (v.nids != n->tokens || v.run != b->run || v.nlinks != b->nlinks)
		return EPD_ECORRUPT;
	v.node = n->id;
	v.parent = n->parent;
	v.start = n->start;
	v.wall_ms = b->wall_ms;
	*out = v;
	return 0;
}

int
epd_shard_node(struct epd_shard *s, uint64_t node, struct epd_version *out)
{
	const struct epd_node *n = epd_tree_get(s->table->tree, node);
	struct epd_arena_mark mark = epd_arena_mark(&s->lent);
	struct epd_version *v;
	struct epd_body *b;
	int rc;

	if (!n)
		return -ENOENT;
	b = n->body;
	if (!b->lent || b->lent_in != s->lending) {
		v = epd_arena_add(&s->lent, sizeof *v);
		rc = v ? unpack(s, n, &s->lent, v) : -ENOMEM;
		if (rc) {
			epd_arena_back(&s->lent, mark);
			return rc;
		}
		b->lent = v;
		b->lent_in = s->lending;
	}
	*out = *b->lent;
	return 0;
}

int
epd_shard_glance(struct epd_shard *s, uint64_t node, struct epd_glance *out)
{
	const struct epd_node *n = epd_tree_get(s->table->tree, node);
	const struct epd_body *b;
	struct epd_glance g;
	struct epd_span bytes;
	int rc;

	if (!n)
		return -ENOENT;
	b = n->body;
	rc = epd_shard_body(s, n, &bytes);
	if (!rc)
		rc = epd_body_glance(bytes, &g);
	if (rc)
		return rc;
	if (g.nids != n->tokens || g.run != b->run || g.nlinks != b->nlinks)
		return EPD_ECORRUPT;
	g.node = n->id;
	g.parent = n->parent;
	*out = g;
	return 0;
}

static int
find_version(struct epd_shard *s, uint32_t id, uint32_t *version,
    struct epd_head **out)
{
	int rc = epd_shard_find(s, id, out);

	if (rc)
		return rc;
	if (*version > (*out)->state.versions)
		return EPD_ENOTHING;
	if (!*version)
		*version = (*out)->state.versions;
	return 0;
}

int
epd_shard_holds(struct epd_shard *s, uint32_t id, uint32_t version,
    uint64_t *node)
{
	struct epd_head *h;
	int rc = find_version(s, id, &version, &h);

	if (!rc)
		*node = h->v[version - 1].node;
	return rc;
}

int
epd_shard_version(struct epd_shard *s, uint32_t id, uint32_t version,
    struct epd_version *out)
{
	struct epd_head *h;
	int rc = find_version(s, id, &version, &h);

	if (rc)
		return rc;
	rc = epd_shard_node(s, h->v[version - 1].node, out);
	/* A branch begins on its parent's node with a sampler of its own. */
	if (!rc && version == 1 && h->salt)
		out->sampling.salt = h->salt;
	return rc;
}

int
epd_shard_salt(struct epd_shard *s, uint32_t id, uint32_t version,
    uint64_t *out)
{
	struct epd_span bytes;
	struct epd_head *h;
	int rc = find_version(s, id, &version, &h);

	if (rc)
		return rc;
	if (version == 1 && h->salt) {
		*out = h->salt;
		return 0;
	}
	rc = epd_shard_body(s, epd_tree_get(s->table->tree,
	    h->v[version - 1].node), &bytes);
	return rc ? rc : epd_body_salt(bytes, out);
}

int
epd_shard_counts(struct epd_shard *s, uint64_t node, uint32_t *heads,
    uint32_t *children)
{
	const struct epd_node *n = epd_tree_get(s->table->tree, node);

	if (!n)
		return -ENOENT;
	*heads = n->heads;
	*children = n->children;
	return 0;
}

int
epd_shard_runs(struct epd_shard *s,
    int (*fn)(void *arg, const struct epd_version *v), void *arg)
{
	const struct epd_node *n = NULL;
	struct epd_version v;
	uint64_t after = 0;
	int rc = 0;

	while (!rc && (n = epd_tree_next(s->table->tree, after))) {
		const struct epd_body *b = n->body;

		after = n->id;
		if (!b->run && !b->nlinks)
			continue;
		epd_arena_back(&s->pass, (struct epd_arena_mark){ NULL, 0 });
		rc = unpack(s, n, &s->pass, &v);
		if (!rc)
			rc = fn(arg, &v);
	}
	epd_arena_free(&s->pass);
	return rc;
}
