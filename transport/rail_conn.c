/*
 * rail_conn.c - a rail from the knock to the end, and what its connection tells.
 *
 * 1. The queue pair goes before anything it could reach: break destroys it, and
 *    only then are moves told failed, memory let go and regions covered.
 * 2. Success that the device had told before the break stays success.
 * 3. An event is copied and acknowledged at once: an id cannot be destroyed while
 *    one of its events is held.
 */
#ifdef EPD_WITH_RDMA

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "transport/rail_in.h"

/* So often somebody who may be called off asks whether he was. */
static const uint64_t LOOK_NS = 50000000;

int
rail_poll(const int fd[3], uint64_t deadline_ns)
{
	struct pollfd p[3] = {
		{ .fd = fd[0], .events = POLLIN },
		{ .fd = fd[1], .events = POLLIN },
		{ .fd = fd[2], .events = POLLRDHUP },
	};
	uint64_t left, slice;
	int bits = 0, n;

	do {
		const uint64_t now = epd_clock_boot_ns();

		left = deadline_ns > now ? deadline_ns - now : 0;
		slice = left > LOOK_NS && epd_is_heeding() ? LOOK_NS : left;
		/* Who only looks does not wait, and so is not called off. */
		if (left && epd_is_stopped())
			return -ECANCELED;
		n = ppoll(p, 3, &(struct timespec){ (time_t)(slice / 1000000000),
		    (long)(slice % 1000000000) }, NULL);
	} while ((n < 0 && errno == EINTR) || (n == 0 && slice < left));
	if (n < 0)
		return -errno;
	for (int i = 0; i < 3; i++)
		bits |= p[i].revents ? 1 << i : 0;
	return bits ? bits : EPD_ETIMEOUT;
}

static void
copy(struct rail_event *out, const struct rdma_cm_event *e)
{
	const struct rdma_conn_param *c = &e->param.conn;
	size_t n = c->private_data ? c->private_data_len : 0;

	*out = (struct rail_event){
		.kind = e->event, .status = e->status, .id = e->id,
		.reads = c->responder_resources, .depth = c->initiator_depth,
	};
	out->nwords = n < sizeof out->words ? n : sizeof out->words;
	if (out->nwords)
		memcpy(out->words, c->private_data, out->nwords);
}

int
rail_event(struct rdma_event_channel *events, int tether, uint64_t deadline_ns,
    struct rail_event *out)
{
	const int fd[3] = { events->fd, -1, tether };
	struct rdma_cm_event *e;
	int rc;

