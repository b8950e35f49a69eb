/*
 * rail_in.h - what the sources of a rail share.  Included by rail_*.c alone, where
 * the libraries are.
 */
#ifndef TRANSPORT_RAIL_IN_H
#define TRANSPORT_RAIL_IN_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "transport/rail.h"

enum {
	RAIL_DEPTH = 64,		/* moves, and parts on the way */
	RAIL_READS = 16,		/* of them reads, if the devices allow */
	RAIL_PART = 4 << 20,		/* bytes of one request at most */
	RAIL_COPIES = 256 << 20,	/* of memory that cannot be pinned */
	RAIL_PATIENCE = 17,		/* 4.096 us << this for an acknowledgement, */
	RAIL_RETRIES = 6,		/* so often again; 7 is for ever to Soft-RoCE */
};

/* Memory of ours that the device knows. */
struct rail_lent {
	struct rail_lent *next;
	char *p;
	size_t n;
	struct ibv_mr *mr;
	uint32_t moves;			/* that are under way on it */
};

struct epd_rail_region {
	struct epd_rail_region *next;
	struct ibv_mr *mr;
	void *copy;			/* NULL: the memory itself */
	size_t n;
};

struct rail_move {
	struct epd_piece piece;
	uint64_t far;
	uint32_t key;
	uint64_t asked, landed;		/* bytes of it, each from its beginning on */
	struct rail_lent *lent;		/* else mr is the move's own, and copy what it reads */
	struct ibv_mr *mr;
	void *copy;
	int rc;				/* told when the rail is broken */
};

struct epd_rail {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *told;	/* the guest's alone */
	struct ibv_cq *cq;
	unsigned heard;			/* of its events, not acknowledged yet */
	int tether;
	int is_joined;
	int broke;			/* 0: it works */
	struct epd_why said;		/* of broke */
	uint32_t part;			/* bytes */
	/* A ring, oldest first; parts are asked for, and end, in that order. */
	struct rail_move move[RAIL_DEPTH];
	uint32_t first, count, parts;
	uint32_t depth;
	size_t copied;
	struct rail_lent *lent;
	struct epd_rail_region *regions;
};

/* What an event says, after it was acknowledged. */
struct rail_event {
	enum rdma_cm_event_type kind;
	int status;
	struct rdma_cm_id *id;
	uint8_t reads, depth;		/* the other's, seen from here */
	uint8_t words[EPD_RAIL_TOKEN];
	size_t nwords;
};

/* No device at all is EPD_EUNSUPPORTED with why. */
int rail_channel(struct rdma_event_channel **out, struct epd_why *why);
/* Bind id to the address on device (NULL or "": any); EPD_EUNSUPPORTED. */
int rail_bind(struct rdma_cm_id *id, const struct sockaddr *at,
    const char *device);
/* Some address of a device, of this family, port 0. */
int rail_address(struct rdma_event_channel *events, int family,
    const char *device, struct sockaddr_storage *out);
/* The next event by then; 0 only looks.  Fails: EPD_ETIMEOUT, EPD_EPEER (tether), -errno. */
int rail_event(struct rdma_event_channel *events, int tether,
    uint64_t deadline_ns, struct rail_event *out);
/*
 * Till one of fds can be read: its bit; of -1 there is none.  The last one is the
 * tether, whose hang-up alone counts.
 * Fails: EPD_ETIMEOUT, -ECANCELED (base/stop.h; not of a deadline that is over), -errno.
 */
int rail_poll(const int fd[3], uint64_t deadline_ns);

/* All that the rail's id needs to connect. */
int rail_queue(struct epd_rail *r, int is_guest, struct epd_why *why);
/* What the device can: reads it answers and asks at a time. */
int rail_reads(struct rdma_cm_id *id, uint8_t *answered, uint8_t *asked);
/* The queue pair ends here: nothing lands any more.  Returns rc, for good. */
int rail_break(struct epd_rail *r, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int rail_broken(const struct epd_rail *r, struct epd_why *why);
/* Take what the device has told of moves. */
void rail_drain(struct epd_rail *r);
/* Memory of a move that has ended. */
void rail_release(struct epd_rail *r, struct rail_move *m);
/* Have the memory of a move known; as epd_rail_submit. */
int rail_pin(struct epd_rail *r, struct rail_move *m, struct epd_why *why);
void rail_forget(struct epd_rail *r);	/* all lent, all regions */

#endif
