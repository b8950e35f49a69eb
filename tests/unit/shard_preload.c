/* shard_preload.c - kills and failures at calls that only faults.so reaches. */
#include "tests/unit/shard_preload.h"

static int
usable(void)
{
	char lib[PATH_MAX];

#ifdef __SANITIZE_ADDRESS__
	return 0;
#endif
	return preload_path(lib);
}

TEST(killed_before_each_call)
{
	if (!usable())
		SKIP("skip: no faults.so, or a sanitizer that must come first");
	preload_each("KILL", 0, 3);
}

TEST(killed_within_each_call)
{
	if (!usable())
		SKIP("skip: no faults.so, or a sanitizer that must come first");
	preload_each("TORN", 0, 3);
}

TEST(short_and_full)
{
	if (!usable())
		SKIP("skip: no faults.so, or a sanitizer that must come first");
	preload_each("SHORT", 0, 5);
	preload_each("ENOSPC", 1, 5);
	preload_each("EINTR", 0, 5);
}

TEST(branches_leases_and_hand_offs)
{
	if (!usable())
		SKIP("skip: no faults.so, or a sanitizer that must come first");
	preload_holds("KILL", 0, 7);
	preload_holds("TORN", 0, 7);
	preload_holds("SHORT", 0, 7);
	preload_holds("ENOSPC", 1, 11);
	preload_holds("EINTR", 0, 11);
	preload_tell();
}

int
main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "child"))
		return preload_child(argv);
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
