/* tree_radix.c - kept sequences: random plays, images, depth, memory. */
#include <pthread.h>

#include "tests/unit/tree_radix.h"

TEST(random_operations)
{
	for (uint64_t seed = 1; seed <= 60 && !check_failed; seed++)
		radix_play(seed, 300, 0);
}

TEST(random_operations_without_memory)
{
	for (uint64_t seed = 500; seed <= 530 && !check_failed; seed++)
		radix_play(seed, 150, 1);
}

static struct epd_radix_key
key(const int32_t *ids, size_t n)
{
	return (struct epd_radix_key){ ids, n, NULL, 0 };
}

static const int32_t count[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };

TEST(what_is_refused)
{
	struct epd_radix_image m[] = { radix_image(1, 1), radix_image(1, 1) };
	struct epd_radix_key k = key(count, 4);
	struct epd_radix *r;

	CHECK_INT(epd_radix_new(&r), 0);
	CHECK_INT(epd_radix_add(r, 0, 0, &k), -EINVAL);
	CHECK_INT(epd_radix_add(r, 5, 1, &k), -ENOENT);
	CHECK_INT(epd_radix_add(r, 1, 1, &k), -ENOENT);
	CHECK_INT(epd_radix_remove(r, 1), -ENOENT);
	CHECK_INT(epd_radix_use(r, 1), -ENOENT);
	CHECK_INT(epd_radix_remove(r, 0), -ENOENT);
	CHECK_INT(epd_radix_add(r, 0, 1, &k), 0);
	CHECK_INT(epd_radix_add(r, 0, 1, &k), -EEXIST);
	CHECK_INT(epd_radix_add(r, 9, 1, &k), -EEXIST);
	k.images = m;
	k.nimages = 2;
	CHECK_INT(epd_radix_add(r, 0, 2, &k), -EINVAL);
	m[1].at = 0;
	CHECK_INT(epd_radix_add(r, 0, 2, &k), -EINVAL);
	m[1].at = 4;
	CHECK_INT(epd_radix_add(r, 0, 2, &k), -EINVAL);
	m[1].at = UINT64_MAX;
	CHECK_INT(epd_radix_add(r, 0, 2, &k), -EINVAL);
	/* Positions count from the whole's begin. */
	m[1].at = 3;
	CHECK_INT(epd_radix_add(r, 1, 2, &k), -EINVAL);
	m[0].at = 4;
	m[1].at = 7;
	CHECK_INT(epd_radix_add(r, 1, 2, &k), 0);
	CHECK_INT(epd_radix_count(r), 2);
	CHECK_INT(epd_radix_tokens(r), 8);
	epd_radix_free(r);
	epd_radix_free(NULL);
}

TEST(empty_keys)
{
	struct epd_radix_key none = key(NULL, 0), four = key(count, 4);
	struct radix_seen seen = { 0 };
	uint64_t value = 77;
	struct epd_radix *r;

	CHECK_INT(epd_radix_new(&r), 0);
	CHECK_INT(epd_radix_match(r, &none, &value), 0);
	CHECK_INT(epd_radix_match(r, &four, &value), 0);
	CHECK_INT(epd_radix_coldest(r), 0);
	CHECK_INT(epd_radix_each(r, radix_see, &seen), 0);
	CHECK_INT(seen.n, 0);
	CHECK_INT(epd_radix_add(r, 0, 1, &none), 0);
	CHECK_INT(epd_radix_add(r, 1, 2, &none), 0);
	CHECK_INT(epd_radix_length(r, 2), 0);
	CHECK_INT(epd_radix_coldest(r), 1);
	CHECK_INT(epd_radix_use(r, 1), 0);
	CHECK_INT(epd_radix_coldest(r), 2);
	CHECK_INT(epd_radix_match(r, &four, &value), 0);
	CHECK_INT(value, 77);
	/* Behind an empty one, and an empty one behind that. */
	CHECK_INT(epd_radix_add(r, 2, 3, &four), 0);
	CHECK_INT(epd_radix_add(r, 3, 4, &none), 0);
	CHECK_INT(epd_radix_coldest(r), 3);
	CHECK_INT(epd_radix_remove(r, 3), 0);
	CHECK_INT(epd_radix_match(r, &four, &value), 4);
	CHECK_INT(value, 4);
	CHECK_INT(epd_radix_match(r, &four, NULL), 4);
	CHECK_INT(epd_radix_remove(r, 2), 0);
	CHECK_INT(epd_radix_remove(r, 4), 0);
	CHECK_INT(epd_radix_tokens(r), 0);
	CHECK_INT(epd_radix_coldest(r), 1);
	epd_radix_free(r);
}

