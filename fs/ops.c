/*
 * ops.c - looking.
 *
 *  1. What the kernel may keep: names (is_settled); of attributes those that never
 *     change, of others those that a listing gave, for a second, and they are called
 *     back when they change.  So who has just changed something sees it.
 *  2. The lock is never held over a reply's way to the kernel that might wait, nor
 *     over a notification.
 */
#include "fs/ops.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fs/attr.h"
#include "fs/hands.h"
#include "fs/notice.h"
#include "fs/pass.h"

static const double FOREVER = 3600, LISTED = 1;

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

/* Whether it is the same for as long as it is there. */
static int
is_fixed(const struct epd_fs_at *at)
{
	const struct epd_fs_kind *k = epd_fs_kind(at->kind);

	return k->how & EPD_FS_FIXED ? at->kind != EPD_FS_PAGE :
	    at->version != 0;
}

/*
 * A name that is there leads to the same thing for as long as that is there, and of
 * what is gone the answer is ESTALE, at which the kernel looks the name up again.
 * But a workflow may be made again under its name, and a place in a state's
 * table become another page's.
 */
static int
is_settled(const struct epd_fs_at *at)
{
	return at->kind != EPD_FS_WORKFLOW &&
	    (at->kind != EPD_FS_TABLE_PAGE || at->version);
}

/* What was found by its number is there no more. */
static void
fail_stale(fuse_req_t req, int rc)
{
	epd_fs_fail(req, rc == EPD_ENOSTATE || rc == EPD_ENOTHING ||
	    rc == -ENOENT ? -ESTALE : rc);
}

/*
 * How long the kernel may show a node's attributes, which are called back when
 * they change.  Of a page only the count of links does, and readers ask all the time.
 */
static double
keeps(struct epd_fs_mount *m, struct epd_fs_node *n, int listed)
{
	if (is_fixed(&n->at))
		return FOREVER;
	if (!listed && n->at.kind != EPD_FS_PAGE)
		return 0;
	n->until_ns = epd_clock_boot_ns() + (uint64_t)(LISTED * 1e9);
	m->fs.plus_ns = n->until_ns;
	return LISTED;
}

/* Fill an entry; the node is looked up once more.  Under the lock. */
static int
fill(struct epd_fs_mount *m, struct epd_fs_node *dir, const char *name,
    const struct epd_fs_at *at, int listed, struct fuse_entry_param *e)
{
	struct epd_fs_node *n = epd_fs_node_take(&m->fs.nodes, dir, name, at);
	int rc;

	if (!n)
		return -ENOMEM;
	memset(e, 0, sizeof *e);
	if ((rc = epd_fs_attr(&m->fs, at, n->ino, n, &e->attr)) < 0) {
		epd_fs_node_drop(&m->fs.nodes, n, 1);
		return rc;
	}
	e->ino = n->ino;
	e->attr_timeout = keeps(m, n, listed);
	e->entry_timeout = is_settled(at) ? FOREVER : 0;
	return 0;
}

void
epd_fs_answer_entry(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct fuse_entry_param e;
	struct epd_fs_at dir, at;
	struct epd_fs_node *n = epd_fs_begin(m, ino, &dir);
	int rc;

	if (!n) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	rc = strlen(name) > NAME_MAX ? -ENAMETOOLONG :
	    epd_fs_find(&m->fs, &dir, name, &at);
	if (rc == 0)
		rc = fill(m, n, name, &at, 0, &e);
	epd_fs_end(m);
	if (rc < 0)
		epd_fs_fail(req, rc == EPD_ECORRUPT ? -EIO : rc);
	else if (fuse_reply_entry(req, &e) == -ENOENT) {
		/* The question was taken back. */
		if ((n = epd_fs_begin(m, e.ino, &at))) {
			epd_fs_node_drop(&m->fs.nodes, n, 1);
			epd_fs_end(m);
		}
	}
}

static void
op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	epd_fs_answer_entry(req, parent, name);
}

