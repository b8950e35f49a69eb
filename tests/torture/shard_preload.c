/* shard_preload.c - the long form of unit/shard_preload.c. */
#include "tests/unit/shard_preload.h"

TEST(every_call_every_way)
{
	static const char *const act[] = { "KILL", "TORN", "SHORT", "EIO",
	    "ENOSPC", "EINTR", "EROFS", "EMFILE" };
	char lib[PATH_MAX];

	if (!preload_path(lib))
		SKIP("skip: faults.so is not beside this program's folder");
	for (size_t i = 0; i < sizeof act / sizeof *act; i++) {
		preload_each(act[i], 0, 1);
		if (i == 2 || i == 3 || i == 4 || i > 5)
			preload_each(act[i], 1, 1);
		preload_holds(act[i], 0, 1);
		if (i == 2 || i == 3 || i == 4 || i > 5)
			preload_holds(act[i], 1, 1);
	}
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
