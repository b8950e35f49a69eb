/* shard_many.c - several processes on one workflow. */
#include "tests/unit/shard_many.h"

TEST(two_processes)
{
	many_run(2, 0, 150, 1 << 20);
}

TEST(eight_processes_and_two_readers)
{
	many_run(8, 2, 40, 16384);
}

TEST(kills)
{
	many_kills(8, SHARD_SLOW ? 200 : 5000, 100, 1);
}

/* Two that find an empty folder: one makes the log, both use it. */
TEST(made_at_once)
{
	for (int i = 0; i < 20; i++) {
		int dir = scratch_open(), bad = 0;
		struct epd_shard *s;
		pid_t pid[4];

		fflush(stdout);
		for (int k = 0; k < 4; k++) {
			pid[k] = fork();
			if (!pid[k]) {
				uint32_t id;

				_exit(shard_open(&s, dir, 0) ||
				    shard_create(s, 1, 0, &id));
			}
		}
		for (int k = 0; k < 4; k++)
			bad |= scratch_wait(pid[k]);
		CHECK_INT(bad, 0);
		CHECK_INT(shard_open(&s, dir, 1), 0);
		CHECK_INT(epd_shard_lsn(s), 4);
		epd_shard_close(s);
		scratch_close(dir);
	}
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
