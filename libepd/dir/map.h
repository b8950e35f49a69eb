/* map.h - things by a path.  Outside this room include dir/dir.h. */
#ifndef EPD_DIR_MAP_H
#define EPD_DIR_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "dir/hint.h"

/* The first of a thing that is allocated by itself. */
struct epd_map_node {
	struct epd_map_node *next;
	uint64_t hash;
	char key[EPD_HINT_KEY + 16];
};
struct epd_map {
	struct epd_map_node **bucket;
	size_t n, buckets;		/* buckets: 0 or a power of two */
};
struct epd_map_node *epd_map_get(const struct epd_map *m, const char *key);
/* There is none of that key.  Fails: -ENOMEM. */
int epd_map_add(struct epd_map *m, struct epd_map_node *node, const char *key);
void epd_map_take(struct epd_map *m, struct epd_map_node *node);
/* Free it with all its nodes, each by one epd_free. */
void epd_map_clear(struct epd_map *m);

#endif
