/*
 * radix.c - kept sequences on the edges of edge.h.
 *
 * 1. values holds each value once, under the hash of its number; it stands in
 *    both orders of the edge that it ends at.
 * 2. used is r->now of the last use: no two are equal.
 * 3. tokens is the sum over all edges.
 *
 * Nothing is walked by calling oneself: a chain may be as deep as it likes.
 */
#include "tree/radix.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "tree/edge.h"

int
epd_radix_new(struct epd_radix **out)
{
	struct epd_radix *r = epd_calloc(1, sizeof *r);

	if (!r)
		return -ENOMEM;
	*out = r;
	return 0;
}

void
epd_radix_free(struct epd_radix *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->edges.cap; i++)
		epd_edge_free(r->edges.v[i].p);
	for (size_t i = 0; i < r->values.cap; i++)
		epd_free(r->values.v[i].p);
	epd_free(r->edges.v);
	epd_free(r->values.v);
	epd_free(r);
}

/* ---- values ---- */

static uint64_t
hash_of(uint64_t value)
{
	return epd_xxh3_64(&value, sizeof value);
}

static int
is_value(const void *p, const void *key)
{
	const struct epd_edge_value *v = p;
	const uint64_t *value = key;

	return v->value == *value;
}

static struct epd_edge_value *
find(const struct epd_radix *r, uint64_t value)
{
	return epd_slots_find(&r->values, hash_of(value), is_value, &value);
}

static void
append(struct epd_edge_value *v, enum epd_edge_order by)
{
	struct epd_edge *e = v->edge;

	v->in[by].prev = e->of[by].last;
	v->in[by].next = NULL;
	if (e->of[by].last)
		e->of[by].last->in[by].next = v;
	else
		e->of[by].first = v;
	e->of[by].last = v;
}

static void
detach(struct epd_edge_value *v, enum epd_edge_order by)
{
	struct epd_edge_value *prev = v->in[by].prev, *next = v->in[by].next;

	if (prev)
		prev->in[by].next = next;
	else
		v->edge->of[by].first = next;
	if (next)
		next->in[by].prev = prev;
	else
		v->edge->of[by].last = prev;
}

/* ---- walking down ---- */

/* Where a key leads: its first n tokens, nimages of its images among them. */
struct place {
	struct epd_edge *edge;	/* of which at tokens are the key's */
	size_t at, n, nimages;
};

