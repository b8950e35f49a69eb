/* inside.h - what the files of this folder share: the model and the engine. */
#ifndef EPD_ENGINE_MODEL_INSIDE_H
#define EPD_ENGINE_MODEL_INSIDE_H

#include "engine/kern/pool.h"
#include "engine/model/text.h"
#include "engine/model/weights.h"

struct epd_model {
	struct epd_model_info info;
	struct epd_arch arch;
	struct epd_weights weights;
	struct epd_tensors *tensors;
	char *path;
	int dirfd;
};

/* Rows computed together; a longer call goes in slabs of this many. */
enum { EPD_SLAB = 512 };

struct epd_engine {
	const struct epd_model *m;
	const struct epd_kern *kern;
	struct epd_pool *pool;
	float inv[EPD_DIM_MAX / 2];	/* of the text's rotary pairs */
	void *room;			/* the text model's working memory */
	size_t room_size;
	epd_probe_fn *probe;
	void *probe_arg;
};

/*
 * Carve one block into arrays: first with p NULL to learn the size, then from
 * the block.  Each begins at a multiple of 64 bytes.
 */
struct epd_carve {
	char *p;
	size_t n;
};
void *epd_carve(struct epd_carve *c, size_t n, size_t size);

/* y = x w^T + bias over m packed rows. */
int epd_linear_run(struct epd_engine *e, const struct epd_linear *l, long m,
    const float *x, float *y);
/* One row; in place is fine. */
void epd_norm_run(const struct epd_engine *e, const struct epd_norm *n,
    long width, float eps, const float *x, float *y);

/* Tell the probe, if any: name with at behind it, or alone if at < 0. */
void epd_probe(const struct epd_engine *e, const char *name, long at,
    const float *x, long rows, long cols);

/* epd_encode and epd_forward under the floating-point environment of kern. */
int epd_vision_run(struct epd_engine *e, const struct epd_image *frames, int n,
    enum epd_resampler how, float *rows, struct epd_why *why);
int epd_text_run(struct epd_engine *e, const struct epd_page_shape *s,
    const struct epd_chunk *chunk, long n, struct epd_why *why);

#endif
