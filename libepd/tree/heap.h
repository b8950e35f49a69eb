/*
 * heap.h - a pairing heap through links that lie in what it orders; it allocates
 * nothing.  For the files of this room.
 *
 * put and merging cost a comparison; take costs some log n of them in the mean.
 */
#ifndef EPD_TREE_HEAP_H
#define EPD_TREE_HEAP_H

/* A heap is the link of its first, or NULL.  Zeros before put. */
struct epd_heap_link {
	struct epd_heap_link *child, *next, *prev;
};

/* Nonzero: a comes before b. */
typedef int epd_heap_before(const struct epd_heap_link *a,
    const struct epd_heap_link *b);

void epd_heap_put(struct epd_heap_link **top, struct epd_heap_link *l,
    epd_heap_before *before);
/* Take one out, wherever it is; its own key may have changed before that. */
void epd_heap_take(struct epd_heap_link **top, struct epd_heap_link *l,
    epd_heap_before *before);
/* Each once, in no order, from the first on; NULL past the last. */
struct epd_heap_link *epd_heap_next(const struct epd_heap_link *l);

#endif
