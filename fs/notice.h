/* notice.h - telling of changes: polls, inotify, attributes called back. */
#ifndef EPD_FS_NOTICE_H
#define EPD_FS_NOTICE_H

#include "fs/ops.h"

void epd_fs_poll_ops(struct fuse_lowlevel_ops *ops);
/* Nobody waits for h any more. */
void epd_fs_unpoll(struct epd_fs_mount *m, struct epd_fs_handle *h);
/*
 * Attributes the kernel keeps and that have changed are called back when it returns,
 * so that who has changed them sees it.  Under no lock.
 */
void epd_fs_call_back(struct epd_fs_mount *m);
/* From now on inotify is told of n, if it is to be; called with the lock. */
void epd_fs_heed(struct epd_fs *fs, struct epd_fs_node *n);
/* Before there are threads or a mount.  Without it inotify hears nothing. */
void epd_fs_toucher_start(struct epd_fs_mount *m);
void epd_fs_toucher_stop(struct epd_fs_mount *m);
/* The thread that tells; it must not outlive the session. */
int epd_fs_notice_start(struct epd_fs_mount *m, pthread_t *out);
void epd_fs_notice_stop(struct epd_fs_mount *m, pthread_t t);

#endif
