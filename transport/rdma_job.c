/* rdma_job.c - jobs from their submission to their end; rdma_in.h has the rules. */
#ifdef EPD_WITH_RDMA

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "transport/rdma_in.h"
#include "transport/rdma_wire.h"

enum {
	SLACK = 64 << 10,	/* between pieces that are asked for together */
	AT_ONCE = 16,		/* told by rail or session at a time */
};

int
epd_rdma_failed(const struct epd_rdma_link *l, struct epd_why *why)
{
	return l->rc ? epd_why(why, l->rc, "%s", l->said.text) : 0;
}

int
epd_rdma_fail(struct epd_rdma_link *l, int rc, const char *what)
{
	if (l->rc)
		return l->rc;
	l->rc = rc;
	epd_why(&l->said, rc, "%s", what);
	/* Nothing lands after this; the session is not listened to any more. */
	epd_rail_close(l->rail);
	l->rail = NULL;
	l->on_rail = l->on_session = 0;
	l->asking = 0;
	for (int i = 0; i < EPD_RDMA_JOBS; i++) {
		struct epd_rdma_job *j = &l->job[i];

		if (j->state == EPD_RDMA_FREE || j->state == EPD_RDMA_DONE)
			continue;
		if (!j->rc)
			j->rc = rc;
		j->state = EPD_RDMA_DONE;
	}
	return rc;
}

/* ---- asking ---- */

/* How far it is wanted from there on, by all that wait on this window. */
static uint64_t
wanted(const struct epd_rdma_link *l, uint64_t window, uint64_t end)
{
	for (int more = 1; more;) {
		more = 0;
		for (int i = 0; i < EPD_RDMA_JOBS; i++) {
			const struct epd_rdma_job *j = &l->job[i];
			const uint64_t to = j->piece.offset + j->piece.bytes;

			if (j->state != EPD_RDMA_WAITS || to <= end ||
			    j->piece.window != window || j->to_session ||
			    (j->piece.offset > end &&
			    j->piece.offset - end > SLACK))
				continue;
			end = to;
			more = 1;
		}
	}
	return end;
}

static void
ask(struct epd_rdma_link *l, const struct epd_rdma_view *v,
    const struct epd_piece *p, uint64_t from)
{
	const uint64_t end = epd_rdma_view_next(v, from, wanted(l, p->window,
	    p->offset + p->bytes));
	struct epd_why why = { "" };
	int rc;

	epd_put_le(l->question, p->window, 8);
	epd_put_le(l->question + 8, from, 8);
	epd_put_le(l->question + 16, end - from, 8);
	rc = epd_client_ask_begin(l->s, EPD_WIRE_EXPOSE,
	    epd_span(l->question, sizeof l->question), &why);
	if (rc) {
		epd_rdma_fail(l, rc, why.text);
		return;
	}
	l->asking = 1;
	l->asked_window = p->window;
	l->asked_from = from;
	l->asked_end = end;
}

/* The host will not: whoever waits for that goes over the session. */
static void
go_by_session(struct epd_rdma_link *l)
{
	for (int i = 0; i < EPD_RDMA_JOBS; i++) {
		struct epd_rdma_job *j = &l->job[i];

		if (j->state == EPD_RDMA_WAITS &&
		    j->piece.window == l->asked_window &&
		    j->piece.offset < l->asked_end &&
		    j->piece.offset + j->piece.bytes > l->asked_from)
			j->to_session = 1;
	}
}

/* Take the answer.  1: there is none yet. */
static int
hear(struct epd_rdma_link *l, uint64_t deadline_ns)
{
	struct epd_rdma_view *v = epd_rdma_view_find(&l->views, l->asked_window);
	struct epd_why why = { "" };
	struct epd_buf answer = { 0 };
	int rc = epd_client_ask_end(l->s, &answer, deadline_ns, &why);

	if (rc == 1) {
		epd_buf_free(&answer);
		return 1;
	}
	l->asking = 0;
	if (!rc && (rc = epd_rdma_view_learn(v, l->asked_from, l->asked_end,
	    epd_span(answer.p, answer.n))) == EPD_EPEER)
		epd_rdma_fail(l, rc, "regions are not as the peer says");
	else if (rc)
		/* Also if the session failed: it tells them so. */
		go_by_session(l);
	if (answer.cap)
		explicit_bzero(answer.p, answer.cap);
	epd_buf_free(&answer);
	return 0;
}

/* ---- beginning ---- */

static void
by_session(struct epd_rdma_link *l, struct epd_rdma_job *j)
{
	struct epd_piece p = j->piece;
	struct epd_why why = { "" };
	int rc;

	p.tag = (uint64_t)(j - l->job);
	rc = epd_client_submit(l->s, &p, &why);
	if (rc == -EAGAIN)
		return;
	if (rc == EPD_ETOOBIG) {
		j->rc = rc;
		j->state = EPD_RDMA_DONE;
	} else if (rc) {
		epd_rdma_fail(l, rc, why.text);
	} else {
		j->state = EPD_RDMA_BY_SESSION;
		l->on_session++;
	}
}

static void
settle(struct epd_rdma_job *j)
{
	if (j->state == EPD_RDMA_BY_RAIL && !j->live &&
	    (j->rc || j->begun == j->piece.bytes))
		j->state = EPD_RDMA_DONE;
}

