/*
 * rail_door.c - the host's side of how a rail begins: an address, a token, and one
 * guest let in by it.
 *
 * A door is one guest's, so it needs no list of tokens and no thread: who was told
 * of it makes the host look, by a call over the session.  It is shut before the rail
 * is handed out; what knocks later finds nobody who listens.  The host's queue pair is
 * ready to be read before the guest is answered, so the host need not wait for the
 * guest to be content: it would wait in vain while the guest waits for its call.
 */
#ifdef EPD_WITH_RDMA

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "transport/rail_in.h"

struct epd_rail_door {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;			/* NULL: shut */
	struct epd_rail_invite invite;
};

void
epd_rail_door_close(struct epd_rail_door *d)
{
	if (!d)
		return;
	if (d->id)
		rdma_destroy_id(d->id);
	if (d->events)
		rdma_destroy_event_channel(d->events);
	explicit_bzero(&d->invite, sizeof d->invite);
	epd_free(d);
}

/* near without its port; an IPv4 address in IPv6's clothes is one of IPv4. */
static int
set_address(struct sockaddr_storage *out, const struct sockaddr *near)
{
	struct sockaddr_in6 six;
	struct sockaddr_in four = { .sin_family = AF_INET };

	*out = (struct sockaddr_storage){ 0 };
	if (near->sa_family == AF_INET) {
		memcpy(&four, near, sizeof four);
		four.sin_port = 0;
	} else if (near->sa_family == AF_INET6) {
		memcpy(&six, near, sizeof six);
		six.sin6_port = 0;
		if (!IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
			memcpy(out, &six, sizeof six);
			return 0;
		}
		memcpy(&four.sin_addr, &six.sin6_addr.s6_addr[12], 4);
	} else {
		return EPD_EUNSUPPORTED;
	}
	memcpy(out, &four, sizeof four);
	return 0;
}

static int
new_id(struct epd_rail_door *d)
{
	if (!rdma_create_id(d->events, &d->id, NULL, RDMA_PS_TCP))
		return 0;
	d->id = NULL;
	return -errno;
}

/* An id bound to near, or to what there is instead. */
static int
stand(struct epd_rail_door *d, const struct sockaddr *near, const char *device)
{
	struct sockaddr_storage at;
	int rc;

	if ((rc = set_address(&at, near)) < 0 || (rc = new_id(d)) < 0)
		return rc;
	if (!rail_bind(d->id, (struct sockaddr *)&at, device))
		return 0;
	/* An id is bound once, to whatever it was. */
	rdma_destroy_id(d->id);
	d->id = NULL;
	if ((rc = rail_address(d->events, at.ss_family, device, &at)) < 0 ||
	    (rc = new_id(d)) < 0)
		return rc;
	return rail_bind(d->id, (struct sockaddr *)&at, device);
}

static int
open_door(struct epd_rail_door *d, const struct sockaddr *near,
    const char *device, struct epd_why *why)
{
	const struct sockaddr *at;
	int rc = rail_channel(&d->events, why);

	if (rc < 0)
		return rc;
	if ((rc = stand(d, near, device)) < 0)
		return epd_why(why, rc, "no RDMA device%s%s has an address: %s",
		    device && *device ? " " : "", device ? device : "",
		    epd_strerror(rc));
	if (rdma_listen(d->id, 4))
		return epd_why(why, -errno, "RDMA: %s", strerror(errno));
	if (getrandom(d->invite.token, EPD_RAIL_TOKEN, 0) != EPD_RAIL_TOKEN)
		return epd_why(why, -EIO, "no random numbers");
	at = rdma_get_local_addr(d->id);
	memcpy(&d->invite.at, at, at->sa_family == AF_INET
	    ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	return 0;
}

int
epd_rail_door_open(struct epd_rail_door **out, const struct sockaddr *near,
    const char *device, struct epd_why *why)
{
	struct epd_transport_facts f;
	struct epd_rail_door *d;
	int rc = epd_rail_probe(&f, device, why);

	if (rc < 0)
		return rc;
	if (!(d = epd_calloc(1, sizeof *d)))
		return -ENOMEM;
	if ((rc = open_door(d, near, device, why)) < 0) {
		epd_rail_door_close(d);
		return rc;
	}
	*out = d;
	return 0;
}

void
epd_rail_door_tell(const struct epd_rail_door *d, struct epd_rail_invite *out)
{
	*out = d->invite;
}

/* In a time that does not tell how much of it was right. */
static int
is_token(const struct epd_rail_door *d, const struct rail_event *e)
{
	unsigned differ = e->nwords != EPD_RAIL_TOKEN;

	for (int i = 0; i < EPD_RAIL_TOKEN; i++)
		differ |= e->words[i] ^ d->invite.token[i];
	return !differ;
}

/* Answer who knocked with the token: a rail that is not joined yet. */
static int
let_in(struct epd_rail **out, const struct rail_event *e, struct epd_why *why)
{
	struct rdma_conn_param c = { .rnr_retry_count = 7 };
	struct epd_rail *r = epd_calloc(1, sizeof *r);
	uint8_t answered, asked;
	int rc;

	if (!r) {
		rdma_destroy_id(e->id);
		return -ENOMEM;
	}
	r->id = e->id;
	r->tether = -1;
	if ((rc = rail_queue(r, 0, why)) < 0)
		goto err;
	if ((rc = rail_reads(r->id, &answered, &asked)) < 0)
		goto told;
	/* Nothing of the guest's is read: our own depth is 0. */
	c.responder_resources = e->reads < answered ? e->reads : answered;
	if (!rdma_accept(r->id, &c)) {
		*out = r;
		return 0;
	}
	rc = -errno;
told:
	epd_why(why, rc, "RDMA: %s", strerror(-rc));
err:
	/* With its id goes the question: the guest is told no. */
	epd_rail_close(r);
	return rc;
}

/* Who knocks next with the token, let in; others are turned away meanwhile. */
static int
receive(struct epd_rail_door *d, struct epd_rail **out, int tether,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct rail_event e;
	int rc;

	while (!(rc = rail_event(d->events, tether, deadline_ns, &e))) {
		if (e.kind != RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		if (is_token(d, &e)) {
			rc = let_in(out, &e, why);
			/* Used, whatever came of it. */
			rdma_destroy_id(d->id);
			d->id = NULL;
			return rc;
		}
		rdma_reject(e.id, NULL, 0);
		rdma_destroy_id(e.id);
	}
	if (rc == EPD_ETIMEOUT)
		return epd_why(why, rc, "nobody came by RDMA in time");
	if (rc == EPD_EPEER)
		return epd_why(why, rc, "the guest hung up");
	return epd_why(why, rc, "RDMA: %s", strerror(-rc));
}

int
epd_rail_door_wait(struct epd_rail_door *d, struct epd_rail **out, int tether,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_rail *r = NULL;
	int rc;

	if (!d->id)
		return epd_why(why, EPD_EUSAGE, "the door is shut");
	if ((rc = receive(d, &r, tether, deadline_ns, why)) < 0)
		return rc;
	/* Its events come by the door's channel, which is the rail's from now on. */
	r->events = d->events;
	d->events = NULL;
	r->tether = tether;
	r->is_joined = 1;
	*out = r;
	return 0;
}

#endif
