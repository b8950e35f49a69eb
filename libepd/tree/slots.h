/*
 * slots.h - pointers by hash, in a table with open addressing.  Whoever puts one
 * in knows its hash again.  For the files of this room.
 */
#ifndef EPD_TREE_SLOTS_H
#define EPD_TREE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

struct epd_slot {
	uint64_t hash;
	void *p;		/* NULL: free */
};

/* Zero it to begin; v goes by epd_free. */
struct epd_slots {
	struct epd_slot *v;
	size_t n, cap;
};

/* Room, so that the next `more` puts need none.  -ENOMEM. */
int epd_slots_reserve(struct epd_slots *s, size_t more);
/* The one of this hash that same() says is meant; NULL if none is. */
void *epd_slots_find(const struct epd_slots *s, uint64_t hash,
    int (*same)(const void *p, const void *key), const void *key);
void epd_slots_put(struct epd_slots *s, uint64_t hash, void *p);
void epd_slots_take(struct epd_slots *s, uint64_t hash, const void *p);
/* Give back room that is not needed, if memory for that is there. */
void epd_slots_trim(struct epd_slots *s);

#endif
