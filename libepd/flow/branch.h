/* branch.h - branches of a state. */
#ifndef EPD_FLOW_BRANCH_H
#define EPD_FLOW_BRANCH_H

#include "flow/store.h"

enum { EPD_BRANCHES = 65536 };		/* at once */

struct epd_fork_request {
	struct epd_ref from;		/* version 0: the newest */
	uint32_t expect;		/* the parent's newest, 0: whatever it is */
	uint32_t branches;
	int replace;			/* the parent becomes its branches */
	int has_seed;
	uint64_t seed;			/* of the branches' samplers */
	uint64_t ttl_ms;		/* of the branches; 0: the parent's */
	const char *reason;		/* "agent_branch" */
	uint32_t *ids;			/* out: [branches] of them; may be NULL */
};
struct epd_forked {
	uint32_t first;			/* and the numbers behind it */
	int alone;			/* they share nothing: each is prefilled by itself */
	uint32_t version;		/* of the parent, where they begin */
	uint64_t ns;			/* all of it, flush included */
};
/*
 * Branches in the parent's workflow: one log record, no page is touched.  Where
 * state.enable_cow is off, or no more can stand on the parent's version, each is
 * a state with a copy of the tokens that will be prefilled by itself.
 * Fails: EPD_ESUSPECT (the parent is), -EPERM (it is ABORTED), EPD_EKIND (objects
 * of another kind than pages), and as epd_shard_fork; nothing was made then,
 * but for EPD_EUNSURE: all, none, or of those alone some may have been.
 */
int epd_flow_fork(struct epd_store *s, const struct epd_fork_request *f,
    struct epd_forked *out, struct epd_why *why);

#endif
