/*
 * heap.c - a tree whose children come after their parent.
 *
 * 1. child is the first of a link's children, next the one beside it.
 * 2. prev of a first child is its parent, of another the one before it, and of
 *    the heap's first NULL, which has no next either.
 */
#include "tree/heap.h"

#include <stddef.h>

/* Two heaps, neither of them empty, as one. */
static struct epd_heap_link *
meld(struct epd_heap_link *a, struct epd_heap_link *b, epd_heap_before *before)
{
	if (before(b, a)) {
		struct epd_heap_link *t = a;

		a = b;
		b = t;
	}
	b->prev = a;
	b->next = a->child;
	if (b->next)
		b->next->prev = b;
	a->child = b;
	a->next = a->prev = NULL;
	return a;
}

void
epd_heap_put(struct epd_heap_link **top, struct epd_heap_link *l,
    epd_heap_before *before)
{
	*l = (struct epd_heap_link){ 0 };
	*top = *top ? meld(*top, l, before) : l;
}

/* Brothers as one heap: in pairs from the left, then these from the right. */
static struct epd_heap_link *
gather(struct epd_heap_link *l, epd_heap_before *before)
{
	struct epd_heap_link *pairs = NULL, *all = NULL;

	while (l) {
		struct epd_heap_link *a = l, *b = l->next;

		l = b ? b->next : NULL;
		if (b)
			a = meld(a, b, before);
		a->prev = NULL;
		a->next = pairs;
		pairs = a;
	}
	while (pairs) {
		struct epd_heap_link *next = pairs->next;

		pairs->next = NULL;
		all = all ? meld(all, pairs, before) : pairs;
		pairs = next;
	}
	return all;
}

void
epd_heap_take(struct epd_heap_link **top, struct epd_heap_link *l,
    epd_heap_before *before)
{
	struct epd_heap_link *below = gather(l->child, before);

	if (l == *top) {
		*top = below;
	} else {
		if (l->prev->child == l)
			l->prev->child = l->next;
		else
			l->prev->next = l->next;
		if (l->next)
			l->next->prev = l->prev;
		if (below)
			*top = meld(*top, below, before);
	}
	*l = (struct epd_heap_link){ 0 };
}

struct epd_heap_link *
epd_heap_next(const struct epd_heap_link *l)
{
	if (l->child)
		return l->child;
	while (l && !l->next) {
		while (l->prev && l->prev->child != l)
			l = l->prev;
		l = l->prev;
	}
	return l ? l->next : NULL;
}
