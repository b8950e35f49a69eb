/* map.c - chains, doubled when there are as many things as chains. */
#include "dir/map.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

struct epd_map_node *
epd_map_get(const struct epd_map *m, const char *key)
{
	const uint64_t hash = epd_xxh3_64(key, strlen(key));
	struct epd_map_node *n;

	if (!m->buckets)
		return NULL;
	for (n = m->bucket[hash & (m->buckets - 1)]; n; n = n->next)
		if (n->hash == hash && !strcmp(n->key, key))
			return n;
	return NULL;
}

static int
widen(struct epd_map *m)
{
	const size_t n = m->buckets ? m->buckets * 2 : 64;
	struct epd_map_node **bucket = epd_calloc(n, sizeof *bucket);

	if (!bucket)
		return -ENOMEM;
	for (size_t i = 0; i < m->buckets; i++) {
		struct epd_map_node *at = m->bucket[i], *next;

		for (; at; at = next) {
			next = at->next;
			at->next = bucket[at->hash & (n - 1)];
			bucket[at->hash & (n - 1)] = at;
		}
	}
	epd_free(m->bucket);
	m->bucket = bucket;
	m->buckets = n;
	return 0;
}

int
epd_map_add(struct epd_map *m, struct epd_map_node *node, const char *key)
{
	struct epd_map_node **at;

	/* Without memory for more chains, these get longer. */
	if (m->n >= m->buckets && widen(m) && !m->buckets)
		return -ENOMEM;
	strcpy(node->key, key);
	node->hash = epd_xxh3_64(key, strlen(key));
	at = &m->bucket[node->hash & (m->buckets - 1)];
	node->next = *at;
	*at = node;
	m->n++;
	return 0;
}

void
epd_map_take(struct epd_map *m, struct epd_map_node *node)
{
	struct epd_map_node **at = &m->bucket[node->hash & (m->buckets - 1)];

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	m->n--;
}

void
epd_map_clear(struct epd_map *m)
{
	for (size_t i = 0; i < m->buckets; i++) {
		struct epd_map_node *n = m->bucket[i], *next;

		for (; n; n = next) {
			next = n->next;
			epd_free(n);
		}
	}
	epd_free(m->bucket);
	*m = (struct epd_map){ 0 };
}
