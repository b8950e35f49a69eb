/*
 * tree_radix.h - random operations on a radix tree against an oracle that keeps
 * every sequence whole and compares them one by one.
 */
#ifndef TESTS_TREE_RADIX_H
#define TESTS_TREE_RADIX_H

#include <errno.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/unit/scratch.h"
#include "tree/edge.h"
#include "tree/tree.h"

enum { RADIX_VALUES = 40, RADIX_LONG = 48 };

/* An item: a token and the number of the image that begins there, 0: none. */
struct radix_seq {
	int alive, added;
	size_t n;
	int32_t ids[RADIX_LONG];
	int image[RADIX_LONG];
	uint64_t used;
};

/* Value i + 1 is seq[i]. */
static struct radix_seq radix_seq[RADIX_VALUES];
static uint64_t radix_now, radix_random;
static int radix_adds;

static inline unsigned
radix_below(unsigned n)
{
	radix_random ^= radix_random << 13;
	radix_random ^= radix_random >> 7;
	radix_random ^= radix_random << 17;
	return (unsigned)(radix_random >> 33) % n;
}

static inline struct epd_name
radix_name(int image)
{
	struct epd_name name = {{ 0 }};

	/* They differ late, so that all of a name must be compared. */
	name.b[EPD_NAME - 1] = (uint8_t)image;
	return name;
}

static inline struct epd_radix_image
radix_image(uint64_t at, int image)
{
	return (struct epd_radix_image){ at, radix_name(image) };
}

/* What of s lies from its from'th item on. */
static inline struct epd_radix_key
radix_key(const struct radix_seq *s, size_t from,
    struct epd_radix_image images[RADIX_LONG])
{
	struct epd_radix_key k = { s->ids + from, s->n - from, images, 0 };

	for (size_t i = from; i < s->n; i++)
		if (s->image[i])
			images[k.nimages++] = radix_image(i, s->image[i]);
	return k;
}

static inline size_t
radix_common(const struct radix_seq *a, const struct radix_seq *b)
{
	size_t i = 0;

	while (i < a->n && i < b->n && a->ids[i] == b->ids[i] &&
	    a->image[i] == b->image[i])
		i++;
	return i;
}

/* A token of few; images are rare, or stand one beside the other. */
static inline void
radix_more(struct radix_seq *s, unsigned tokens, unsigned images)
{
	size_t n = radix_below(4) ? radix_below(8) : radix_below(RADIX_LONG);

	for (; n-- && s->n < RADIX_LONG; s->n++) {
		s->ids[s->n] = (int32_t)radix_below(tokens) - 1;
		s->image[s->n] = images && radix_below(8) < images ?
		    1 + (int)radix_below(2) : 0;
	}
}

static inline struct radix_seq *
radix_alive(void)
{
	unsigned from = radix_below(RADIX_VALUES);

	for (unsigned i = 0; i < RADIX_VALUES; i++)
		if (radix_seq[(from + i) % RADIX_VALUES].alive)
			return &radix_seq[(from + i) % RADIX_VALUES];
	return NULL;
}

/* ---- what the tree says of itself ---- */

/* The invariants of edge.h; the text of the first that does not hold. */
static inline const char *
radix_edge_fault(const struct epd_radix *r, const struct epd_edge *e, int strict)
{
	const struct epd_edge_value *best = e->of[EPD_BY_USE].last, *v;
	const struct epd_radix_image *m = epd_strip_first(&e->images, sizeof *m);
	const struct epd_edge *up = e->up;
	size_t below = 0;

	if (!up != (e == &r->root) || !up != !e->ids.n)
		return "only the root has no tokens and none above";
	if (up && (e->end != up->end + e->ids.n ||
	    (!e->of[0].first && (!e->below || (strict && !e->below->child)))))
		return "an edge that nobody needs, or a wrong end";
	for (size_t i = 0; i < e->images.n; i++)
		if (m[i].at < up->end || m[i].at >= e->end ||
		    (i && m[i].at <= m[i - 1].at))
			return "an image that is not on its edge";
	for (const struct epd_heap_link *l = e->below; l;
	    l = epd_heap_next(l), below++) {
		const struct epd_edge_value *w = epd_edge_of(l)->best;

		if (epd_edge_of(l)->up != e)
			return "an edge that knows another above it";
		if (!best || w->length < best->length ||
		    (w->length == best->length && w->used > best->used))
			best = w;
	}
	if (e->best != best)
		return "the best is not the best";
	if (e->ripe != (!e->below && e->of[0].first))
		return "ripeness";
	for (v = e->of[EPD_BY_USE].first; v; v = v->in[EPD_BY_USE].next)
		if (v->edge != e || v->length != e->end ||
		    (v->in[EPD_BY_USE].next &&
		    v->in[EPD_BY_USE].next->used <= v->used))
			return "a value that does not end here, or out of order";
	if (e->ids.skip + e->ids.n > e->ids.cap ||
	    e->images.skip + e->images.n > e->images.cap)
		return "a strip larger than its room";
	return NULL;
}

