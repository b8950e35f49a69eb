/*
 * serve.c - one connection: the first words, then question by question.
 *
 * 1. A window is in the table from the answer that opens it to the host's gone,
 *    which comes when nothing reads or writes it.
 * 2. Whatever ends a connection ends here: its windows go, then its guest.
 */
#include "transport/serve.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/hello.h"
#include "transport/who.h"

enum {
	KEPT = 1 << 16,			/* of a buffer between questions */
	OVER = 1,			/* the guest has no more of them */
};

static uint64_t
in_ms(uint64_t ms)
{
	return epd_clock_boot_ns() + ms * 1000000;
}

uint64_t
epd_serve_deadline(const struct epd_serve *c, uint64_t bulk)
{
	const struct epd_server_options *o = &epd_server_common(c->server)->o;

	return in_ms(o->stall_ms + bulk * 1000 / o->rate);
}

/* ---- answers ---- */

static int
put_frame(struct epd_serve *c, struct epd_frame *f, struct epd_span body)
{
	const uint64_t deadline = epd_serve_deadline(c, f->body);
	uint8_t head[EPD_FRAME];
	int rc;

	epd_auth_seal(&c->auth, head, f, body);
	rc = epd_stream_put(&c->in, head, sizeof head, deadline);
	if (!rc && body.n)
		rc = epd_stream_put(&c->in, body.p, body.n, deadline);
	return rc;
}

int
epd_serve_answer(struct epd_serve *c, const struct epd_frame *question, int status,
    struct epd_span body)
{
	struct epd_frame f = { .verb = question->verb, .id = question->id,
		.flags = EPD_FRAME_ANSWER, .status = status,
		.body = (uint32_t)body.n };

	return put_frame(c, &f, body);
}

int
epd_serve_answer_bulk(struct epd_serve *c, const struct epd_frame *question)
{
	struct epd_frame f = *question;

	f.flags |= EPD_FRAME_ANSWER;
	f.body = 0;
	return put_frame(c, &f, epd_span("", 0));
}

int
epd_serve_refuse(struct epd_serve *c, const struct epd_frame *question, int rc,
    const struct epd_why *why)
{
	struct epd_span text = epd_span_str(why && *why->text ? why->text :
	    epd_strerror(rc));

	if (text.n > EPD_FRAME_STRANGER)
		text.n = EPD_FRAME_STRANGER;
	return epd_serve_answer(c, question, rc, text);
}

/* ---- questions ---- */

static void
put_away(struct epd_serve *c, struct epd_window *w)
{
	const struct epd_server_common *s = epd_server_common(c->server);
	const uint64_t id = w->is.id;

	if (s->o.rail)
		s->o.rail->cover(s->o.rail->arg, c->number, id);
	epd_windows_remove(&c->windows, w);
	s->host.gone(c->guest, id);
	epd_server_count(&epd_server_common(c->server)->counts.windows, -1);
}

static int
take_window(struct epd_serve *c, const struct epd_opened *o, struct epd_why *why)
{
	struct epd_server_common *s = epd_server_common(c->server);
	int rc;

	if (!o->id)
		return 0;
	rc = epd_windows_add(&c->windows, o, s->o.windows, s->o.extents, why);
	if (rc) {
		/* Of two windows with one number the first stays. */
		if (rc != EPD_EUSAGE || !epd_windows_find(&c->windows, o->id))
			s->host.gone(c->guest, o->id);
		return rc;
	}
	epd_server_count(&s->counts.windows, 1);
	return 0;
}

static int
call(struct epd_serve *c, const struct epd_frame *f, struct epd_span ask)
{
	struct epd_server_common *s = epd_server_common(c->server);
	struct epd_opened opened = { 0 };
	struct epd_why why = { "" };
	struct epd_window *w;
	int rc;

	c->answer.n = 0;
	if (s->o.rail)
		s->o.rail->calm(s->o.rail->arg, c->number);
	epd_server_count(&s->counts.calls, 1);
	rc = s->host.call(c->guest, (uint16_t)f->status, ask, &c->answer, &opened,
	    &why);
	if (rc >= 0)
		rc = take_window(c, &opened, &why);
	if (!rc && (c->answer.failed || c->answer.n > EPD_FRAME_BODY)) {
		rc = c->answer.failed ? -ENOMEM : EPD_ETOOBIG;
		if (opened.id && (w = epd_windows_find(&c->windows, opened.id)))
			put_away(c, w);
	}
	rc = rc < 0 ? epd_serve_refuse(c, f, rc, &why) : epd_serve_answer(c, f, 0,
	    epd_span(c->answer.p, c->answer.n));
	if (c->answer.cap > KEPT || c->answer.failed)
		epd_buf_free(&c->answer);
	return rc;
}

