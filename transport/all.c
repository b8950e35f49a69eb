/* all.c - the table, and the rows of what is not built. */
#include "transport/tables.h"
#include "transport/transport.h"

static int
absent_probe(const struct epd_transport *t, struct epd_transport_facts *out,
    struct epd_why *why)
{
	(void)out;
	return epd_why(why, EPD_EUNSUPPORTED, "%s: not built",
	    epd_backend_name(t->backend));
}

static int
absent_open(const struct epd_transport *t, struct epd_link **out,
    const struct epd_peer *peer, struct epd_why *why)
{
	(void)out;
	(void)peer;
	return absent_probe(t, NULL, why);
}

#define ABSENT(id) { .backend = EPD_VIA_##id, .probe = absent_probe, \
	.open = absent_open }
const struct epd_transport epd_transport_no_rdma = ABSENT(RDMA);
const struct epd_transport epd_transport_no_nvlink = ABSENT(NVLINK);
const struct epd_transport epd_transport_no_gds = ABSENT(GDS);
const struct epd_transport epd_transport_no_uring = ABSENT(IO_URING);

static const struct epd_transport *const rows[] = {
	&epd_transport_no_nvlink,
#ifdef EPD_WITH_RDMA
	&epd_transport_rdma,
#else
	&epd_transport_no_rdma,
#endif
	&epd_transport_shm,
	&epd_transport_tcp,
	&epd_transport_no_gds,
#ifdef EPD_WITH_URING
	&epd_transport_uring,
#else
	&epd_transport_no_uring,
#endif
};
static const struct epd_transports all = { rows, sizeof rows / sizeof *rows };

const struct epd_transports *
epd_transports(void)
{
	return &all;
}
