/*
 * client_push.c - sending questions.
 *
 * A frame is laid out anew from the place it has got to: the head and body, then of
 * a WRITE its bulk, in blocks with their sums if they are summed.  Bulk is summed a
 * stretch at a time when its turn comes, and the kernel copies it out of the cache.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "transport/client_in.h"

enum { VECTORS = 48, ENOUGH = 1 << 20 };

static const uint8_t zeros[16384];

struct batch {
	struct iovec iov[VECTORS + 4];
	int n;
	uint64_t bytes;
};

static void
add(struct batch *b, const void *p, uint64_t n)
{
	if (!n)
		return;
	b->iov[b->n++] = (struct iovec){ (void *)(uintptr_t)p, n };
	b->bytes += n;
}

static uint64_t
frame_bytes(const struct epd_client *s, const struct epd_ask *a)
{
	uint64_t n = a->nhead + a->body.n;

	if (a->verb == EPD_WIRE_WRITE)
		n += epd_frame_bulk((uint32_t)a->piece.bytes, s->summed);
	return n;
}

/* The number of a frame is taken as it goes out, not as it is put. */
static void
seal(struct epd_client *s, struct epd_ask *a)
{
	struct epd_frame f = { .verb = (uint16_t)a->verb, .id = a->id,
		.status = a->status };

	f.body = (uint32_t)(a->nhead - EPD_FRAME + a->body.n);
	if (a->verb == EPD_WIRE_READ || a->verb == EPD_WIRE_WRITE)
		f.flags = s->summed ? EPD_FRAME_SUMMED : 0;
	if (a->verb == EPD_WIRE_WRITE)
		f.bulk = (uint32_t)a->piece.bytes;
	epd_auth_seal(&s->auth, a->head, &f, a->body.n ? a->body :
	    epd_span(a->head + EPD_FRAME, a->nhead - EPD_FRAME));
	a->sealed = 1;
}

/* n bytes of a block, from `from` of it on, of memory that may not be ours now. */
static void
add_data(struct batch *b, const struct epd_ask *a, uint64_t at, uint64_t n)
{
	if (a->state == EPD_ASK_LIVE)
		add(b, (const uint8_t *)a->piece.local + at, n);
	else
		add(b, zeros, n < sizeof zeros ? n : sizeof zeros);
}

/* The sum of one stretch more of block n; its bytes may not be ours any more. */
static void
sum_more(struct epd_client *s, const struct epd_ask *a, uint64_t at, uint64_t size)
{
	const uint64_t left = size - s->sum_to;
	const uint64_t n = left < EPD_FRAME_STRETCH ? left : EPD_FRAME_STRETCH;
	uint64_t sum;

	if (a->state == EPD_ASK_LIVE)
		epd_xxh3_add(&s->sum_out, (const uint8_t *)a->piece.local + at +
		    s->sum_to, n);
	s->sum_to += n;
	if (n < left)
		return;
	/* Of what was called off it is none. */
	sum = epd_xxh3_end(&s->sum_out) ^ (a->state == EPD_ASK_LIVE ? 0 : UINT64_MAX);
	epd_put_le(s->sum, sum, EPD_FRAME_SUM);
}

/* A stretch of a block, or its sum; done is what of the bulk on the wire has gone. */
static void
add_block(struct epd_client *s, struct batch *b, const struct epd_ask *a,
    uint64_t done)
{
	const uint64_t each = EPD_FRAME_BLOCK + EPD_FRAME_SUM;
	const uint64_t block = done / each, at = block * EPD_FRAME_BLOCK;
	const uint64_t left = a->piece.bytes - at, into = done % each;
	const uint64_t n = left < EPD_FRAME_BLOCK ? left : EPD_FRAME_BLOCK;
	const uint64_t before = b->bytes;

	if (s->sum_id != a->id || s->sum_of != block) {
		epd_xxh3_begin(&s->sum_out);
		s->sum_id = a->id;
		s->sum_of = block;
		s->sum_to = 0;
	}
	if (into < n) {
		if (into == s->sum_to)
			sum_more(s, a, at, n);
		add_data(b, a, at + into, s->sum_to - into);
		if (b->bytes - before < n - into)
			return;
		add(b, s->sum, EPD_FRAME_SUM);
	} else {
		add(b, s->sum + (into - n), EPD_FRAME_SUM - (into - n));
	}
}

/* Lay out one question from byte `from` on; 1 if all of it. */
static int
add_frame(struct epd_client *s, struct batch *b, struct epd_ask *a, uint64_t from)
{
	const uint64_t small = a->nhead + a->body.n, before = b->bytes;

	if (!a->sealed)
		seal(s, a);
	if (from < a->nhead)
		add(b, a->head + from, a->nhead - from);
	if (a->body.n && from < small) {
		const uint64_t k = from > a->nhead ? from - a->nhead : 0;

		add(b, (const uint8_t *)a->body.p + k, a->body.n - k);
	}
	if (a->verb == EPD_WIRE_WRITE) {
		const uint64_t done = from > small ? from - small : 0;

		if (s->summed)
			add_block(s, b, a, done);
		else
			add_data(b, a, done, a->piece.bytes - done);
	}
	return b->bytes - before == frame_bytes(s, a) - from;
}

/* k bytes went out. */
static void
advance(struct epd_client *s, uint64_t k)
{
	while (k) {
		struct epd_ask *a = epd_client_at(s, s->out);
		const uint64_t left = a->state == EPD_ASK_GONE ? 0 :
		    frame_bytes(s, a) - s->sent;

		if (k < left) {
			s->sent += k;
			return;
		}
		k -= left;
		s->sent = 0;
		s->out++;
	}
}

/* What goes out next; 0: it ends within a frame. */
static int
gather(struct epd_client *s, struct batch *b)
{
	b->n = 0;
	b->bytes = 0;
	for (uint32_t i = s->out; i != s->end; i++) {
		struct epd_ask *a = epd_client_at(s, i);

		if (a->state == EPD_ASK_GONE)
			continue;
		if (!add_frame(s, b, a, i == s->out ? s->sent : 0))
			return 0;
		/* There is one sum at a time. */
		if ((a->verb == EPD_WIRE_WRITE && s->summed) ||
		    b->n >= VECTORS || b->bytes >= ENOUGH)
			break;
	}
	return 1;
}

int
epd_client_push(struct epd_client *s)
{
	struct batch b;

	for (;;) {
		struct msghdr m = { .msg_iov = b.iov };
		ssize_t k;
		int more;

		while (s->out != s->end &&
		    epd_client_at(s, s->out)->state == EPD_ASK_GONE)
			s->out++;
		if (s->out == s->end)
			return 0;
		more = !gather(s, &b);
		m.msg_iovlen = (size_t)b.n;
		k = sendmsg(s->in.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL |
		    (more ? MSG_MORE : 0));
		if (k > 0)
			advance(s, (uint64_t)k);
		else if (errno == EAGAIN)
			return 0;
		else if (errno != EINTR)
			return epd_client_fail(s, EPD_EPEER, strerror(errno));
	}
}
