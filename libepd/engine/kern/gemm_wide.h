/* gemm_wide.h - epd_gemm() for many rows, by a table that has wide(). */
#ifndef EPD_ENGINE_KERN_GEMM_WIDE_H
#define EPD_ENGINE_KERN_GEMM_WIDE_H

#include "engine/kern/gemm.h"

/* As epd_gemm(), for m and k of at least 1. */
int epd_gemm_wide(const struct epd_kern *kern, struct epd_pool *pool, long m,
    const float *x, long ldx, const struct epd_weight *w, const float *bias,
    float *y, long ldy);

#endif
