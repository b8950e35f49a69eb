/*
 * serve_move.c - READ and WRITE: bulk between the connection and the host's extents.
 *
 * Memory is sent from and received into where it lies.  What lies in a file alone is
 * sent by the kernel (sendfile), or goes through one block of ours where it has to be
 * summed or written.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "transport/serve.h"

enum {
	VECTORS = 60,
	/* What may come behind bulk and be read with it: a sum, a head, a range. */
	AHEAD = EPD_FRAME_SUM + EPD_FRAME + EPD_FRAME_RANGE
};

/* Stretch by stretch through a window. */
struct walk {
	const struct epd_window *w;
	uint32_t i;
	uint64_t into, left;		/* of extent i; in all */
};

static struct walk
walk(const struct epd_window *w, uint64_t offset, uint64_t bytes)
{
	const uint32_t i = epd_window_locate(w, offset);

	return (struct walk){ w, i, offset - w->start[i], bytes };
}

/* The next at most `most` bytes of one extent, as an extent. */
static struct epd_extent
next(struct walk *k, uint64_t most)
{
	struct epd_extent e = k->w->is.extent[k->i];

	e.at += k->into;
	if (e.p)
		e.p = (uint8_t *)e.p + k->into;
	e.bytes -= k->into;
	if (e.bytes > most)
		e.bytes = most;
	if (e.bytes > k->left)
		e.bytes = k->left;
	k->into += e.bytes;
	k->left -= e.bytes;
	if (k->into == k->w->is.extent[k->i].bytes) {
		k->into = 0;
		k->i++;
	}
	return e;
}

/* The window, if the range is within and may be had so. */
static int
look(struct epd_serve *c, const struct epd_frame_range *r, int to_write,
    struct epd_window **out, struct epd_why *why)
{
	struct epd_window *w = epd_windows_find(&c->windows, r->window);
	uint64_t end;

	if (!w)
		return epd_why(why, EPD_ENOTHING, "no such window");
	if (to_write && !w->is.writable)
		return epd_why(why, -EACCES, "the window is to be read only");
	if (!r->bytes || r->bytes > EPD_FRAME_BULK ||
	    __builtin_add_overflow(r->offset, r->bytes, &end) ||
	    end > epd_window_bytes(w))
		return epd_why(why, EPD_EUSAGE, "beyond the window's %llu bytes",
		    (unsigned long long)epd_window_bytes(w));
	*out = w;
	return 0;
}

static int
have_block(struct epd_serve *c)
{
	if (!c->block)
		c->block = epd_malloc(EPD_FRAME_BLOCK);
	return c->block ? 0 : -ENOMEM;
}

/* What has been moved, here and in the store's own books. */
static void
moved(struct epd_serve *c, uint64_t *so_far, uint64_t bytes)
{
	struct epd_server_common *s = epd_server_common(c->server);

	epd_server_count(&s->counts.moves, 1);
	epd_server_count(so_far, (int64_t)bytes);
	epd_count(s->o.metrics, c->scheme == EPD_AT_UNIX ? EPD_M_VIA_SHM_BYTES :
	    EPD_M_VIA_TCP_BYTES, bytes);
}

/* ---- READ ---- */

static int
send_plain(struct epd_serve *c, struct walk k, uint64_t deadline)
{
	struct iovec iov[VECTORS];
	int n = 0, rc = 0;

	while (!rc && k.left) {
		struct epd_extent e = next(&k, UINT64_MAX);

		if (e.p) {
			iov[n++] = (struct iovec){ e.p, e.bytes };
			if (n < VECTORS && k.left)
				continue;
		}
		if (n)
			rc = epd_stream_send(&c->in, iov, n, k.left || !e.p,
			    deadline);
		n = 0;
		if (!rc && !e.p)
			rc = epd_stream_send_file(&c->in, e.fd, e.at, e.bytes,
			    deadline);
	}
	return rc;
}

/*
 * A stretch of a block, `want` bytes, as memory and into its sum; what lies in a file,
 * or in more places than there is room for, is put together in one block of ours.
 */
