/* attr.h - what stat shows, under the lock, and what xattrs do, without. */
#ifndef EPD_FS_ATTR_H
#define EPD_FS_ATTR_H

#include "fs/world.h"

/*
 * Attributes of what at shows; node (or NULL) remembers what was hard to find out.
 * 0, -errno, or a code of base/err.h: EPD_ENOSTATE, EPD_ENOTHING (it is gone).
 */
int epd_fs_attr(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t ino,
    struct epd_fs_node *node, struct stat *out);
/* Whether asking for that one ("": for their names) may take long or wait. */
int epd_fs_xattr_waits(const struct epd_fs_at *at, const char *name);
/* Extended attributes: value added to out.  -ENODATA, -EOPNOTSUPP. */
int epd_fs_xattr(struct epd_fs *fs, const struct epd_fs_at *at,
    const char *name, struct epd_buf *out);
/* Their names, each with its NUL. */
int epd_fs_xattrs(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out);

#endif
