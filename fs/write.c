/* write.c - what changes the store, and all that a file system could but this cannot. */
#include <errno.h>
#include <fcntl.h>

#include "fs/attr.h"
#include "fs/hands.h"
#include "fs/notice.h"

/* What at shows, or the request is answered. */
static int
find(fuse_req_t req, fuse_ino_t ino, struct epd_fs_at *at)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);

	if (!epd_fs_begin(m, ino, at)) {
		fuse_reply_err(req, ENOENT);
		return -1;
	}
	epd_fs_end(m);
	if (!m->fs.o.read_only)
		return 0;
	fuse_reply_err(req, EROFS);
	return -1;
}

static void
op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_at at;
	int rc;

	(void)mode;
	if (find(req, parent, &at) < 0)
		return;
	rc = epd_fs_mkdir(&m->fs, &at, name);
	epd_fs_call_back(m);
	if (rc < 0)
		epd_fs_fail(req, rc);
	else
		epd_fs_answer_entry(req, parent, name);
}

static void
op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_at at;

	int rc;

	if (find(req, parent, &at) < 0)
		return;
	rc = epd_fs_rmdir(&m->fs, &at, name);
	epd_fs_call_back(m);
	fuse_reply_err(req, epd_errno(rc));
}

static void
op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size,
    off_t off, struct fuse_file_info *fi)
{
	struct epd_fs_handle *h = epd_fs_handle_of(fi);
	ssize_t rc;

	(void)ino;
	(void)off;
	if (!h->talk) {
		fuse_reply_err(req, EBADF);
		return;
	}
	rc = epd_fs_talk_write(h->talk, buf, size);
	epd_fs_call_back(epd_fs_mount_of(req));
	if (rc < 0)
		epd_fs_fail(req, (int)rc);
	else
		fuse_reply_write(req, (size_t)rc);
}

static void
op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct epd_fs_handle *h = epd_fs_handle_of(fi);
	int rc = 0;

	(void)ino;
	if (h->talk) {
		rc = epd_fs_talk_flush(h->talk);
		epd_fs_call_back(epd_fs_mount_of(req));
	}
	fuse_reply_err(req, epd_errno(rc));
}

static void
op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
    struct fuse_file_info *fi)
{
	(void)ino;
	(void)datasync;
	(void)fi;
	fuse_reply_err(req, 0);		/* what was acknowledged is durable */
}

/*
 * What takes writes is cut to nothing by `>`, and given times by touch, to no effect;
 * the toucher cuts what never was longer.
 */
static void
op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int set,
    struct fuse_file_info *fi)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_at at;
	struct epd_fs_node *n = epd_fs_begin(m, ino, &at);
	struct stat st;
	int rc, cuts = !(set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID |
	    FUSE_SET_ATTR_GID)) && !(set & FUSE_SET_ATTR_SIZE &&
	    attr->st_size);

	(void)fi;
	if (!n) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	rc = cuts && (epd_fs_kind(at.kind)->how & EPD_FS_WRITES ||
	    fuse_req_ctx(req)->pid == m->toucher) ?
	    epd_fs_attr(&m->fs, &at, ino, n, &st) : -EPERM;
	if (m->fs.o.read_only && fuse_req_ctx(req)->pid != m->toucher)
		rc = -EROFS;
	epd_fs_end(m);
	if (rc < 0)
		epd_fs_fail(req, rc);
	else
		fuse_reply_attr(req, &st, 0);
}

/* ---- what is not to be had ---- */

static void
refuse(fuse_req_t req)
{
	fuse_reply_err(req, epd_fs_mount_of(req)->fs.o.read_only ? EROFS :
	    EPERM);
}

static void
op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	(void)parent;
	(void)name;
	refuse(req);
}

static void
op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
    dev_t rdev)
{
	(void)parent;
	(void)name;
	(void)mode;
	(void)rdev;
	refuse(req);
}

static void
op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
    struct fuse_file_info *fi)
{
	(void)parent;
	(void)name;
	(void)mode;
	(void)fi;
	refuse(req);
}

static void
op_symlink(fuse_req_t req, const char *link, fuse_ino_t parent,
    const char *name)
{
	(void)link;
	(void)parent;
	(void)name;
	refuse(req);
}

static void
op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	(void)ino;
	(void)parent;
	(void)name;
	refuse(req);
}

static void
op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
    fuse_ino_t to, const char *as, unsigned flags)
{
	(void)parent;
	(void)name;
	(void)to;
	(void)as;
	(void)flags;
	refuse(req);
}

static void
op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
    const char *value, size_t size, int flags)
{
	(void)ino;
	(void)name;
	(void)value;
	(void)size;
	(void)flags;
	refuse(req);
}

static void
op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	(void)ino;
	(void)name;
	refuse(req);
}

void
epd_fs_write_ops(struct fuse_lowlevel_ops *ops)
{
	ops->mkdir = op_mkdir;
	ops->rmdir = op_rmdir;
	ops->write = op_write;
	ops->flush = op_flush;
	ops->fsync = op_fsync;
	ops->setattr = op_setattr;
	ops->unlink = op_unlink;
	ops->mknod = op_mknod;
	ops->create = op_create;
	ops->symlink = op_symlink;
	ops->link = op_link;
	ops->rename = op_rename;
	ops->setxattr = op_setxattr;
	ops->removexattr = op_removexattr;
}