/* The next parts, a region each. */
static void
by_rail(struct epd_rdma_link *l, struct epd_rdma_job *j,
    const struct epd_rdma_view *v)
{
	const struct epd_piece *p = &j->piece;
	struct epd_why why = { "" };
	int rc = 0;

	while (!rc && !j->rc && j->begun < p->bytes) {
		const uint64_t at = p->offset + j->begun;
		const struct epd_rdma_span *s = epd_rdma_view_at(v, at);
		const uint64_t there = s->offset + s->bytes - at;
		const uint64_t left = p->bytes - j->begun;
		const struct epd_piece part = {
			.tag = (uint64_t)(j - l->job), .op = p->op,
			.offset = at - s->offset,
			.bytes = left < there ? left : there,
			.local = (char *)p->local + j->begun,
		};

		rc = epd_rail_submit(l->rail, &part, &s->key, &why);
		if (rc)
			break;
		j->state = EPD_RDMA_BY_RAIL;
		j->begun += part.bytes;
		j->live++;
		l->on_rail++;
	}
	if (rc == EPD_EPEER)
		epd_rdma_fail(l, rc, why.text);
	else if (rc && rc != -EAGAIN && !j->begun)
		j->to_session = 1;		/* memory it cannot have */
	else if (rc && rc != -EAGAIN)
		j->rc = rc;
	settle(j);
}

static void
begin(struct epd_rdma_link *l, struct epd_rdma_job *j)
{
	struct epd_rdma_view *v;
	enum epd_rdma_way way;
	uint64_t from = 0;

	if (!j->piece.bytes) {
		j->state = EPD_RDMA_DONE;
		return;
	}
	v = epd_rdma_view_add(&l->views, j->piece.window);
	way = !v || j->to_session ? EPD_RDMA_SESSION :
	    epd_rdma_view_way(v, &j->piece, &from);
	if (way == EPD_RDMA_ASK && !l->asking)
		ask(l, v, &j->piece, from);
	else if (way == EPD_RDMA_RAIL)
		by_rail(l, j, v);
	if (way == EPD_RDMA_SESSION ||
	    (j->state == EPD_RDMA_WAITS && j->to_session && !l->asking))
		by_session(l, j);
}

void
epd_rdma_push(struct epd_rdma_link *l)
{
	for (uint32_t i = 1; i <= EPD_RDMA_JOBS && !l->rc; i++) {
		/* Oldest first. */
		struct epd_rdma_job *j = &l->job[(l->next + i) % EPD_RDMA_JOBS];

		if (j->state == EPD_RDMA_WAITS)
			begin(l, j);
		else if (j->state == EPD_RDMA_BY_RAIL && !j->rc &&
		    j->begun < j->piece.bytes)
			by_rail(l, j, epd_rdma_view_find(&l->views,
			    j->piece.window));
	}
}

/* ---- ending ---- */

static void
end_part(struct epd_rdma_link *l, const struct epd_piece_done *d)
{
	struct epd_rdma_job *j = &l->job[d->tag % EPD_RDMA_JOBS];

	l->on_rail--;
	j->live--;
	/* Parts end in order; behind one that failed nothing is certain. */
	if (!j->rc)
		j->certain += d->bytes;
	if (!j->rc)
		j->rc = d->rc;
	settle(j);
}

static void
end_job(struct epd_rdma_link *l, const struct epd_piece_done *d)
{
	struct epd_rdma_job *j = &l->job[d->tag % EPD_RDMA_JOBS];

	l->on_session--;
	j->certain = d->bytes;
	j->rc = d->rc;
	j->state = EPD_RDMA_DONE;
}

/* What the rail has to tell by then: how many parts ended. */
static int
hear_rail(struct epd_rdma_link *l, uint64_t deadline_ns)
{
	struct epd_piece_done d[AT_ONCE];
	struct epd_why why = { "" };
	int n = epd_rail_wait(l->rail, d, AT_ONCE, deadline_ns, &why);

	for (int i = 0; i < n; i++)
		end_part(l, &d[i]);
	return n < 0 && n != EPD_ETIMEOUT ? epd_rdma_fail(l, n, why.text) : n;
}

static int
hear_session(struct epd_rdma_link *l, uint64_t deadline_ns)
{
	struct epd_piece_done d[AT_ONCE];
	struct epd_why why = { "" };
	int n = epd_client_wait(l->s, d, AT_ONCE, deadline_ns, &why);

	for (int i = 0; i < n; i++)
		end_job(l, &d[i]);
	return n < 0 && n != EPD_ETIMEOUT ? epd_rdma_fail(l, n, why.text) : n;
}

int
epd_rdma_pull(struct epd_rdma_link *l, uint64_t deadline_ns)
{
	int rc;

	if (l->rc)
		return l->rc;
	/* The rail first, for what waits below is the session's answer. */
	if (l->on_rail && (rc = hear_rail(l, l->asking || l->on_session ? 0 :
	    deadline_ns)) != EPD_ETIMEOUT)
		return rc < 0 ? rc : 0;
	if (l->asking)
		rc = hear(l, deadline_ns) ? EPD_ETIMEOUT : l->rc;
	else if (l->on_session)
		rc = hear_session(l, deadline_ns);
	else if (l->on_rail)
		return EPD_ETIMEOUT;
	else
		return epd_rail_is_lost(l->rail) ? epd_rdma_fail(l, EPD_EPEER,
		    "the peer has gone") : EPD_EUSAGE;
	/* What the rail did meanwhile counts before the deadline. */
	if (rc == EPD_ETIMEOUT && l->on_rail)
		rc = hear_rail(l, 0);
	return rc < 0 ? rc : 0;
}

#endif
