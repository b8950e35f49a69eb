/*
 * rdma_wire.h - what rdma's two ends tell each other over the session.
 *
 *	RAIL	OPEN u32: answer family u16 (4, 6), port u16, address 16, token 32
 *		ADMIT u32, ms u32: the guest that knocks now is let in; no answer
 *	EXPOSE	window u64, offset u64, bytes u64: answer upto u64, writable u32,
 *		count u32, then count times offset u64, bytes u64, at u64, key u32:
 *		what of [offset, upto) is exposed, in order; the rest goes over the
 *		session.  From upto on it is asked again.
 */
#ifndef TRANSPORT_RDMA_WIRE_H
#define TRANSPORT_RDMA_WIRE_H

enum { EPD_RDMA_OPEN = 1, EPD_RDMA_ADMIT };
enum {
	EPD_RDMA_INVITE = 52, EPD_RDMA_EACH = 28,	/* bytes */
	EPD_RDMA_KEYS = 4096,		/* in an answer */
	EPD_RDMA_REGIONS = 16384,	/* a guest's at a time */
	EPD_RDMA_ADMIT_MS = 10000,	/* that a host waits at most */
};

#endif
