/*
 * rdma.c - a session and a rail as a transport.  Calls go over the session; moves
 * by the rail, one-sided, where the host has exposed what they are about, which it
 * is asked for when they are first waited for.  The packets have sums of their own,
 * so a peer's checksum is not made here.
 */
#include "transport/tables.h"

#ifdef EPD_WITH_RDMA

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "transport/rdma_in.h"
#include "transport/rdma_wire.h"

static struct epd_rdma_link *
of(struct epd_link *l)
{
	return (struct epd_rdma_link *)(void *)l;
}

static int
probe(const struct epd_transport *t, struct epd_transport_facts *out,
    struct epd_why *why)
{
	(void)t;
	return epd_rail_probe(out, NULL, why);
}

/* ---- open and close ---- */

static int
read_invite(struct epd_rail_invite *out, struct epd_span s)
{
	struct epd_cur c = epd_cur(s);
	const uint16_t family = epd_unpack_u16(&c), port = epd_unpack_u16(&c);
	const struct epd_span at = epd_unpack_bytes(&c, 16);
	const struct epd_span token = epd_unpack_bytes(&c, EPD_RAIL_TOKEN);
	struct sockaddr_in a4 = { .sin_family = AF_INET,
		.sin_port = htons(port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
		.sin6_port = htons(port) };

	if (c.failed || s.n != EPD_RDMA_INVITE || (family != 4 && family != 6))
		return EPD_EPEER;
	*out = (struct epd_rail_invite){ 0 };
	memcpy(&a4.sin_addr, at.p, 4);
	memcpy(&a6.sin6_addr, at.p, 16);
	if (family == 4)
		memcpy(&out->at, &a4, sizeof a4);
	else
		memcpy(&out->at, &a6, sizeof a6);
	memcpy(out->token, token.p, EPD_RAIL_TOKEN);
	return 0;
}

static int
ask_rail(struct epd_rdma_link *l, uint32_t step, uint64_t deadline_ns,
    struct epd_buf *answer, struct epd_why *why)
{
	const uint64_t now = epd_clock_boot_ns();
	const uint64_t ms = deadline_ns > now ? (deadline_ns - now) / 1000000 : 0;
	struct epd_buf q = { 0 };
	int rc;

	epd_pack_u32(&q, step);
	if (step == EPD_RDMA_ADMIT)
		epd_pack_u32(&q, ms < EPD_RDMA_ADMIT_MS ? (uint32_t)ms :
		    EPD_RDMA_ADMIT_MS);
	rc = q.failed ? -ENOMEM : epd_client_ask(l->s, EPD_WIRE_RAIL,
	    epd_span(q.p, q.n), answer, NULL, deadline_ns, why);
	epd_buf_free(&q);
	return rc;
}

static int
join(struct epd_rdma_link *l, const struct epd_peer *peer, struct epd_why *why)
{
	const uint64_t deadline = peer->deadline_ns;
	struct epd_rail_invite to;
	struct epd_buf answer = { 0 };
	int rc = ask_rail(l, EPD_RDMA_OPEN, deadline, &answer, why);

	if (!rc && (rc = read_invite(&to, epd_span(answer.p, answer.n))))
		epd_why(why, rc, "an invitation to RDMA that is none");
	if (!rc)
		rc = epd_rail_knock(&l->rail, &to, peer->device,
		    epd_client_fd(l->s), deadline, why);
	if (answer.cap)
		explicit_bzero(answer.p, answer.cap);
	explicit_bzero(&to, sizeof to);
	epd_buf_free(&answer);
	if (!rc)
		rc = ask_rail(l, EPD_RDMA_ADMIT, deadline, NULL, why);
	return rc ? rc : epd_rail_joined(l->rail, deadline, why);
}

static void
close_link(struct epd_link *link)
{
	struct epd_rdma_link *l = of(link);

	if (!l)
		return;
	epd_rail_close(l->rail);
	epd_client_close(l->s);
	epd_rdma_views_drop(&l->views, 0);
	epd_free(l);
}

static int
open_link(const struct epd_transport *t, struct epd_link **out,
    const struct epd_peer *peer, struct epd_why *why)
{
	struct epd_transport_facts f;
	struct epd_rdma_link *l;
	int rc = epd_rail_probe(&f, peer->device, why);

	if (rc)
		return rc;
	if (!(l = epd_calloc(1, sizeof *l)))
		return -ENOMEM;
	l->ops = t;
	rc = epd_client_open(&l->s, peer, EPD_AT_TCP, why);
	if (!rc)
		rc = join(l, peer, why);
	if (rc)
		close_link((struct epd_link *)(void *)l);
	else
		*out = (struct epd_link *)(void *)l;
	return rc;
}

/* ---- moves ---- */

static int
lend(struct epd_link *link, void *p, size_t n)
{
	struct epd_rdma_link *l = of(link);

	return l->rc ? l->rc : epd_rail_lend(l->rail, p, n);
}

static void
unlend(struct epd_link *link, void *p)
{
	if (of(link)->rail)
		epd_rail_unlend(of(link)->rail, p);
}

static int
submit(struct epd_link *link, const struct epd_piece *piece, struct epd_why *why)
{
	struct epd_rdma_link *l = of(link);
	const uint32_t at = (l->next + 1) % EPD_RDMA_JOBS;
	const struct epd_rdma_view *v;
	uint64_t end;

	if (l->rc)
		return epd_rdma_failed(l, why);
	if (__builtin_add_overflow(piece->offset, piece->bytes, &end))
		return epd_why(why, EPD_EUSAGE, "beyond any window");
	if (l->job[at].state != EPD_RDMA_FREE)
		return -EAGAIN;
	l->job[at] = (struct epd_rdma_job){ .state = EPD_RDMA_WAITS,
		.piece = *piece };
	l->next = at;
	/* What is known goes at once; what must be asked for waits for more. */
	v = epd_rdma_view_find(&l->views, piece->window);
	if (v && epd_rdma_view_way(v, piece, &end) == EPD_RDMA_RAIL)
		epd_rdma_push(l);
	return 0;
}

static int
take(struct epd_rdma_link *l, struct epd_piece_done *done, int max)
{
	int n = 0;

	for (uint32_t i = 1; i <= EPD_RDMA_JOBS && n < max; i++) {
		struct epd_rdma_job *j = &l->job[(l->next + i) % EPD_RDMA_JOBS];

		if (j->state != EPD_RDMA_DONE)
			continue;
		done[n++] = (struct epd_piece_done){ .tag = j->piece.tag,
			.rc = j->rc, .bytes = j->certain };
		j->state = EPD_RDMA_FREE;
	}
	return n;
}

static int
wait_for(struct epd_link *link, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_rdma_link *l = of(link);
	int n, rc;

	if (max < 1)
		return epd_why(why, EPD_EUSAGE, "no room for what is done");
	for (;;) {
		epd_rdma_push(l);
		if ((n = take(l, done, max)) > 0)
			return n;
		if (l->rc)
			return epd_rdma_failed(l, why);
		rc = epd_rdma_pull(l, deadline_ns);
		if (rc == EPD_ETIMEOUT)
			return epd_why(why, rc, "nothing was done in time");
		if (rc == EPD_EUSAGE)
			return epd_why(why, rc, "nothing is under way");
	}
}

/* ---- calls ---- */

/* Whether some job is of this window, or (0) is a write. */
static int
is_busy(const struct epd_rdma_link *l, uint64_t window)
{
	for (int i = 0; i < EPD_RDMA_JOBS; i++) {
		const struct epd_rdma_job *j = &l->job[i];

		if (j->state != EPD_RDMA_FREE && j->state != EPD_RDMA_DONE &&
		    (window ? j->piece.window == window :
		    j->piece.op == EPD_OP_WRITE))
			return 1;
	}
	return 0;
}

/* Till none is, and no question is out. */
static int
calm(struct epd_rdma_link *l, uint64_t window, uint64_t deadline_ns,
    struct epd_why *why)
{
	while (!l->rc && (l->asking || is_busy(l, window))) {
		int rc;

		if (is_busy(l, window))
			epd_rdma_push(l);
		rc = l->rc || (!l->asking && !is_busy(l, window)) ? 0 :
		    epd_rdma_pull(l, deadline_ns);
		if (rc == EPD_ETIMEOUT || rc == EPD_EUSAGE)
			epd_rdma_fail(l, EPD_ETIMEOUT, "moves did not end "
			    "before the call");
	}
	return epd_rdma_failed(l, why);
}

/*
 * Writes end before a call, for with it the host covers what they go to: what it
 * looks at is not written under its eyes.
 */
static int
call(struct epd_link *link, uint16_t verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_rdma_link *l = of(link);
	int rc = calm(l, 0, deadline_ns, why);

	if (rc)
		return rc;
	epd_rdma_views_drop(&l->views, 1);
	return epd_client_call(l->s, verb, ask, answer, deadline_ns, why);
}

static int
shut(struct epd_link *link, uint64_t window, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_rdma_link *l = of(link);
	struct epd_rdma_view *v;
	int rc = calm(l, window, deadline_ns, why);

	if (rc)
		return rc;
	if ((v = epd_rdma_view_find(&l->views, window)))
		epd_rdma_view_drop(&l->views, v);
	return epd_client_shut(l->s, window, deadline_ns, why);
}

const struct epd_transport epd_transport_rdma = {
	.backend = EPD_VIA_RDMA, .probe = probe, .open = open_link,
	.close = close_link, .call = call, .lend = lend, .unlend = unlend,
	.submit = submit, .wait = wait_for, .shut = shut,
};

#endif
