/*
 * client_pull.c - receiving answers, which come in the order of the questions.
 * Bulk goes straight to where the piece wants it, with the next head behind it in
 * the same call; what came is summed before the next is taken.
 */
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "transport/client_in.h"

static struct epd_ask *
awaited(struct epd_client *s)
{
	while (s->first != s->out &&
	    epd_client_at(s, s->first)->state == EPD_ASK_GONE)
		s->first++;
	return s->first == s->out ? NULL : epd_client_at(s, s->first);
}

static int
is_move(const struct epd_ask *a)
{
	return a->verb == EPD_WIRE_READ || a->verb == EPD_WIRE_WRITE;
}

static int
lies(struct epd_client *s, const char *how)
{
	return epd_client_fail(s, EPD_EPEER, how);
}

/*
 * How much to read ahead of n bytes that are wanted: no bulk, which would have to be
 * copied once more.
 */
static size_t
ahead(const struct epd_client *s, const struct epd_ask *a, uint64_t n)
{
	const int in_bulk = s->at == EPD_AT_BULK || s->at == EPD_AT_SUM;
	const uint64_t so_far = s->at == EPD_AT_SUM ? s->bulk : s->got + n;
	size_t k;

	if (!a || a->verb != EPD_WIRE_READ)
		return EPD_STREAM;
	k = s->at == EPD_AT_BULK && s->summed && (so_far == a->piece.bytes ||
	    so_far % EPD_FRAME_BLOCK == 0) ? EPD_FRAME_SUM : 0;
	return in_bulk && so_far == a->piece.bytes ? k + EPD_FRAME : k;
}

/* The head is there: does it answer what was asked? */
static int
look_at_head(struct epd_client *s)
{
	const struct epd_ask *a = awaited(s);
	struct epd_frame *f = &s->frame;
	const int bulk = a && a->verb == EPD_WIRE_READ;

	if (epd_frame_unpack(f, s->head))
		return lies(s, "no frame of ours came");
	if (!a || !(f->flags & EPD_FRAME_ANSWER) || f->verb != a->verb ||
	    f->id != a->id)
		return lies(s, "an answer came to what was not asked");
	if (!f->status && (f->bulk != (bulk ? a->piece.bytes : 0) ||
	    (bulk && !(f->flags & EPD_FRAME_SUMMED) != !s->summed) ||
	    (is_move(a) && f->body)))
		return lies(s, "an answer came that is not to the question");
	s->body.n = 0;
	if (!epd_buf_add(&s->body, f->body))
		return epd_client_fail(s, -ENOMEM, "no memory for an answer");
	s->at = EPD_AT_BODY;
	s->got = 0;
	return 0;
}

/* The answer to what a call waits for. */
static void
answer(struct epd_client *s)
{
	struct epd_buf b = s->answer;

	s->answer_rc = s->frame.status;
	s->answer = s->body;
	s->body = b;
	s->answered = 1;
}

static void
finish(struct epd_client *s)
{
	s->at = EPD_AT_HEAD;
	s->got = s->bulk = 0;
	epd_client_pop(s);
}

/* Head and body are there. */
static int
look_at_body(struct epd_client *s)
{
	struct epd_ask *a = awaited(s);

	if (epd_auth_open(&s->auth, s->head, epd_span(s->body.p, s->body.n)))
		return epd_client_fail(s, EPD_EAUTH,
		    "a frame came that is not the server's");
	if (s->frame.bulk) {
		s->at = EPD_AT_BULK;
		s->got = s->bulk = 0;
		return 0;
	}
	if (!is_move(a)) {
		answer(s);
	} else {
		/* A sum that failed tells how far it was right. */
		if (s->frame.status == EPD_ECORRUPT && s->body.n == 8) {
			struct epd_cur c = epd_cur(epd_span(s->body.p, 8));
			const uint64_t certain = epd_unpack_u64(&c);

			a->certain = certain < a->piece.bytes ? certain : 0;
		}
		a->rc = s->frame.status;
		if (!a->rc)
			a->certain = a->piece.bytes;
	}
	finish(s);
	return 0;
}

