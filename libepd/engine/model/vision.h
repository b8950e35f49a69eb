/* vision.h - a vision tower at work on one image, piece by piece. */
#ifndef EPD_ENGINE_MODEL_VISION_H
#define EPD_ENGINE_MODEL_VISION_H

#include "engine/kern/attn.h"
#include "engine/model/inside.h"
#include "engine/model/plan.h"

struct epd_tower {
	struct epd_engine *e;
	const struct epd_vision_arch *v;
	struct epd_plan plan;
	float *x;		/* [n][width], in row order */
	float *cs, *sn;		/* [max(h, w)][dim / 4] */

	/* Keys and values of one block, by segments of one or the other kind. */
	struct epd_kv kv;
	const struct epd_segments *seg;
	char *page;
	const void **table;	/* of pages */
	size_t page_size;

	/* One slab of ranks or rows: [at, at + n). */
	long at, n;
	long slab;		/* the most of them, whole tokens */
	float *h, *q, *a, *kvs;	/* [slab][width], kvs [slab][2 width] */
	float *g, *u;		/* [slab][inner or width] */
	struct epd_attn_row *row;
	const struct epd_block *b;
	const struct epd_merger *merger;
};

/* x from the pixels, positions added where the family has them. */
int epd_tower_embed(struct epd_tower *t, const struct epd_image *frames, int n,
    enum epd_resampler how);
/* x = block i of x. */
int epd_tower_block(struct epd_tower *t, long i);
/* rows = m of x: [n / merge^2][hidden]. */
int epd_tower_merge(struct epd_tower *t, const struct epd_merger *m,
    float *rows);

#endif
