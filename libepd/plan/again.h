/*
 * again.h - what it takes to have pages again, and which way is the cheaper: back from
 * a tier, or computed.  By what was measured; pure.  Outside this room include
 * plan/plan.h.
 */
#ifndef EPD_PLAN_AGAIN_H
#define EPD_PLAN_AGAIN_H

#include <stdint.h>

/* Sums of what was done so far, 0: never. */
struct epd_again_measured {
	uint64_t restored_runs, restored_bytes, restored_ns;
	uint64_t computed_tokens, computed_ns;
};
struct epd_again {
	double restore_ns, recompute_ns;
	int restore;			/* the first is the cheaper, or as cheap */
};
/*
 * Of so many runs with so many bytes, which hold tokens.  A run costs a fixed part and one
 * by its bytes; a token what tokens cost.  What was never done counts as what a disk
 * and a small model on one core give.
 */
void epd_again_decide(const struct epd_again_measured *m, uint64_t runs,
    uint64_t bytes, uint64_t tokens, struct epd_again *out);

#endif