static int
gather(struct epd_serve *c, struct walk *k, uint64_t want, struct iovec *iov,
    struct epd_xxh3 *x, int *bad)
{
	struct walk ahead = *k;
	uint64_t at = 0;
	int n = 0, in_place = 1;

	while (in_place && at < want) {
		const struct epd_extent e = next(&ahead, want - at);

		in_place = e.p && n < VECTORS;
		if (in_place)
			iov[n++] = (struct iovec){ e.p, e.bytes };
		at += e.bytes;
	}
	if (!in_place) {
		if (have_block(c))
			return -ENOMEM;
		ahead = *k;
		for (at = 0; at < want;) {
			const struct epd_extent e = next(&ahead, want - at);

			if (e.p)
				memcpy(c->block + at, e.p, e.bytes);
			else if (epd_file_pread(e.fd, c->block + at, e.bytes,
			    e.at) != (ssize_t)e.bytes)
				*bad = 1;
			at += e.bytes;
		}
		iov[0] = (struct iovec){ c->block, want };
		n = 1;
		/* Nothing of ours that lay there before goes out. */
		if (*bad)
			memset(c->block, 0, want);
	}
	for (int i = 0; i < n; i++)
		epd_xxh3_add(x, iov[i].iov_base, iov[i].iov_len);
	*k = ahead;
	return n;
}

/* What cannot be read is told by a sum that is none. */
static int
send_summed(struct epd_serve *c, struct walk k, uint64_t deadline)
{
	struct iovec iov[VECTORS + 1];
	uint8_t bytes[EPD_FRAME_SUM];
	int rc = 0;

	while (!rc && k.left) {
		uint64_t left = k.left < EPD_FRAME_BLOCK ? k.left :
		    EPD_FRAME_BLOCK;
		struct epd_xxh3 x;
		int bad = 0, n;

		epd_xxh3_begin(&x);
		while (!rc && left) {
			const uint64_t want = left < EPD_FRAME_STRETCH ? left :
			    EPD_FRAME_STRETCH;

			n = gather(c, &k, want, iov, &x, &bad);
			if (n < 0)
				return n;
			left -= want;
			if (!left) {
				epd_put_le(bytes, epd_xxh3_end(&x) ^
				    (bad ? UINT64_MAX : 0), EPD_FRAME_SUM);
				iov[n++] = (struct iovec){ bytes, sizeof bytes };
			}
			rc = epd_stream_send(&c->in, iov, n, k.left != 0, deadline);
		}
	}
	return rc;
}

int
epd_serve_read(struct epd_serve *c, const struct epd_frame *f,
    const struct epd_frame_range *r)
{
	struct epd_server_counts *counts = &epd_server_common(c->server)->counts;
	struct epd_frame answer = *f;
	struct epd_window *w = NULL;
	struct epd_why why = { "" };
	uint64_t deadline;
	int rc = look(c, r, 0, &w, &why);

	if (rc)
		return epd_serve_refuse(c, f, rc, &why);
	answer.bulk = r->bytes;
	if ((rc = epd_serve_answer_bulk(c, &answer)))
		return rc;
	deadline = epd_serve_deadline(c, r->bytes);
	rc = f->flags & EPD_FRAME_SUMMED ?
	    send_summed(c, walk(w, r->offset, r->bytes), deadline) :
	    send_plain(c, walk(w, r->offset, r->bytes), deadline);
	if (rc == 0)
		moved(c, &counts->bytes_out, r->bytes);
	return rc;
}

/* ---- WRITE ---- */

struct write {
	int rc;				/* what it comes to; the bulk is taken all the same */
	uint64_t certain;
};

/* n bytes to p, a stretch at a time if they are summed. */
static int
take(struct epd_serve *c, uint8_t *p, uint64_t n, struct epd_xxh3 *x, size_t ahead,
    uint64_t deadline)
{
	const uint64_t most = x ? EPD_FRAME_STRETCH : UINT64_MAX;
	int rc = 0;

	while (!rc && n) {
		const uint64_t k = n < most ? n : most;

		rc = epd_stream_read(&c->in, p, k, k == n ? ahead : 0, deadline);
		if (!rc && x)
			epd_xxh3_add(x, p, k);
		p += k;
		n -= k;
	}
	return rc;
}

