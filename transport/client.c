/*
 * client.c - a session's life, its calls and moves; client_in.h draws it.
 * Both ways are served whenever it waits, so that neither end waits for the other.
 */
#include "transport/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "transport/hello.h"
#include "transport/client_in.h"

/* Questions that may wait in us before they are sent unasked. */
enum { HELD = 8 };

int
epd_client_open(struct epd_client **out, const struct epd_peer *peer, int which,
    struct epd_why *why)
{
	struct epd_client *s;
	struct epd_address a;
	int rc = epd_address_parse(&a, peer->address, which, why);

	if (rc)
		return rc;
	if (peer->key.n > EPD_PEER_KEY)
		return epd_why(why, EPD_EUSAGE, "a key of %zu bytes; %d is the "
		    "most", peer->key.n, EPD_PEER_KEY);
	if (!(s = epd_calloc(1, sizeof *s)))
		return -ENOMEM;
	s->summed = peer->checksum != 0;
	s->in.fd = epd_address_connect(&a, peer->deadline_ns, why);
	rc = s->in.fd < 0 ? s->in.fd : epd_hello_client(&s->in, &s->auth, &a,
	    peer, why);
	if (rc) {
		epd_client_close(s);
		return rc;
	}
	s->next_id = 2;			/* hello's were 0 and 1 */
	*out = s;
	return 0;
}

void
epd_client_close(struct epd_client *s)
{
	if (!s)
		return;
	if (s->in.fd >= 0)
		close(s->in.fd);
	epd_buf_free(&s->body);
	epd_buf_free(&s->answer);
	explicit_bzero(&s->auth, sizeof s->auth);
	epd_free(s);
}

int
epd_client_fd(const struct epd_client *s)
{
	return s->in.fd;
}

/* ---- the ring ---- */

static int
is_move(const struct epd_ask *a)
{
	return a->verb == EPD_WIRE_READ || a->verb == EPD_WIRE_WRITE;
}

static void
tell(struct epd_client *s, uint64_t tag, int rc, uint64_t bytes)
{
	s->done[s->ndone++ % EPD_CLIENT_RING] = (struct epd_piece_done){
	    tag, rc, bytes };
}

void
epd_client_pop(struct epd_client *s)
{
	const struct epd_ask *a = epd_client_at(s, s->first++);

	if (!is_move(a) || a->state == EPD_ASK_GONE)
		return;
	s->moves--;
	if (a->state == EPD_ASK_OFF)
		s->off--;
	else
		tell(s, a->piece.tag, a->rc, a->certain);
}

int
epd_client_fail(struct epd_client *s, int rc, const char *what)
{
	s->rc = rc;
	epd_why(&s->why, rc, "%s", what);
	while (s->first != s->end) {
		struct epd_ask *a = epd_client_at(s, s->first);

		/* A sum that was wrong is the graver. */
		if (!a->rc)
			a->rc = rc;
		epd_client_pop(s);
	}
	s->out = s->end;
	return rc;
}

static int
is_failed(const struct epd_client *s, struct epd_why *why)
{
	return s->rc ? epd_why(why, s->rc, "%s", s->why.text) : 0;
}

static struct epd_ask *
add(struct epd_client *s, enum epd_wire_verb verb)
{
	struct epd_ask *a = epd_client_at(s, s->end++);

	memset(a, 0, sizeof *a);
	a->verb = verb;
	a->id = s->next_id++;
	a->nhead = EPD_FRAME;
	return a;
}

static uint32_t
untold(const struct epd_client *s)
{
	return s->ndone - s->told;
}

/*
 * Send and receive until a move is done and untold, or a call answered; without a
 * wait it goes on to enough.
 */
static int
pump(struct epd_client *s, uint32_t least, uint32_t enough, uint64_t deadline_ns)
{
	for (;;) {
		int rc = epd_client_push(s);

		if (!rc)
			rc = epd_client_pull(s, enough);
		if (rc != -EAGAIN || s->answered || untold(s) >= least)
			return rc == -EAGAIN ? 0 : rc;
		rc = epd_stream_await(s->in.fd, epd_client_coming(s),
		    s->out != s->end ? POLLOUT : 0, deadline_ns);
		if (rc == EPD_ETIMEOUT)
			return rc;
		if (rc)
			return epd_client_fail(s, rc, rc == EPD_EPEER ?
			    "the connection is lost" : epd_strerror(rc));
	}
}

/* ---- calls ---- */

/* The answer, or how it failed; what a peer says is not trusted to be text. */
static int
hear(struct epd_client *s, struct epd_buf *answer, struct epd_why *why)
{
	const size_t had = answer ? answer->n : 0;

	if (s->answer_rc)
		return epd_hello_refused(why, s->answer_rc,
		    epd_span(s->answer.p, s->answer.n));
	if (!answer)
		return 0;
	epd_buf_put(answer, s->answer.p, s->answer.n);
	if (!answer->failed)
		return 0;
	answer->n = had;
	return -ENOMEM;
}

static int
begin(struct epd_client *s, enum epd_wire_verb verb, int32_t status,
    struct epd_span ask, struct epd_why *why)
{
	struct epd_ask *a;
	int rc = is_failed(s, why);

	if (rc)
		return rc;
	if (ask.n > EPD_FRAME_BODY)
		return epd_why(why, EPD_ETOOBIG, "a question of %zu bytes",
		    ask.n);
	a = add(s, verb);
	a->status = status;
	a->body = ask;
	return 0;
}

int
epd_client_ask_begin(struct epd_client *s, enum epd_wire_verb verb,
    struct epd_span ask, struct epd_why *why)
{
	int rc = begin(s, verb, 0, ask, why);

