/*
 * index.h - whole pages by name: in which workflow's folder, in which run and
 * where in it.  Outside this room include tier/tier.h.
 *
 * A file `pages` in the memory tier's folder, shared by every process of the
 * store, a fixed table of sets.  What it says is a hint: it may be old, torn or
 * wrong, and whoever takes it reads the run's table and compares the name.  So
 * it is written without locks, is lost with the tier, and a lost or damaged one
 * is made again from the runs' own tables.  Only pages that were computed here
 * are put in: what a peer or a caller gave serves the workflow that was given it.
 */
#ifndef EPD_TIER_INDEX_H
#define EPD_TIER_INDEX_H

#include "page/page.h"

struct epd_memory;
struct epd_index;

enum { EPD_INDEX_WORKFLOW = 64 };	/* bytes of a workflow's name with its NUL */

/*
 * Open the index of m, made on demand and filled from the runs that are there;
 * one that is damaged, or of a size that does not go with m's cap, is replaced.
 * A folder that may only be looked at: -ENOENT if there is none, EPD_ECORRUPT if
 * it is damaged.
 * Fails: -ENOSPC, -ENOMEM, -errno; one goes on without it then, and NULL is an
 * index that holds nothing and takes nothing.
 * Owns: the caller owns *out; m must outlive it.
 */
int epd_index_open(struct epd_index **out, struct epd_memory *m);
/*
 * The same, but when it is made anew only those of a workflow's runs are put in
 * that `runs` gives, by no order: a file that was linked from elsewhere does not
 * say so itself.  Owns: *run is freed here.  A nonzero return ends the making.
 */
typedef int epd_index_runs(void *arg, const char *workflow, uint64_t **run,
    size_t *n);
int epd_index_open_of(struct epd_index **out, struct epd_memory *m,
    epd_index_runs *runs, void *arg);
/* 0; what open would make anew: -ENOENT (none there), EPD_ECORRUPT, -errno. */
int epd_index_check(const struct epd_memory *m);
void epd_index_close(struct epd_index *x);

/*
 * Say where the full pages of a run lie; others of its n are passed over.  e is
 * the run file's own table, from its first page on.  Not for a run that
 * epd_run_is_given.  What cannot be written is left out.
 */
void epd_index_put(struct epd_index *x, const char *workflow, uint64_t run,
    uint32_t page_tokens, const struct epd_page_entry *e, long n);

struct epd_index_hit {
	char workflow[EPD_INDEX_WORKFLOW];
	uint64_t run;
	uint32_t at;		/* page within the run's file */
};
/* 1 and the hint that was put last, or 0.  Nothing is opened, no time renewed. */
int epd_index_find(const struct epd_index *x, const struct epd_name *name,
    struct epd_index_hit *out);

/* What a hint said is not there: the one before it comes to light again. */
void epd_index_forget(struct epd_index *x, const struct epd_name *name,
    const struct epd_index_hit *hit);

/* Empty it and put in all runs of the tier.  The pages put in, or -errno. */
long epd_index_rebuild(struct epd_index *x);

/* What it takes up, at most 1/64 of a cap of 1 MiB or more; in epd_memory_used. */
uint64_t epd_index_bytes(const struct epd_memory *m);

#endif
