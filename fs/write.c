/* write.c - what changes the store, and all that a file system could but this cannot. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "fs/attr.h"
#include "fs/hands.h"
#include "fs/notice.h"

/*
 * What may wait for a log's lock is done aside: a name made or removed, and all that
 * has to do with a ctl.
 */
struct writing {
	struct epd_fs_errand e;
	struct epd_fs_mount *m;
	fuse_req_t req;
	void (*fn)(struct writing *w);
	struct epd_fs_handle *h;	/* or */
	fuse_ino_t parent;
	struct epd_fs_at dir;
	pid_t who;
	int late;			/* the mount ends */
	int may_wait;			/* it is done aside; */
	int waits;			/* out: it has to be */
	size_t n;
	char text[];			/* n bytes, or a name */
};

static void
write_aside(struct epd_fs_errand *e, int late)
{
	struct writing *w = (struct writing *)e;

	w->late = late;
	w->may_wait = 1;
	w->fn(w);
}

/* Owns: w, which is answered and let go; NULL: no memory. */
static void
aside(fuse_req_t req, struct writing *w)
{
	if (!w) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	w->e.fn = write_aside;
	strcpy(w->e.workflow, w->h ? w->h->at.workflow : w->dir.workflow);
	epd_fs_aside(w->m->crew, req, &w->e);
}

static struct writing *
writing(fuse_req_t req, void (*fn)(struct writing *w), const void *text,
    size_t n)
{
	struct writing *w = epd_calloc(1, sizeof *w + n + 1);

	if (!w)
		return NULL;
	w->m = epd_fs_mount_of(req);
	w->req = req;
	w->fn = fn;
	w->who = fuse_req_ctx(req)->pid;
	w->n = n;
	memcpy(w->text, text, n);
	return w;
}

/* ---- names ---- */

static void
name_aside(fuse_req_t req, fuse_ino_t parent, const char *name,
    void (*fn)(struct writing *w))
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct writing *w;
	struct epd_fs_at at;

	if (!epd_fs_begin(m, parent, &at)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	epd_fs_end(m);
	if (m->fs.o.read_only) {
		fuse_reply_err(req, EROFS);
		return;
	}
	if ((w = writing(req, fn, name, strlen(name)))) {
		w->parent = parent;
		w->dir = at;
	}
	aside(req, w);
}

static void
make(struct writing *w)
{
	int rc = w->late ? EPD_FS_TOO_LATE : epd_fs_mkdir(&w->m->fs, &w->dir,
	    w->text);

	epd_fs_call_back(w->m);
	epd_fs_aside_over(w->req);
	if (rc < 0)
		epd_fs_fail(w->req, rc);
	else
		epd_fs_answer_entry(w->req, w->parent, w->text);
}

static void
op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	(void)mode;
	name_aside(req, parent, name, make);
}

static void
unmake(struct writing *w)
{
	int rc = w->late ? EPD_FS_TOO_LATE : epd_fs_rmdir(&w->m->fs, &w->dir,
	    w->text);

	epd_fs_call_back(w->m);
	epd_fs_aside_over(w->req);
	fuse_reply_err(w->req, epd_errno(rc));
}

static void
op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	name_aside(req, parent, name, unmake);
}

/* ---- say and ctl ---- */

/* With h, aside if that may wait, for which it is tried.  -ENOMEM: not answered. */
static int
talk(fuse_req_t req, struct epd_fs_handle *h, void (*fn)(struct writing *w),
    const void *text, size_t n)
{
	struct writing *w = writing(req, fn, text, n);

	if (!w)
		return -ENOMEM;
	w->h = h;
	w->fn(w);
	if (w->waits)
		aside(req, w);
	else
		epd_free(w);
	return 0;
}

static void
put(struct writing *w)
{
	ssize_t rc = w->late ? EPD_FS_TOO_LATE : epd_fs_talk_write(w->h->talk,
	    w->text, w->n, w->may_wait);

	if ((w->waits = rc == -EINPROGRESS))
		return;
	epd_fs_call_back(w->m);
	epd_fs_aside_over(w->req);
	if (rc < 0)
		epd_fs_fail(w->req, (int)rc);
	else
		fuse_reply_write(w->req, (size_t)rc);
}

static void
op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size,
    off_t off, struct fuse_file_info *fi)
{
	struct epd_fs_handle *h = epd_fs_handle_of(fi);

	(void)ino;
	(void)off;
	if (!h->talk)
		fuse_reply_err(req, EBADF);
	else if (talk(req, h, put, buf, size) < 0)
		fuse_reply_err(req, ENOMEM);
}

static void
flush(struct writing *w)
{
	int rc = w->late ? EPD_FS_TOO_LATE : epd_fs_talk_flush(w->h->talk,
	    w->who, w->may_wait);

	if ((w->waits = rc == -EINPROGRESS))
		return;
	epd_fs_call_back(w->m);
	epd_fs_aside_over(w->req);
	fuse_reply_err(w->req, epd_errno(rc));
}

static void
op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct epd_fs_handle *h = epd_fs_handle_of(fi);

	(void)ino;
	if (!h->talk)
		fuse_reply_err(req, 0);
	else if (talk(req, h, flush, "", 0) < 0)
		fuse_reply_err(req, ENOMEM);
}

/* What is left of it is said now, though nobody hears how that goes. */
static void
let_go(struct writing *w)
{
	w->waits = !w->late && epd_fs_talk_flush(w->h->talk, 0,
	    w->may_wait) == -EINPROGRESS;
	if (w->waits)
		return;
	epd_fs_shut(w->m, w->h);
	epd_fs_call_back(w->m);
	epd_fs_aside_over(w->req);
	fuse_reply_err(w->req, 0);
}

static void
op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct epd_fs_handle *h = epd_fs_handle_of(fi);

	(void)ino;
	if (h->talk && talk(req, h, let_go, "", 0) == 0)
		return;
	epd_fs_shut(epd_fs_mount_of(req), h);
	fuse_reply_err(req, 0);
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
	ops->release = op_release;
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
