/* mount.c - the long form of fs/mount.c. */
enum {
	MT_OPS = 200000, MT_SECONDS = 60, MT_KILLS = 50, MT_STOPS = 20,
	MT_LIMIT = 1800
};

#include "tests/fs/mount_tests.h"
