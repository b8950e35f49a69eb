/* clone.h - a branch of a peer's state: begun in this store, with its pages. */
#ifndef EPD_FLOW_CLONE_H
#define EPD_FLOW_CLONE_H

#include "flow/node.h"

struct epd_clone_ask {
	const char *address;		/* of the peer's data server */
	struct epd_ref from;		/* of its store; version 0: the newest */
	const char *workflow;		/* to begin it in; "": a new one */
	uint64_t timeout_ms;		/* 0: as configured */
};
struct epd_cloned {
	char workflow[EPD_WORKFLOW];
	uint32_t state, version;	/* here; of the other one, at which it was read */
	uint64_t linked, copied, missing, bytes;	/* pages, those to be computed, bytes moved */
	uint64_t ns;
};
/*
 * The other state stays as it is and knows nothing of it; the new one's log says whence
 * it came.  Its pages are compared with what the peer's log says of them, and serve
 * this workflow alone unless the peer is trusted (transfer.trust_peers).
 * Fails: as epd_node_open, EPD_ENOSTATE, EPD_ENOTHING, EPD_EMODEL (another tenant's),
 * EPD_ECORRUPT (what it says does not go together), -errno; nothing is left then.
 */
int epd_flow_clone(struct epd_store *s, const struct epd_clone_ask *ask,
    struct epd_cloned *out, struct epd_why *why);

#endif
