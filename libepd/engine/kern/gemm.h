/* gemm.h - y = x w^T + bias, the same bits for any batch, threads or ISA. */
#ifndef EPD_ENGINE_KERN_GEMM_H
#define EPD_ENGINE_KERN_GEMM_H

#include "engine/kern/kern.h"
#include "engine/kern/pool.h"

/* n rows of k elements, packed, at any address; on loan from a checkpoint. */
struct epd_weight {
	enum epd_type type;
	long n, k;
	const void *data;
};

/*
 * y[i][j] = dot(x row i, w row j) + bias[j], i < m; bias may be NULL.  Rows of
 * x and y are ldx and ldy floats apart.  x and y must not overlap.
 * Fails: -ENOMEM; y is then undefined.
 */
int epd_gemm(const struct epd_kern *kern, struct epd_pool *pool, long m,
    const float *x, long ldx, const struct epd_weight *w, const float *bias,
    float *y, long ldy);

#endif
