/*
 * node.c - a hash table by number.
 *
 *  1. The number of a name is a hash of its directory's number, the name, and
 *     which workflow and state it shows; of two that fall on one, the later has
 *     the next that is free.
 *  2. A node is there while it has lookups or nodes below; the root always.
 */
#include "fs/node.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

enum { LEAST = 1024 };		/* buckets, a power of two */

static struct epd_fs_node **
bucket(const struct epd_fs_nodes *t, uint64_t ino)
{
	return t->bucket + (ino & (t->buckets - 1));
}

int
epd_fs_nodes_open(struct epd_fs_nodes *t)
{
	struct epd_fs_node *root = epd_calloc(1, sizeof *root + 1);

	*t = (struct epd_fs_nodes){ .buckets = LEAST };
	t->bucket = epd_calloc(LEAST, sizeof *t->bucket);
	if (!root || !t->bucket) {
		epd_free(root);
		epd_free(t->bucket);
		*t = (struct epd_fs_nodes){0};
		return -ENOMEM;
	}
	root->ino = 1;
	root->at.kind = EPD_FS_ROOT;
	*bucket(t, 1) = root;
	t->n = 1;
	return 0;
}

void
epd_fs_nodes_close(struct epd_fs_nodes *t)
{
	for (size_t i = 0; i < t->buckets; i++)
		while (t->bucket[i]) {
			struct epd_fs_node *n = t->bucket[i];

			t->bucket[i] = n->next;
			epd_free(n);
		}
	epd_free(t->bucket);
	*t = (struct epd_fs_nodes){0};
}

struct epd_fs_node *
epd_fs_node(const struct epd_fs_nodes *t, uint64_t ino)
{
	struct epd_fs_node *n = *bucket(t, ino);

	while (n && n->ino != ino)
		n = n->next;
	return n;
}

/* Of the name, or the first number that is free for it; *n is NULL then. */
static uint64_t
find(const struct epd_fs_nodes *t, const struct epd_fs_node *up,
    const char *name, const struct epd_fs_at *at, struct epd_fs_node **n)
{
	struct { uint64_t up, life, state; char name[256]; } key = {
		up->ino, at->life, at->state, "",
	};
	size_t len = strnlen(name, sizeof key.name);
	uint64_t ino;

	memcpy(key.name, name, len);
	ino = epd_xxh3_64(&key, offsetof(__typeof__(key), name) + len);
	for (;; ino++) {
		if (ino < 2)
			ino = 2;
		*n = epd_fs_node(t, ino);
		if (!*n || ((*n)->up == up && (*n)->at.life ==
		    at->life && (*n)->at.state == at->state &&
		    !strcmp((*n)->name, name)))
			return ino;
	}
}

uint64_t
epd_fs_node_number(const struct epd_fs_nodes *t, const struct epd_fs_node *up,
    const char *name, const struct epd_fs_at *at)
{
	struct epd_fs_node *n;

	return find(t, up, name, at, &n);
}

/* Twice as many buckets; without memory it goes on as it is. */
static void
grow(struct epd_fs_nodes *t)
{
	struct epd_fs_nodes more = { .buckets = t->buckets * 2, .n = t->n };

	if (!(more.bucket = epd_calloc(more.buckets, sizeof *more.bucket)))
		return;
	for (size_t i = 0; i < t->buckets; i++)
		while (t->bucket[i]) {
			struct epd_fs_node *n = t->bucket[i];
			struct epd_fs_node **to = bucket(&more, n->ino);

			t->bucket[i] = n->next;
			n->next = *to;
			*to = n;
		}
	epd_free(t->bucket);
	memcpy(more.list, t->list, sizeof more.list);
	*t = more;
}

void
epd_fs_node_enlist(struct epd_fs_nodes *t, struct epd_fs_node *n,
    enum epd_fs_list which)
{
	struct epd_fs_node **to = t->list + which;

	if (n->in[which].at)
		return;
	if (*to)
		(*to)->in[which].at = &n->in[which].next;
	n->in[which].next = *to;
	n->in[which].at = to;
	*to = n;
}

void
epd_fs_node_unlist(struct epd_fs_node *n, enum epd_fs_list which)
{
	struct epd_fs_node *next = n->in[which].next;

	if (!n->in[which].at)
		return;
	*n->in[which].at = next;
	if (next)
		next->in[which].at = n->in[which].at;
	n->in[which].at = NULL;
}

struct epd_fs_node *
epd_fs_node_take(struct epd_fs_nodes *t, struct epd_fs_node *up,
    const char *name, const struct epd_fs_at *at)
{
	struct epd_fs_node *n, **to;
	uint64_t ino = find(t, up, name, at, &n);
	size_t len = strlen(name) + 1;

	if (!n) {
		if (!(n = epd_calloc(1, sizeof *n + len)))
			return NULL;
		if (t->n++ == t->buckets)
			grow(t);
		n->ino = ino;
		n->up = up;
		up->below++;
		memcpy(n->name, name, len);
		to = bucket(t, ino);
		n->next = *to;
		*to = n;
	}
	n->at = *at;
	n->lookups++;
	return n;
}

void
epd_fs_node_drop(struct epd_fs_nodes *t, struct epd_fs_node *n,
    uint64_t lookups)
{
	n->lookups -= lookups < n->lookups ? lookups : n->lookups;
	while (n->up && !n->lookups && !n->below) {
		struct epd_fs_node *up = n->up, **at = bucket(t, n->ino);

		while (*at != n)
			at = &(*at)->next;
		*at = n->next;
		for (int i = 0; i < EPD_FS_LISTS; i++)
			epd_fs_node_unlist(n, (enum epd_fs_list)i);
		t->n--;
		epd_free(n);
		up->below--;
		n = up;
	}
}
