/*
 * weights.h - the tensors of a checkpoint by what they do.  Matrices are used
 * where they are mapped; biases and norms are kept as floats.
 */
#ifndef EPD_ENGINE_MODEL_WEIGHTS_H
#define EPD_ENGINE_MODEL_WEIGHTS_H

#include "engine/kern/gemm.h"
#include "engine/model/arch.h"
#include "engine/model/safetensors.h"

struct epd_linear {
	struct epd_weight w;	/* [out][in] */
	const float *bias;	/* [out] or NULL */
};

struct epd_norm {
	const float *g, *b;	/* b NULL: RMSNorm */
};

struct epd_layer {
	struct epd_norm norm1, norm2;
	const float *qnorm, *knorm;	/* [dim], NULL but in Qwen3 */
	struct epd_linear q, k, v, o, gate, up, down;
};

struct epd_block {
	struct epd_norm norm1, norm2;
	struct epd_linear qkv, proj, fc1, up, fc2;	/* up in Qwen2.5 only */
};

struct epd_merger {
	long width;		/* of the norm: a patch's or a token's */
	struct epd_norm norm;
	struct epd_linear fc1, fc2;
};

struct epd_weights {
	struct epd_weight embed, head;
	struct epd_norm norm;
	struct epd_layer *layer;
	struct epd_linear patch;
	struct epd_weight table;	/* of positions, [side * side][width] */
	struct epd_block *block;
	struct epd_merger merger, deep[EPD_DEEP_MAX];
	struct epd_room *room;		/* the floats' memory */
};

/*
 * Find and check every tensor the architecture needs; t must outlive w.
 * Fails: EPD_EFORMAT (absent, another shape), EPD_EUNSUPPORTED (another type),
 * -ENOMEM; w then needs no free.
 */
int epd_weights_bind(struct epd_weights *w, const struct epd_arch *a,
    const struct epd_tensors *t, struct epd_why *why);
void epd_weights_free(struct epd_weights *w);

/* n elements of type at p, which may lie at any address, as floats. */
void epd_widen(float *to, enum epd_type type, const void *p, long n);
/* Row i of a matrix as floats. */
void epd_weight_row(float *to, const struct epd_weight *w, long i);

#endif
