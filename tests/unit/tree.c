/* tree.c - random operations against an oracle that recounts by walking. */
#include <errno.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/unit/scratch.h"
#include "tree/tree.h"

enum { MOST = 4000 };

/* The oracle: one row a node ever made; alive is worked out afresh. */
static struct { uint64_t parent; uint32_t tokens, heads; int alive; } row[MOST];
static uint64_t rows, dropped;
static int wrong_order;

static void
on_drop(void *arg, const struct epd_node *n)
{
	(void)arg;
	if (!row[n->id].alive || n->body != &row[n->id])
		wrong_order = 1;
	for (uint64_t i = n->id + 1; i <= rows; i++)
		if (row[i].alive && row[i].parent == n->id)
			wrong_order = 1;
	row[n->id].alive = 0;
	dropped++;
}

/* Children before parents, and only what nobody needs: those stay alive. */
static int
matches(struct epd_tree *t)
{
	uint64_t live = 0, at = 0;

	for (uint64_t id = 1; id <= rows; id++) {
		const struct epd_node *n = epd_tree_get(t, id);
		uint64_t start = 0;
		uint32_t children = 0;

		if (!row[id].alive != !n)
			return 0;
		if (!n)
			continue;
		live++;
		for (uint64_t c = id + 1; c <= rows; c++)
			children += row[c].alive && row[c].parent == id;
		for (uint64_t p = row[id].parent; p; p = row[p].parent)
			start += row[p].tokens;
		if (n->parent != row[id].parent || n->heads != row[id].heads ||
		    n->tokens != row[id].tokens || n->children != children ||
		    n->start != start || (n = epd_tree_next(t, at)) == NULL ||
		    n->id != id)
			return 0;
		at = id;
	}
	return live == epd_tree_count(t) && !epd_tree_next(t, at);
}

static void
walk(unsigned seed, int starving)
{
	struct epd_why why = { "" };
	struct epd_tree *t;

	memset(row, 0, sizeof row);
	rows = dropped = 0;
	wrong_order = 0;
	srand(seed);
	CHECK_INT(epd_tree_new(&t, on_drop, NULL), 0);
	for (int step = 0; step < 1500; step++) {
		uint64_t some = rows ? 1 + (uint64_t)rand() % rows : 0;
		int what = rand() % 8, rc;

		if (starving)
			scratch_starve(1 + rand() % 2, 0);
		if (what < 3) {
			uint64_t parent = rand() % 4 ? some : 0;
			uint32_t tokens = (uint32_t)rand() % 100;

			rc = epd_tree_add(t, rows + 1, parent, tokens,
			    &row[rows + 1]);
			scratch_starve(0, 0);
			if (rc == -ENOMEM && starving)
				continue;
			CHECK_INT(rc, parent && !row[parent].alive ? -ENOENT : 0);
			if (rc)
				continue;
			rows++;
			row[rows].alive = 1;
			row[rows].parent = parent;
			row[rows].tokens = tokens;
			what = 3;
			some = rows;
		}
		if (what < 5) {
			rc = epd_tree_hold(t, some);
			CHECK_INT(rc, row[some].alive ? 0 : -ENOENT);
			row[some].heads += !rc;
		} else {
			int held = row[some].heads > 0;

			if (row[some].alive && held)
				row[some].heads--;
			rc = epd_tree_drop(t, some);
			CHECK_INT(rc, rc == -ENOENT ? (held ? 1 : -ENOENT) :
			    held ? 0 : -EINVAL);
		}
		scratch_starve(0, 0);
		CHECK(!wrong_order);
		if (step % 50 == 0) {
			CHECK(matches(t));
			CHECK_INT(epd_tree_check(t, &why), 0);
		}
	}
	CHECK(matches(t));
	CHECK(dropped > 20);
	/* Nothing is alive that nobody holds and nothing stands on. */
	for (const struct epd_node *n = NULL;
	    (n = epd_tree_next(t, n ? n->id : 0)); )
		CHECK(n->heads || n->children);
	epd_tree_free(t);
	CHECK(!wrong_order);
	for (uint64_t i = 1; i <= rows; i++)
		CHECK(!row[i].alive);
}

TEST(random_operations)
{
	for (unsigned seed = 1; seed <= 20 && !check_failed; seed++)
		walk(seed, 0);
}

TEST(random_operations_without_memory)
{
	for (unsigned seed = 50; seed <= 60 && !check_failed; seed++)
		walk(seed, 1);
}

TEST(what_is_refused)
{
	struct epd_tree *t;

	CHECK_INT(epd_tree_new(&t, NULL, NULL), 0);
	CHECK_INT(epd_tree_add(t, 0, 0, 1, NULL), -EEXIST);
	CHECK_INT(epd_tree_add(t, 5, 0, 1, NULL), 0);
	CHECK_INT(epd_tree_add(t, 5, 0, 1, NULL), -EEXIST);
	CHECK_INT(epd_tree_add(t, 4, 0, 1, NULL), -EEXIST);
	CHECK_INT(epd_tree_add(t, 6, 4, 1, NULL), -ENOENT);
	CHECK_INT(epd_tree_drop(t, 5), -EINVAL);
	CHECK_INT(epd_tree_drop(t, 6), -ENOENT);
	CHECK_INT(epd_tree_hold(t, 6), -ENOENT);
	CHECK_INT(epd_tree_hold(t, 5), 0);
	CHECK_INT(epd_tree_add(t, UINT64_MAX, 5, 1, NULL), 0);
	CHECK(epd_tree_get(t, UINT64_MAX));
	CHECK(!epd_tree_next(t, UINT64_MAX));
	CHECK_INT(epd_tree_drop(t, 5), 0);
	CHECK(epd_tree_get(t, 5));
	/* A freed id is not given again. */
	CHECK_INT(epd_tree_hold(t, UINT64_MAX), 0);
	CHECK_INT(epd_tree_drop(t, UINT64_MAX), 0);
	CHECK_INT(epd_tree_count(t), 0);
	CHECK_INT(epd_tree_add(t, 5, 0, 1, NULL), -EEXIST);
	epd_tree_free(t);
	epd_tree_free(NULL);
}

/* Room asked for is room there, whatever the allocator says afterwards. */
TEST(reserve)
{
	struct epd_tree *t;

	CHECK_INT(epd_tree_new(&t, NULL, NULL), 0);
	CHECK_INT(epd_tree_reserve(t, 1000), 0);
	scratch_starve(1, 1);
	for (uint64_t i = 1; i <= 1000; i++)
		CHECK_INT(epd_tree_add(t, i * 3, (i - 1) * 3, 2, NULL), 0);
	scratch_starve(0, 0);
	CHECK_INT(epd_tree_get(t, 3000)->start, 1998);
	CHECK(!epd_tree_get(t, 2999));
	epd_tree_free(t);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
