/* shard_many.c - the long form of unit/shard_many.c. */
#include "tests/unit/shard_many.h"

TEST(eight_processes)
{
	many_run(8, 4, 1500, 65536);
}

TEST(small_checkpoints)
{
	many_run(8, 4, 1000, 4096);
}

TEST(twenty_thousand_kills)
{
	many_kills(8, 20000, 50, 77);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
