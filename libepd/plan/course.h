/* course.h - which way bytes go, and how two ends lie to each other: step 2. */
#ifndef EPD_PLAN_COURSE_H
#define EPD_PLAN_COURSE_H

#include "plan/intent.h"

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

#endif
