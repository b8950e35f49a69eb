/*
 * inner.h - a planner, compiled: what a decision asks is a table of masks here, so
 * that it is a handful of ands.  Bit b of a mask is enum epd_backend, but where
 * it says otherwise.
 */
#ifndef EPD_PLAN_INNER_H
#define EPD_PLAN_INNER_H

#include "plan/course.h"
#include "plan/decide.h"

enum { MEDIA = 8 };			/* EPD_IN_COUNT, rounded up */
enum { FAR, CLOSE, ANY };		/* reach: a file's is any */

#define BIT(b) (UINT32_C(1) << (unsigned)(b))

/* Lowest bit of a mask that is not 0, and a walk over all of them. */
#define LOWEST(m) ((unsigned)__builtin_ctz(m))
#define EACH(b, m) (uint32_t left_##b = (m), b = 0; \
	left_##b && (b = LOWEST(left_##b), 1); left_##b &= left_##b - 1)

/* ns of a transfer by the baseline: begin + bytes * each. */
struct pace {
	double begin, each;
	uint64_t bps;			/* 0: neither is told */
	uint64_t is;			/* as struct tale's */
};

struct rule {
	uint32_t list;
	uint8_t listed;			/* a list was given, be it of nothing; else by tags */
	uint8_t limits;			/* the contract has a cap */
	uint8_t nowhere;		/* of the rails it names none is there */
	uint8_t pool;
	uint32_t pooled;		/* that have so many pools */
	uint8_t place[EPD_VIA_COUNT];	/* in the list */
	uint64_t devices;		/* rails that it names, or all */
	uint64_t reasons;		/* for what it authorises */
	uint64_t min_size, max_size;
	struct epd_contract contract;
};

/* A template as stages.  Index i of a shape is EPD_SHAPE_TEMPLATE + i. */
struct shape {
	uint8_t nstages, cross;		/* the stage that crosses */
	uint8_t legs;
	uint8_t place[8];
};

struct epd_planner {
	uint32_t loaded, refused;
	uint32_t local, remote, unregistered, limited, railed, nics;
	uint32_t commits;		/* by completion */
	uint32_t by_op[4];
	uint32_t aligned[64];		/* by the alignment's logarithm */
	uint32_t pair[MEDIA][MEDIA], bounced[MEDIA][MEDIA];
	uint32_t fit[3][4][MEDIA][MEDIA];	/* by reach and operation, of pair */
	uint32_t leg[MEDIA][MEDIA];	/* may be legs there */
	uint32_t shapes[MEDIA][MEDIA];	/* bit: index of a shape that fits */
	/* Bits of rules, from 0, that take such a one. */
	uint32_t takes_here[MEDIA], takes_there[MEDIA];
	uint32_t takes_priority[4], takes_intent[EPD_INTENT_COUNT];
	uint32_t takes_machine[2], takes_segment[4];
	/* Behind the rules: where none matches, and where none has the name asked for. */
	struct rule rule[EPD_PLAN_RULES + 2];
	struct shape shape[EPD_PLAN_TEMPLATES];
	struct pace base[EPD_VIA_COUNT];
	/* What all direct plans of a backend have in common, and its dependencies. */
	struct epd_plan direct[EPD_VIA_COUNT];
	struct epd_capability cap[EPD_VIA_COUNT];
	double min_confidence, degraded_factor;
	uint64_t staging_chunk;
	uint32_t staging_slots, max_attempts;
	int nrules, nshapes;
	uint64_t policy_generation, topology_generation;
	const struct epd_legacy *legacy;	/* that is asked; NULL: nobody is */
	char name[EPD_PLAN_RULES][EPD_PLAN_NAME];
	char shape_name[EPD_PLAN_TEMPLATES][EPD_PLAN_NAME];
};

/* Rules that take an intent, if its bytes are of their size: bits from 0. */
static inline uint32_t
rules_for(const struct epd_planner *p, const struct epd_intent *i, int same)
{
	return p->takes_segment[i->there.medium == EPD_IN_FILE ?
	    EPD_SEGMENT_FILE : EPD_SEGMENT_MEMORY] &
	    p->takes_here[i->here.medium] & p->takes_there[i->there.medium] &
	    p->takes_priority[i->priority] & p->takes_intent[i->intent] &
	    p->takes_machine[same];
}

/* A template as stages.  Fails: EPD_EUSAGE. */
int epd_plan_shape(struct shape *out, const struct epd_path_template *t,
    struct epd_why *why);
#endif
