/*
 * memory.h - what the directory has in memory: what this node told of, which shards it
 * owns, and what it heard.  Outside this room include dir/dir.h.
 */
#ifndef EPD_DIR_MEMORY_H
#define EPD_DIR_MEMORY_H

#include "dir/room.h"

/* told.c, under the lock.  0: it was told as it is.  Fails: EPD_ETOOBIG, -ENOMEM. */
int epd_told_put(struct epd_dir *d, const char *path, const struct epd_hint *h);
int epd_told_remove(struct epd_dir *d, const char *path);	/* 0: it was not there */
/* This node's own: 1 or 0. */
int epd_told_find(struct epd_dir *d, const char *path, struct epd_hint *out,
    int max);
/*
 * The queue of what etcd is to be told: into it, all into it, the first out of it,
 * which is busy till it was told.
 */
void epd_told_wait(struct epd_dir *d, struct epd_told *t);
void epd_told_wait_all(struct epd_dir *d);
struct epd_told *epd_told_next(struct epd_dir *d);
/* Forget it, but not while it waits or somebody is at it. */
void epd_told_drop(struct epd_dir *d, struct epd_told *t);
/* The one of a workflow, made if make is set; NULL. */
struct epd_claim *epd_claim_of(struct epd_dir *d, const uint8_t workflow[16],
    int make);

/* heard.c, under the lock. */
void epd_heard_keep(struct epd_dir *d, const char *path,
    const struct epd_hint *hint, int n, uint64_t asked_ns, uint64_t revision);
/* How many of max, if it is fresh; -1: it is not. */
int epd_heard_find(struct epd_dir *d, const char *path, struct epd_hint *out,
    int max);
/* Unless it is of that revision or a later one. */
void epd_heard_drop(struct epd_dir *d, const char *path, uint64_t revision);
void epd_heard_clear(struct epd_dir *d);

#endif
