/* tree_radix.c - the long form of unit/tree_radix.c. */
#include "tests/unit/tree_radix.h"

TEST(two_thousand_plays)
{
	for (uint64_t seed = 10000; seed < 12000 && !check_failed; seed++)
		radix_play(seed, 600, 0);
}

TEST(a_thousand_plays_without_memory)
{
	for (uint64_t seed = 20000; seed < 21000 && !check_failed; seed++)
		radix_play(seed, 300, 1);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
