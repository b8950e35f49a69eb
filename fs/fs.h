/*
 * fs.h - a store as a file system: everything a person would look for is a file,
 * and what a script would do can be done with the shell.  fs/kind.c draws the tree.
 */
#ifndef EPD_FS_H
#define EPD_FS_H

#include <sys/types.h>

#include "epd.h"

struct epd_fs_options {
	struct epd_store_options store;
	const char *mountpoint;		/* absolute */
	const char *bin;		/* folder of the commands that jobs run */
	const char *config;		/* their configuration file, or NULL */
	const char *kernel;		/* further mount options, "a,b=c", or NULL */
	int read_only;			/* nothing is written at all */
	int allow_other;
};

/*
 * Mount, serve until unmounted or told to stop (SIGINT, SIGTERM, SIGHUP), unmount.
 * ready is called once when the tree can be looked at.  0, or an error in why:
 * EPD_EUNSUPPORTED (no FUSE here), -EBUSY, -ENOTDIR, -EPERM, and of opening.
 * To be called in a process of its own: it takes its signals and threads.
 */
int epd_fs_serve(const struct epd_fs_options *o,
    void (*ready)(void *arg), void *arg, struct epd_why *why);

/*
 * 1 if a store is what is mounted on the path (as realpath gives it), and on top;
 * dev is the device of whatever is, and left alone if nothing is.
 */
int epd_fs_mounted(const char *path, dev_t *dev);

#endif
