/* shard_life.c - the long form of unit/shard_life.c. */
#include "tests/unit/shard_life.h"

TEST(five_thousand_sequences)
{
	for (uint64_t seed = 1000; seed < 6000 && !check_failed; seed++)
		life_play(seed, 60);
	CHECK_INT(life_all.sequences, 5000);
	life_tell();
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
