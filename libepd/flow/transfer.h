/*
 * transfer.h - the RFC's transfer_feature_bundle and transfer_kv_pages, between this
 * store and a peer's (flow/node.h): what goes from encoder to prefill, from prefill
 * to decode, and from agent to agent.
 *
 * Each is decided by plan and carried out by move.  Either way: op READ has the peer's
 * here, WRITE ours there.  What is there already is not moved; one that is begun
 * again does the rest.
 */
#ifndef EPD_FLOW_TRANSFER_H
#define EPD_FLOW_TRANSFER_H

#include "flow/node.h"

/* The RFC's, field by field. */
enum epd_prefetch {
	EPD_PREFETCH_NONE,		/* no pages: they are had when they are needed */
	EPD_PREFETCH_NEXT_STEP,		/* those that the next step reads: all */
	EPD_PREFETCH_SPECULATIVE,	/* the same; what is guessed is in flow/ahead.h */
};
struct epd_transfer_policy {
	enum epd_backend transport;	/* a hint; EPD_VIA_NONE: the planner's choice */
	char compression[EPD_CODEC_NAME];	/* of pages: "none", "fp8", "int8", a codec's */
	enum epd_priority priority;
	uint8_t intent;			/* enum epd_intent_class: what rules may ask */
	enum epd_prefetch prefetch;
	int checksum;
	uint64_t timeout_ms;		/* a hard one, of all there is to do */
	int strict;			/* no path that is not sure, nothing given up */
	char rule[32];			/* the planner's, by name; "": the first that matches */
};
/* As the configuration says. */
void epd_transfer_policy_default(struct epd_transfer_policy *out,
    const struct epd_config *c);

struct epd_transferred {
	uint64_t wanted, moved, mapped, had, missing;	/* pages or features */
	uint64_t bytes;			/* that moved */
	struct epd_carried last;	/* of the carries it took, the last */
	uint32_t carries, retries, fallbacks;
};

/*
 * Pages that a names, of a peer's state or by name alone, into the folder of a
 * workflow here, each that is not here yet.  Those that came lie in *run (the
 * caller's, *nruns of them), which no record names yet: epd_settle takes them.  a's pages
 * say what is there, and as what it came.
 * Fails: as epd_carry, EPD_ENOTHING, EPD_ENOSTATE; nothing is left then.
 */
struct epd_workflow;
int epd_pages_fetch(struct epd_node *n, const struct epd_workflow *to,
    struct epd_pages_ask *a, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, uint64_t **run, uint32_t *nruns,
    struct epd_transferred *out, struct epd_why *why);
/* The same the other way: of a state here to the workflow there that a names. */
int epd_pages_send(struct epd_node *n, const struct epd_pages_ask *of,
    struct epd_pages_ask *a, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, uint64_t **run, uint32_t *nruns,
    struct epd_transferred *out, struct epd_why *why);

/* A feature and its picture; one that is there is had.  EPD_ENOTHING: nobody has it. */
int epd_feature_move(struct epd_node *n, enum epd_op op,
    const struct epd_name *fp, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, struct epd_transferred *out, struct epd_why *why);

#endif
