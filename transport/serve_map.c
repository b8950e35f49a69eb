/*
 * serve_map.c - MAP: which files a window's stretches lie in, and the files.
 *
 *	question	window u64, from u32: an extent's number
 *	answer		extents u32 in all, writable u32, count u32, then count times
 *			bytes u64, at u64, file u32 (NONE: memory alone)
 *
 * Files are numbered as they first come, and each goes along once.  From 0 it begins
 * anew; else it goes on where the last answer ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "transport/map.h"
#include "transport/serve.h"

/* Files looked back over for one that went already. */
enum { REMEMBERED = 64 };

struct told {
	int fd[EPD_STREAM_FILES], n;
	int ours[EPD_STREAM_FILES];	/* of them, opened here */
	int nours;
};

/* Not to be written through: a descriptor that can be gets another for reading. */
static int
for_reading(struct told *t, int fd)
{
	const int mode = fcntl(fd, F_GETFL);
	char path[32];
	int own;

	if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY)
		return mode < 0 ? -errno : fd;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	own = open(path, O_RDONLY | O_CLOEXEC);
	if (own < 0)
		return -errno;
	t->ours[t->nours++] = own;
	return own;
}

/* The number of e's file; a new one is put among those told.  -ENOBUFS: no room. */
static int64_t
number(struct epd_window *w, struct told *t, const struct epd_extent *e)
{
	const uint32_t far = w->nfiles < REMEMBERED ? 0 : w->nfiles - REMEMBERED;
	int fd, *all;

	if (e->fd < 0)
		return EPD_MAP_NONE;
	for (uint32_t i = w->nfiles; i-- > far;)
		if (w->file[i] == e->fd)
			return i;
	if (t->n == EPD_STREAM_FILES)
		return -ENOBUFS;
	if (!(all = epd_grow(w->file, w->nfiles, &w->cap, sizeof *all)))
		return -ENOMEM;
	w->file = all;
	fd = w->is.writable ? e->fd : for_reading(t, e->fd);
	if (fd < 0)
		return EPD_MAP_NONE;
	t->fd[t->n++] = fd;
	w->file[w->nfiles] = e->fd;
	return w->nfiles++;
}

/* Extents from w->mapped on; the count, or -errno. */
static int64_t
tell(struct epd_serve *c, struct epd_window *w, struct told *t)
{
	uint32_t n = 0;

	for (; w->mapped < w->is.n && n < EPD_MAP_MOST; n++, w->mapped++) {
		const struct epd_extent *e = w->is.extent + w->mapped;
		const int64_t file = number(w, t, e);

		if (file == -ENOBUFS)
			break;
		if (file < 0)
			return file;
		epd_pack_u64(&c->answer, e->bytes);
		epd_pack_u64(&c->answer, e->at);
		epd_pack_u32(&c->answer, (uint32_t)file);
	}
	return n;
}

/* Head and body as one, for files go with the first byte. */
static int
send_answer(struct epd_serve *c, const struct epd_frame *question,
    const struct told *t)
{
	struct epd_frame f = { .verb = question->verb, .id = question->id,
		.flags = EPD_FRAME_ANSWER,
		.body = (uint32_t)(c->answer.n - EPD_FRAME) };

	epd_auth_seal(&c->auth, c->answer.p, &f, epd_span(c->answer.p + EPD_FRAME,
	    f.body));
	return epd_stream_send_files(&c->in, epd_span(c->answer.p, c->answer.n),
	    t->fd, t->n, epd_serve_deadline(c, f.body));
}

int
epd_serve_map(struct epd_serve *c, const struct epd_frame *f, struct epd_span ask)
{
	struct epd_cur cur = epd_cur(ask);
	const uint64_t id = epd_unpack_u64(&cur);
	const uint32_t from = epd_unpack_u32(&cur);
	struct epd_window *w = epd_windows_find(&c->windows, id);
	struct told t = { .n = 0 };
	uint8_t *head;
	int64_t n;
	int rc;

	if (ask.n != 12)
		return EPD_EFORMAT;
	if (c->scheme != EPD_AT_UNIX)
		return epd_serve_refuse(c, f, EPD_EUNSUPPORTED, &(struct epd_why){
		    "files go over Unix sockets only" });
	if (!w || (from && from != w->mapped))
		return epd_serve_refuse(c, f, w ? EPD_EUSAGE : EPD_ENOTHING, NULL);
	if (!from)
		w->mapped = w->nfiles = 0;
	c->answer.n = 0;
	if (!(head = epd_buf_add(&c->answer, EPD_FRAME + EPD_MAP_HEAD)))
		return -ENOMEM;
	n = tell(c, w, &t);
	if (n < 0 || c->answer.failed) {
		rc = -ENOMEM;
	} else {
		head = c->answer.p + EPD_FRAME;
		epd_put_le(head, w->is.n, 4);
		epd_put_le(head + 4, w->is.writable != 0, 4);
		epd_put_le(head + 8, (uint32_t)n, 4);
		rc = send_answer(c, f, &t);
	}
	while (t.nours)
		close(t.ours[--t.nours]);
	return rc;
}
