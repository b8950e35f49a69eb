/*
 * names.c - names, attributes and directories.
 *
 * What the kernel may keep: names (is_settled); attributes that never change for
 * as long as their state is there; of others those that a listing gave, for a
 * second.  They are called back when that is over, so who has just changed
 * something sees it.
 */
#include "fs/ops.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fs/attr.h"
#include "fs/notice.h"
#include "fs/text.h"

static const double FOREVER = 3600, LISTED = 1;
static const uint64_t SLACK_NS = 1000000000;

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
 * But a workflow may be made again under its name, a place in a state's table become
 * another page's, and of a state that is gone a file may be open still, which would
 * answer for it.  (Calling names back takes the directory's lock, which who
 * is in mkdir there has until he is answered: one could wait for oneself.)
 */
static int
is_settled(const struct epd_fs_at *at)
{
	return at->kind != EPD_FS_WORKFLOW && at->kind != EPD_FS_STATE &&
	    (at->kind != EPD_FS_TABLE_PAGE || at->version);
}

void
epd_fs_fail_stale(fuse_req_t req, int rc)
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
	const int fixed = is_fixed(&n->at);
	double keep = 0;

	if (n->untold || !n->lookups || n->gone)
		return 0;
	/* Nobody says when a feature goes. */
	if (fixed && n->at.version)
		keep = FOREVER;
	else if (fixed || listed || n->at.kind == EPD_FS_PAGE)
		keep = LISTED;
	/* The kernel counts from when it has the answer. */
	if (keep > 0) {
		n->until_ns = epd_clock_boot_ns() + (uint64_t)(keep * 1e9) +
		    SLACK_NS;
		epd_fs_node_enlist(&m->fs.nodes, n, EPD_FS_KEPT);
	}
	return keep;
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
	epd_fs_heed(&m->fs, n);
	e->attr_timeout = keeps(m, n, listed);
	e->entry_timeout = is_settled(at) ? FOREVER : 0;
	return 0;
}

/*
 * What was called back before the kernel had the answer, it did not know yet: then
 * it is called back again.
 */
static void
call_again(struct epd_fs_mount *m, uint64_t recalls, const uint64_t *ino,
    size_t n)
{
	const struct epd_fs_node *node;
	int lost;

	for (size_t i = 0; i < n; i++) {
		pthread_mutex_lock(&m->fs.lock);
		if (m->fs.recalls == recalls)
			n = 0;
		node = epd_fs_node(&m->fs.nodes, ino[i]);
		lost = n && node && !node->in[EPD_FS_KEPT].at &&
		    node->until_ns > epd_clock_boot_ns();
		pthread_mutex_unlock(&m->fs.lock);
		if (lost)
			fuse_lowlevel_notify_inval_inode(m->se, ino[i], -1, 0);
	}
}

static void
forget_one(struct epd_fs_mount *m, fuse_ino_t ino, uint64_t lookups)
{
	struct epd_fs_node *n = epd_fs_node(&m->fs.nodes, ino);

	if (n)
		epd_fs_node_drop(&m->fs.nodes, n, lookups);
}

/*
 * A question about one whose size is not known until its model's tokenizer is there,
 * or a disk was looked at, which may take long.
 */
struct asking {
	struct epd_fs_errand e;
	struct epd_fs_mount *m;
	fuse_req_t req;
	fuse_ino_t ino;			/* a directory's, if there is a name */
	struct epd_fs_at at;
	char name[];
};

static void answer(fuse_req_t req, fuse_ino_t ino, const char *name,
    int last);

static void
answer_aside(struct epd_fs_errand *e, int late)
{
	struct asking *a = (struct asking *)e;

	if (!late)
		epd_fs_want(&a->m->fs, &a->at);
	epd_fs_aside_over(a->req);
	answer(a->req, a->ino, a->name, 1);
}

static int
ask_aside(fuse_req_t req, fuse_ino_t ino, const char *name,
    const struct epd_fs_at *at)
{
	struct asking *a = epd_calloc(1, sizeof *a + strlen(name) + 1);

	if (!a)
		return -ENOMEM;
	a->e.fn = answer_aside;
	a->m = epd_fs_mount_of(req);
	a->req = req;
	a->ino = ino;
	a->at = *at;
	strcpy(a->name, name);
	epd_fs_aside(a->m->readers, req, &a->e);
	return 0;
}

static int
is_wanting(const struct epd_fs_node *n)
{
	return n->untold && epd_fs_kind(n->at.kind)->how & EPD_FS_ASIDE;
}

