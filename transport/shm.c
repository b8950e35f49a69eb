/*
 * shm.c - a session over a Unix socket by which the peer's files come: what is in a
 * window is then memory here too, and map copies nothing.  Moves are for code that
 * wants bytes in a place of its own: pread and pwrite of those files, which a peer
 * that shortens one cannot make a SIGBUS; what has no file goes over the socket.
 */
#include "transport/tables.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "transport/address.h"
#include "transport/map.h"
#include "transport/client.h"
#include "transport/stream.h"
#include "transport/transport.h"

enum { FILES = 1 << 16 };

struct stretch {
	uint64_t start, bytes, at;	/* start: in the window */
	int fd;				/* -1: memory alone */
};

struct view {
	uint64_t window;
	int writable;
	struct stretch *s;
	size_t n, cap;
	int *fd;			/* ours */
	size_t nfds, capfds;
};

struct link {
	EPD_LINK_OPS;
	struct epd_client *s;
	struct view *view;
	size_t n, cap;
	uint64_t copied;
};

static struct link *
of(struct epd_link *l)
{
	return (struct link *)(void *)l;
}

/* ---- views ---- */

static void
free_view(struct view *v)
{
	while (v->nfds)
		close(v->fd[--v->nfds]);
	epd_free(v->fd);
	epd_free(v->s);
}

static int
keep_files(struct view *v, const struct epd_client_files *f)
{
	for (int i = 0; i < f->n; i++) {
		int *all = v->nfds < FILES ? epd_grow(v->fd, v->nfds, &v->capfds,
		    sizeof *all) : NULL;

		if (!all) {
			while (i < f->n)
				close(f->fd[i++]);
			return -ENOMEM;
		}
		v->fd = all;
		v->fd[v->nfds++] = f->fd[i];
	}
	return 0;
}

/* Whether the file is one, and as long as is said. */
static int
is_within(int fd, uint64_t at, uint64_t bytes)
{
	struct stat st;
	uint64_t end;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    !__builtin_add_overflow(at, bytes, &end) &&
	    end <= (uint64_t)st.st_size;
}

static int
add(struct view *v, uint64_t bytes, uint64_t at, uint32_t file)
{
	struct stretch *s = v->n ? v->s + v->n - 1 : NULL, *all;
	const int fd = file == EPD_MAP_NONE ? -1 : file < v->nfds ?
	    v->fd[file] : -2;
	const uint64_t start = s ? s->start + s->bytes : 0;
	uint64_t end;

	if (fd == -2 || !bytes || __builtin_add_overflow(start, bytes, &end) ||
	    (fd >= 0 && !is_within(fd, at, bytes)))
		return EPD_EPEER;
	if (s && fd >= 0 && s->fd == fd && s->at + s->bytes == at) {
		s->bytes += bytes;
		return 0;
	}
	if (!(all = epd_grow(v->s, v->n, &v->cap, sizeof *all)))
		return -ENOMEM;
	v->s = all;
	v->s[v->n++] = (struct stretch){ start, bytes, at, fd };
	return 0;
}

/* One answer.  How many extents it was of, of *all. */
static int
ask(struct link *l, struct view *v, uint32_t from, uint32_t *all,
    uint64_t deadline, struct epd_why *why)
{
	int fd[EPD_STREAM_FILES], rc;
	struct epd_client_files files = { fd, EPD_STREAM_FILES, 0 };
	struct epd_buf q = { 0 }, a = { 0 };
	struct epd_cur c;
	uint32_t n = 0;
	int lies = 0;

	epd_pack_u64(&q, v->window);
	epd_pack_u32(&q, from);
	rc = q.failed ? -ENOMEM : epd_client_ask(l->s, EPD_WIRE_MAP,
	    epd_span(q.p, q.n), &a, &files, deadline, why);
	if (!rc)
		rc = keep_files(v, &files);
	c = epd_cur(epd_span(a.p, a.n));
	*all = epd_unpack_u32(&c);
	v->writable = epd_unpack_u32(&c) != 0;
	n = epd_unpack_u32(&c);
	lies = !rc && (c.failed || n > EPD_MAP_MOST || *all > EPD_MAP_EXTENTS ||
	    n > *all - from || (!n && from < *all) ||
	    epd_cur_left(&c) != (size_t)n * EPD_MAP_EACH);
	for (uint32_t i = 0; i < n && !rc && !lies; i++) {
		const uint64_t bytes = epd_unpack_u64(&c);
		const uint64_t at = epd_unpack_u64(&c);

		rc = add(v, bytes, at, epd_unpack_u32(&c));
		lies = rc == EPD_EPEER;
	}
	epd_buf_free(&q);
	epd_buf_free(&a);
	if (lies)
		return epd_why(why, EPD_EPEER, "the window's files are not as the "
		    "peer says");
	return rc ? rc : (int)n;
}

