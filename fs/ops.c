/*
 * ops.c - files: opened, read, and what else there is to ask of them.
 *
 * The lock is never held over a reply's way to the kernel that might wait, nor
 * over a notification.
 */
#include "fs/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "fs/attr.h"
#include "fs/hands.h"
#include "fs/notice.h"
#include "fs/pass.h"

enum { TRIES = 3 };

struct epd_fs_mount *
epd_fs_mount_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

struct epd_fs_node *
epd_fs_begin(struct epd_fs_mount *m, fuse_ino_t ino, struct epd_fs_at *at)
{
	struct epd_fs_node *n;

	pthread_mutex_lock(&m->fs.lock);
	epd_fs_sync(&m->fs);
	if ((n = epd_fs_node(&m->fs.nodes, ino)))
		*at = n->at;
	else
		pthread_mutex_unlock(&m->fs.lock);
	return n;
}

void
epd_fs_end(struct epd_fs_mount *m)
{
	pthread_mutex_unlock(&m->fs.lock);
}

void
epd_fs_fail(fuse_req_t req, int rc)
{
	fuse_reply_err(req, rc < 0 ? epd_errno(rc) : EIO);
}

/* ---- files ---- */

/* May it be opened so? */
static int
is_allowed(const struct epd_fs_mount *m, const struct epd_fs_at *at, int flags)
{
	const struct epd_fs_kind *k = epd_fs_kind(at->kind);
	const int how = flags & O_ACCMODE;

	if (how != O_RDONLY && (m->fs.o.read_only ||
	    !(k->how & EPD_FS_WRITES)))
		return m->fs.o.read_only ? -EROFS : -EACCES;
	return 0;
}

/* So many more handles are open on what ino shows. */
static void
count_open(struct epd_fs_mount *m, uint64_t ino, int more)
{
	struct epd_fs_node *n;

	pthread_mutex_lock(&m->fs.lock);
	if ((n = epd_fs_node(&m->fs.nodes, ino)))
		n->opens += (uint32_t)more;
	pthread_mutex_unlock(&m->fs.lock);
}

void
epd_fs_shut(struct epd_fs_mount *m, struct epd_fs_handle *h)
{
	epd_fs_unpoll(m, h);
	epd_fs_unback(m, h);
	count_open(m, h->ino, -1);
	epd_fs_handle_close(h);
}

static void
asked(fuse_req_t req, void *errand)
{
	(void)req;
	epd_fs_crew_ask(errand);
}

void
epd_fs_aside(struct epd_fs_crew *c, fuse_req_t req, struct epd_fs_errand *e)
{
	e->who = fuse_req_ctx(req)->pid;
	e->crew = c;
	fuse_req_interrupt_func(req, asked, e);
	epd_fs_crew_do(c, e);
}

void
epd_fs_aside_over(fuse_req_t req)
{
	fuse_req_interrupt_func(req, NULL, NULL);
}

/* An open on its way to its answer. */
struct opening {
	struct epd_fs_errand e;
	struct epd_fs_mount *m;
	fuse_req_t req;
	fuse_ino_t ino;
	struct epd_fs_at at;
	struct fuse_file_info fi;
};

/* 1: not answered, for a page has to be brought back, and it was to do so aside. */
static int
open_it(const struct opening *o, int aside)
{
	const struct epd_fs_kind *k = epd_fs_kind(o->at.kind);
	const int writes = (o->fi.flags & O_ACCMODE) != O_RDONLY;
	struct fuse_file_info fi = o->fi;
	struct epd_fs_handle *h;
	struct epd_why why;
	int rc, tries = 0;

	/* What came may go again, before it is had. */
	do {
		rc = epd_fs_handle_open(&h, &o->m->fs, &o->at, o->ino, writes,
		    &why);
		if (rc != -ENODATA || o->at.kind != EPD_FS_PAGE ||
		    o->m->fs.o.read_only)
			break;
		if (!aside)
			return 1;
		rc = tries++ < TRIES ? epd_fs_page_back(&o->m->fs, &o->at,
		    &why) : rc;
	} while (rc == 0);
	epd_fs_aside_over(o->req);
	if (rc < 0) {
		epd_fs_fail_stale(o->req, rc);
		return 0;
	}
	count_open(o->m, o->ino, 1);
	fi.fh = (uintptr_t)h;
	/* What never changes is the kernel's to keep, and may be mapped. */
	fi.keep_cache = k->how & EPD_FS_FIXED || o->at.version;
	fi.direct_io = !fi.keep_cache;
	fi.noflush = !h->talk;
	fi.nonseekable = h->talk != NULL;
	if (o->at.kind == EPD_FS_BLOB)
		epd_fs_back(o->m, h);
	epd_fs_talk_opened(h->talk, fuse_req_ctx(o->req)->pid);
	if (epd_fs_reply_open(o->req, &fi, h) == -ENOENT)
		epd_fs_shut(o->m, h);
	return 0;
}

