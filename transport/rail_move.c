/*
 * rail_move.c - moves as requests of the queue pair.
 *
 * A move is cut into parts of r->part bytes.  Parts are asked for in the order of
 * the moves and end in that order, which is the device's promise for one queue
 * pair; so a part that has ended belongs to the oldest move that has not landed,
 * and nothing has to be looked up.  A move behind one that is under way may have
 * landed only after it.
 */
#ifdef EPD_WITH_RDMA

#include <errno.h>
#include <string.h>

#include "transport/rail_in.h"

static struct rail_move *
at(struct epd_rail *r, uint32_t i)
{
	return &r->move[(r->first + i) % RAIL_DEPTH];
}

/* The next part's bytes, of which begun have been. */
static uint64_t
part_of(const struct epd_rail *r, const struct rail_move *m, uint64_t begun)
{
	const uint64_t left = m->piece.bytes - begun;

	return left < r->part ? left : r->part;
}

static int
ask(struct epd_rail *r, struct rail_move *m)
{
	const uint64_t n = part_of(r, m, m->asked);
	struct ibv_sge s = {
		.addr = (uintptr_t)(m->copy ? m->copy : m->piece.local) + m->asked,
		.length = (uint32_t)n, .lkey = m->mr->lkey,
	};
	struct ibv_send_wr w = {
		.sg_list = &s, .num_sge = 1,
		.opcode = m->piece.op == EPD_OP_READ ? IBV_WR_RDMA_READ
		    : IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = m->far + m->asked, .rkey = m->key },
	}, *bad;
	const int rc = ibv_post_send(r->id->qp, &w, &bad);

	if (rc)
		return rc < 0 ? rc : -rc;
	m->asked += n;
	r->parts++;
	return 0;
}

/* As many parts as the queue holds. */
static void
push(struct epd_rail *r)
{
	uint32_t i = 0;
	int rc;

	while (!r->broke && r->parts < r->depth && i < r->count) {
		struct rail_move *m = at(r, i);

		if (m->asked == m->piece.bytes)
			i++;
		else if ((rc = ask(r, m)) == -ENOMEM && r->parts)
			return;
		else if (rc < 0)
			rail_break(r, rc, "RDMA: %s", strerror(-rc));
	}
}

/* What a request came to: the code, its sentence. */
static int
fault(enum ibv_wc_status s, const char **text)
{
	switch (s) {
	case IBV_WC_REM_ACCESS_ERR:
		*text = "the peer does not have that exposed, or not so";
		return -EACCES;
	case IBV_WC_LOC_PROT_ERR:
		*text = "memory here is not what was lent";
		return -EFAULT;
	case IBV_WC_RETRY_EXC_ERR:
		*text = "the peer does not answer by RDMA";
		return EPD_EPEER;
	default:
		*text = ibv_wc_status_str(s);
		return EPD_EPEER;
	}
}

/* One part has ended. */
static void
end(struct epd_rail *r, const struct ibv_wc *w)
{
	struct rail_move *m = NULL;
	const char *text;
	int rc;

	for (uint32_t i = 0; i < r->count && !m; i++)
		if (at(r, i)->landed < at(r, i)->asked)
			m = at(r, i);
	if (!m)
		return;
	r->parts--;
	if (w->status == IBV_WC_SUCCESS) {
		m->landed += part_of(r, m, m->landed);
		return;
	}
	rc = fault(w->status, &text);
	if (!r->broke) {
		m->rc = rc;
		rail_break(r, EPD_EPEER, "%s", text);
	}
}

void
rail_drain(struct epd_rail *r)
{
	struct ibv_wc w[16];
	int n;

	/* What comes behind a failure was flushed: it says nothing. */
	while (r->cq && (n = ibv_poll_cq(r->cq, 16, w)) > 0)
		for (int i = 0; i < n; i++) {
			end(r, &w[i]);
			if (w[i].status != IBV_WC_SUCCESS)
				return;
		}
}

int
epd_rail_submit(struct epd_rail *r, const struct epd_piece *piece,
    const struct epd_rail_key *key, struct epd_why *why)
{
	struct rail_move *m;
	int rc;

	if (r->broke)
		return rail_broken(r, why);
	if (!r->is_joined)
		return epd_why(why, EPD_EUSAGE, "the rail is not joined yet");
	if (piece->offset > key->bytes ||
	    piece->bytes > key->bytes - piece->offset)
		return epd_why(why, EPD_EUSAGE, "beyond the region");
	if (piece->bytes > RAIL_COPIES)
		return epd_why(why, EPD_EUSAGE, "longer than one move may be");
	if (r->count >= r->depth)
		return -EAGAIN;
	m = at(r, r->count);
	*m = (struct rail_move){
		.piece = *piece, .far = key->at + piece->offset, .key = key->key,
	};
	if ((rc = rail_pin(r, m, why)) < 0)
		return rc;
	r->count++;
	push(r);
	return 0;
}

/* Those that have ended, from the oldest on. */
static int
take(struct epd_rail *r, struct epd_piece_done *done, int max)
{
	int n = 0;

	for (; n < max && r->count; n++) {
		struct rail_move *m = at(r, 0);

		if (m->landed < m->piece.bytes && !r->broke)
			break;
		done[n] = (struct epd_piece_done){
			.tag = m->piece.tag, .bytes = m->landed,
			.rc = m->landed == m->piece.bytes ? 0
			    : m->rc ? m->rc : r->broke,
		};
		rail_release(r, m);
		r->first = (r->first + 1) % RAIL_DEPTH;
		r->count--;
	}
	return n;
}

/* Sleep until the device, the connection or the session has something to say. */
static int
doze(struct epd_rail *r, uint64_t deadline_ns)
{
	const int fd[3] = { r->told->fd, r->events->fd, r->tether };
	const int rc = rail_poll(fd, deadline_ns);
	struct ibv_cq *cq;
	void *arg;

	if (rc < 0)
		return rc;
	if (rc & 1 && !ibv_get_cq_event(r->told, &cq, &arg))
		r->heard++;
	/* An acknowledgement takes a lock; the rest is done at the end. */
	if (r->heard >= 64) {
		ibv_ack_cq_events(r->cq, r->heard);
		r->heard = 0;
	}
	if (rc & 6)
		epd_rail_is_lost(r);
	return 0;
}

int
epd_rail_wait(struct epd_rail *r, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why)
{
	int n, rc, armed = 0;

	for (;;) {
		rail_drain(r);
		push(r);
		if ((n = take(r, done, max)) > 0)
			return n;
		if (r->broke)
			return rail_broken(r, why);
		if (!r->count)
			return epd_why(why, EPD_EUSAGE, "nothing is under way");
		/* What ended before it was armed wakes nobody: look again. */
		if (!armed) {
			if ((rc = ibv_req_notify_cq(r->cq, 0)))
				rail_break(r, EPD_EPEER, "RDMA: %s",
				    strerror(rc));
			armed = 1;
			continue;
		}
		rc = doze(r, deadline_ns);
		if (rc == EPD_ETIMEOUT)
			return epd_why(why, rc, "no move has ended in time");
		if (rc < 0)
			rail_break(r, rc == -ECANCELED ? rc : EPD_EPEER,
			    "RDMA: %s", epd_strerror(rc));
		armed = 0;
	}
}

#endif
