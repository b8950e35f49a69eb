/*
 * edge.h - the tree's edges: finding, cutting and joining them, and which value
 * comes first below each.  For the files of this room.
 */
#ifndef EPD_TREE_EDGE_H
#define EPD_TREE_EDGE_H

#include "tree/heap.h"
#include "tree/radix.h"
#include "tree/slots.h"
#include "tree/strip.h"

enum epd_edge_order { EPD_BY_USE, EPD_BY_ADD, EPD_ORDERS };

/* A kept sequence; it ends where its edge does. */
struct epd_edge_value {
	uint64_t value, used;
	uint64_t length;
	struct epd_edge *edge;
	struct { struct epd_edge_value *prev, *next; } in[EPD_ORDERS];
};

/*
 * 1. An edge but the root, which has no tokens, has one or more.  It is the only
 *    one below `up` that begins with this token and image.
 * 2. An edge that no value ends at has two or more below it; one if memory to
 *    join them lacked, any number if it is the root.
 * 3. best is the value that ends soonest, and of several the one used last, of
 *    those that end here or below; NULL in an empty tree.
 * 4. below is the heap of the edges that follow, the best one first.
 * 5. ripe: nothing is below and a value ends here; it is in the heap of these.
 */
struct epd_edge {
	/* What walking down reads lies together. */
	struct epd_heap_link *below;
	struct epd_strip ids;		/* int32_t */
	uint64_t end;			/* tokens from the begin to its last */
	struct epd_strip images;	/* struct epd_radix_image */
	struct epd_heap_link beside;	/* in up->below */
	struct epd_edge *up;
	struct epd_edge_value *best;
	struct { struct epd_edge_value *first, *last; } of[EPD_ORDERS];
	struct epd_heap_link cold;	/* in epd_radix.cold, if ripe */
	int ripe;
};

struct epd_radix {
	struct epd_edge root;
	struct epd_slots edges;		/* all but the root */
	struct epd_slots values;
	struct epd_heap_link *cold;	/* the one used longest ago first */
	size_t tokens;
	uint64_t now;
};

/* A token and the image that begins there, or NULL. */
struct epd_edge_item {
	int32_t id;
	const struct epd_name *fp;
};

/*
 * One that ends at `end` and has the tokens of k from the from'th on and its
 * images from the image'th on; not in the tree yet.  -ENOMEM.
 */
int epd_edge_new(struct epd_edge **out, const struct epd_radix_key *k,
    size_t from, size_t image, uint64_t end);
void epd_edge_free(struct epd_edge *e);
/* Whose link that is. */
struct epd_edge *epd_edge_of(const struct epd_heap_link *beside);
/* Which edge goes on from e with this item; NULL if none does. */
struct epd_edge *epd_edge_find(const struct epd_radix *r,
    const struct epd_edge *e, struct epd_edge_item item);
/* The next edge, those above first; NULL past the last. */
const struct epd_edge *epd_edge_next(const struct epd_edge *e);

/* Hang below up; there is room in r->edges, and e has its best. */
void epd_edge_hang(struct epd_radix *r, struct epd_edge *up,
    struct epd_edge *e);
void epd_edge_unhang(struct epd_radix *r, struct epd_edge *e);
/* Whether it is ripe, and how cold, may have changed. */
void epd_edge_ripen(struct epd_radix *r, struct epd_edge *e);
/* Of all at ripe edges the value used longest ago; NULL if there is none. */
const struct epd_edge_value *epd_edge_coldest(const struct epd_radix *r);
/* What is best at e may have changed, or been used. */
void epd_edge_settle(struct epd_edge *e);

/* What a cut needs; zeros before.  -ENOMEM. */
struct epd_edge_cut {
	struct epd_edge *head;
	char *ids, *images;
	size_t at, image;
};
int epd_edge_cut_room(const struct epd_edge *e, size_t at,
    struct epd_edge_cut *c);
void epd_edge_cut_free(struct epd_edge_cut *c);
/* The first at tokens of e become an edge above it, which is returned. */
struct epd_edge *epd_edge_cut(struct epd_radix *r, struct epd_edge *e,
    struct epd_edge_cut *c);
/* An edge with only one below becomes a part of that, memory permitting. */
void epd_edge_join(struct epd_radix *r, struct epd_edge *e);

#endif