static void
open_aside(struct epd_fs_errand *e, int late)
{
	struct opening *o = (struct opening *)e;

	if (!late) {
		(void)open_it(o, 1);
		return;
	}
	epd_fs_aside_over(o->req);
	epd_fs_fail(o->req, EPD_FS_TOO_LATE);
}

static void
op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct opening o = {
		.m = epd_fs_mount_of(req), .req = req, .ino = ino, .fi = *fi,
	}, *later;
	int rc;

	if (!epd_fs_begin(o.m, ino, &o.at)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	epd_fs_end(o.m);
	if ((rc = is_allowed(o.m, &o.at, fi->flags)) < 0) {
		epd_fs_fail(req, rc);
	} else if (!(epd_fs_kind(o.at.kind)->how & EPD_FS_ASIDE) &&
	    !open_it(&o, 0)) {
		return;
	} else if ((later = epd_calloc(1, sizeof *later))) {
		*later = o;
		later->e.fn = open_aside;
		epd_fs_aside(o.m->readers, req, &later->e);
	} else {
		fuse_reply_err(req, ENOMEM);
	}
}

/* An interrupt that comes while a read is answered waits for that, and is none then. */
static _Thread_local int interrupting;

static void
answered(void *arg, int rc, struct epd_span text)
{
	fuse_req_t req = arg;

	if (!interrupting)
		fuse_req_interrupt_func(req, NULL, NULL);
	if (rc < 0)
		epd_fs_fail(req, rc);
	else
		fuse_reply_buf(req, text.p, text.n);
}

static void
interrupted(fuse_req_t req, void *talk)
{
	interrupting = 1;
	epd_fs_talk_cancel(talk, req);
	interrupting = 0;
}

static int
is_interrupted(void *req)
{
	return fuse_req_interrupted(req);
}

static void
op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
    struct fuse_file_info *fi)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_handle *h = epd_fs_handle_of(fi);
	struct epd_span page;
	char *buf;
	ssize_t n;

	(void)ino;
	if (h->talk) {
		fuse_req_interrupt_func(req, interrupted, h->talk);
		epd_fs_talk_read(h->talk, size, answered, is_interrupted,
		    req);
		return;
	}
	if (h->pin) {
		page = epd_pin_bytes(h->pin);
		if ((uint64_t)off >= page.n)
			size = 0;
		else if (size > page.n - (uint64_t)off)
			size = page.n - (size_t)off;
		/* Not touched here: what a file that was cut no longer has is the
		   kernel's error, not our signal. */
		fuse_reply_buf(req, (const char *)page.p + (size ? off : 0),
		    size);
		return;
	}
	if (!(buf = epd_malloc(size + 1))) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	n = epd_fs_handle_read(h, &m->fs, buf, size, (uint64_t)off);
	if (n < 0)
		epd_fs_fail(req, (int)n);
	else
		fuse_reply_buf(req, buf, (size_t)n);
	epd_free(buf);
}

/* ---- the rest ---- */

static void
answer_xattr(fuse_req_t req, int rc, struct epd_buf *b, size_t size)
{
	if (rc < 0)
		epd_fs_fail(req, rc);
	else if (!size)
		fuse_reply_xattr(req, b->n);
	else if (size < b->n)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, (const char *)b->p, b->n);
	epd_buf_free(b);
}