static inline const char *
radix_fault(const struct epd_radix *r, int strict)
{
	size_t edges = 0, tokens = 0;

	for (const struct epd_edge *e = &r->root; e; e = epd_edge_next(e)) {
		const char *fault = radix_edge_fault(r, e, strict);

		if (fault)
			return fault;
		edges++;
		tokens += e->ids.n;
	}
	if (edges != r->edges.n + 1 || tokens != epd_radix_tokens(r))
		return "edges that are not counted";
	return NULL;
}

/* ---- what the oracle says ---- */

static inline uint64_t
radix_coldest(void)
{
	uint64_t value = 0, used = UINT64_MAX;

	for (int i = 0; i < RADIX_VALUES; i++) {
		const struct radix_seq *s = &radix_seq[i];
		int longer = 0;

		for (int j = 0; s->alive && j < RADIX_VALUES; j++)
			longer |= radix_seq[j].alive && radix_seq[j].n > s->n &&
			    radix_common(&radix_seq[j], s) == s->n;
		if (!s->alive || longer || s->used > used)
			continue;
		value = (uint64_t)i + 1;
		used = s->used;
	}
	return value;
}

/* Prefixes that differ, each counted once. */
static inline size_t
radix_tokens(void)
{
	size_t tokens = 0;

	for (int i = 0; i < RADIX_VALUES; i++) {
		size_t had = 0;

		if (!radix_seq[i].alive)
			continue;
		for (int j = 0; j < i; j++) {
			size_t n = radix_seq[j].alive ?
			    radix_common(&radix_seq[i], &radix_seq[j]) : 0;

			had = n > had ? n : had;
		}
		tokens += radix_seq[i].n - had;
	}
	return tokens;
}

static inline size_t
radix_best(const struct radix_seq *k, uint64_t *value)
{
	const struct radix_seq *best = NULL;
	size_t most = 0;

	for (int i = 0; i < RADIX_VALUES; i++) {
		const struct radix_seq *s = &radix_seq[i];
		size_t n = s->alive ? radix_common(s, k) : 0;

		if (!n || n < most)
			continue;
		if (n > most || s->n < best->n ||
		    (s->n == best->n && s->used > best->used))
			best = s;
		most = n;
	}
	if (best)
		*value = (uint64_t)(best - radix_seq) + 1;
	return most;
}

struct radix_seen {
	int seen[RADIX_VALUES], n, wrong;
};

static inline int
radix_see(void *arg, uint64_t value, size_t length)
{
	struct radix_seen *seen = arg;
	const struct radix_seq *s = &radix_seq[value - 1];

	seen->wrong |= !s->alive || s->n != length || seen->seen[value - 1];
	for (int i = 0; i < RADIX_VALUES; i++) {
		const struct radix_seq *a = &radix_seq[i];

		if (a->alive && !seen->seen[i] && radix_common(a, s) == a->n &&
		    (a->n < s->n || (a->n == s->n && a->added < s->added)))
			seen->wrong = 1;
	}
	seen->seen[value - 1] = 1;
	seen->n++;
	return 0;
}

