/* tcp.c - a session as a transport: over TCP, and over a Unix socket too. */
#include "transport/tables.h"

#include <errno.h>

#include "base/alloc.h"
#include "transport/address.h"
#include "transport/client.h"

struct link {
	EPD_LINK_OPS;
	struct epd_client *s;
};

static struct epd_client *
session(struct epd_link *l)
{
	return ((struct link *)(void *)l)->s;
}

static int
probe(const struct epd_transport *t, struct epd_transport_facts *out,
    struct epd_why *why)
{
	(void)t;
	(void)why;
	*out = (struct epd_transport_facts){ .alignment = 1,
	    .max_bytes = EPD_FRAME_BULK, .max_inflight = EPD_CLIENT_MOVES,
	    .max_sge = 1 };
	return 0;
}

static int
open_link(const struct epd_transport *t, struct epd_link **out,
    const struct epd_peer *peer, struct epd_why *why)
{
	struct link *l = epd_calloc(1, sizeof *l);
	int rc;

	if (!l)
		return -ENOMEM;
	rc = epd_client_open(&l->s, peer, EPD_AT_TCP | EPD_AT_UNIX, why);
	if (rc) {
		epd_free(l);
		return rc;
	}
	l->ops = t;
	*out = (struct epd_link *)(void *)l;
	return 0;
}

static void
close_link(struct epd_link *l)
{
	if (!l)
		return;
	epd_client_close(session(l));
	epd_free(l);
}

static int
call(struct epd_link *l, uint16_t verb, struct epd_span ask, struct epd_buf *answer,
    uint64_t deadline_ns, struct epd_why *why)
{
	return epd_client_call(session(l), verb, ask, answer, deadline_ns, why);
}

static int
submit(struct epd_link *l, const struct epd_piece *piece, struct epd_why *why)
{
	return epd_client_submit(session(l), piece, why);
}

static int
wait_for(struct epd_link *l, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why)
{
	return epd_client_wait(session(l), done, max, deadline_ns, why);
}

static int
cancel(struct epd_link *l, uint64_t tag)
{
	return epd_client_cancel(session(l), tag);
}

static int
shut(struct epd_link *l, uint64_t window, uint64_t deadline_ns, struct epd_why *why)
{
	return epd_client_shut(session(l), window, deadline_ns, why);
}

const struct epd_transport epd_transport_tcp = {
	.backend = EPD_VIA_TCP, .probe = probe, .open = open_link,
	.close = close_link, .call = call, .submit = submit, .wait = wait_for,
	.cancel = cancel, .shut = shut,
};