/* The longest match wins; behind it the nearest end, then the last use. */
TEST(which_value_is_named)
{
	static const int32_t other[] = { 0, 1, 2, 3, 90, 91 };
	struct epd_radix_key k = key(count, 12), o = key(other, 6);
	struct epd_radix *r;
	uint64_t value = 0;

	CHECK_INT(epd_radix_new(&r), 0);
	CHECK_INT(epd_radix_add(r, 0, 1, &k), 0);
	CHECK_INT(epd_radix_add(r, 0, 2, &o), 0);
	k.n = 4;
	CHECK_INT(epd_radix_match(r, &k, &value), 4);
	CHECK_INT(value, 2);
	k.n = 5;
	CHECK_INT(epd_radix_match(r, &k, &value), 5);
	CHECK_INT(value, 1);
	k.n = 6;
	CHECK_INT(epd_radix_add(r, 0, 3, &k), 0);
	k.n = 4;
	CHECK_INT(epd_radix_match(r, &k, &value), 4);
	CHECK_INT(value, 3);
	CHECK_INT(epd_radix_use(r, 2), 0);
	CHECK_INT(epd_radix_match(r, &k, &value), 4);
	CHECK_INT(value, 2);
	CHECK_INT(epd_radix_remove(r, 2), 0);
	CHECK_INT(epd_radix_match(r, &k, &value), 4);
	CHECK_INT(value, 3);
	epd_radix_free(r);
}

/* Given up and added again: it is another one, and used now. */
TEST(a_value_again)
{
	struct epd_radix_key k = key(count, 6);
	struct epd_radix *r;
	uint64_t value = 0;

	CHECK_INT(epd_radix_new(&r), 0);
	CHECK_INT(epd_radix_add(r, 0, 1, &k), 0);
	k.ids = count + 6;
	CHECK_INT(epd_radix_add(r, 1, 2, &k), 0);
	CHECK_INT(epd_radix_remove(r, 1), 0);
	CHECK_INT(epd_radix_length(r, 2), 12);
	CHECK_INT(epd_radix_add(r, 0, 1, &k), 0);
	CHECK_INT(epd_radix_tokens(r), 18);
	CHECK_INT(epd_radix_coldest(r), 2);
	k = key(count, 12);
	CHECK_INT(epd_radix_match(r, &k, &value), 12);
	CHECK_INT(value, 2);
	k = key(count + 6, 6);
	CHECK_INT(epd_radix_match(r, &k, &value), 6);
	CHECK_INT(value, 1);
	epd_radix_free(r);
}

/* Sixteen equal tokens, and images among them. */
struct pictured {
	int n;
	uint64_t at[3];
	int image[3];
};

static size_t
pictured_match(const struct pictured *kept, const struct pictured *asked)
{
	static const int32_t same[16] = { 0 };
	struct epd_radix_image m[2][3];
	struct epd_radix *r;
	uint64_t value;
	size_t n = 999;

	for (int i = 0; i < 3; i++) {
		m[0][i] = radix_image(kept->at[i], kept->image[i]);
		m[1][i] = radix_image(asked->at[i], asked->image[i]);
	}
	if (epd_radix_new(&r) < 0)
		return n;
	if (!epd_radix_add(r, 0, 1, &(struct epd_radix_key){ same, 16, m[0],
	    (size_t)kept->n }))
		n = epd_radix_match(r, &(struct epd_radix_key){ same, 16, m[1],
		    (size_t)asked->n }, &value);
	epd_radix_free(r);
	return n;
}

