/* work.h - one decision while it is made: a way is a candidate not yet written out. */
#ifndef EPD_PLAN_WORK_H
#define EPD_PLAN_WORK_H

#include <stddef.h>
#include <string.h>

#include "plan/charge.h"
#include "plan/inner.h"

enum { WAYS = 32, LEGS = EPD_PLAN_STAGES - 2 };
#define HEAD offsetof(struct epd_plan, attempt)

/* Of what is seldom needed: it keeps registers from what always is. */
#define OUTSIDE __attribute__((noinline))

#define WHY(id) (UINT64_C(1) << EPD_WHY_##id)

/* Known now of a backend, or of all that a way goes by: bits of reasons, and these. */
#define T_DOWN (UINT64_C(1) << 60)
#define T_OBSERVED (UINT64_C(1) << 61)	/* its cost was */
#define T_KNOWN (UINT64_C(1) << 62)	/* its cost, by whatever */
#define T_REASONS (T_DOWN - 1)

struct tale {
	double begin, each;	/* with what being degraded costs */
	uint64_t rails;		/* that may be used; 0: it has none */
	uint64_t is;
};

struct way {
	double cost;		/* ns */
	uint64_t bytes;		/* that cross */
	uint64_t is;		/* of all its backends */
	uint64_t rails;		/* of what crosses */
	uint8_t backend;	/* that crosses */
	uint8_t shape, lossy;
	uint8_t nlegs, leg[LEGS];	/* in order, the crossing left out */
};

struct work {
	const struct epd_planner *p;
	const struct epd_operations *how;
	const struct epd_intent *i;
	struct epd_decision *out;
	const struct rule *rule;
	struct course course;
	uint32_t list;			/* that the policy authorises */
	uint32_t there;			/* that both sides have */
	uint32_t assessed;		/* tale[b] is filled in */
	uint16_t matched;		/* the rule's number, 0: it is the default one */
	uint8_t strict, picky;		/* picky: who is not down may not serve either */
	uint8_t costed;			/* every way has a cost */
	uint8_t plain;			/* so, and nothing else counts before that */
	uint8_t more;			/* direct plans may have more than is laid out */
	uint8_t reach;
	int nrejected, nways;
	uint64_t known;			/* of all ways together */
	uint64_t reasons;		/* that all ways have that move */
	struct epd_plan head;		/* what all begin with, up to HEAD */
	struct tale tale[EPD_VIA_COUNT];
	struct way way[WAYS];
};

/* Steps 8 to 10, once all ways are there: the number of candidates. */
int epd_plan_rank(struct work *k);
/* Step 8: what a way takes; and the way as the n-th plan. */
void epd_plan_attach(const struct work *k, const struct way *w,
    struct epd_charge *out);
void epd_plan_write(const struct work *k, const struct way *w,
    struct epd_plan *restrict p, int n, unsigned role);

static inline void
reject(struct work *k, unsigned backend, unsigned shape, unsigned reason,
    uint64_t number)
{
	struct epd_rejection *restrict r = &k->out->rejected[k->nrejected];

	if (k->nrejected == EPD_PLAN_REJECTED)
		return;
	k->nrejected++;
	*r = (struct epd_rejection){
		.backend = (uint8_t)backend, .shape = (uint8_t)shape,
		.reason = (uint8_t)reason, .number = number,
	};
}

/* What is known of two together, of which one may be known less. */
static inline uint64_t
together(uint64_t a, uint64_t b)
{
	const uint64_t all = T_KNOWN | T_OBSERVED | WHY(HEALTHY);

	return ((a | b) & ~all) | (a & b & all);
}

/* Of an estimate, whatever was told: what is beyond is as good as never. */
static inline uint64_t
whole(double v)
{
	return v < 9e18 ? (uint64_t)(int64_t)v : INT64_MAX;
}

#endif