/* How many of n tokens are equal, from the first on. */
static size_t
equal_ids(const int32_t *a, const int32_t *b, size_t n)
{
	enum { MANY = 64 };
	size_t i = 0;

	while (n - i >= MANY && !memcmp(a + i, b + i, MANY * sizeof *a))
		i += MANY;
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

/*
 * How many tokens of edge e are those of k from p->n on, whose first has the
 * position pos.
 */
static size_t
equal_items(const struct epd_edge *e, const struct epd_radix_key *k,
    const struct place *p, uint64_t pos)
{
	const struct epd_radix_image *a = epd_strip_first(&e->images, sizeof *a);
	const struct epd_radix_image *b = k->images;
	size_t i = 0, j = p->nimages, n = k->n - p->n;

	if (n > e->ids.n)
		n = e->ids.n;
	n = equal_ids(epd_strip_first(&e->ids, sizeof(int32_t)), k->ids + p->n,
	    n);
	for (;; i++, j++) {
		uint64_t x = i < e->images.n ? a[i].at : UINT64_MAX;
		uint64_t y = j < k->nimages ? b[j].at : UINT64_MAX;
		uint64_t next = x < y ? x : y;

		if (next >= pos + n)
			return n;
		if (x != y || !epd_name_equal(&a[i].fp, &b[j].fp))
			return next > pos ? (size_t)(next - pos) : 0;
	}
}

/* From the end of `from` on as far as edges go with k. */
static struct place
walk(const struct epd_radix *r, struct epd_edge *from,
    const struct epd_radix_key *k)
{
	struct place p = { from, from->ids.n, 0, 0 };
	uint64_t pos = from->end;

	while (p.n < k->n && p.at == p.edge->ids.n) {
		const struct epd_radix_image *m = p.nimages < k->nimages ?
		    &k->images[p.nimages] : NULL;
		struct epd_edge *e = epd_edge_find(r, p.edge,
		    (struct epd_edge_item){ k->ids[p.n],
		    m && m->at == pos ? &m->fp : NULL });

		if (!e)
			break;
		p.edge = e;
		p.at = equal_items(e, k, &p, pos);
		p.n += p.at;
		pos += p.at;
		while (p.nimages < k->nimages && k->images[p.nimages].at < pos)
			p.nimages++;
	}
	return p;
}

size_t
epd_radix_match(const struct epd_radix *r, const struct epd_radix_key *k,
    uint64_t *value)
{
	struct place p = walk(r, (struct epd_edge *)&r->root, k);

	if (p.n && value)
		*value = p.edge->best->value;
	return p.n;
}

/* ---- adding ---- */

/* All that adding allocates. */
struct parts {
	struct epd_edge_value *value;
	struct epd_edge_cut cut;
	struct epd_edge *leaf;
};

static int
get_parts(struct epd_radix *r, const struct place *p,
    const struct epd_radix_key *k, struct parts *out)
{
	struct parts parts = { epd_calloc(1, sizeof *parts.value), { 0 }, NULL };
	uint64_t end = p->edge->end - (p->edge->ids.n - p->at);

	if (!parts.value ||
	    epd_slots_reserve(&r->values, 1) ||
	    epd_slots_reserve(&r->edges, 2) ||
	    (p->at < p->edge->ids.n &&
	    epd_edge_cut_room(p->edge, p->at, &parts.cut)) ||
	    (p->n < k->n && epd_edge_new(&parts.leaf, k, p->n, p->nimages,
	    end + (k->n - p->n)))) {
		epd_free(parts.value);
		epd_edge_cut_free(&parts.cut);
		return -ENOMEM;
	}
	*out = parts;
	return 0;
}

/* Whether k can lie behind so many tokens. */
static int
check_key(const struct epd_radix_key *k, uint64_t start)
{
	uint64_t end, from = start;

	if (__builtin_add_overflow(start, k->n, &end))
		return -EINVAL;
	for (size_t i = 0; i < k->nimages; i++) {
		if (k->images[i].at < from || k->images[i].at >= end)
			return -EINVAL;
		from = k->images[i].at + 1;
	}
	return 0;
}

int
epd_radix_add(struct epd_radix *r, uint64_t parent, uint64_t value,
    const struct epd_radix_key *k)
{
	struct epd_edge_value *p = parent ? find(r, parent) : NULL, *v;
	struct epd_edge *e = p ? p->edge : &r->root;
	struct parts parts;
	struct place at;

	if (value && find(r, value))
		return -EEXIST;
	if (parent && !p)
		return -ENOENT;
	if (!value || check_key(k, e->end))
		return -EINVAL;
	at = walk(r, e, k);
	if (get_parts(r, &at, k, &parts))
		return -ENOMEM;

	v = parts.value;
	v->value = value;
	v->length = e->end + k->n;
	v->used = ++r->now;
	e = at.edge;
	if (parts.cut.head)
		e = epd_edge_cut(r, e, &parts.cut);
	if (parts.leaf) {
		parts.leaf->best = v;
		epd_edge_hang(r, e, parts.leaf);
		epd_edge_ripen(r, e);
		r->tokens += parts.leaf->ids.n;
		e = parts.leaf;
	}
	v->edge = e;
	append(v, EPD_BY_USE);
	append(v, EPD_BY_ADD);
	epd_slots_put(&r->values, hash_of(value), v);
	epd_edge_ripen(r, e);
	epd_edge_settle(e);
	return 0;
}

/* ---- and the rest ---- */

int
epd_radix_remove(struct epd_radix *r, uint64_t value)
{
	struct epd_edge_value *v = find(r, value);
	struct epd_edge *e, *up;

	if (!v)
		return -ENOENT;
	e = v->edge;
	detach(v, EPD_BY_USE);
	detach(v, EPD_BY_ADD);
	epd_slots_take(&r->values, hash_of(value), v);
	for (; (up = e->up) && !e->below && !e->of[EPD_BY_USE].first; e = up) {
		epd_edge_ripen(r, e);
		epd_edge_unhang(r, e);
		r->tokens -= e->ids.n;
		epd_edge_free(e);
	}
	epd_edge_ripen(r, e);
	/* What is above may have v as its best until here. */
	epd_edge_settle(e);
	epd_free(v);
	epd_edge_join(r, e);
	epd_slots_trim(&r->edges);
	epd_slots_trim(&r->values);
	return 0;
}

int
epd_radix_use(struct epd_radix *r, uint64_t value)
{
	struct epd_edge_value *v = find(r, value);

	if (!v)
		return -ENOENT;
	v->used = ++r->now;
	detach(v, EPD_BY_USE);
	append(v, EPD_BY_USE);
	epd_edge_ripen(r, v->edge);
	epd_edge_settle(v->edge);
	return 0;
}

uint64_t
epd_radix_coldest(const struct epd_radix *r)
{
	const struct epd_edge_value *v = epd_edge_coldest(r);

	return v ? v->value : 0;
}

size_t
epd_radix_count(const struct epd_radix *r)
{
	return r->values.n;
}

size_t
epd_radix_tokens(const struct epd_radix *r)
{
	return r->tokens;
}

size_t
epd_radix_length(const struct epd_radix *r, uint64_t value)
{
	struct epd_edge_value *v = find(r, value);

	return v ? (size_t)v->length : 0;
}

int
epd_radix_each(const struct epd_radix *r,
    int (*fn)(void *arg, uint64_t value, size_t length), void *arg)
{
	for (const struct epd_edge *e = &r->root; e; e = epd_edge_next(e))
		for (const struct epd_edge_value *v = e->of[EPD_BY_ADD].first;
		    v; v = v->in[EPD_BY_ADD].next) {
			int rc = fn(arg, v->value, (size_t)v->length);

			if (rc)
				return rc;
		}
	return 0;
}
