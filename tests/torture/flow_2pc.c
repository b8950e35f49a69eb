/*
 * flow_2pc.c - the matrix of flow_2pc.h at every call, between stores and within
 * one, of a model with and one without deep features, and a few thousand
 * shuffles.
 *
 *	flow_2pc [TEST...]
 */
#include "tests/unit/flow_2pc.h"

static void
whole(const char *model, int two)
{
	struct cell c;

	cell_shuffles = 2000;
	cells_begin(&c, model, two);
	for (int f = 0; f < CELL_FAULTS && !check_failed; f++)
		for (int side = 0; side < 2; side++) {
			/* Those that the ones before them count in; no driver. */
			if (f == FAILED_FLUSH || f == FLUSH_FAILS_FOR_GOOD ||
			    (f == SHUFFLED && side))
				continue;
			if (!two && (f == SOURCE_AWAY || f == TARGET_AWAY ||
			    f == ADOPTED))
				continue;
			cells_row(&c, (enum cell_fault)f, side, 1);
		}
	cells_tell(&c);
	printf("# row 9: %d cells, %d with exactly one owner\n", c.cells,
	    c.good);
	CHECK_INT(c.good, c.cells);
	CHECK(c.cells > (two ? 3000 : 2400));
	cells_end(&c);
}

TEST(between_stores) { whole(QWEN2, 1); }
TEST(within_a_store) { whole(QWEN2, 0); }
TEST(between_stores_with_deep_features) { whole(QWEN3, 1); }

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
