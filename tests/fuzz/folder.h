/* folder.h - a folder in memory for a target's files; it goes when the target ends. */
#ifndef TESTS_FUZZ_FOLDER_H
#define TESTS_FUZZ_FOLDER_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

static char folder_path[64];

static void
folder_remove(void)
{
	int root = open("/", O_RDONLY | O_DIRECTORY);

	epd_file_remove(root, folder_path + 1);
	close(root);
}

static inline int
folder(void)
{
	static int fd = -1;

	if (fd < 0) {
		const char *tmp = getenv("TMPDIR");

		if (!tmp || strlen(tmp) > 40)
			tmp = "/dev/shm";
		snprintf(folder_path, sizeof folder_path, "%s/epd-fuzz.XXXXXX",
		    tmp);
		if (!mkdtemp(folder_path))
			abort();
		atexit(folder_remove);
		fd = open(folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return fd;
}

/* Make the file these bytes. */
static inline void
folder_put(int dir, const char *name, const void *p, size_t n)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
	    0600);

	if (fd < 0 || (n && epd_file_pwrite(fd, p, n, 0)))
		abort();
	close(fd);
}

#endif
