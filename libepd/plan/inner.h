/*
 * inner.h - a planner, compiled: what a decision asks is a table of masks here, so
 * that it is a handful of ands.  Bit b of a mask is enum epd_backend, but where
 * it says otherwise.
 */
#ifndef EPD_PLAN_INNER_H
#define EPD_PLAN_INNER_H

#include "plan/decide.h"

enum { MEDIA = 8 };			/* EPD_IN_COUNT, rounded up */

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
	uint32_t list;			/* 0: by the target's tags */
	uint8_t listed;			/* a list was given, be it of nothing */
	uint8_t limits;			/* the contract has a cap */
	uint8_t nowhere;		/* of the rails it names none is there */
	uint8_t pool;
	uint32_t pooled;		/* that have so many pools */
	uint8_t place[EPD_VIA_COUNT];	/* in the list */
	uint64_t devices;
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
	uint32_t leg[MEDIA][MEDIA];	/* EPD_CAN_STAGE there */
	uint32_t shapes[MEDIA][MEDIA];	/* bit: index of a shape that fits */
	/* Bits of rules, from 0, that take such a one. */
	uint32_t takes_here[MEDIA], takes_there[MEDIA];
	uint32_t takes_priority[4], takes_intent[EPD_INTENT_COUNT];
	uint32_t takes_machine[2], takes_segment[4];
	struct rule rule[EPD_PLAN_RULES + 1];	/* the last: where none matches */
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

/* Which way bytes go, and how two ends lie to each other. */
struct course {
	uint8_t from, to;		/* media, as bytes go */
	uint8_t own;			/* the target is this node's own */
	uint8_t same;			/* on one machine */
	uint8_t together;		/* so, or it is a file */
	uint8_t file;
	uint8_t from_here;		/* WRITE */
	uint8_t at[8];			/* medium of each place */
	uint64_t from_generation, to_generation;
};
static inline void
course_of(struct course *c, const struct epd_intent *i)
{
	const struct epd_end *here = &i->here, *there = &i->there;

	c->from_here = i->op == EPD_OP_WRITE;
	c->from = c->from_here ? here->medium : there->medium;
	c->to = c->from_here ? there->medium : here->medium;
	c->from_generation = c->from_here ? here->generation : there->generation;
	c->to_generation = c->from_here ? there->generation : here->generation;
	c->own = here->node && here->node == there->node;
	c->file = here->medium == EPD_IN_FILE || there->medium == EPD_IN_FILE;
	c->same = c->own ||
	    (here->machine && here->machine == there->machine);
	c->together = c->same || c->file;
}

static inline uint32_t
lossy_bit(unsigned lossy)
{
	return lossy == EPD_LOSSY_FP8 ? EPD_MAY_FP8 : lossy == EPD_LOSSY_INT8 ?
	    EPD_MAY_INT8 : lossy == EPD_LOSSY_CUSTOM ? EPD_MAY_CUSTOM : 0;
}

/* From places to media: a device is of the medium that its end has. */
static inline void
media_of(uint8_t at[8], unsigned from, unsigned to)
{
	at[EPD_FROM_DEVICE] = (uint8_t)from;
	at[EPD_TO_DEVICE] = (uint8_t)to;
	at[EPD_FROM_HOST] = at[EPD_TO_HOST] = EPD_IN_CPU;
	at[EPD_FROM_FILE] = at[EPD_TO_FILE] = EPD_IN_FILE;
}

/* A template as stages.  Fails: EPD_EUSAGE. */
int epd_plan_shape(struct shape *out, const struct epd_path_template *t,
    struct epd_why *why);
/* Of staging on one side. */
static inline uint64_t
slots_of(uint64_t bytes, uint64_t chunk, uint32_t most)
{
	const uint64_t n = bytes / chunk + (bytes % chunk != 0);

	return n < most ? n : most;
}

#endif
