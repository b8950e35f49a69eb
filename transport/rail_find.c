/*
 * rail_find.c - which devices and addresses there are for RDMA.
 *
 * Where the kernel knows nothing of it, the list of devices is NULL with ENOSYS
 * and a channel for events cannot be had (ENODEV): both are "not here".
 */
#ifdef EPD_WITH_RDMA

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/rail_in.h"

static int
is_called(const struct ibv_device *d, const char *device)
{
	return !device || !*device || !strcmp(ibv_get_device_name(
	    (struct ibv_device *)(uintptr_t)d), device);
}

/* 1 and what it can, if one of the device's ports is live. */
static int
look(struct ibv_device *d, struct epd_transport_facts *f)
{
	struct ibv_context *c = ibv_open_device(d);
	struct ibv_device_attr a;
	struct ibv_port_attr port;
	int live = 0;

	if (!c)
		return 0;
	if (!ibv_query_device(c, &a))
		for (int i = 1; i <= a.phys_port_cnt && !live; i++)
			live = !ibv_query_port(c, (uint8_t)i, &port) &&
			    port.state == IBV_PORT_ACTIVE;
	if (live && !f->ndevices) {
		const uint32_t wr = (uint32_t)a.max_qp_wr;

		*f = (struct epd_transport_facts){
			.alignment = 1, .max_bytes = RAIL_COPIES,
			.max_inflight = wr < RAIL_DEPTH ? wr : RAIL_DEPTH,
			.max_sge = 1,
		};
		snprintf(f->device, sizeof f->device, "%.31s",
		    ibv_get_device_name(d));
	}
	f->ndevices += (uint32_t)live;
	ibv_close_device(c);
	return live;
}

int
epd_rail_probe(struct epd_transport_facts *out, const char *device,
    struct epd_why *why)
{
	struct rdma_event_channel *events;
	struct epd_transport_facts f = { 0 };
	struct ibv_device **list;
	int n = 0, here = 0, rc;

	errno = 0;
	list = ibv_get_device_list(&n);
	if (!list || !n) {
		rc = epd_why(why, EPD_EUNSUPPORTED, "no RDMA device%s%s",
		    errno ? ": " : "", errno ? strerror(errno) : "");
		if (list)
			ibv_free_device_list(list);
		return rc;
	}
	for (int i = 0; i < n; i++)
		if (is_called(list[i], device)) {
			here++;
			look(list[i], &f);
		}
	ibv_free_device_list(list);
	if (!here)
		return epd_why(why, EPD_EUNSUPPORTED, "no RDMA device %s",
		    device);
	if (!f.ndevices)
		return epd_why(why, EPD_EUNSUPPORTED,
		    "no RDMA device has a live port");
	if ((rc = rail_channel(&events, why)) < 0)
		return rc;
	rdma_destroy_event_channel(events);
	*out = f;
	return 0;
}

int
rail_channel(struct rdma_event_channel **out, struct epd_why *why)
{
	struct rdma_event_channel *e = rdma_create_event_channel();
	int flags;

	if (!e) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			return epd_why(why, -errno, "RDMA: %s", strerror(errno));
		return epd_why(why, EPD_EUNSUPPORTED,
		    "no RDMA connections here: %s", strerror(errno));
	}
	flags = fcntl(e->fd, F_GETFL);
	if (flags < 0 || fcntl(e->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		const int rc = -errno;

		rdma_destroy_event_channel(e);
		return epd_why(why, rc, "RDMA: %s", strerror(-rc));
	}
	*out = e;
	return 0;
}

int
rail_bind(struct rdma_cm_id *id, const struct sockaddr *at, const char *device)
{
	/* An address of no device may be bound all the same: to nothing. */
	if (rdma_bind_addr(id, (struct sockaddr *)(uintptr_t)at) || !id->verbs ||
	    !is_called(id->verbs->device, device))
		return EPD_EUNSUPPORTED;
	return 0;
}

static size_t
size_of(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? sizeof(struct sockaddr_in)
	    : a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;
}

/* Whether a device has this address, found out by an id for the purpose. */
static int
is_railed(struct rdma_event_channel *events, const struct sockaddr *a,
    const char *device)
{
	struct rdma_cm_id *id;
	int yes;

	if (rdma_create_id(events, &id, NULL, RDMA_PS_TCP))
		return 0;
	yes = !rail_bind(id, a, device);
	rdma_destroy_id(id);
	return yes;
}

int
rail_address(struct rdma_event_channel *events, int family, const char *device,
    struct sockaddr_storage *out)
{
	struct ifaddrs *all, *i;
	int rc = EPD_EUNSUPPORTED;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (i = all; i && rc; i = i->ifa_next) {
		const size_t n = i->ifa_addr ? size_of(i->ifa_addr) : 0;

		if (!n || i->ifa_addr->sa_family != family ||
		    !is_railed(events, i->ifa_addr, device))
			continue;
		*out = (struct sockaddr_storage){ 0 };
		memcpy(out, i->ifa_addr, n);
		rc = 0;
	}
	freeifaddrs(all);
	return rc;
}

#endif