static inline void
radix_compare(const struct epd_radix *r, unsigned tokens, unsigned images,
    int strict)
{
	struct epd_radix_image buf[RADIX_LONG];
	struct radix_seen seen = { 0 };
	const char *fault = radix_fault(r, strict);
	size_t alive = 0;

	if (fault)
		CHECK_FAIL("%s", fault);
	for (int i = 0; i < RADIX_VALUES; i++) {
		alive += (size_t)radix_seq[i].alive;
		CHECK_INT(epd_radix_length(r, (uint64_t)i + 1),
		    radix_seq[i].alive ? radix_seq[i].n : 0);
	}
	CHECK_INT(epd_radix_count(r), alive);
	CHECK_INT(epd_radix_tokens(r), radix_tokens());
	CHECK_INT(epd_radix_coldest(r), radix_coldest());
	CHECK_INT(epd_radix_each(r, radix_see, &seen), 0);
	CHECK_INT(seen.n, alive);
	CHECK(!seen.wrong);
	for (int i = 0; i < 4; i++) {
		const struct radix_seq *some = radix_alive();
		struct radix_seq s = { 0 };
		uint64_t value = 77, expect = 77;
		struct epd_radix_key k;
		size_t n;

		/* One that is kept, cut short, and something behind. */
		if (some && i) {
			s = *some;
			s.n = radix_below((unsigned)s.n + 1);
		}
		if (i < 3)
			radix_more(&s, tokens, images);
		k = radix_key(&s, 0, buf);
		n = radix_best(&s, &expect);
		CHECK_INT(epd_radix_match(r, &k, &value), n);
		CHECK_INT(value, expect);
	}
}

/* ---- the play ---- */

/* With the nth allocation failing, for each n until it works. */
#define RADIX_TRY(rc, call, starving) do { \
	for (int radix_nth = 1; ; radix_nth++) { \
		if (starving) \
			scratch_starve(radix_nth, (int)radix_below(2)); \
		rc = call; \
		scratch_starve(0, 0); \
		if (!(starving) || rc != -ENOMEM) \
			break; \
		radix_compare(r, tokens, images, 0); \
		if (check_failed) \
			return; \
	} } while (0)

static inline void
radix_play_add(struct epd_radix *r, unsigned tokens, unsigned images,
    int starving)
{
	uint64_t value = 1 + radix_below(RADIX_VALUES);
	struct radix_seq *s = &radix_seq[value - 1], made = { 0 };
	unsigned p = radix_below(RADIX_VALUES + 8);
	uint64_t parent = p < RADIX_VALUES ? p + 1 : 0;
	struct epd_radix_image buf[RADIX_LONG];
	struct epd_radix_key k;
	size_t from = 0;
	int rc, gone = 0;

	if (parent) {
		gone = !radix_seq[p].alive;
		made = radix_seq[p];
		if (gone)
			made.n = 0;
		from = made.n;
	}
	radix_more(&made, tokens, images);
	k = radix_key(&made, from, buf);
	RADIX_TRY(rc, epd_radix_add(r, parent, value, &k), starving);
	CHECK_INT(rc, s->alive ? -EEXIST : gone ? -ENOENT : 0);
	if (rc)
		return;
	*s = made;
	s->alive = 1;
	s->used = ++radix_now;
	s->added = ++radix_adds;
}

static inline void
radix_play(uint64_t seed, int steps, int starving)
{
	unsigned tokens, images;
	struct epd_radix *r;

	memset(radix_seq, 0, sizeof radix_seq);
	radix_random = seed * 0x9e3779b97f4a7c15 + 1;
	radix_now = 0;
	tokens = 1 + radix_below(3);
	images = radix_below(3) * radix_below(4);
	CHECK_INT(epd_radix_new(&r), 0);
	for (int step = 0; step < steps && !check_failed; step++) {
		uint64_t value = 1 + radix_below(RADIX_VALUES);
		struct radix_seq *s = &radix_seq[value - 1];
		/* Now it fills, now it empties. */
		unsigned what = radix_below(step / 64 % 2 ? 8 : 16);
		int rc;

		if (what < 4) {
			/* Memory that lacks is no reason to keep one. */
			if (starving)
				scratch_starve(1 + (int)radix_below(3),
				    (int)radix_below(2));
			rc = epd_radix_remove(r, value);
			scratch_starve(0, 0);
			CHECK_INT(rc, s->alive ? 0 : -ENOENT);
			s->alive = 0;
		} else if (what < 6) {
			rc = epd_radix_use(r, value);
			CHECK_INT(rc, s->alive ? 0 : -ENOENT);
			if (!rc)
				s->used = ++radix_now;
		} else {
			radix_play_add(r, tokens, images, starving);
		}
		if (!check_failed)
			radix_compare(r, tokens, images, !starving);
	}
	if (check_failed)
		printf("# seed %llu\n", (unsigned long long)seed);
	epd_radix_free(r);
}

#endif
