/*
 * rail_door.c - the host's side of how a rail begins: an address, a token, and one
 * guest let in by it.
 *
 * A door is one guest's, so it needs no list of tokens and no thread: who was told
 * of it makes the host look, by a call over the session.  It is shut before the rail
 * is handed out; what knocks later finds nobody who listens.
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
	struct rdma_event_channel *events;	/* NULL: shut */
	struct rdma_cm_id *id;
	struct epd_rail_invite invite;
};

static void
shut(struct epd_rail_door *d)
{
	if (d->id)
		rdma_destroy_id(d->id);
	if (d->events)
		rdma_destroy_event_channel(d->events);
	d->id = NULL;
	d->events = NULL;
}

void
epd_rail_door_close(struct epd_rail_door *d)
{
	if (!d)
		return;
	shut(d);
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

/* One event of the door: *r is who stands on the threshold.  1: he is in. */
static int
answer(struct epd_rail_door *d, struct epd_rail **r, const struct rail_event *e,
    struct epd_why *why)
{
	if (e->kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (!*r && is_token(d, e))
			return let_in(r, e, why);
		rdma_reject(e->id, NULL, 0);
		rdma_destroy_id(e->id);
		return 0;
	}
	/* Also of such as were turned away: theirs are nothing to us. */
	if (!*r || e->id != (*r)->id)
		return 0;
	if (e->kind == RDMA_CM_EVENT_ESTABLISHED)
		return 1;
	return epd_why(why, EPD_EPEER, "the guest went on the threshold: %s",
	    rdma_event_str(e->kind));
}

int
epd_rail_door_wait(struct epd_rail_door *d, struct epd_rail **out, int tether,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_rail *r = NULL;
	struct rail_event e;
	int rc = 0, used = 0;

	if (!d->events)
		return epd_why(why, EPD_EUSAGE, "the door is shut");
	while (!rc && !(rc = rail_event(d->events, tether, deadline_ns, &e))) {
		rc = answer(d, &r, &e, why);
		used |= r != NULL || rc < 0;
	}
	if (rc == 1) {
		r->tether = tether;
		r->is_joined = 1;
		rdma_destroy_id(d->id);
		r->events = d->events;
		d->id = NULL;
		d->events = NULL;
		*out = r;
		return 0;
	}
	epd_rail_close(r);
	if (rc == EPD_ETIMEOUT)
		epd_why(why, rc, "nobody came by RDMA in time");
	else if (rc == EPD_EPEER && !r)
		epd_why(why, rc, "the guest hung up");
	if (used)
		shut(d);
	return rc;
}

#endif
