/*
 * litter.h - what lies in a store and in its memory folder and is nobody's: told
 * by check, taken by gc.  Not for outsiders.
 */
#ifndef EPD_FLOW_LITTER_H
#define EPD_FLOW_LITTER_H

#include "flow/view.h"

/* damage: it shuts somebody out, and nothing here mends it; else gc takes it. */
typedef void epd_litter_fn(void *arg, int damage, const char *text);

/* Files of the store itself, and of the memory folder.  -ENOMEM, -errno. */
int epd_litter_of_store(struct epd_store *s, epd_litter_fn *fn, void *arg);
/*
 * A workflow's lock, the tail of its log, runs that no version shows; alone, with
 * what epd_litter_of_store tells of its folder in memory.  Reads the log on.
 */
int epd_litter_of_workflow(struct epd_store *s, struct epd_workflow *w,
    int alone, epd_litter_fn *fn, void *arg);
/* Take what gc takes of the store's, and all that is strange in the memory folder. */
int epd_litter_take(struct epd_store *s, struct epd_swept *out);

/*
 * Runs in a workflow's folder, found first; then, once the log is read on, those
 * stay that no version shows.
 */
struct epd_orphans {
	uint64_t *run;
	size_t n, cap;
};
int epd_orphans_find(struct epd_orphans *o, int runs);
int epd_orphans_keep(struct epd_orphans *o, const struct epd_workflow *w,
    struct epd_why *why);
void epd_orphans_free(struct epd_orphans *o);
/* A hand-off links runs there, which no record has yet; unsure counts as no. */
int epd_is_pulled_into(const struct epd_workflow *w);

/* What unlinking a file gives back: nothing while it has another name. */
struct stat;
uint64_t epd_bytes_back(const struct stat *st);

#endif
