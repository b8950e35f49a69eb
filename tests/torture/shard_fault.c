/* shard_fault.c - every call failing in every way, and kills at every call. */
#include "tests/unit/shard_fault.h"

static const int errors[] = { EIO, ENOSPC, EINTR, EDQUOT, EROFS, ENOMEM };

TEST(each_call_each_error)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		fault_each(errors[i], 0, NULL, 1, 1);
		fault_each(errors[i], 0, NULL, 1, 0);
		/* A call that is interrupted for ever never ends. */
		if (errors[i] != EINTR) {
			fault_each(errors[i], FAULT_ON, NULL, 1, 1);
			fault_each(errors[i], FAULT_ON, NULL, 1, 0);
		}
	}
}

static void
fail_holds(void)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		fault_each(errors[i], 0, NULL, 1, 1);
		fault_each(errors[i], 0, NULL, 1, 0);
		if (errors[i] != EINTR)
			fault_each(errors[i], FAULT_ON, NULL, 1, 1);
	}
}

TEST(each_call_each_error_of_branches_leases_and_hand_offs)
{
	with_holds(fail_holds);
}

TEST(each_kind_of_call)
{
	static const char *const kind[] = { "pwrite", "pread", "fdatasync",
	    "fsync", "renameat", "unlinkat" };

	for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
		fault_each(EIO, 0, kind[i], 1, 1);
		fault_each(EIO, FAULT_ON, kind[i], 1, 1);
	}
}

TEST(how_many_failed)
{
	fault_tell_all(6000);
}

TEST(killed_at_every_call_often)
{
	for (int round = 0; round < 20 && !check_failed; round++) {
		int rc = -SIGKILL;

		for (int n = 1; rc == -SIGKILL && !check_failed; n++)
			rc = fault_kill(n, NULL);
		CHECK_INT(rc, 0);
	}
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