static void
forget_one(struct epd_fs_mount *m, fuse_ino_t ino, uint64_t lookups)
{
	struct epd_fs_node *n = epd_fs_node(&m->fs.nodes, ino);

	if (n)
		epd_fs_node_drop(&m->fs.nodes, n, lookups);
}

static void
op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);

	pthread_mutex_lock(&m->fs.lock);
	forget_one(m, ino, lookups);
	epd_fs_end(m);
	fuse_reply_none(req);
}

static void
op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);

	pthread_mutex_lock(&m->fs.lock);
	for (size_t i = 0; i < count; i++)
		forget_one(m, forgets[i].ino, forgets[i].nlookup);
	epd_fs_end(m);
	fuse_reply_none(req);
}

static void
op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_at at;
	struct epd_fs_node *n = epd_fs_begin(m, ino, &at);
	struct stat st;
	double keep = 0;
	int rc;

	(void)fi;
	if (!n) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	if ((rc = epd_fs_attr(&m->fs, &at, ino, n, &st)) == 0)
		keep = keeps(m, n, 0);
	epd_fs_end(m);
	if (rc < 0)
		fail_stale(req, rc);
	else
		fuse_reply_attr(req, &st, keep);
}

static void
op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_at at;
	struct epd_buf b = {0};
	struct epd_fs_node *n = epd_fs_begin(m, ino, &at);
	int rc;

	if (!n) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	rc = S_ISLNK(epd_fs_kind(at.kind)->mode) ?
	    epd_fs_kind(at.kind)->text(&m->fs, &at, &b, NULL) : -EINVAL;
	epd_fs_end(m);
	if (rc < 0)
		fail_stale(req, rc);
	else
		fuse_reply_readlink(req, epd_buf_cstr(&b));
	epd_buf_free(&b);
}

/* ---- directories ---- */

static struct epd_fs_handle *
handle(const struct fuse_file_info *fi)
{
	return (struct epd_fs_handle *)(uintptr_t)fi->fh;
}

static void
op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_handle *h;
	struct epd_fs_at at;
	int rc;

	if (!epd_fs_begin(m, ino, &at)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	epd_fs_end(m);
	if ((rc = epd_fs_handle_opendir(&h, &m->fs, &at, ino)) < 0) {
		fail_stale(req, rc);
		return;
	}
	fi->fh = (uintptr_t)h;
	if (fuse_reply_open(req, fi) == -ENOENT)
		epd_fs_handle_close(h);
}

/* The number of `..`. */
static uint64_t
above(struct epd_fs_mount *m, const struct epd_fs_handle *h)
{
	const struct epd_fs_node *n = epd_fs_node(&m->fs.nodes, h->ino);

	return n && n->up ? n->up->ino : 1;
}

/* Entry i of a directory, 0 and 1 being . and .., into buf; its bytes or 0. */
static size_t
put_entry(fuse_req_t req, struct epd_fs_mount *m, struct epd_fs_handle *h,
    struct epd_fs_node *dir, size_t i, int plus, char *buf, size_t room)
{
	struct fuse_entry_param e = {0};
	const struct epd_fs_item *item = i < 2 ? NULL : h->item + (i - 2);
	const char *name = i == 0 ? "." : i == 1 ? ".." :
	    (const char *)h->names.p + item->name;
	size_t need;

	if (!item) {
		e.attr.st_ino = i ? above(m, h) : h->ino;
		e.attr.st_mode = S_IFDIR;
	} else if (!plus || fill(m, dir, name, &item->at, 1, &e) < 0) {
		/* Of one that just went the name alone is told. */
		memset(&e, 0, sizeof e);
		e.attr.st_ino = epd_fs_node_number(&m->fs.nodes, dir, name,
		    &item->at);
		e.attr.st_mode = epd_fs_kind(item->at.kind)->mode;
	}
	need = plus ? fuse_add_direntry_plus(req, buf, room, name, &e,
	    (off_t)i + 1) : fuse_add_direntry(req, buf, room, name, &e.attr,
	    (off_t)i + 1);
	if (need <= room)
		return need;
	if (e.ino)
		forget_one(m, e.ino, 1);
	return 0;
}