TEST(images_count_from_their_first_token)
{
	static const struct { struct pictured kept, asked; size_t n; } row[] = {
		{ { 0 }, { 0 }, 16 },
		{ { 1, { 5 }, { 1 } }, { 1, { 5 }, { 1 } }, 16 },
		{ { 1, { 5 }, { 1 } }, { 1, { 5 }, { 2 } }, 5 },
		{ { 1, { 5 }, { 1 } }, { 1, { 7 }, { 1 } }, 5 },
		{ { 1, { 7 }, { 1 } }, { 1, { 5 }, { 1 } }, 5 },
		{ { 1, { 5 }, { 1 } }, { 0 }, 5 },
		{ { 0 }, { 1, { 15 }, { 1 } }, 15 },
		{ { 1, { 0 }, { 1 } }, { 1, { 0 }, { 2 } }, 0 },
		{ { 1, { 0 }, { 1 } }, { 0 }, 0 },
		{ { 2, { 4, 5 }, { 1, 2 } }, { 2, { 4, 5 }, { 1, 2 } }, 16 },
		{ { 2, { 4, 5 }, { 1, 2 } }, { 2, { 4, 5 }, { 2, 1 } }, 4 },
		{ { 2, { 4, 5 }, { 1, 2 } }, { 2, { 4, 5 }, { 1, 1 } }, 5 },
		{ { 2, { 4, 5 }, { 1, 2 } }, { 1, { 4 }, { 1 } }, 5 },
		{ { 3, { 0, 1, 15 }, { 1, 1, 1 } },
		  { 3, { 0, 1, 15 }, { 1, 1, 2 } }, 15 },
		/* Behind the last token, at none, or out of order: no harm. */
		{ { 1, { 5 }, { 1 } }, { 2, { 5, 16 }, { 1, 2 } }, 16 },
		{ { 1, { 5 }, { 1 } }, { 2, { 5, UINT64_MAX }, { 1, 2 } }, 16 },
	};
	static const struct pictured hostile = { 3, { 9, 0, 3 }, { 1, 1, 1 } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		CHECK_INT(pictured_match(&row[i].kept, &row[i].asked), row[i].n);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		CHECK(pictured_match(&row[i].kept, &hostile) <= 16);
}

/* A caller that breaks its word about a key's images: no harm, but no match. */
TEST(images_out_of_order)
{
	static const int32_t ids[16] = { 0 };
	struct epd_radix_image kept = radix_image(8, 1);
	struct epd_radix_image asked[] = { radix_image(8, 1), radix_image(1, 1) };
	struct epd_radix_key k = key(ids, 8);
	struct epd_radix *r;
	uint64_t value = 0;

	CHECK_INT(epd_radix_new(&r), 0);
	CHECK_INT(epd_radix_add(r, 0, 1, &k), 0);
	k.images = &kept;
	k.nimages = 1;
	CHECK_INT(epd_radix_add(r, 1, 2, &k), 0);
	k = (struct epd_radix_key){ ids, 16, asked, 2 };
	CHECK_INT(epd_radix_match(r, &k, &value), 8);
	CHECK(value);
	epd_radix_free(r);
}

/* ---- depth ---- */

enum { DEEP = 100000, STACK = 256 << 10 };

static int
tally(void *arg, uint64_t value, size_t length)
{
	size_t *n = arg;

	/* A chain: ancestors first is in the order of length. */
	return value == ++*n && length == value ? 0 : 1;
}

static int
stop_at(void *arg, uint64_t value, size_t length)
{
	(void)length;
	return value == *(uint64_t *)arg ? -7 : 0;
}

static int
add_chain(struct epd_radix *r, const int32_t *ids)
{
	int rc = 0;

	for (uint64_t v = 1; v <= DEEP && !rc; v++) {
		struct epd_radix_key k = key(ids + v - 1, 1);

		rc = epd_radix_add(r, v - 1, v, &k);
	}
	return rc;
}

static void
deep(const int32_t *ids)
{
	struct epd_radix_key all = key(ids, DEEP);
	struct epd_radix *r;
	uint64_t value = 0;
	size_t n = 0;

	CHECK_INT(epd_radix_new(&r), 0);
	for (int how = 0; how < 3; how++, n = 0) {
		CHECK_INT(add_chain(r, ids), 0);
		CHECK_INT(epd_radix_tokens(r), DEEP);
		CHECK_INT(epd_radix_match(r, &all, &value), DEEP);
		CHECK_INT(value, DEEP);
		CHECK_INT(epd_radix_coldest(r), DEEP);
		CHECK_INT(epd_radix_each(r, tally, &n), 0);
		CHECK_INT(n, DEEP);
		value = 500;
		CHECK_INT(epd_radix_each(r, stop_at, &value), -7);
		CHECK_INT(epd_radix_use(r, DEEP), 0);
		/* From the root down, from the end up, and from the middle. */
		for (uint64_t i = 0; i + 1 < DEEP; i++) {
			value = how == 0 ? i + 1 : how == 1 ? DEEP - i :
			    1 + (i + DEEP / 2) % DEEP;
			CHECK_INT(epd_radix_remove(r, value), 0);
		}
		CHECK_INT(epd_radix_count(r), 1);
		CHECK_INT(r->edges.n, 1);
		value = epd_radix_coldest(r);
		CHECK_INT(epd_radix_match(r, &all, &value),
		    epd_radix_tokens(r));
		CHECK_INT(epd_radix_remove(r, value), 0);
		CHECK_INT(epd_radix_tokens(r), 0);
		CHECK_INT(r->edges.n, 0);
		CHECK(r->edges.cap < 64 && r->values.cap < 64);
	}
	/* A whole one to free. */
	CHECK_INT(add_chain(r, ids), 0);
	epd_radix_free(r);
}

/* Each edge has a branch, all of one length: the best is that of all above. */
static void
comb(const int32_t *ids)
{
	static int32_t tooth[DEEP];
	enum { TEETH = 400 };
	struct epd_radix *r;
	uint64_t value = 0;

	CHECK_INT(epd_radix_new(&r), 0);
	for (uint64_t v = 1; v <= TEETH; v++) {
		struct epd_radix_key k = key(tooth, TEETH);

		memcpy(tooth, ids, v * sizeof *ids);
		tooth[v] = -1;
		for (size_t i = v + 1; i < TEETH; i++)
			tooth[i] = 7;
		CHECK_INT(epd_radix_add(r, 0, v, &k), 0);
	}
	for (uint64_t v = TEETH; v >= 1; v--) {
		struct epd_radix_key k = key(ids, 1);

		CHECK_INT(epd_radix_use(r, v), 0);
		CHECK_INT(epd_radix_match(r, &k, &value), 1);
		CHECK_INT(value, v);
		CHECK_INT(epd_radix_coldest(r), v > 1 ? 1 : TEETH);
	}
	CHECK(!radix_fault(r, 1));
	epd_radix_free(r);
}

static void *
on_a_small_stack(void *arg)
{
	int32_t *ids = arg;

	for (int i = 0; i < DEEP; i++)
		ids[i] = i * 7919 % 1000;
	deep(ids);
	if (!check_failed)
		comb(ids);
	return NULL;
}

TEST(a_chain_of_a_hundred_thousand)
{
	static int32_t ids[DEEP];
	pthread_attr_t attr;
	pthread_t t;

	CHECK_INT(pthread_attr_init(&attr), 0);
	CHECK_INT(pthread_attr_setstacksize(&attr, STACK), 0);
	CHECK_INT(pthread_create(&t, &attr, on_a_small_stack, ids), 0);
	CHECK_INT(pthread_join(t, NULL), 0);
	pthread_attr_destroy(&attr);
}

/* ---- memory ---- */

/* Room that the edges hold, in tokens. */
static size_t
room(const struct epd_radix *r)
{
	size_t n = 0;

	for (const struct epd_edge *e = &r->root; e; e = epd_edge_next(e))
		n += e->ids.cap;
	return n;
}

/* Adding and giving up in turns, one sequence always kept. */
TEST(memory_does_not_grow)
{
	static int32_t ids[4096];
	struct epd_radix_key k = key(ids, 4096);
	struct epd_radix *r;

	CHECK_INT(epd_radix_new(&r), 0);
	CHECK_INT(epd_radix_add(r, 0, 1, &k), 0);
	for (int i = 0; i < 3000; i++) {
		uint64_t kept = 1 + (uint64_t)i % 2, next = 3 - kept;
		size_t at = (size_t)i * 2711 % 4000;

		/* It leaves the kept one midway, which then goes. */
		ids[at]++;
		CHECK_INT(epd_radix_add(r, 0, next, &k), 0);
		CHECK_INT(epd_radix_tokens(r), 4096 + 4096 - at);
		k.n = at;
		CHECK_INT(epd_radix_add(r, 0, 3, &k), 0);
		k.n = 4096;
		CHECK_INT(epd_radix_remove(r, kept), 0);
		CHECK_INT(epd_radix_remove(r, 3), 0);
		CHECK_INT(r->edges.n, 1);
		CHECK(room(r) <= 2 * 4096);
		CHECK(r->edges.cap <= 32 && r->values.cap <= 32);
	}
	CHECK_INT(epd_radix_tokens(r), 4096);
	epd_radix_free(r);
}

/* Cut again and again, from its begin on or from its end. */
static void
cut(int from_end)
{
	enum { LONG = 1 << 14, STEP = 100, CUTS = LONG / STEP };
	static int32_t ids[LONG];
	struct epd_radix_key k = key(ids, LONG);
	struct epd_radix *r;

	CHECK_INT(epd_radix_new(&r), 0);
	CHECK_INT(epd_radix_add(r, 0, LONG, &k), 0);
	for (uint64_t i = 1; i <= CUTS; i++) {
		k.n = STEP * (from_end ? CUTS + 1 - i : i);
		CHECK_INT(epd_radix_add(r, 0, i, &k), 0);
		for (const struct epd_edge *e = epd_edge_next(&r->root); e;
		    e = epd_edge_next(e))
			CHECK(e->ids.cap <= 2 * e->ids.n);
	}
	CHECK(room(r) < LONG + LONG / 8);
	k.n = STEP / 2;
	CHECK_INT(epd_radix_add(r, 0, LONG + 1, &k), 0);
	CHECK_INT(epd_radix_remove(r, LONG), 0);
	for (uint64_t i = 1; i <= CUTS; i++)
		CHECK_INT(epd_radix_remove(r, i), 0);
	CHECK_INT(epd_radix_tokens(r), STEP / 2);
	CHECK(room(r) <= STEP);
	epd_radix_free(r);
}

TEST(what_is_cut_gives_its_memory_back)
{
	cut(0);
	if (!check_failed)
		cut(1);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
