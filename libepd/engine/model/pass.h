/* pass.h - one slab of rows, of any sequences, through the text model. */
#ifndef EPD_ENGINE_MODEL_PASS_H
#define EPD_ENGINE_MODEL_PASS_H

#include "engine/kern/attn.h"
#include "engine/model/inside.h"

/* A new token. */
struct epd_row {
	const struct epd_chunk *chunk;
	long in;			/* index in the chunk */
	const struct epd_visual *visual;	/* it is of; or NULL */
	void **table;			/* this layer's part of its pages */
	float *logits;			/* or NULL */
};

struct epd_pass {
	struct epd_engine *e;
	const struct epd_text_arch *t;
	const struct epd_weights *w;
	struct epd_kv kv;
	struct epd_row *row;
	long n;
	void **table;			/* the tables of all chunks here */
	long entries;
	float *x, *h;			/* [n][hidden] */
	float *q, *a;			/* [n][heads * dim] */
	float *k, *v;			/* [n][kv_heads * dim] */
	float *g, *u;			/* [n][inner] */
	float *cs, *sn;			/* [n][dim / 2] */
	struct epd_attn_row *at;
	float *logits;			/* [EPD_APART][vocab] */
	long layer;
	const struct epd_layer *l;
};

/* Rows whose logits lie apart are multiplied together, this many. */
enum { EPD_APART = 16 };

/* x of the first layer, and the angles. */
void epd_pass_begin(struct epd_pass *p);
/* x = layer i of x.  After the last, only rows with logits are left in p. */
int epd_pass_layer(struct epd_pass *p, long i, struct epd_why *why);
int epd_pass_logits(struct epd_pass *p, struct epd_why *why);

#endif
