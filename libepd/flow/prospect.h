/*
 * prospect.h - what a transfer with a peer is decided by: the planner and the selector
 * that the configuration makes, and the intent.  A route (route.h) is one whose peer
 * was reached; who only wants to know makes one without.
 */
#ifndef EPD_FLOW_PROSPECT_H
#define EPD_FLOW_PROSPECT_H

#include "flow/transfer.h"
#include "flow/view.h"
#include "plan/plan.h"

/* What leads to an address, compiled: it holds as long as what is here does. */
struct epd_ways {
	struct epd_planner *planner;
	struct epd_legacy legacy;
	uint32_t mask;			/* a bit for each backend */
};
/*
 * By rules and contract (NULL: none; lent to *out), of what the transports say is here,
 * or of what is supposed to be loaded, and costs (NULL: as they say, and unknown).
 * Fails: EPD_EUSAGE (rules), -ENOMEM.  Owns: the caller frees out->planner.
 */
int epd_ways_make(struct epd_ways *out, const struct epd_store *here,
    const char *address, const struct epd_scenario *rules,
    const struct epd_scenario *supposed, struct epd_why *why);

struct epd_prospect {
	struct epd_planner *planner;	/* of the ways */
	struct epd_intent intent;
	struct epd_legacy legacy;
	enum epd_plan_mode mode;
};

struct epd_prospect_ask {
	const struct epd_store *here;
	const char *address;		/* the peer's, or a folder */
	const struct epd_node_facts *peer;	/* NULL: it was not reached */
	const struct epd_transfer_policy *policy;
	const struct epd_ways *ways;
	enum epd_op op;
	uint64_t bytes;
	uint64_t tokens;	/* that can be computed in their stead; 0: they cannot */
	uint64_t deadline_ns;
};
void epd_prospect_make(struct epd_prospect *out,
    const struct epd_prospect_ask *a);
/*
 * What a policy's compression comes to.  1: it is taken, or none is asked for; 0: some
 * contract that its pages may come under does not allow it, and it is "none" from here
 * on: they go as they are.  Fails: EPD_ESTRICT (nothing may be given up).
 */
int epd_prospect_compress(const struct epd_prospect *p,
    struct epd_transfer_policy *inout, struct epd_why *why);

/* A capability as a transport says that it is here.  Fails as its probe. */
int epd_prospect_here(const struct epd_transport *t,
    struct epd_transport_facts *facts, struct epd_capability *inout);
/*
 * Rules and contract that the configuration names (transfer.rules); *out NULL: none.
 * Fails: EPD_EUSAGE, -errno.  Owns: the caller frees *out by epd_free.
 */
int epd_prospect_rules(struct epd_scenario **out, const struct epd_config *c,
    struct epd_why *why);

/* A state's pages as they are sent, as long as the peer has none of them. */
struct epd_prospect_size {
	uint64_t pages, bytes;	/* in all; of those that are in memory */
	uint64_t first;		/* bytes of the first batch: each has a plan of its own */
	uint64_t batches;
};
/* Fails: EPD_ENOPLAN (none is sent), EPD_EUNSUPPORTED (a codec). */
int epd_prospect_size(struct epd_prospect_size *out, const struct epd_store *here,
    const struct epd_sight *v, const struct epd_transfer_policy *policy,
    struct epd_why *why);

#endif
