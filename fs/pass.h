/*
 * pass.h - blobs that the kernel reads by itself (FUSE passthrough, Linux 6.9).
 * libfuse 3.14 knows nothing of it, so two of its replies are put right on
 * their way.  Where it cannot be had everything is as without.
 */
#ifndef EPD_FS_PASS_H
#define EPD_FS_PASS_H

#include "fs/ops.h"

/* After mounting, before serving. */
void epd_fs_pass_start(struct epd_fs_mount *m);
/* Let the kernel read h's file by itself; said before its open is answered. */
void epd_fs_back(struct epd_fs_mount *m, struct epd_fs_handle *h);
/* Answer an open; what epd_fs_back said is in it. */
int epd_fs_reply_open(fuse_req_t req, const struct fuse_file_info *fi,
    const struct epd_fs_handle *h);
void epd_fs_unback(struct epd_fs_mount *m, struct epd_fs_handle *h);

#endif
