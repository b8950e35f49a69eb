/*
 * tree.h - the version nodes of a workflow.  Pure memory: no I/O, no clock.
 *
 * A node is one version's own tokens after its parent's.  It counts the heads
 * and held versions that point at it and its children; when both counts reach
 * zero it is freed, and its parent is looked at next.
 */
#ifndef EPD_TREE_H
#define EPD_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tree/radix.h"	/* the room's other half */

struct epd_tree;

/* Node ids are given by the caller, ascending, never 0; body is the caller's. */
struct epd_node {
	uint64_t id, parent;	/* parent 0: a root */
	uint64_t root;		/* first on the way to it */
	uint64_t start;		/* tokens before its own */
	uint32_t tokens;	/* of its own */
	uint32_t heads;		/* holders: versions of live states */
	uint32_t children;
	void *body;
};

/* drop is told of each node that is freed, children before parents. */
int epd_tree_new(struct epd_tree **out,
    void (*drop)(void *arg, const struct epd_node *n), void *arg);
void epd_tree_free(struct epd_tree *t);		/* drops every node */

/*
 * Fails: -EEXIST (id is not above all before it), -ENOENT (no such parent),
 * -EOVERFLOW (a count is full), -ENOMEM; nothing changed then.
 */
int epd_tree_add(struct epd_tree *t, uint64_t id, uint64_t parent,
    uint32_t tokens, void *body);
/* Room, so that the next `more` adds cannot fail for memory.  -ENOMEM. */
int epd_tree_reserve(struct epd_tree *t, size_t more);
/* NULL if there is none.  Stays where it is until the next add or reserve. */
const struct epd_node *epd_tree_get(const struct epd_tree *t, uint64_t id);
/* One more holder.  -ENOENT, -EOVERFLOW. */
int epd_tree_hold(struct epd_tree *t, uint64_t id);
/* One holder less; what nobody needs is freed.  -ENOENT, -EINVAL (none held it). */
int epd_tree_drop(struct epd_tree *t, uint64_t id);
size_t epd_tree_count(const struct epd_tree *t);
/* In ascending id; 0 begins.  NULL past the last. */
const struct epd_node *epd_tree_next(const struct epd_tree *t, uint64_t after);
/* 0, or EPD_ECORRUPT with the first count that is not what a recount gives. */
int epd_tree_check(const struct epd_tree *t, struct epd_why *why);

#endif
