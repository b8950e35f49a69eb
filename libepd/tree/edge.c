/*
 * edge.c - edges by the hash of what is above them and their first item.
 *
 * An edge stays where it ends: what is cut off its begin is a new one above, and
 * an edge joined goes into the one below.  So neither values nor the edges below
 * ever have to be told.
 */
#include "tree/edge.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

enum { ID = sizeof(int32_t), IMAGE = sizeof(struct epd_radix_image) };

/* ---- one edge ---- */

int
epd_edge_new(struct epd_edge **out, const struct epd_radix_key *k,
    size_t from, size_t image, uint64_t end)
{
	struct epd_edge *e = epd_calloc(1, sizeof *e);

	if (!e)
		return -ENOMEM;
	e->end = end;
	if (epd_strip_new(&e->ids, ID, k->ids + from, k->n - from) ||
	    (k->nimages > image && epd_strip_new(&e->images, IMAGE,
	    k->images + image, k->nimages - image))) {
		epd_edge_free(e);
		return -ENOMEM;
	}
	*out = e;
	return 0;
}

void
epd_edge_free(struct epd_edge *e)
{
	if (!e)
		return;
	epd_strip_free(&e->ids);
	epd_strip_free(&e->images);
	epd_free(e);
}

struct epd_edge *
epd_edge_of(const struct epd_heap_link *beside)
{
	const char *p = (const char *)beside;

	return (struct epd_edge *)(void *)(p - offsetof(struct epd_edge, beside));
}

static struct epd_edge *
cold_of(const struct epd_heap_link *cold)
{
	const char *p = (const char *)cold;

	return (struct epd_edge *)(void *)(p - offsetof(struct epd_edge, cold));
}

/* ---- finding ---- */

static struct epd_edge_item
first_of(const struct epd_edge *e)
{
	const struct epd_radix_image *m = epd_strip_first(&e->images, IMAGE);
	const int32_t *id = epd_strip_first(&e->ids, ID);

	return (struct epd_edge_item){ *id,
	    m && m->at == e->end - e->ids.n ? &m->fp : NULL };
}

static int
begins(const struct epd_edge *e, struct epd_edge_item item)
{
	struct epd_edge_item own = first_of(e);

	return own.id == item.id && !own.fp == !item.fp &&
	    (!own.fp || epd_name_equal(own.fp, item.fp));
}

static uint64_t
hash_of(const struct epd_edge *up, struct epd_edge_item item)
{
	struct { uint64_t up, id; struct epd_name fp; } k = { 0 };

	k.up = (uintptr_t)up;
	k.id = (uint32_t)item.id | (uint64_t)!item.fp << 32;
	if (item.fp)
		k.fp = *item.fp;
	return epd_xxh3_64(&k, sizeof k);
}

struct wanted {
	const struct epd_edge *up;
	struct epd_edge_item item;
};

static int
is_wanted(const void *p, const void *key)
{
	const struct epd_edge *e = p;
	const struct wanted *w = key;

	return e->up == w->up && begins(e, w->item);
}

struct epd_edge *
epd_edge_find(const struct epd_radix *r, const struct epd_edge *e,
    struct epd_edge_item item)
{
	struct wanted w = { e, item };

	if (!e->below)
		return NULL;
	/* In a chain of versions there is but one: no need to hash. */
	if (begins(epd_edge_of(e->below), item))
		return epd_edge_of(e->below);
	if (!e->below->child)
		return NULL;
	return epd_slots_find(&r->edges, hash_of(e, item), is_wanted, &w);
}

const struct epd_edge *
epd_edge_next(const struct epd_edge *e)
{
	if (e->below)
		return epd_edge_of(e->below);
	for (; e->up; e = e->up) {
		const struct epd_heap_link *l = epd_heap_next(&e->beside);

		if (l)
			return epd_edge_of(l);
	}
	return NULL;
}

/* ---- orders ---- */

static int
is_better(const struct epd_heap_link *a, const struct epd_heap_link *b)
{
	const struct epd_edge_value *v = epd_edge_of(a)->best;
	const struct epd_edge_value *w = epd_edge_of(b)->best;

	return v->length != w->length ? v->length < w->length :
	    v->used > w->used;
}

static int
is_colder(const struct epd_heap_link *a, const struct epd_heap_link *b)
{
	return cold_of(a)->of[EPD_BY_USE].first->used <
	    cold_of(b)->of[EPD_BY_USE].first->used;
}

