/* runs.h - published runs that are mapped, each once.  Not for outsiders. */
#ifndef EPD_FLOW_RUNS_H
#define EPD_FLOW_RUNS_H

#include "page/page.h"
#include "shard/shard.h"

/* Published runs opened so far, each mapped once. */
struct epd_runs;
int epd_runs_new(struct epd_runs **out);
void epd_runs_free(struct epd_runs *r);
/*
 * As epd_run_open, and every page's checksum is looked at the first time.  The
 * pages expected are *out's from *at on; it is the table's.
 */
int epd_runs_get(struct epd_runs *r, int dirfd, uint64_t run,
    const struct epd_run_shape *shape, const struct epd_page_entry *expect,
    long n, struct epd_run **out, long *at, struct epd_why *why);
/*
 * As get, whatever pages the run's table has; of them `count` from `from` on are
 * looked at, and *at is the first of those.
 */
int epd_runs_part(struct epd_runs *r, int dirfd, uint64_t run,
    const struct epd_run_shape *shape, const struct epd_run *table, long from,
    long count, struct epd_run **out, long *at, struct epd_why *why);
/*
 * Look at all checksums once more, unless that was done at this stamp: what was
 * computed stands on these pages.  EPD_ECORRUPT: somebody has written on them since.
 */
int epd_runs_again(struct epd_runs *r, uint64_t stamp, struct epd_why *why);
/* Take a run just published among them.  -ENOMEM, -EEXIST: it stays the caller's. */
int epd_runs_put(struct epd_runs *r, uint64_t run, struct epd_run *map);

/*
 * A version's runs: its links, then its own.  Run i, from 0 on, and how many of
 * the version's pages lie in it; the last has all that are left.
 */
uint64_t epd_version_run(const struct epd_version *v, uint32_t i);
uint32_t epd_version_pages(const struct epd_version *v, uint32_t i);
/* Which run has the version's kth page. */
uint64_t epd_version_where(const struct epd_version *v, uint32_t k);
/* Its pages as a run's table has them.  Owns: the caller's; NULL: no memory. */
struct epd_page_entry *epd_version_entries(const struct epd_version *v);

#endif
