/*
 * intent.h - what is to be moved, and how backends do now: what one decision is
 * made from.  Outside this room include plan/plan.h.
 */
#ifndef EPD_PLAN_INTENT_H
#define EPD_PLAN_INTENT_H

#include <stdint.h>

#include "base/host.h"
#include "plan/model.h"
#include "plan/policy.h"

/* How backends do, by enum epd_backend; one that is not told of is zeros. */
struct epd_operations {
	struct epd_operational of[EPD_VIA_COUNT];
};

struct epd_end {
	uint8_t medium;			/* EPD_IN_FILE: a file segment */
	uint8_t ntags;
	uint8_t tag[EPD_PLAN_BACKENDS];	/* what the buffer is registered with, in order */
	uint16_t device;		/* of its medium, as people are told */
	uint64_t node, machine;		/* 0: unknown, equal to nothing */
	uint64_t generation;		/* of its descriptor */
};

struct epd_intent {
	uint64_t id;		/* candidates have this and the next numbers */
	uint64_t parent;	/* plan whose stage this is, or 0 */
	struct epd_end here, there;
	uint64_t bytes, alignment;	/* a power of two; 0: 1 */
	uint8_t op;		/* enum epd_op */
	uint8_t priority, intent;
	uint8_t hint;		/* a backend, or 0 */
	/*
	 * Asked to be given up on the way: enum epd_lossy.  A state's pages are of one
	 * family, so of them it is settled before they are cut into intents
	 * (epd_planner_gives_up), whose bytes are then those that travel.
	 */
	uint8_t lossy;
	uint8_t strict;
	uint8_t credits_enabled;
	uint16_t policy;	/* epd_planner_policy of the name asked for, or 0 */
	int32_t index;		/* attempts that failed before this */
	uint64_t lossy_bytes;	/* what bytes become when compressed so */
	uint64_t now_ns, deadline_ns;	/* 0: no deadline */
	struct epd_credits credits;	/* that the receiver advertises */
	uint64_t tokens;	/* that would be computed again; 0: cannot be */
	double tokens_per_s;	/* as measured; 0: not known */
};

#endif
