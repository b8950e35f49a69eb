/*
 * rdma.h - the host's side of rdma: what a data server is opened with so that its
 * guests may read and write windows by RDMA (struct epd_server_options.rail).
 */
#ifndef TRANSPORT_RDMA_H
#define TRANSPORT_RDMA_H

#include "base/err.h"
#include "transport/server.h"

struct epd_rdma_host;

/*
 * device NULL or "": any.
 * Fails: EPD_EUNSUPPORTED with why: not built, no device, none with a live port.
 */
int epd_rdma_host_open(struct epd_rdma_host **out, const char *device,
    struct epd_why *why);
/* Lent until close. */
const struct epd_server_rail *epd_rdma_host_rail(const struct epd_rdma_host *h);
/* Once the server is closed.  NULL is fine. */
void epd_rdma_host_close(struct epd_rdma_host *h);

struct epd_rdma_counts {
	uint64_t guests, regions;	/* now */
	uint64_t let_in, turned_away, exposed;
	uint64_t by_session;		/* stretches that could not be exposed */
};
void epd_rdma_host_counts(struct epd_rdma_host *h, struct epd_rdma_counts *out);

#endif
