/*
 * handle.h - an open file or directory: what it shows is settled when it is opened,
 * but for what grows, which is read on at its end.
 */
#ifndef EPD_FS_HANDLE_H
#define EPD_FS_HANDLE_H

#include "fs/world.h"

struct epd_fs_item {
	struct epd_fs_at at;
	size_t name;			/* where in names */
};

struct epd_fs_handle {
	struct epd_fs_at at;
	uint64_t ino;
	pthread_mutex_t lock;		/* of text */
	struct epd_buf text;		/* a rendered file */
	struct epd_fs *fs;
	struct epd_fs_tongue *tongue;	/* of one that grows */
	struct epd_pin *pin;		/* a page */
	int fd;				/* a blob, or -1 */
	int backing;			/* the kernel's id of fd, or 0 */
	struct epd_fs_talk *talk;	/* say, ctl, tier */
	struct epd_fs_item *item;	/* a directory */
	size_t items;
	struct epd_buf names;
	uint64_t seen;			/* of what grows: read up to here; atomic */
};

/*
 * Open what at shows, to be written too if writes is set.  Takes the lock, but not over
 * a text that is EPD_FS_ASIDE.  -ENODATA, of a page: it is not in memory.
 */
int epd_fs_handle_open(struct epd_fs_handle **out, struct epd_fs *fs,
    const struct epd_fs_at *at, uint64_t ino, int writes,
    struct epd_why *why);
/*
 * Have a page in memory again from the tier it rests in.  Under no lock; it may take
 * long.  -ENODATA: none has it, or the mount may not; as flow.
 */
int epd_fs_page_back(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_why *why);
int epd_fs_handle_opendir(struct epd_fs_handle **out, struct epd_fs *fs,
    const struct epd_fs_at *at, uint64_t ino);
void epd_fs_handle_close(struct epd_fs_handle *h);
/* At most n bytes at off into p: how many, or -errno.  Not of pages. */
ssize_t epd_fs_handle_read(struct epd_fs_handle *h, struct epd_fs *fs,
    void *p, size_t n, uint64_t off);
/* Up to where it was read. */
uint64_t epd_fs_handle_seen(const struct epd_fs_handle *h);
/* What it shows is there no more.  Under the lock. */
int epd_fs_handle_is_gone(struct epd_fs_handle *h, struct epd_fs *fs);
/* What can be read of it now, in bytes from its start.  Under the lock. */
uint64_t epd_fs_handle_size(struct epd_fs_handle *h, struct epd_fs *fs);

#endif
