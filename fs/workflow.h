/*
 * workflow.h - one workflow, for world.c, which has the list of them.  All under the
 * lock.
 */
#ifndef EPD_FS_WORKFLOW_H
#define EPD_FS_WORKFLOW_H

#include "fs/world.h"

/* Why a workflow is dirty. */
enum {
	EPD_FS_UNSEEN = 1,	/* it was never looked at */
	EPD_FS_HEARD,		/* something was written there */
	EPD_FS_UNHEARD		/* nobody would say if something was */
};

/* NULL: no memory. */
struct epd_fs_workflow *epd_fs_workflow_new(const struct epd_fs *fs,
    const char *name, int dirty);
void epd_fs_workflow_free(struct epd_fs *fs, struct epd_fs_workflow *w);
/* Whether a folder took the name of another since w was made. */
int epd_fs_workflow_is_another(const struct epd_fs *fs,
    struct epd_fs_workflow *w);
/* Hear of it from now on.  Where that fails it is looked at each time. */
void epd_fs_workflow_hear(struct epd_fs *fs, struct epd_fs_workflow *w);
/* Bring it up to now, opening it if it is shut.  EPD_ENOTHING: it is gone. */
int epd_fs_workflow_on(struct epd_fs *fs, struct epd_fs_workflow *w,
    struct epd_why *why);
/* Its log is taken in; one that is damaged as far as it goes. */
void epd_fs_workflow_follow(struct epd_fs *fs, struct epd_fs_workflow *w);

/* Sizes of events, w's and all's, that the kernel keeps are no more so. */
void epd_fs_call_back_events(struct epd_fs *fs,
    const struct epd_fs_workflow *w);

/* inotify's number for a folder, or -1. */
int epd_fs_notify_on(struct epd_fs *fs, int fd);

#endif
