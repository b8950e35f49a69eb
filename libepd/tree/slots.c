/*
 * slots.c - linear probing without marks for what went.
 *
 * 1. cap is 0 or a power of two, at least twice n.
 * 2. Between the slot that a hash names and the one it lies in, none is free.
 */
#include "tree/slots.h"

#include <errno.h>

#include "base/alloc.h"

enum { LEAST = 16 };

static void
place(struct epd_slots *s, uint64_t hash, void *p)
{
	size_t i = (size_t)hash & (s->cap - 1);

	while (s->v[i].p)
		i = (i + 1) & (s->cap - 1);
	s->v[i] = (struct epd_slot){ hash, p };
}

/* The same in a table of cap slots. */
static int
resize(struct epd_slots *s, size_t cap)
{
	struct epd_slots to = { .n = s->n, .cap = cap };

	to.v = epd_calloc(cap, sizeof *to.v);
	if (!to.v)
		return -ENOMEM;
	for (size_t i = 0; i < s->cap; i++)
		if (s->v[i].p)
			place(&to, s->v[i].hash, s->v[i].p);
	epd_free(s->v);
	*s = to;
	return 0;
}

int
epd_slots_reserve(struct epd_slots *s, size_t more)
{
	size_t cap = s->cap ? s->cap : LEAST;

	if (more > SIZE_MAX / 8 - s->n)
		return -ENOMEM;
	while (cap < 2 * (s->n + more))
		cap *= 2;
	return cap == s->cap ? 0 : resize(s, cap);
}

void
epd_slots_trim(struct epd_slots *s)
{
	size_t cap = s->cap;

	while (cap > LEAST && cap / 8 >= s->n)
		cap /= 2;
	/* A table too large is one all the same. */
	if (cap != s->cap)
		(void)resize(s, cap);
}

void *
epd_slots_find(const struct epd_slots *s, uint64_t hash,
    int (*same)(const void *p, const void *key), const void *key)
{
	if (!s->n)
		return NULL;
	for (size_t i = (size_t)hash & (s->cap - 1); s->v[i].p;
	    i = (i + 1) & (s->cap - 1))
		if (s->v[i].hash == hash && same(s->v[i].p, key))
			return s->v[i].p;
	return NULL;
}

void
epd_slots_put(struct epd_slots *s, uint64_t hash, void *p)
{
	place(s, hash, p);
	s->n++;
}

void
epd_slots_take(struct epd_slots *s, uint64_t hash, const void *p)
{
	size_t mask = s->cap - 1, i = (size_t)hash & mask;

	while (s->v[i].p != p)
		i = (i + 1) & mask;
	/* Those behind move up, but none before the slot its hash names. */
	for (size_t k = (i + 1) & mask; s->v[k].p; k = (k + 1) & mask) {
		size_t way = (k - (size_t)s->v[k].hash) & mask;

		if (way < ((k - i) & mask))
			continue;
		s->v[i] = s->v[k];
		i = k;
	}
	s->v[i] = (struct epd_slot){ 0 };
	s->n--;
}