/* A block has come whole, and its sum. */
static void
look_at_sum(struct epd_client *s, struct epd_ask *a)
{
	struct epd_cur c = epd_cur(epd_span(s->tail, sizeof s->tail));

	if (a->state == EPD_ASK_LIVE && !a->rc) {
		if (epd_unpack_u64(&c) != epd_xxh3_end(&s->sum_in))
			a->rc = EPD_ECORRUPT;
		else
			a->certain = s->bulk;
	}
	s->got = s->bulk;
	s->at = EPD_AT_BULK;
	if (s->bulk == a->piece.bytes)
		finish(s);
}

/* Bytes of bulk until something else comes, and where they go. */
static uint64_t
next_bulk(struct epd_client *s, struct epd_ask *a, void **to)
{
	uint64_t n = a->piece.bytes - s->got;

	/* No more at once than is in the cache when it is summed. */
	if (s->summed && n > EPD_FRAME_STRETCH - s->got % EPD_FRAME_STRETCH)
		n = EPD_FRAME_STRETCH - s->got % EPD_FRAME_STRETCH;
	if (a->state == EPD_ASK_LIVE) {
		*to = (uint8_t *)a->piece.local + s->got;
		return n;
	}
	*to = s->sink;
	return n < sizeof s->sink ? n : sizeof s->sink;
}

static void
took_bulk(struct epd_client *s, struct epd_ask *a, uint64_t n)
{
	if (s->summed && s->got % EPD_FRAME_BLOCK == 0)
		epd_xxh3_begin(&s->sum_in);
	if (s->summed && a->state == EPD_ASK_LIVE)
		epd_xxh3_add(&s->sum_in, (const uint8_t *)a->piece.local + s->got,
		    n);
	s->got += n;
	if (!s->summed && a->state == EPD_ASK_LIVE)
		a->certain = s->got;
	if (s->got < a->piece.bytes &&
	    !(s->summed && s->got % EPD_FRAME_BLOCK == 0))
		return;
	if (s->summed) {
		s->bulk = s->got;
		s->got = 0;
		s->at = EPD_AT_SUM;
	} else {
		finish(s);
	}
}

/* One stretch.  0, -EAGAIN, or it has failed. */
static int
step(struct epd_client *s)
{
	struct epd_ask *a = awaited(s);
	void *to = NULL;
	uint64_t want = 0;
	ssize_t n = 0;

	switch (s->at) {
	case EPD_AT_HEAD:
		to = s->head + s->got;
		want = sizeof s->head - s->got;
		break;
	case EPD_AT_BODY:
		to = s->body.p + s->got;
		want = s->body.n - s->got;
		break;
	case EPD_AT_BULK:
		want = next_bulk(s, a, &to);
		break;
	case EPD_AT_SUM:
		to = s->tail + s->got;
		want = sizeof s->tail - s->got;
		break;
	}
	if (want) {
		n = epd_stream_take(&s->in, to, want, ahead(s, a, want));
		if (n == -EAGAIN)
			return -EAGAIN;
		if (n < 0)
			return epd_client_fail(s, n == EPD_EPEER ? EPD_EPEER :
			    (int)n, n == EPD_EPEER ? "the connection is lost" :
			    epd_strerror((int)n));
	}
	if (s->at == EPD_AT_BULK) {
		took_bulk(s, a, (uint64_t)n);
		return 0;
	}
	s->got += (uint64_t)n;
	if ((uint64_t)n < want)
		return 0;
	if (s->at == EPD_AT_HEAD)
		return look_at_head(s);
	if (s->at == EPD_AT_BODY)
		return look_at_body(s);
	look_at_sum(s, a);
	return 0;
}

uint64_t
epd_client_coming(struct epd_client *s)
{
	return s->at == EPD_AT_BULK ? awaited(s)->piece.bytes - s->got : 0;
}

int
epd_client_pull(struct epd_client *s, uint32_t enough)
{
	int rc = 0;

	while (!rc && s->ndone - s->told < enough && !s->answered)
		rc = step(s);
	return rc;
}