static int
shut(struct epd_serve *c, const struct epd_frame *f, uint64_t id)
{
	struct epd_window *w = epd_windows_find(&c->windows, id);

	if (!w)
		return epd_serve_refuse(c, f, EPD_ENOTHING, NULL);
	put_away(c, w);
	return epd_serve_answer(c, f, 0, epd_span("", 0));
}

/* RAIL, EXPOSE, COVER. */
static int
rail(struct epd_serve *c, const struct epd_frame *f, struct epd_span ask)
{
	const struct epd_server_rail *r = epd_server_common(c->server)->o.rail;
	struct epd_cur cur = epd_cur(ask);
	struct epd_why why = { "" };
	struct epd_window *w;
	int rc = 0;

	if (!r)
		return epd_serve_refuse(c, f, EPD_EUNSUPPORTED, &(struct epd_why){
		    "the server has no rdma" });
	c->answer.n = 0;
	if (f->verb == EPD_WIRE_RAIL) {
		rc = r->rail(r->arg, c->number, c->in.fd, ask, &c->answer, &why);
	} else if (!(w = epd_windows_find(&c->windows, epd_unpack_u64(&cur))) ||
	    cur.failed) {
		rc = EPD_ENOTHING;
	} else if (f->verb == EPD_WIRE_COVER) {
		r->cover(r->arg, c->number, w->is.id);
	} else {
		rc = r->expose(r->arg, c->number, &w->is,
		    epd_span(cur.p, epd_cur_left(&cur)), &c->answer, &why);
	}
	if (!rc && c->answer.failed) {
		epd_buf_free(&c->answer);
		rc = -ENOMEM;
	}
	return rc ? epd_serve_refuse(c, f, rc, &why) : epd_serve_answer(c, f, 0,
	    epd_span(c->answer.p, c->answer.n));
}

static int
dispatch(struct epd_serve *c, const struct epd_frame *f)
{
	struct epd_span ask = epd_span(c->body.p, c->body.n);
	struct epd_cur cur = epd_cur(ask);
	struct epd_frame_range range;

	switch ((enum epd_wire_verb)f->verb) {
	case EPD_WIRE_CALL:
		return call(c, f, ask);
	case EPD_WIRE_READ:
	case EPD_WIRE_WRITE:
		if (f->body != EPD_FRAME_RANGE)
			return EPD_EFORMAT;
		epd_frame_range_unpack(&range, c->body.p);
		return f->verb == EPD_WIRE_READ ? epd_serve_read(c, f, &range) :
		    epd_serve_write(c, f, &range);
	case EPD_WIRE_SHUT:
		return ask.n == 8 ? shut(c, f, epd_unpack_u64(&cur)) : EPD_EFORMAT;
	case EPD_WIRE_MAP:
		return epd_serve_map(c, f, ask);
	case EPD_WIRE_RAIL:
	case EPD_WIRE_EXPOSE:
	case EPD_WIRE_COVER:
		return rail(c, f, ask);
	default:
		return EPD_EFORMAT;
	}
}

/* Wait for a question: it may be long in coming, but not once it has begun. */
static int
read_head(struct epd_serve *c, uint8_t head[EPD_FRAME])
{
	const struct epd_server_common *s = epd_server_common(c->server);
	ssize_t got;
	int rc;

	if (c->in.at == c->in.n) {
		rc = epd_stream_flush(&c->in, epd_serve_deadline(c, 0));
		if (rc)
			return rc;
		rc = epd_stream_poll(c->in.fd, POLLIN, in_ms(s->o.idle_ms));
		if (rc)
			return rc == EPD_EPEER ? OVER : rc;
	}
	got = epd_stream_take(&c->in, head, EPD_FRAME, EPD_STREAM);
	if (got == EPD_EPEER)
		return OVER;
	if (got < 0 && got != -EAGAIN)
		return (int)got;
	if (got < 0)
		got = 0;
	return epd_stream_read(&c->in, head + got, EPD_FRAME - (size_t)got,
	    EPD_STREAM, epd_serve_deadline(c, 0));
}

