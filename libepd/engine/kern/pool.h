/*
 * pool.h - a few threads that share out numbered items.  Which thread runs an
 * item, and when, must not show in what it computes.
 */
#ifndef EPD_ENGINE_KERN_POOL_H
#define EPD_ENGINE_KERN_POOL_H

#include <stddef.h>

struct epd_pool;

enum { EPD_POOL_MAX = 256 };

/* item is in [0, items); who is the worker, in [0, threads). */
typedef void epd_pool_fn(void *arg, long item, int who);

/*
 * threads, 1 to EPD_POOL_MAX, includes the caller.
 * NULL: no memory, no threads, or a number out of range.
 */
struct epd_pool *epd_pool_new(int threads);
/* NULL is fine. */
void epd_pool_free(struct epd_pool *p);
int epd_pool_threads(const struct epd_pool *p);
/* Bytes of second-level cache one thread may count on. */
long epd_pool_cache(const struct epd_pool *p);

/*
 * Run fn on every item and return when all are done.  fn computes under the
 * default floating-point environment, whatever the caller's, and may not run
 * the pool again.  One caller at a time.
 */
void epd_pool_run(struct epd_pool *p, epd_pool_fn *fn, void *arg, long items);

/*
 * Worker who's own memory of at least n bytes, 64-aligned, its contents lost
 * between runs; or, if who is threads, the caller's own.  NULL: no memory.
 * Owns: the pool.
 */
void *epd_pool_scratch(struct epd_pool *p, int who, size_t n);

#endif
