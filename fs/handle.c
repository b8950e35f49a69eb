/* handle.c - open files. */
#include "fs/handle.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "fs/attr.h"
#include "fs/text.h"
#include "fs/tongue.h"
#include "fs/verb.h"

static int
new_handle(struct epd_fs_handle **out, const struct epd_fs_at *at,
    uint64_t ino)
{
	struct epd_fs_handle *h = epd_calloc(1, sizeof *h);

	if (!h)
		return -ENOMEM;
	h->at = *at;
	h->ino = ino;
	h->fd = -1;
	pthread_mutex_init(&h->lock, NULL);
	*out = h;
	return 0;
}

void
epd_fs_handle_close(struct epd_fs_handle *h)
{
	if (!h)
		return;
	epd_buf_free(&h->text);
	epd_buf_free(&h->names);
	epd_free(h->item);
	epd_pin_free(h->pin);
	epd_fs_talk_close(h->talk);
	if (h->tongue)
		epd_fs_tongue_put(h->fs, h->tongue);
	if (h->fd >= 0)
		close(h->fd);
	pthread_mutex_destroy(&h->lock);
	epd_free(h);
}

static int
open_page(struct epd_fs_handle *h, struct epd_fs *fs, struct epd_why *why)
{
	struct epd_fs_workflow *w;
	struct epd_fs_page p;
	int rc = epd_fs_page(fs, &h->at.id, &p, &w);

	/* What was learned of it may be known while its workflow is shut. */
	if (rc == 0)
		rc = epd_fs_named(fs, w->name, &w, why);
	if (rc == 0)
		rc = w->watch ? epd_watch_pin(w->watch, p.node, p.k, &h->pin,
		    why) : EPD_ENOTHING;
	return rc;
}

int
epd_fs_page_back(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_why *why)
{
	char name[EPD_WORKFLOW] = "";
	struct epd_fs_workflow *w;
	struct epd_fs_grip *g;
	struct epd_fs_page p;
	int rc;

	if (!fs->hands)
		return epd_why(why, -ENODATA, "the page is not in memory, and "
		    "this mount brings none back: it is read-only");
	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	if ((rc = epd_fs_page(fs, &at->id, &p, &w)) == 0)
		memcpy(name, w->name, sizeof name);
	pthread_mutex_unlock(&fs->lock);
	if (rc < 0 || p.in_memory)
		return rc;
	if ((rc = epd_fs_grasp(fs->hands, &g, why)) < 0)
		return rc;
	rc = epd_flow_touch(g->store, name, p.node, p.k, why);
	epd_fs_let_go(fs->hands, g);
	return rc == EPD_ENOTHING ? epd_why(why, -ENODATA, "the page is in no "
	    "tier; what computes on its state makes it again") : rc;
}

/* Streams and writers hold nothing; the rest is settled now. */
static int
settle(struct epd_fs_handle *h, struct epd_fs *fs, struct epd_why *why)
{
	const struct epd_fs_kind *k = epd_fs_kind(h->at.kind);
	uint64_t n;

	if (h->at.kind == EPD_FS_PAGE)
		return open_page(h, fs, why);
	if (h->at.kind == EPD_FS_BLOB) {
		h->fd = epd_feature_blob(fs->store->features, &h->at.id);
		return h->fd == -ENOENT ? epd_why(why, -ENODATA, "its rows "
		    "are not kept") : h->fd < 0 ? h->fd : 0;
	}
	if (!k->text)
		return k->size ? k->size(fs, &h->at, &n) : 0;
	return k->text(fs, &h->at, &h->text, why);
}

/* What is read without the lock goes by a workflow's name: is it still at's? */
static int
is_meant(struct epd_fs *fs, const struct epd_fs_at *at, struct epd_why *why)
{
	struct epd_fs_workflow *w;
	int rc;

	if (!*at->workflow)
		return 0;
	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	rc = epd_fs_workflow(fs, at, &w, why);
	pthread_mutex_unlock(&fs->lock);
	return rc == EPD_ENOTHING ? rc : 0;
}

int
epd_fs_handle_open(struct epd_fs_handle **out, struct epd_fs *fs,
    const struct epd_fs_at *at, uint64_t ino, int writes, struct epd_why *why)
{
	const struct epd_fs_kind *k = epd_fs_kind(at->kind);
	struct epd_fs_handle *h;
	int rc = new_handle(&h, at, ino);

	if (rc < 0)
		return rc;
	h->fs = fs;
	if (k->how & EPD_FS_WRITES && (writes || !k->text)) {
		rc = epd_fs_talk_open(&h->talk, fs, at);
	} else if (k->how & EPD_FS_ASIDE) {
		rc = is_meant(fs, at, why);
		if (rc == 0 && k->how & EPD_FS_GROWS && !at->version)
			rc = epd_fs_words_first(fs, at, &h->tongue, &h->text,
			    why);
		else if (rc == 0)
			rc = k->text(fs, at, &h->text, why);
	} else {
		pthread_mutex_lock(&fs->lock);
		epd_fs_sync(fs);
		rc = settle(h, fs, why);
		pthread_mutex_unlock(&fs->lock);
	}
	if (rc < 0) {
		epd_fs_handle_close(h);
		return rc;
	}
	*out = h;
	return 0;
}

