/*
 * attn.h - attention over pages of keys and values.
 *
 * A row's result is a function of its query, its tokens count and the pages'
 * bytes: not of the rows beside it, the threads, or how a prefix is shared.
 */
#ifndef EPD_ENGINE_KERN_ATTN_H
#define EPD_ENGINE_KERN_ATTN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/kern/kern.h"
#include "engine/kern/pool.h"

/*
 * One layer's part of a page is [heads]{ K: [page/16][dim][16], V: [page][dim] }:
 * sixteen tokens' keys lie side by side, so that a score is one chain of fma
 * over dim in ascending order, token t in lane t mod 16.
 */
struct epd_kv {
	enum epd_type type;	/* EPD_F32 or EPD_BF16 */
	int heads;		/* of keys and values */
	int dim;		/* of a head, at most 256 */
	int page;		/* tokens: 16, 32 or 64 */
};

/* Bytes of one layer's part of a page. */
size_t epd_kv_bytes(const struct epd_kv *kv);

/*
 * Store token t's key and value of one head, dim floats each, t counted from
 * the page's first; rounded to nearest even if the type is bf16.
 */
void epd_kv_put(const struct epd_kv *kv, void *layer_part, int head, int t,
    const float *k, const float *v);

/* n numbers; to nearest even, denormals kept, a NaN stays one.  No overlap. */
void epd_bf16_from_f32(uint16_t *to, const float *from, size_t n);
void epd_bf16_to_f32(float *to, const uint16_t *from, size_t n);

/*
 * A query row sees tokens [0, tokens).  q and out are [query heads][dim].
 * pages[i] is the layer's part of the page that holds token i * page.  Rows
 * that share pages should be neighbours: a shared page is then read once.
 */
struct epd_attn_row {
	const float *q;
	float *out;
	const void *const *pages;
	long tokens;
};

/*
 * heads query heads, a multiple of kv->heads; scores are scaled by scale.
 * Values of tokens that some row here sees must be finite; what lies past them
 * in a page is not used.
 * Fails: -ENOMEM; out is then undefined.
 */
int epd_attend(const struct epd_kern *kern, struct epd_pool *pool,
    const struct epd_kv *kv, int heads, float scale,
    const struct epd_attn_row *rows, long n);

#endif
