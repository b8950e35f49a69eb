/* shard_kill.c - kill -9 at every named point of the log's life. */
#include "tests/unit/shard_kill.h"

TEST(killed_at_every_point)
{
	kill_all(SHARD_SLOW ? 300 : 2000);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