struct listing {
	struct epd_fs_handle *h;
	size_t cap;
};

static int
entry(void *arg, const char *name, const struct epd_fs_at *at)
{
	struct listing *l = arg;
	struct epd_fs_handle *h = l->h;
	struct epd_fs_item *v = epd_grow(h->item, h->items, &l->cap,
	    sizeof *v);

	if (!v)
		return -ENOMEM;
	h->item = v;
	v[h->items++] = (struct epd_fs_item){ *at, h->names.n };
	epd_buf_put(&h->names, name, strlen(name) + 1);
	return h->names.failed ? -ENOMEM : 0;
}

int
epd_fs_handle_opendir(struct epd_fs_handle **out, struct epd_fs *fs,
    const struct epd_fs_at *at, uint64_t ino)
{
	struct listing l = {0};
	struct stat st;
	int rc = new_handle(&l.h, at, ino);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	/* The kernel may still have a name for it. */
	if ((rc = epd_fs_attr(fs, at, ino, NULL, &st)) == 0)
		rc = epd_fs_list(fs, at, entry, &l);
	pthread_mutex_unlock(&fs->lock);
	/* A workflow to which nothing was written yet has nothing in it. */
	if (rc < 0 && !(rc == EPD_ENOSTATE && !at->state)) {
		epd_fs_handle_close(l.h);
		return rc;
	}
	*out = l.h;
	return 0;
}

static struct epd_fs_stream *
stream(struct epd_fs_handle *h, struct epd_fs *fs)
{
	struct epd_fs_workflow *w;
	int is_log = h->at.kind == EPD_FS_LOG;

	if (!*h->at.workflow)
		return &fs->events;
	if ((is_log ? epd_fs_followed : epd_fs_workflow)(fs, &h->at, &w,
	    NULL) < 0)
		return NULL;
	return is_log ? &w->log : &w->events;
}

/* What grew since it was opened is shown, if it still begins alike. */
static void
read_on(struct epd_fs_handle *h, struct epd_fs *fs)
{
	struct epd_buf b = {0};

	if (h->tongue && epd_fs_words_on(fs, &h->at, h->tongue, &b) == 0 &&
	    b.n > h->text.n &&
	    !memcmp(b.p, h->text.p, h->text.n)) {
		struct epd_buf old = h->text;

		h->text = b;
		b = old;
	}
	epd_buf_free(&b);
}

/* It was read up to there.  Who polls asks under another lock. */
static void
see(struct epd_fs_handle *h, uint64_t end)
{
	uint64_t had = epd_fs_handle_seen(h);

	while (end > had && !__atomic_compare_exchange_n(&h->seen, &had, end,
	    1, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
		;
}

uint64_t
epd_fs_handle_seen(const struct epd_fs_handle *h)
{
	return __atomic_load_n(&h->seen, __ATOMIC_ACQUIRE);
}

static ssize_t
read_text(struct epd_fs_handle *h, struct epd_fs *fs, void *p, size_t n,
    uint64_t off)
{
	pthread_mutex_lock(&h->lock);
	if (epd_fs_kind(h->at.kind)->how & EPD_FS_GROWS && !h->at.version &&
	    off >= h->text.n)
		read_on(h, fs);
	if (off >= h->text.n)
		n = 0;
	else if (n > h->text.n - off)
		n = (size_t)(h->text.n - off);
	if (n)
		memcpy(p, h->text.p + off, n);
	if (n)
		see(h, off + n);
	pthread_mutex_unlock(&h->lock);
	return (ssize_t)n;
}

static int
is_stream(const struct epd_fs_handle *h)
{
	return h->at.kind == EPD_FS_LOG || h->at.kind == EPD_FS_EVENTS;
}

ssize_t
epd_fs_handle_read(struct epd_fs_handle *h, struct epd_fs *fs, void *p,
    size_t n, uint64_t off)
{
	struct epd_fs_stream *s;

	if (h->fd >= 0)
		return epd_file_pread(h->fd, p, n, off);
	if (!is_stream(h))
		return read_text(h, fs, p, n, off);
	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	s = stream(h, fs);
	n = s ? epd_fs_stream_read(s, off, p, n) : 0;
	if (n)
		see(h, off + n);
	pthread_mutex_unlock(&fs->lock);
	return (ssize_t)n;
}

int
epd_fs_handle_is_gone(struct epd_fs_handle *h, struct epd_fs *fs)
{
	struct epd_fs_workflow *w;
	struct stat st;

	if (h->at.state)
		return epd_fs_attr(fs, &h->at, h->ino, NULL, &st) < 0;
	return *h->at.workflow &&
	    epd_fs_workflow(fs, &h->at, &w, NULL) == EPD_ENOTHING;
}

uint64_t
epd_fs_handle_size(struct epd_fs_handle *h, struct epd_fs *fs)
{
	const struct epd_fs_kind *k = epd_fs_kind(h->at.kind);
	uint64_t n;

	return k->size && k->size(fs, &h->at, &n) == 0 ? n : h->text.n;
}