/* One stretch of bulk to where it belongs; x: it is summed on the way. */
static int
receive(struct epd_serve *c, const struct epd_extent *e, struct epd_xxh3 *x,
    size_t ahead, struct write *to, uint64_t deadline)
{
	int rc;

	if (e->p)
		return take(c, e->p, e->bytes, x, ahead, deadline);
	if ((rc = have_block(c)))
		return rc;
	for (uint64_t at = 0; at < e->bytes && !rc;) {
		const uint64_t n = e->bytes - at < EPD_FRAME_BLOCK ?
		    e->bytes - at : EPD_FRAME_BLOCK;

		rc = take(c, c->block, n, x, 0, deadline);
		if (!rc && !to->rc)
			to->rc = epd_file_pwrite(e->fd, c->block, n, e->at + at);
		at += n;
	}
	return rc;
}

static int
receive_plain(struct epd_serve *c, struct walk k, struct write *to, uint64_t deadline)
{
	int rc = 0;

	while (!rc && k.left) {
		const struct epd_extent e = next(&k, UINT64_MAX);

		rc = receive(c, &e, NULL, k.left ? 0 : AHEAD - EPD_FRAME_SUM, to,
		    deadline);
	}
	return rc;
}

static int
receive_summed(struct epd_serve *c, struct walk k, struct write *to,
    uint64_t deadline)
{
	uint8_t came[EPD_FRAME_SUM], is[EPD_FRAME_SUM];
	int rc = 0;

	while (!rc && k.left) {
		const uint64_t whole = k.left < EPD_FRAME_BLOCK ? k.left :
		    EPD_FRAME_BLOCK;
		struct epd_xxh3 x;

		epd_xxh3_begin(&x);
		for (uint64_t left = whole; !rc && left;) {
			const struct epd_extent e = next(&k, left);

			left -= e.bytes;
			rc = receive(c, &e, &x, left ? 0 : k.left ?
			    EPD_FRAME_SUM : AHEAD, to, deadline);
		}
		if (!rc)
			rc = epd_stream_read(&c->in, came, sizeof came,
			    k.left ? 0 : EPD_STREAM, deadline);
		if (rc || to->rc)
			continue;
		epd_put_le(is, epd_xxh3_end(&x), EPD_FRAME_SUM);
		if (memcmp(came, is, sizeof is))
			to->rc = EPD_ECORRUPT;
		else
			to->certain += whole;
	}
	return rc;
}

int
epd_serve_write(struct epd_serve *c, const struct epd_frame *f,
    const struct epd_frame_range *r)
{
	struct epd_server_common *s = epd_server_common(c->server);
	const int summed = f->flags & EPD_FRAME_SUMMED;
	const uint64_t deadline = epd_serve_deadline(c, f->bulk);
	struct epd_window *w = NULL;
	struct write to = { 0 };
	struct epd_why why = { "" };
	uint8_t certain[8];
	int rc;

	if (r->bytes != f->bulk)
		return EPD_EFORMAT;
	if ((rc = look(c, r, 1, &w, &why))) {
		const int no = epd_stream_skip(&c->in,
		    epd_frame_bulk(f->bulk, summed), deadline);

		return no ? no : epd_serve_refuse(c, f, rc, &why);
	}
	rc = summed ? receive_summed(c, walk(w, r->offset, r->bytes), &to,
	    deadline) : receive_plain(c, walk(w, r->offset, r->bytes), &to,
	    deadline);
	if (rc)
		return rc;
	moved(c, &s->counts.bytes_in, r->bytes);
	if (!to.rc)
		return epd_serve_answer(c, f, 0, epd_span("", 0));
	if (to.rc != EPD_ECORRUPT)
		return epd_serve_refuse(c, f, to.rc, NULL);
	epd_server_count(&s->counts.corrupt, 1);
	epd_count(s->o.metrics, EPD_M_CHECKSUM_FAILURES, 1);
	epd_put_le(certain, to.certain, EPD_FRAME_SUM);
	return epd_serve_answer(c, f, to.rc, epd_span(certain, sizeof certain));
}