static struct view *
find(struct link *l, uint64_t window)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->view[i].window == window)
			return l->view + i;
	return NULL;
}

/* The window's view, asked for when it is first wanted. */
static int
look(struct link *l, uint64_t window, struct view **out, uint64_t deadline,
    struct epd_why *why)
{
	struct view v = { .window = window }, *all;
	uint32_t from = 0, n = 0;
	int rc;

	if ((*out = find(l, window)))
		return 0;
	if (!(all = epd_grow(l->view, l->n, &l->cap, sizeof *all)))
		return -ENOMEM;
	l->view = all;
	do {
		rc = ask(l, &v, from, &n, deadline, why);
		if (rc < 0) {
			free_view(&v);
			return rc;
		}
		from += (uint32_t)rc;
	} while (from < n);
	l->view[l->n] = v;
	*out = &l->view[l->n++];
	return 0;
}

/* Which stretch offset lies in; NULL: beyond. */
static struct stretch *
locate(const struct view *v, uint64_t offset)
{
	size_t low = 0, high = v->n;

	if (!v->n || offset >= v->s[high - 1].start + v->s[high - 1].bytes)
		return NULL;
	while (high - low > 1) {
		const size_t mid = low + (high - low) / 2;

		if (v->s[mid].start <= offset)
			low = mid;
		else
			high = mid;
	}
	return v->s + low;
}

static int
map(struct epd_link *link, uint64_t window, uint64_t offset,
    struct epd_stretch *out, uint64_t deadline_ns, struct epd_why *why)
{
	struct link *l = of(link);
	struct view *v;
	const struct stretch *s;
	int rc = look(l, window, &v, deadline_ns, why);

	if (rc)
		return rc;
	if (!(s = locate(v, offset)))
		return epd_why(why, EPD_EUSAGE, "beyond the window");
	if (s->fd < 0)
		return epd_why(why, EPD_EUNSUPPORTED, "that stretch of the "
		    "window is in no file");
	*out = (struct epd_stretch){ s->fd, s->at + (offset - s->start),
	    s->bytes - (offset - s->start) };
	return 0;
}

/* ---- moves ---- */

/* Whether all of the piece lies in files. */
static int
is_in_files(const struct view *v, const struct epd_piece *p)
{
	const struct stretch *s = locate(v, p->offset), *end;
	uint64_t left = p->bytes, into;

	if (!s || (p->op == EPD_OP_WRITE && !v->writable))
		return 0;
	end = v->s + v->n;
	for (into = p->offset - s->start; s < end && s->fd >= 0; s++, into = 0) {
		if (left <= s->bytes - into)
			return 1;
		left -= s->bytes - into;
	}
	return 0;
}

static int
one(const struct stretch *s, const struct epd_piece *p, uint64_t done, uint64_t into,
    uint64_t n)
{
	uint8_t *here = (uint8_t *)p->local + done;
	ssize_t got;

	if (p->op == EPD_OP_WRITE)
		return epd_file_pwrite(s->fd, here, n, s->at + into);
	got = epd_file_pread(s->fd, here, n, s->at + into);
	/* It was as long as this when it came. */
	return got < 0 ? (int)got : (uint64_t)got < n ? EPD_EPEER : 0;
}

