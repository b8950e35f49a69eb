/* mount.c - a mount that is used roughly, as long as a check may take. */
enum {
	MT_OPS = 20000, MT_SECONDS = 10, MT_KILLS = 8, MT_STOPS = 3,
	MT_LIMIT = 300
};

#include "tests/fs/mount_tests.h"