	if (!rc && epd_client_push(s))
		rc = is_failed(s, why);
	return rc;
}

int
epd_client_ask_end(struct epd_client *s, struct epd_buf *answer,
    uint64_t deadline_ns, struct epd_why *why)
{
	int rc = s->rc || s->answered ? 0 :
	    pump(s, UINT32_MAX, UINT32_MAX, deadline_ns);

	if (s->answered) {
		s->answered = 0;
		return hear(s, answer, why);
	}
	return rc == EPD_ETIMEOUT ? 1 : is_failed(s, why);
}

static int
put(struct epd_client *s, enum epd_wire_verb verb, int32_t status,
    struct epd_span ask, struct epd_buf *answer, uint64_t deadline_ns,
    struct epd_why *why)
{
	int rc = begin(s, verb, status, ask, why);

	if (rc)
		return rc;
	rc = epd_client_ask_end(s, answer, deadline_ns, why);
	if (rc != 1)
		return rc;
	epd_client_fail(s, EPD_ETIMEOUT, "no answer came in time");
	return is_failed(s, why);
}

int
epd_client_call(struct epd_client *s, uint16_t verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why)
{
	return put(s, EPD_WIRE_CALL, verb, ask, answer, deadline_ns, why);
}

int
epd_client_ask(struct epd_client *s, enum epd_wire_verb verb, struct epd_span ask,
    struct epd_buf *answer, struct epd_client_files *files, uint64_t deadline_ns,
    struct epd_why *why)
{
	int rc;

	if (files) {
		s->in.file = files->fd;
		s->in.max = files->max;
	}
	rc = put(s, verb, 0, ask, answer, deadline_ns, why);
	if (files) {
		files->n = s->in.files;
		while (rc && files->n)
			close(files->fd[--files->n]);
	}
	s->in.max = s->in.files = 0;
	s->in.file = NULL;
	return rc;
}

int
epd_client_shut(struct epd_client *s, uint64_t window, uint64_t deadline_ns,
    struct epd_why *why)
{
	uint8_t ask[8];

	epd_put_le(ask, window, sizeof ask);
	return put(s, EPD_WIRE_SHUT, 0, epd_span(ask, sizeof ask), NULL,
	    deadline_ns, why);
}

/* ---- moves ---- */

/* What was called off unsent is no move any more, and keeps its place till its turn. */
static int
is_full(const struct epd_client *s)
{
	return s->moves + untold(s) >= EPD_CLIENT_MOVES ||
	    s->end - s->first >= EPD_CLIENT_RING - 1;
}

int
epd_client_room(const struct epd_client *s)
{
	return !is_full(s);
}

int
epd_client_done(struct epd_client *s, const struct epd_piece_done *done)
{
	if (is_full(s))
		return -EAGAIN;
	tell(s, done->tag, done->rc, done->bytes);
	return 0;
}

int
epd_client_submit(struct epd_client *s, const struct epd_piece *piece,
    struct epd_why *why)
{
	struct epd_frame_range range = { piece->window, piece->offset,
		(uint32_t)piece->bytes };
	struct epd_ask *a;
	int rc = is_failed(s, why);

	if (rc)
		return rc;
	if (piece->bytes > EPD_FRAME_BULK)
		return epd_why(why, EPD_ETOOBIG, "a move of %llu bytes",
		    (unsigned long long)piece->bytes);
	if (is_full(s))
		return -EAGAIN;
	if (!piece->bytes) {
		tell(s, piece->tag, 0, 0);
		return 0;
	}
	a = add(s, piece->op == EPD_OP_READ ? EPD_WIRE_READ : EPD_WIRE_WRITE);
	a->piece = *piece;
	a->nhead = EPD_FRAME + EPD_FRAME_RANGE;
	epd_frame_range_pack(a->head + EPD_FRAME, &range);
	s->moves++;
	/* Whoever puts many has them go out together. */
	if (s->end - s->out >= HELD || s->moves == 1)
		epd_client_push(s);
	return 0;
}

int
epd_client_wait(struct epd_client *s, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why)
{
	/* Not all that there are: the other end would have nothing to do. */
	uint32_t enough = 1 + s->moves / 4;
	int rc = 0, n = 0;

	if (max < 1)
		return epd_why(why, EPD_EUSAGE, "no room for what is done");
	if (enough > (uint32_t)max)
		enough = (uint32_t)max;
	if (s->moves > s->off && !s->rc)
		rc = pump(s, 1, enough, deadline_ns);
	while (n < max && untold(s))
		done[n++] = s->done[s->told++ % EPD_CLIENT_RING];
	if (n)
		return n;
	if (s->rc)
		return is_failed(s, why);
	return rc ? epd_why(why, rc, "nothing was done in time") :
	    epd_why(why, EPD_EUSAGE, "nothing is under way");
}

int
epd_client_cancel(struct epd_client *s, uint64_t tag)
{
	for (uint32_t i = s->first; i != s->end; i++) {
		struct epd_ask *a = epd_client_at(s, i);
		const int begun = i - s->first < s->out - s->first ||
		    (i == s->out && s->sent);

		if (!is_move(a) || a->piece.tag != tag ||
		    a->state != EPD_ASK_LIVE)
			continue;
		tell(s, tag, -ECANCELED, 0);
		a->state = begun ? EPD_ASK_OFF : EPD_ASK_GONE;
		if (begun)
			s->off++;
		else
			s->moves--;
		return 0;
	}
	return EPD_ENOTHING;
}
