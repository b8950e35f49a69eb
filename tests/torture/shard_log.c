/* shard_log.c - the long form of unit/shard_log.c. */
#include "tests/unit/shard_log.h"

TEST(cut_at_every_byte)
{
	log_cut(LOG_STEPS);
}

TEST(flip_every_byte)
{
	log_flip(12, -1, 0, 0, 1);
	log_flip(12, -1, 0, 1, 1);
	log_flip(12, 6, 0, 0, 1);
	log_flip(12, 6, 1, 1, 1);
	log_flip(12, 6, -1, 0, 1);
}

TEST(power_loss_in_appends)
{
	log_torn(10000, 77);
}

TEST(power_loss_in_checkpoints)
{
	log_torn_checkpoint(10000, 77);
}

TEST(power_loss_in_groups)
{
	log_torn_group(60000, 77);
	log_tell(70000);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
