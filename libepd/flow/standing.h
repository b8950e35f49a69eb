/*
 * standing.h - what stands between this store and a peer, asked of the peer: it may
 * know of hand-offs that are not known here, not yet or no more.  Not for outsiders.
 */
#ifndef EPD_FLOW_STANDING_H
#define EPD_FLOW_STANDING_H

#include "flow/node.h"
#include "flow/pair.h"

struct epd_standing {
	struct epd_node *node;		/* lent */
	struct epd_half_ask *half;	/* [n] the peer's */
	uint32_t n;
};
/*
 * The halves that it has in a workflow ("": in all) of hand-offs with this store.
 * Fails: as epd_node_ask.  Owns: the caller frees *out.
 */
int epd_standing_ask(struct epd_standing *out, struct epd_node *n,
    const char *workflow, uint64_t end_ns, struct epd_why *why);
void epd_standing_free(struct epd_standing *x);

/* The ith with its other half, which is here, or as one that cannot be reached. */
void epd_standing_open(struct epd_pair *p, const struct epd_standing *x,
    uint32_t i, uint64_t end_ns);
void epd_standing_close(struct epd_pair *p);

/* The id of each, by the logs here alone. */
int epd_flow_handoff_ids(struct epd_store *s,
    int (*fn)(void *arg, const uint8_t id[16]), void *arg, struct epd_why *why);

#endif
