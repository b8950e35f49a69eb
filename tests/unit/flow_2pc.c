/*
 * flow_2pc.c - the matrix of flow_2pc.h at every third call; torture has it at
 * every one.
 */
#include "tests/unit/flow_2pc.h"

enum { STRIDE = 3, NEAR_STRIDE = 9 };

/* Between two stores, and within one. */
static struct cell far, near;
static int rows;

static void
row(enum cell_fault f, int side)
{
	if (!far.told)
		cells_begin(&far, QWEN2, 1);
	if (!near.told)
		cells_begin(&near, QWEN2, 0);
	cells_row(&far, f, side, STRIDE);
	if (f != SOURCE_AWAY && f != TARGET_AWAY && f != ADOPTED)
		cells_row(&near, f, side, NEAR_STRIDE);
	rows++;
}

TEST(killed_source) { row(KILLED, 0); row(TORN, 0); }
TEST(killed_target) { row(KILLED, 1); row(TORN, 1); }
TEST(killed_both) { row(BOTH_KILLED, 0); row(BOTH_KILLED, 1); }
TEST(frozen_source) { row(FROZEN, 0); row(WOKEN_LATE, 0); }
TEST(frozen_target) { row(FROZEN, 1); row(WOKEN_LATE, 1); }
TEST(a_second_coordinator)
{
	for (int side = 0; side < 2; side++) {
		row(OTHER_ABORTS, side);
		row(OTHER_COMMITS, side);
	}
}
TEST(failed_calls)
{
	for (int side = 0; side < 2; side++) {
		row(FULL_DISK, side);
		row(FULL_FOR_GOOD, side);
	}
}
TEST(source_away) { row(SOURCE_AWAY, 0); row(SOURCE_AWAY, 1); }
TEST(target_away) { row(TARGET_AWAY, 0); row(TARGET_AWAY, 1); }
TEST(adopted) { row(ADOPTED, 0); row(ADOPTED, 1); }
TEST(calls_again_and_in_any_order) { row(SHUFFLED, 0); }

TEST(the_matrix)
{
	cells_tell(&far);
	cells_tell(&near);
	printf("# row 9: %d cells, %d with exactly one owner\n",
	    far.cells + near.cells, far.good + near.good);
	CHECK_INT(far.good + near.good, far.cells + near.cells);
	if (rows == 25)
		CHECK(far.cells + near.cells >= 500);
	if (far.told)
		cells_end(&far);
	if (near.told)
		cells_end(&near);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