	for (;;) {
		if (!rdma_get_cm_event(events, &e)) {
			copy(out, e);
			rdma_ack_cm_event(e);
			return 0;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if ((rc = rail_poll(fd, deadline_ns)) < 0)
			return rc;
		if (rc & 4)
			return EPD_EPEER;
	}
}

int
rail_reads(struct rdma_cm_id *id, uint8_t *answered, uint8_t *asked)
{
	struct ibv_device_attr a;
	int n;

	if ((n = ibv_query_device(id->verbs, &a)))
		return -n;
	n = a.max_qp_rd_atom < RAIL_READS ? a.max_qp_rd_atom : RAIL_READS;
	*answered = (uint8_t)(n > 0 ? n : 0);
	n = a.max_qp_init_rd_atom < RAIL_READS ? a.max_qp_init_rd_atom
	    : RAIL_READS;
	*asked = (uint8_t)(n > 0 ? n : 0);
	return 0;
}

static int
make_queue(struct epd_rail *r, int is_guest)
{
	struct ibv_context *c = r->id->verbs;
	struct ibv_device_attr a;
	struct ibv_port_attr port;
	struct ibv_qp_init_attr q = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	int rc;

	if ((rc = ibv_query_device(c, &a)) ||
	    (rc = ibv_query_port(c, r->id->port_num, &port)))
		return -rc;
	r->depth = a.max_qp_wr < RAIL_DEPTH ? (uint32_t)a.max_qp_wr : RAIL_DEPTH;
	r->part = port.max_msg_sz < RAIL_PART ? port.max_msg_sz : RAIL_PART;
	if (!r->depth || !r->part)
		return -EINVAL;
	errno = ENOMEM;		/* where a provider forgets it */
	if (!(r->pd = ibv_alloc_pd(c)))
		return -errno;
	if (is_guest && !(r->told = ibv_create_comp_channel(c)))
		return -errno;
	r->cq = ibv_create_cq(c, is_guest ? (int)r->depth + 1 : 1, NULL,
	    r->told, 0);
	if (!r->cq)
		return -errno;
	q.send_cq = q.recv_cq = r->cq;
	q.cap = (struct ibv_qp_cap){
		.max_send_wr = is_guest ? r->depth : 1, .max_recv_wr = 1,
		.max_send_sge = 1, .max_recv_sge = 1,
	};
	return rdma_create_qp(r->id, r->pd, &q) ? -errno : 0;
}

int
rail_queue(struct epd_rail *r, int is_guest, struct epd_why *why)
{
	const int rc = make_queue(r, is_guest);

	return rc < 0 ? epd_why(why, rc, "RDMA: no queue pair: %s",
	    epd_strerror(rc)) : 0;
}

int
rail_broken(const struct epd_rail *r, struct epd_why *why)
{
	return epd_why(why, r->broke, "%s", r->said.text);
}

int
rail_break(struct epd_rail *r, int rc, const char *fmt, ...)
{
	va_list ap;

	if (!r->broke) {
		r->broke = rc;
		va_start(ap, fmt);
		vsnprintf(r->said.text, sizeof r->said.text, fmt, ap);
		va_end(ap);
	}
	if (r->id && r->id->qp) {
		rail_drain(r);
		rdma_disconnect(r->id);
		rdma_destroy_qp(r->id);
	}
	return r->broke;
}

void
epd_rail_close(struct epd_rail *r)
{
	if (!r)
		return;
	rail_break(r, EPD_EPEER, "closed");
	for (; r->count; r->first = (r->first + 1) % RAIL_DEPTH, r->count--)
		rail_release(r, &r->move[r->first]);
	rail_forget(r);
	if (r->cq) {
		if (r->heard)
			ibv_ack_cq_events(r->cq, r->heard);
		ibv_destroy_cq(r->cq);
	}
	if (r->told)
		ibv_destroy_comp_channel(r->told);
	if (r->pd)
		ibv_dealloc_pd(r->pd);
	if (r->id)
		rdma_destroy_id(r->id);
	if (r->events)
		rdma_destroy_event_channel(r->events);
	epd_free(r);
}

/* An event that is not the one waited for, as a failure. */
static int
refusal(const struct rail_event *e, struct epd_why *why)
{
	const int no = e->status < 0 ? -e->status : 0;

	switch (e->kind) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return epd_why(why, no == ENODEV ? EPD_EUNSUPPORTED : EPD_EPEER,
		    "no way to the peer by RDMA: %s",
		    no ? strerror(no) : "no route");
	case RDMA_CM_EVENT_REJECTED:
		/* 28: by who listens there, not for want of one. */
		return epd_why(why, e->status == 28 || no == ECONNREFUSED
		    ? EPD_EAUTH : EPD_EPEER, "the peer's door is shut to us");
	default:
		return epd_why(why, EPD_EPEER, "%s: %s",
		    rdma_event_str(e->kind), no ? strerror(no) : "the peer is gone");
	}
}

static int
expect(struct epd_rail *r, enum rdma_cm_event_type kind, uint64_t deadline_ns,
    struct rail_event *e, struct epd_why *why)
{
	const int rc = rail_event(r->events, r->tether, deadline_ns, e);

	if (rc == EPD_ETIMEOUT)
		return epd_why(why, rc, "RDMA: no answer in time");
	if (rc == EPD_EPEER)
		return epd_why(why, rc, "the peer hung up");
	if (rc < 0)
		return epd_why(why, rc, "RDMA: %s", strerror(-rc));
	return e->kind == kind ? 0 : refusal(e, why);
}

