/* fp.h - the floating-point environment in which the bits are promised. */
#ifndef EPD_ENGINE_KERN_FP_H
#define EPD_ENGINE_KERN_FP_H

/*
 * Give the calling thread the default environment (round to nearest, no flush
 * to zero, no traps) and return the one it had, for epd_fp_leave().  Pool
 * threads, epd_pool_run, epd_gemm, epd_attend and the functions of rope.h need
 * none of it; direct use of a table, and arithmetic of one's own, does.  A
 * compiler may move plain arithmetic across these calls: let what is computed
 * between them be in functions called there.
 */
unsigned long epd_fp_enter(void);
void epd_fp_leave(unsigned long was);

#endif