static struct epd_piece_done
copy(const struct view *v, const struct epd_piece *p)
{
	struct epd_piece_done d = { .tag = p->tag };
	const struct stretch *s = locate(v, p->offset);
	uint64_t into = p->offset - s->start;

	for (; d.bytes < p->bytes && !d.rc; s++, into = 0) {
		const uint64_t left = p->bytes - d.bytes;
		const uint64_t n = left < s->bytes - into ? left :
		    s->bytes - into;

		d.rc = one(s, p, d.bytes, into, n);
		d.bytes += d.rc ? 0 : n;
	}
	return d;
}

static int
submit(struct epd_link *link, const struct epd_piece *p, struct epd_why *why)
{
	struct link *l = of(link);
	struct epd_piece_done d = { 0 };
	struct view *v = NULL;
	int rc = 0;

	if (p->bytes > EPD_FRAME_BULK)
		return epd_why(why, EPD_ETOOBIG, "a move of %llu bytes",
		    (unsigned long long)p->bytes);
	if (!p->deadline_ns)
		v = find(l, p->window);
	else
		rc = look(l, p->window, &v, p->deadline_ns, why);
	if (rc == -EAGAIN || rc == -ENOMEM)
		return rc;
	if (!v || !p->bytes || !is_in_files(v, p)) {
		rc = epd_client_submit(l->s, p, why);
		l->copied += rc ? 0 : p->bytes;
		return rc;
	}
	/* A place among those done first, then the bytes. */
	if (!epd_client_room(l->s))
		return -EAGAIN;
	d = copy(v, p);
	l->copied += d.bytes;
	return epd_client_done(l->s, &d);
}

uint64_t
epd_shm_copied(const struct epd_link *l)
{
	return ((const struct link *)(const void *)l)->copied;
}

/* ---- the rest is the session's ---- */

static int
probe(const struct epd_transport *t, struct epd_transport_facts *out,
    struct epd_why *why)
{
	(void)t;
	(void)why;
	*out = (struct epd_transport_facts){ .alignment = 1,
	    .max_bytes = EPD_FRAME_BULK, .max_inflight = EPD_CLIENT_MOVES,
	    .max_sge = 1 };
	return 0;
}

static int
open_link(const struct epd_transport *t, struct epd_link **out,
    const struct epd_peer *peer, struct epd_why *why)
{
	struct link *l = epd_calloc(1, sizeof *l);
	int rc;

	if (!l)
		return -ENOMEM;
	rc = epd_client_open(&l->s, peer, EPD_AT_UNIX, why);
	if (rc) {
		epd_free(l);
		return rc;
	}
	l->ops = t;
	*out = (struct epd_link *)(void *)l;
	return 0;
}

static void
close_link(struct epd_link *link)
{
	struct link *l = of(link);

	if (!l)
		return;
	while (l->n)
		free_view(&l->view[--l->n]);
	epd_free(l->view);
	epd_client_close(l->s);
	epd_free(l);
}

static int
call(struct epd_link *l, uint16_t verb, struct epd_span ask_it,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why)
{
	return epd_client_call(of(l)->s, verb, ask_it, answer, deadline_ns, why);
}

static int
wait_for(struct epd_link *l, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why)
{
	return epd_client_wait(of(l)->s, done, max, deadline_ns, why);
}

static int
cancel(struct epd_link *l, uint64_t tag)
{
	return epd_client_cancel(of(l)->s, tag);
}

static int
shut(struct epd_link *link, uint64_t window, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct link *l = of(link);
	struct view *v = find(l, window);

	if (v) {
		free_view(v);
		*v = l->view[--l->n];
	}
	return epd_client_shut(l->s, window, deadline_ns, why);
}

const struct epd_transport epd_transport_shm = {
	.backend = EPD_VIA_SHM, .probe = probe, .open = open_link,
	.close = close_link, .call = call, .submit = submit, .wait = wait_for,
	.cancel = cancel, .map = map, .shut = shut,
};
