/*
 * rdma_in.h - a link's insides: pieces as they were submitted, each a job, that go
 * by the rail or, where a stretch of the window is not exposed, by the session.
 *
 * 1. A job is free, waits for its regions to be told, is under way, or is done.
 * 2. It goes wholly one way, so what has come of it is from its beginning on.
 * 3. At most one question is out; its answer comes before any call.
 * 4. Once rc is set the rail is closed and all jobs are done.
 */
#ifndef TRANSPORT_RDMA_IN_H
#define TRANSPORT_RDMA_IN_H

#include "base/transport.h"
#include "transport/rail.h"
#include "transport/rdma_view.h"
#include "transport/client.h"

enum { EPD_RDMA_JOBS = 64 };

enum epd_rdma_state {
	EPD_RDMA_FREE, EPD_RDMA_WAITS, EPD_RDMA_BY_RAIL, EPD_RDMA_BY_SESSION,
	EPD_RDMA_DONE,
};

struct epd_rdma_job {
	enum epd_rdma_state state;
	int to_session;			/* it was found that the rail will not do */
	struct epd_piece piece;
	uint64_t begun, certain;	/* bytes of it */
	uint32_t live;			/* parts on the rail */
	int rc;
};

struct epd_rdma_link {
	EPD_LINK_OPS;
	struct epd_client *s;
	struct epd_rail *rail;
	int rc;
	struct epd_why said;
	struct epd_rdma_views views;

	struct epd_rdma_job job[EPD_RDMA_JOBS];
	uint32_t next;			/* where the last one was put */
	uint32_t on_rail, on_session;	/* parts, jobs */

	int asking;
	uint64_t asked_window, asked_from, asked_end;
	uint8_t question[24];
};

/* It failed: see 4.  Returns rc. */
int epd_rdma_fail(struct epd_rdma_link *l, int rc, const char *what);
int epd_rdma_failed(const struct epd_rdma_link *l, struct epd_why *why);
/* All that can be begun or asked now is. */
void epd_rdma_push(struct epd_rdma_link *l);
/*
 * Wait until something has come of it.  0; EPD_ETIMEOUT; EPD_EUSAGE: nothing is
 * under way; or as epd_rdma_fail, which it has called.
 */
int epd_rdma_pull(struct epd_rdma_link *l, uint64_t deadline_ns);

#endif
