/* branch.h - branches of a state. */
#ifndef EPD_FLOW_BRANCH_H
#define EPD_FLOW_BRANCH_H

#include "flow/store.h"

struct epd_fork_request {
	struct epd_ref from;		/* version 0: the newest */
	uint32_t branches;
	int replace;			/* the parent becomes its branches */
	int has_seed;
	uint64_t seed;			/* of the branches' samplers */
	uint64_t ttl_ms;		/* of the branches; 0: the parent's */
	const char *reason;		/* "agent_branch" */
};
struct epd_forked {
	uint32_t first;			/* and the numbers behind it */
	uint32_t version;		/* of the parent, where they begin */
	uint64_t ns;			/* all of it, flush included */
};
/*
 * Branches in the parent's workflow: one log record, no page is touched.
 * Fails: EPD_ESUSPECT (the parent is), EPD_EKIND (objects of another kind than
 * pages), and as epd_shard_fork; nothing was made then.
 */
int epd_flow_fork(struct epd_store *s, const struct epd_fork_request *f,
    struct epd_forked *out, struct epd_why *why);

#endif