void
epd_edge_hang(struct epd_radix *r, struct epd_edge *up, struct epd_edge *e)
{
	e->up = up;
	epd_heap_put(&up->below, &e->beside, is_better);
	epd_slots_put(&r->edges, hash_of(up, first_of(e)), e);
}

void
epd_edge_unhang(struct epd_radix *r, struct epd_edge *e)
{
	epd_heap_take(&e->up->below, &e->beside, is_better);
	epd_slots_take(&r->edges, hash_of(e->up, first_of(e)), e);
}

void
epd_edge_ripen(struct epd_radix *r, struct epd_edge *e)
{
	if (e->ripe)
		epd_heap_take(&r->cold, &e->cold, is_colder);
	e->ripe = !e->below && e->of[EPD_BY_USE].first;
	if (e->ripe)
		epd_heap_put(&r->cold, &e->cold, is_colder);
}

const struct epd_edge_value *
epd_edge_coldest(const struct epd_radix *r)
{
	return r->cold ? cold_of(r->cold)->of[EPD_BY_USE].first : NULL;
}

static struct epd_edge_value *
best_at(const struct epd_edge *e)
{
	if (e->of[EPD_BY_USE].last)
		return e->of[EPD_BY_USE].last;
	return e->below ? epd_edge_of(e->below)->best : NULL;
}

void
epd_edge_settle(struct epd_edge *e)
{
	e->best = best_at(e);
	for (struct epd_edge *up; (up = e->up); e = up) {
		struct epd_edge_value *best;

		epd_heap_take(&up->below, &e->beside, is_better);
		epd_heap_put(&up->below, &e->beside, is_better);
		best = best_at(up);
		/* The same one, but if it is e's its use may be another. */
		if (best == up->best && best != e->best)
			return;
		up->best = best;
	}
}

/* ---- cutting and joining ---- */

void
epd_edge_cut_free(struct epd_edge_cut *c)
{
	epd_free(c->head);
	epd_free(c->ids);
	epd_free(c->images);
	*c = (struct epd_edge_cut){ 0 };
}

int
epd_edge_cut_room(const struct epd_edge *e, size_t at, struct epd_edge_cut *c)
{
	const struct epd_radix_image *m = epd_strip_first(&e->images, IMAGE);
	struct epd_edge_cut cut = { .at = at };

	while (cut.image < e->images.n &&
	    m[cut.image].at < e->end - e->ids.n + at)
		cut.image++;
	cut.head = epd_calloc(1, sizeof *cut.head);
	if (!cut.head ||
	    epd_strip_cut_room(&e->ids, ID, at, &cut.ids) ||
	    epd_strip_cut_room(&e->images, IMAGE, cut.image, &cut.images)) {
		epd_edge_cut_free(&cut);
		return -ENOMEM;
	}
	*c = cut;
	return 0;
}

struct epd_edge *
epd_edge_cut(struct epd_radix *r, struct epd_edge *e, struct epd_edge_cut *c)
{
	struct epd_edge *head = c->head, *up = e->up;

	epd_edge_unhang(r, e);
	head->end = e->end - e->ids.n + c->at;
	head->best = e->best;
	epd_strip_cut(&e->ids, ID, c->at, c->ids, &head->ids);
	epd_strip_cut(&e->images, IMAGE, c->image, c->images, &head->images);
	epd_edge_hang(r, up, head);
	epd_edge_hang(r, head, e);
	*c = (struct epd_edge_cut){ 0 };
	return head;
}

void
epd_edge_join(struct epd_radix *r, struct epd_edge *e)
{
	struct epd_strip ids = { 0 }, images = { 0 };
	struct epd_edge *up = e->up, *only;

	if (!up || e->of[EPD_BY_USE].first || !e->below || e->below->child)
		return;
	only = epd_edge_of(e->below);
	if (epd_strip_join_room(&only->ids, ID, &e->ids, &ids) ||
	    epd_strip_join_room(&only->images, IMAGE, &e->images, &images)) {
		epd_strip_free(&ids);
		return;
	}
	epd_edge_unhang(r, only);
	epd_edge_unhang(r, e);
	epd_strip_join(&only->ids, ID, &e->ids, &ids);
	epd_strip_join(&only->images, IMAGE, &e->images, &images);
	epd_edge_hang(r, up, only);
	epd_edge_free(e);
}