/* An id with the way to the peer resolved. */
static int
find_way(struct epd_rail *r, const struct epd_rail_invite *to,
    const char *device, uint64_t deadline_ns, struct epd_why *why)
{
	struct sockaddr_storage from, at = to->at;
	struct sockaddr *src = NULL;
	const uint64_t now = epd_clock_boot_ns();
	const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
	const int ms = left > 10000000000 ? 10000 : (int)(left / 1000000) + 1;
	uint8_t patience = RAIL_PATIENCE;
	struct rail_event e;
	int rc;

	if (device && *device) {
		if (rail_address(r->events, at.ss_family, device, &from) < 0)
			return epd_why(why, EPD_EUNSUPPORTED,
			    "no RDMA device %s with an address", device);
		src = (struct sockaddr *)&from;
	}
	if (rdma_create_id(r->events, &r->id, NULL, RDMA_PS_TCP)) {
		rc = -errno;
		r->id = NULL;
		return epd_why(why, rc, "RDMA: %s", strerror(-rc));
	}
	/* Only RoCE has it; where it cannot be set the device's own will do. */
	rdma_set_option(r->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
	    &patience, sizeof patience);
	if (rdma_resolve_addr(r->id, src, (struct sockaddr *)&at, ms)) {
		rc = errno == ENODEV || errno == EAFNOSUPPORT
		    ? EPD_EUNSUPPORTED : EPD_EPEER;
		return epd_why(why, rc, "no way to the peer by RDMA: %s",
		    strerror(errno));
	}
	rc = expect(r, RDMA_CM_EVENT_ADDR_RESOLVED, deadline_ns, &e, why);
	if (rc)
		return rc;
	if (rdma_resolve_route(r->id, ms))
		return epd_why(why, EPD_EPEER, "no way to the peer by RDMA: %s",
		    strerror(errno));
	return expect(r, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline_ns, &e, why);
}

/* Ask to be let in.  None of ours are read: responder_resources is 0. */
static int
ask(struct epd_rail *r, const struct epd_rail_invite *to, struct epd_why *why)
{
	struct rdma_conn_param c = {
		.private_data = to->token, .private_data_len = EPD_RAIL_TOKEN,
		.retry_count = RAIL_RETRIES,
	};
	uint8_t answered;
	int rc = rail_reads(r->id, &answered, &c.initiator_depth);

	if (!rc && rdma_connect(r->id, &c))
		rc = -errno;
	return rc < 0 ? epd_why(why, rc, "RDMA: %s", strerror(-rc)) : 0;
}

int
epd_rail_knock(struct epd_rail **out, const struct epd_rail_invite *to,
    const char *device, int tether, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_rail *r = epd_calloc(1, sizeof *r);
	int rc;

	if (!r)
		return -ENOMEM;
	r->tether = tether;
	rc = rail_channel(&r->events, why);
	if (!rc)
		rc = find_way(r, to, device, deadline_ns, why);
	if (!rc)
		rc = rail_queue(r, 1, why);
	if (!rc)
		rc = ask(r, to, why);
	if (rc < 0)
		epd_rail_close(r);
	else
		*out = r;
	return rc;
}

int
epd_rail_joined(struct epd_rail *r, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_why said = { "" };
	struct rail_event e;
	int rc;

	if (r->broke)
		return rail_broken(r, why);
	if (r->is_joined)
		return 0;
	rc = expect(r, RDMA_CM_EVENT_ESTABLISHED, deadline_ns, &e, &said);
	if (rc == EPD_ETIMEOUT)
		return epd_why(why, rc, "%s", said.text);
	if (!rc && !e.depth)
		rc = epd_why(&said, EPD_EUNSUPPORTED, "the peer cannot be read");
	if (rc) {
		rail_break(r, rc, "%s", said.text);
		return rail_broken(r, why);
	}
	r->is_joined = 1;
	return 0;
}

/* Whether it goes on after this. */
static int
goes_on(const struct rail_event *e)
{
	return e->kind == RDMA_CM_EVENT_ESTABLISHED ||
	    e->kind == RDMA_CM_EVENT_ADDR_CHANGE;
}

int
epd_rail_is_lost(struct epd_rail *r)
{
	struct rail_event e;
	int rc = 0;

	while (!r->broke && !(rc = rail_event(r->events, r->tether, 0, &e)))
		if (e.kind == RDMA_CM_EVENT_DEVICE_REMOVAL)
			rail_break(r, EPD_EPEER, "the RDMA device has gone");
		else if (!goes_on(&e))
			rail_break(r, EPD_EPEER, "the peer has gone");
	if (!r->broke && rc != EPD_ETIMEOUT)
		rail_break(r, EPD_EPEER, "%s", rc == EPD_EPEER
		    ? "the peer hung up" : epd_strerror(rc));
	return r->broke;
}

#endif
