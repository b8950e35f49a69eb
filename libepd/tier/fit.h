/*
 * fit.h - making room in a tier's folder.  Outside this room include tier/tier.h.
 *
 * What goes first is what was opened longest ago, weighed by what it costs to have it
 * again.  A run's last use is its atime (epd_run_open, epd_run_used), so whoever uses
 * a path stamps its runs in an order that lets the leaves go before what they stand on.
 */
#ifndef EPD_TIER_FIT_H
#define EPD_TIER_FIT_H

#include <stdint.h>

#include "base/err.h"

struct epd_memory;

struct epd_memory_fit {
	uint64_t used, evicted;	/* bytes: left in use, given back */
	uint64_t runs;		/* evicted */
	uint64_t over;		/* bytes above what was asked for */
};

struct epd_memory_ask {
	uint64_t to;		/* bytes that may be in use afterwards */
	/* Which must stay; NULL: none. */
	int (*keep)(void *arg, const char *workflow, uint64_t run);
	/*
	 * What it costs to have a run of so many bytes again, in any unit, above 0; a file
	 * is judged by one of its names.  NULL: all cost alike for a byte.
	 */
	double (*cost)(void *arg, const char *workflow, uint64_t run,
	    uint64_t bytes);
	/*
	 * A name is about to be unlinked: who wants the pages elsewhere moves them now;
	 * `first` is of the file's names the one told before, or this one.
	 */
	void (*going)(void *arg, const char *workflow, uint64_t run,
	    const char *first, uint64_t first_run);
	void *arg;
};
/*
 * Unlink runs until no more than ask->to is in use, the index counted.  All names of a
 * file go or none do.  That kept runs leave no room is no error: all else has gone
 * then, over is not 0, and why says what was in the way.  out may be NULL.
 * Fails: -EBADF (only looked at), -ENOMEM, -errno.
 */
int epd_memory_evict(struct epd_memory *m, const struct epd_memory_ask *ask,
    struct epd_memory_fit *out, struct epd_why *why);
/*
 * The same so that bytes more are within the cap; a request larger than the cap is no
 * error.
 */
int epd_memory_fit(struct epd_memory *m, uint64_t bytes,
    int (*keep)(void *arg, const char *workflow, uint64_t run), void *arg,
    struct epd_memory_fit *out, struct epd_why *why);

#endif