static void
list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
    struct fuse_file_info *fi, int plus)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_handle *h = handle(fi);
	struct epd_fs_at at;
	struct epd_fs_node *dir;
	char *buf = epd_malloc(size);
	size_t n = 0;

	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (!(dir = epd_fs_begin(m, ino, &at))) {
		epd_free(buf);
		fuse_reply_err(req, ENOENT);
		return;
	}
	for (size_t i = off < 0 ? 0 : (size_t)off; i < h->items + 2; i++) {
		size_t put = put_entry(req, m, h, dir, i, plus, buf + n,
		    size - n);

		if (!put)
			break;
		n += put;
	}
	epd_fs_end(m);
	fuse_reply_buf(req, buf, n);
	epd_free(buf);
}

static void
op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
    struct fuse_file_info *fi)
{
	list(req, ino, size, off, fi, 0);
}

static void
op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
    struct fuse_file_info *fi)
{
	list(req, ino, size, off, fi, 1);
}

static void
op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_handle *h = handle(fi);

	(void)ino;
	epd_fs_unpoll(m, h);
	epd_fs_unback(m, h);
	epd_fs_handle_close(h);
	fuse_reply_err(req, 0);
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

static void
op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_handle *h;
	struct epd_why why;
	struct epd_fs_at at;
	int rc;

	if (!epd_fs_begin(m, ino, &at)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	epd_fs_end(m);
	if ((rc = is_allowed(m, &at, fi->flags)) < 0 ||
	    (rc = epd_fs_handle_open(&h, &m->fs, &at, ino, &why)) < 0) {
		fail_stale(req, rc);
		return;
	}
	fi->fh = (uintptr_t)h;
	/* What never changes is the kernel's to keep, and may be mapped. */
	fi->keep_cache = epd_fs_kind(at.kind)->how & EPD_FS_FIXED || at.version;
	fi->direct_io = !fi->keep_cache;
	fi->noflush = !h->talk;
	fi->nonseekable = at.kind == EPD_FS_SAY || at.kind == EPD_FS_CTL;
	if (at.kind == EPD_FS_BLOB)
		epd_fs_back(m, h);
	if (epd_fs_reply_open(req, fi, h) == -ENOENT) {
		epd_fs_unback(m, h);
		epd_fs_handle_close(h);
	}
}

static void
answered(void *arg, int rc, struct epd_span text)
{
	fuse_req_t req = arg;

	if (rc < 0)
		epd_fs_fail(req, rc);
	else
		fuse_reply_buf(req, text.p, text.n);
}

static void
interrupted(fuse_req_t req, void *talk)
{
	epd_fs_talk_cancel(talk, req);
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
	struct epd_fs_handle *h = handle(fi);
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

static void
op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_buf b = {0};
	struct epd_fs_at at;
	int rc = -ENOENT;

	if (epd_fs_begin(m, ino, &at)) {
		rc = epd_fs_xattr(&m->fs, &at, name, &b);
		epd_fs_end(m);
	}
	answer_xattr(req, rc, &b, size);
}

static void
op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_buf b = {0};
	struct epd_fs_at at;
	int rc = -ENOENT;

	if (epd_fs_begin(m, ino, &at)) {
		rc = epd_fs_xattrs(&m->fs, &at, &b);
		epd_fs_end(m);
	}
	answer_xattr(req, rc, &b, size);
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
	s.f_blocks = (used > cap ? used : cap) / 4096;
	s.f_bfree = s.f_bavail = s.f_blocks - (used + 4095) / 4096;
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
	ops->lookup = op_lookup;
	ops->forget = op_forget;
	ops->forget_multi = op_forget_multi;
	ops->getattr = op_getattr;
	ops->readlink = op_readlink;
	ops->opendir = op_opendir;
	ops->readdir = op_readdir;
	ops->readdirplus = op_readdirplus;
	ops->releasedir = op_release;
	ops->open = op_open;
	ops->read = op_read;
	ops->release = op_release;
	ops->getxattr = op_getxattr;
	ops->listxattr = op_listxattr;
	ops->statfs = op_statfs;
	ops->access = op_access;
}
