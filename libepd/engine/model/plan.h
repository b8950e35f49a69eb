/*
 * plan.h - in what order, and in which groups, a tower's patches attend.
 *
 * Patches stand in rows: frame by frame, in merge-block order.  Attention goes
 * by ranks: row order[rank].  A segment is a run of ranks whose patches see
 * one another and nothing else; its keys lie in pages of their own.
 */
#ifndef EPD_ENGINE_MODEL_PLAN_H
#define EPD_ENGINE_MODEL_PLAN_H

#include "engine/model/arch.h"

enum { EPD_VISION_PAGE = 64 };	/* tokens in a page of a tower's keys */

struct epd_segment {
	long at, n;		/* ranks */
	long page;		/* its first */
};

struct epd_segments {
	struct epd_segment *s;
	long n, pages;
};

struct epd_plan {
	long t, h, w;		/* grid in patches */
	long n;			/* t * h * w */
	long *order;
	struct epd_segments frames, windows;	/* windows.n may be 0 */
};

/* Fails: -ENOMEM.  Owns: the caller frees. */
int epd_plan_make(struct epd_plan *p, const struct epd_vision_arch *v, long t,
    long h, long w);
void epd_plan_free(struct epd_plan *p);

/* Row and column of a patch in its frame. */
void epd_plan_place(const struct epd_plan *p, long merge, long row, long *y,
    long *x);

#endif
