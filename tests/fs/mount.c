/* mount.c - the mount under operations at random, writers, kills, and loss. */
#include "tests/fs/mount_fsx.h"

TEST(operations_at_random)
{
	MT_BEGIN(300);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	printf("# seed %llu\n", (unsigned long long)mt.seed);
	CHECK_INT(fsx_all(4, mt_env("EPD_OPS", 20000)), 0);
	for (int i = 0; i < FSX_OPS; i++)
		printf("# %s %llu\n", fsx_ops[i].name, (unsigned long long)mt.sh->done[i]);
	CHECK_INT(mt.sh->bad, 0);
	CHECK_INT(mt_down(0), 0);
	CHECK_INT(mt_check(), 0);
	mt_end();
}

int main(int argc, char **argv)
{
	mt_find_bin(argv[0]);
	return check_main(argc, argv);
}
