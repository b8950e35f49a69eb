/*
 * route.h - which way bytes to or from a peer go: what plan is asked, and what it
 * answers.  Not for outsiders.
 */
#ifndef EPD_FLOW_ROUTE_H
#define EPD_FLOW_ROUTE_H

#include "flow/prospect.h"

struct epd_route {
	struct epd_node *n;
	const struct epd_transfer_policy *policy;
	struct epd_prospect way;
	/* the last that failed, and those given up, by the number of paths passed so far */
	enum epd_backend failed;
	uint32_t given_up;
	int32_t passed;
	int asked;			/* decided once: what the peer grants is told anew */
	int refused;			/* what it granted was too little */
	struct epd_decision other;	/* room for the one that does not count */
};
/*
 * Of bytes to be moved by a policy, till deadline_ns.  tokens that can be computed in
 * their stead, at the rate that this store has seen; 0: they cannot.
 * Fails: EPD_ETOOBIG (more than the peer ever grants), and as epd_node_ways.
 */
int epd_route_open(struct epd_route *out, struct epd_node *n, enum epd_op op,
    uint64_t bytes, uint64_t tokens, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, struct epd_why *why);
/*
 * The compression of a policy as the contract has it (epd_prospect_compress), of a
 * state's pages; the store's listener hears of one that is not taken.
 */
int epd_route_compress(struct epd_node *n, enum epd_op op,
    struct epd_transfer_policy *inout, struct epd_why *why);
/* Fit for struct epd_carrier; arg is the route. */
int epd_route_decide(void *arg, int32_t index, struct epd_decision *out,
    struct epd_why *why);
void epd_route_now(void *arg, struct epd_generations *out);
void epd_route_told(void *arg, enum epd_backend b, int rc, uint64_t bytes,
    uint64_t ns);

/* One more carry is over. */
void epd_transferred_add(struct epd_transferred *out,
    const struct epd_carried *c);
/*
 * How many of a's pages from `at` on are moved at a time: what breaks costs no more, and
 * a receiver grants no more than most bytes.
 */
uint32_t epd_pages_batch(const struct epd_pages_ask *a, uint32_t at,
    uint64_t most);

#endif
