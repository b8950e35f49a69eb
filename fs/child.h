/*
 * child.h - one command run to its end.
 *
 * It has its input, a file in memory with a text or nothing, and two pipes; no
 * other descriptor: /dev/fuse in it would keep a mount whose daemon was killed.
 * It leads a group of its own, so that a terminal interrupts the daemon alone,
 * and who interrupts the command does it once.
 */
#ifndef EPD_FS_CHILD_H
#define EPD_FS_CHILD_H

#include <sys/types.h>

#include "base/span.h"
#include "fs/fs.h"

/* The last line of what is read, its first bytes. */
struct epd_fs_last {
	struct epd_buf line;
	size_t most;
	int ended;
};

struct epd_fs_child {
	int in, out[2], err[2];
	struct epd_fs_last said, sentence;	/* of its output, of its errors */
};
/* text NULL: it has no input.  close frees the lines. */
int epd_fs_child_open(struct epd_fs_child *c, const struct epd_buf *text);
void epd_fs_child_close(struct epd_fs_child *c);
/* argv[0] is its path.  Who is given *pid waits for it. */
int epd_fs_child_spawn(const struct epd_fs_child *c, char *const argv[],
    char *const env[], pid_t *pid);
/*
 * The daemon's environment, but for what says which store and how; on failure too to
 * be freed.
 */
int epd_fs_child_env(char ***out, const struct epd_fs_options *o);
void epd_fs_child_env_free(char **env);
/* Take in what it says, until it says no more. */
void epd_fs_child_listen(struct epd_fs_child *c);

#endif