/* A question after extended attributes: one of that name, or all names. */
struct attribute {
	struct epd_fs_errand e;
	struct epd_fs_mount *m;
	fuse_req_t req;
	struct epd_fs_at at;
	size_t size;
	char name[256];			/* "": all */
};

static void
answer_attribute(struct epd_fs_errand *e, int late)
{
	struct attribute *a = (struct attribute *)e;
	struct epd_buf b = {0};
	int rc = late ? EPD_FS_TOO_LATE : *a->name ? epd_fs_xattr(&a->m->fs,
	    &a->at, a->name, &b) : epd_fs_xattrs(&a->m->fs, &a->at, &b);

	epd_fs_aside_over(a->req);
	answer_xattr(a->req, rc, &b, a->size);
}

static void
attribute(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct attribute a = {
		.m = epd_fs_mount_of(req), .req = req, .size = size,
	}, *later;

	if (!epd_fs_begin(a.m, ino, &a.at)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	epd_fs_end(a.m);
	snprintf(a.name, sizeof a.name, "%s", name);
	if (!epd_fs_xattr_waits(&a.at, name)) {
		answer_attribute(&a.e, 0);
	} else if ((later = epd_calloc(1, sizeof *later))) {
		*later = a;
		later->e.fn = answer_attribute;
		epd_fs_aside(a.m->readers, req, &later->e);
	} else {
		fuse_reply_err(req, ENOMEM);
	}
}

static void
op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	attribute(req, ino, *name ? name : "?", size);
}

static void
op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	attribute(req, ino, "", size);
}

/* Of the memory tier: what it may hold and what it does. */
static void
op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct statvfs s = { .f_bsize = 4096, .f_frsize = 4096,
	    .f_namemax = NAME_MAX };
	uint64_t used = 0, cap;

	(void)ino;
	pthread_mutex_lock(&m->fs.lock);
	cap = epd_memory_cap(m->fs.store->memory);
	(void)epd_memory_used(m->fs.store->memory, &used);
	epd_fs_end(m);
	used = (used + 4095) / 4096;
	s.f_blocks = used > cap / 4096 ? used : cap / 4096;
	s.f_bfree = s.f_bavail = s.f_blocks - used;
	fuse_reply_statfs(req, &s);
}

static void
op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_at at;
	struct epd_fs_node *n = epd_fs_begin(m, ino, &at);
	struct stat st;
	mode_t mode;
	int rc;

	if (!n) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	/* The kernel may know the name of one that has gone since. */
	rc = epd_fs_attr(&m->fs, &at, ino, n, &st);
	epd_fs_end(m);
	mode = epd_fs_kind(at.kind)->mode;
	if (rc < 0)
		epd_fs_fail(req, rc);
	else if (mask & W_OK && m->fs.o.read_only)
		fuse_reply_err(req, EROFS);
	else if ((mask & W_OK && !(mode & 0200)) || (mask & R_OK &&
	    !(mode & 0400)) || (mask & X_OK && !(mode & 0100)))
		fuse_reply_err(req, EACCES);
	else
		fuse_reply_err(req, 0);
}

static void
op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct epd_fs_mount *m = userdata;

	conn->want |= conn->capable & (FUSE_CAP_PARALLEL_DIROPS |
	    FUSE_CAP_ASYNC_READ);
	/* Who lists asks for attributes as well, mostly. */
	if (conn->capable & FUSE_CAP_READDIRPLUS)
		conn->want |= FUSE_CAP_READDIRPLUS;
	/* What is read from the cache never changes: no attributes are asked. */
	conn->want &= ~(unsigned)(FUSE_CAP_READDIRPLUS_AUTO |
	    FUSE_CAP_AUTO_INVAL_DATA);
	conn->max_read = EPD_FS_READ;
	conn->max_readahead = EPD_FS_READ;
	m->ready(m->arg);
}

void
epd_fs_look_ops(struct fuse_lowlevel_ops *ops)
{
	ops->init = op_init;
	ops->open = op_open;
	ops->read = op_read;
	ops->getxattr = op_getxattr;
	ops->listxattr = op_listxattr;
	ops->statfs = op_statfs;
	ops->access = op_access;
}