static int
serve_one(struct epd_serve *c)
{
	uint8_t head[EPD_FRAME];
	struct epd_frame f;
	int rc = read_head(c, head);

	if (rc)
		return rc;
	if (epd_frame_unpack(&f, head) || f.flags & EPD_FRAME_ANSWER)
		return EPD_EFORMAT;
	if (c->body.cap > KEPT)
		epd_buf_free(&c->body);
	c->body.n = 0;
	if (!epd_buf_add(&c->body, f.body))
		return -ENOMEM;
	rc = epd_stream_read(&c->in, c->body.p, f.body, EPD_STREAM,
	    epd_serve_deadline(c, f.body));
	if (!rc)
		rc = epd_auth_open(&c->auth, head,
		    epd_span(c->body.p, c->body.n));
	return rc ? rc : dispatch(c, &f);
}

/* ---- from beginning to end ---- */

/* Whose it is, where that counts instead of a key. */
static int
look(const struct epd_serve *c, int asks, pid_t *near)
{
	uid_t uid;
	int rc;

	*near = 0;
	if (asks)
		return 0;
	rc = c->scheme == EPD_AT_UNIX ? epd_who_unix(c->in.fd, &uid, near) :
	    epd_who_loopback(c->in.fd, &uid);
	if (rc)
		return EPD_EAUTH;
	return uid == geteuid() || (c->scheme == EPD_AT_UNIX && uid == 0) ? 0 :
	    EPD_EAUTH;
}

static int
begin(struct epd_serve *c)
{
	struct epd_server_common *s = epd_server_common(c->server);
	const uint64_t deadline = in_ms(s->o.hello_ms);
	const int asks = c->scheme == EPD_AT_TCP && s->key.n;
	struct epd_why why = { "" };
	struct epd_hello h;
	pid_t near;
	int rc = look(c, asks, &near);

	if (rc) {
		epd_hello_refuse(c->in.fd, rc, "only the server's own user is "
		    "served here");
		return rc;
	}
	rc = epd_hello_server(&c->in, asks ? epd_span(s->key.p, s->key.n) :
	    epd_span("", 0), &h, deadline);
	if (rc)
		return rc;
	rc = epd_server_admit(c->server, c);
	if (rc) {
		epd_hello_answer(&c->in, &c->auth, &h, rc,
		    "the server has as many guests as it may", deadline);
		return rc;
	}
	rc = s->host.begin(s->host.arg, near, &c->guest, &why);
	if (rc) {
		c->guest = NULL;
		epd_hello_answer(&c->in, &c->auth, &h, rc < 0 ? rc : EPD_EPEER,
		    *why.text ? why.text : epd_strerror(rc), deadline);
		return rc;
	}
	return epd_hello_answer(&c->in, &c->auth, &h, 0, "", deadline);
}

static void
end(struct epd_serve *c)
{
	const struct epd_server_common *s = epd_server_common(c->server);

	while (c->windows.n)
		put_away(c, c->windows.w + c->windows.n - 1);
	if (s->o.rail)
		s->o.rail->end(s->o.rail->arg, c->number);
	if (c->guest)
		s->host.end(c->guest);
	epd_windows_free(&c->windows);
	epd_buf_free(&c->body);
	epd_buf_free(&c->answer);
	epd_free(c->block);
	explicit_bzero(&c->auth, sizeof c->auth);
}

void *
epd_serve_thread(void *arg)
{
	struct epd_serve *c = arg;
	struct epd_server_common *s = epd_server_common(c->server);
	int rc = begin(c), begun = !rc;

	while (!rc)
		rc = serve_one(c);
	if (begun)
		/* What was answered before the end is told. */
		epd_stream_flush(&c->in, in_ms(10));
	end(c);
	if (rc == EPD_ETIMEOUT) {
		epd_server_count(&s->counts.late, 1);
		epd_count(s->o.metrics, EPD_M_TRANSFER_TIMEOUTS, 1);
	} else if (!begun || (rc != EPD_EPEER && rc != OVER)) {
		epd_server_count(&s->counts.refused, 1);
	}
	epd_log(&s->o.log, "op=%s guest=%llu rc=%s", begun ? "guest_end" :
	    "guest_refused", (unsigned long long)c->number, epd_errlabel(rc));
	epd_server_over(c->server, c);
	return NULL;
}