static void
answer_entry(fuse_req_t req, fuse_ino_t ino, const char *name, int last)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct fuse_entry_param e;
	struct epd_fs_at dir, at;
	struct epd_fs_node *n = epd_fs_begin(m, ino, &dir);
	uint64_t recalls;
	int rc, wants = 0;

	if (!n) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	recalls = m->fs.recalls;
	rc = strlen(name) > NAME_MAX ? -ENAMETOOLONG :
	    epd_fs_find(&m->fs, &dir, name, &at);
	if (rc == 0)
		rc = fill(m, n, name, &at, 0, &e);
	if (rc == 0 && !last && (wants = is_wanting(epd_fs_node(&m->fs.nodes,
	    e.ino))))
		forget_one(m, e.ino, 1);
	epd_fs_end(m);
	if (wants && ask_aside(req, ino, name, &at) == 0)
		return;
	if (wants)
		rc = -ENOMEM;
	if (rc < 0)
		epd_fs_fail(req, rc);
	else if (fuse_reply_entry(req, &e) == 0)
		call_again(m, recalls, &e.ino, 1);
	else if ((n = epd_fs_begin(m, e.ino, &at))) {
		/* The question was taken back. */
		epd_fs_node_drop(&m->fs.nodes, n, 1);
		epd_fs_end(m);
	}
}

void
epd_fs_answer_entry(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	answer_entry(req, ino, name, 0);
}

static void
answer_attributes(fuse_req_t req, fuse_ino_t ino, int last)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_at at;
	struct epd_fs_node *n = epd_fs_begin(m, ino, &at);
	struct stat st;
	double keep = 0;
	int rc, wants = 0;

	if (!n) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	if ((rc = epd_fs_attr(&m->fs, &at, ino, n, &st)) == 0) {
		keep = keeps(m, n, 0);
		wants = !last && is_wanting(n);
	}
	epd_fs_end(m);
	if (wants && ask_aside(req, ino, "", &at) == 0)
		return;
	if (rc < 0)
		epd_fs_fail_stale(req, rc);
	else
		fuse_reply_attr(req, &st, keep);
}

static void
answer(fuse_req_t req, fuse_ino_t ino, const char *name, int last)
{
	if (*name)
		answer_entry(req, ino, name, last);
	else
		answer_attributes(req, ino, last);
}

static void
op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	epd_fs_answer_entry(req, parent, name);
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
	(void)fi;
	answer_attributes(req, ino, 0);
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
		epd_fs_fail_stale(req, rc);
	else
		fuse_reply_readlink(req, epd_buf_cstr(&b));
	epd_buf_free(&b);
}

/* ---- directories ---- */

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
		epd_fs_fail_stale(req, rc);
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

/*
 * Entry i of a directory, 0 and 1 being . and .., into buf; its bytes or 0.  *ino:
 * the node that was looked up for it.
 */
static size_t
put_entry(fuse_req_t req, struct epd_fs_mount *m, struct epd_fs_handle *h,
    struct epd_fs_node *dir, size_t i, int plus, char *buf, size_t room,
    uint64_t *ino)
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
	*ino = e.ino;
	if (need <= room)
		return need;
	*ino = 0;
	if (e.ino)
		forget_one(m, e.ino, 1);
	return 0;
}

static void
list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
    struct fuse_file_info *fi, int plus)
{
	struct epd_fs_mount *m = epd_fs_mount_of(req);
	struct epd_fs_handle *h = epd_fs_handle_of(fi);
	struct epd_fs_at at;
	struct epd_fs_node *dir;
	/* An entry takes more room than a number. */
	const size_t most = size / 64 + 1;
	char *buf = epd_malloc(size);
	uint64_t *told = epd_malloc(most * sizeof *told), recalls;
	size_t n = 0, ntold = 0;

	if (!buf || !told) {
		epd_free(buf);
		epd_free(told);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (!(dir = epd_fs_begin(m, ino, &at))) {
		epd_free(buf);
		epd_free(told);
		fuse_reply_err(req, ENOENT);
		return;
	}
	recalls = m->fs.recalls;
	for (size_t i = off < 0 ? 0 : (size_t)off; i < h->items + 2; i++) {
		uint64_t own = 0;
		size_t put = put_entry(req, m, h, dir, i, plus, buf + n,
		    size - n, &own);

		if (!put)
			break;
		n += put;
		if (own && ntold < most)
			told[ntold++] = own;
	}
	epd_fs_end(m);
	if (fuse_reply_buf(req, buf, n) == 0)
		call_again(m, recalls, told, ntold);
	epd_free(told);
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
op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	epd_fs_handle_close(epd_fs_handle_of(fi));
	fuse_reply_err(req, 0);
}

void
epd_fs_name_ops(struct fuse_lowlevel_ops *ops)
{
	ops->lookup = op_lookup;
	ops->forget = op_forget;
	ops->forget_multi = op_forget_multi;
	ops->getattr = op_getattr;
	ops->readlink = op_readlink;
	ops->opendir = op_opendir;
	ops->readdir = op_readdir;
	ops->readdirplus = op_readdirplus;
	ops->releasedir = op_releasedir;
}
