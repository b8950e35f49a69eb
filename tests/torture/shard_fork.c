/* shard_fork.c - the long form of unit/shard_fork.c: 100,000 operations and more. */
#include "tests/unit/shard_forks.h"

TEST(sixty_four_processes)
{
	forks_run(64, 8000, 1 << 16);
}

TEST(small_checkpoints)
{
	forks_run(64, 800, 4096);
}

TEST(few_and_long)
{
	forks_run(8, 8000, 1 << 18);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
