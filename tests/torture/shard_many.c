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

TEST(two_thousand_kills)
{
	for (uint64_t i = 0; i < 40 && !check_failed; i++)
		many_kill(8, 50, i % 2 ? 8192 : 4096, i * 1000);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
