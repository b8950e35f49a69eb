/* arena.h - memory that is given back all at once, or back to a mark. */
#ifndef EPD_SHARD_ARENA_H
#define EPD_SHARD_ARENA_H

#include <stddef.h>

struct epd_arena_chunk;

struct epd_arena {			/* zero it to begin */
	struct epd_arena_chunk *last;
};

struct epd_arena_mark {
	struct epd_arena_chunk *last;
	size_t used;
};

/* n bytes, aligned for any type, not cleared; NULL without memory. */
void *epd_arena_add(struct epd_arena *a, size_t n);
struct epd_arena_mark epd_arena_mark(const struct epd_arena *a);
/* Give back all that was added since the mark. */
void epd_arena_back(struct epd_arena *a, struct epd_arena_mark m);
void epd_arena_free(struct epd_arena *a);	/* and zero it */

#endif
