/*
 * arena.c - a list of chunks, newest first, filled from the front.  Chunks
 * double up to a limit; what is larger gets a chunk of its own size.
 */
#include "shard/arena.h"

#include <stdint.h>

#include "base/alloc.h"

enum { FIRST = 4096, LARGEST = 262144 };

struct epd_arena_chunk {
	struct epd_arena_chunk *before;
	size_t used, cap;
	_Alignas(16) unsigned char bytes[];
};

void *
epd_arena_add(struct epd_arena *a, size_t n)
{
	struct epd_arena_chunk *c = a->last;
	size_t cap = FIRST;
	void *p;

	if (n > SIZE_MAX / 2)
		return NULL;
	n = (n + 15) & ~(size_t)15;
	if (!c || n > c->cap - c->used) {
		if (c)
			cap = c->cap < LARGEST / 2 ? c->cap * 2 : LARGEST;
		if (cap < n)
			cap = n;
		c = epd_malloc(sizeof *c + cap);
		if (!c)
			return NULL;
		c->before = a->last;
		c->used = 0;
		c->cap = cap;
		a->last = c;
	}
	p = c->bytes + c->used;
	c->used += n;
	return p;
}

struct epd_arena_mark
epd_arena_mark(const struct epd_arena *a)
{
	return (struct epd_arena_mark){
		a->last, a->last ? a->last->used : 0,
	};
}

void
epd_arena_back(struct epd_arena *a, struct epd_arena_mark m)
{
	while (a->last != m.last) {
		struct epd_arena_chunk *c = a->last;

		a->last = c->before;
		epd_free(c);
	}
	if (a->last)
		a->last->used = m.used;
}

void
epd_arena_free(struct epd_arena *a)
{
	epd_arena_back(a, (struct epd_arena_mark){ NULL, 0 });
}
