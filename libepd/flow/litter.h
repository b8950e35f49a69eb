/*
 * litter.h - what lies in a store and in its tiers' folders and is nobody's: told
 * by check, taken by gc.  Not for outsiders.
 */
#ifndef EPD_FLOW_LITTER_H
#define EPD_FLOW_LITTER_H

#include "flow/view.h"

/* A fault: it shuts somebody out, and nothing here mends it. */
typedef void epd_litter_fn(void *arg, enum epd_finding what, const char *text);

struct epd_teller {
	struct epd_store *s;
	epd_litter_fn *fn;
	void *arg;
	const char *about;	/* "w1: ", or "" */
};
void epd_tell(const struct epd_teller *t, enum epd_finding what,
    const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* "a plain file", "a folder", ... */
const char *epd_kind_of(mode_t mode);

/* Files of the store itself, and of the memory folder.  -ENOMEM, -errno. */
int epd_litter_of_store(struct epd_store *s, epd_litter_fn *fn, void *arg);
/*
 * A workflow's lock, the tail of its log, runs that no version shows, drafts that
 * nobody writes; alone, with
 * what epd_litter_of_store tells of its folders.  Reads the log on.
 */
int epd_litter_of_workflow(struct epd_store *s, struct epd_workflow *w,
    int alone, epd_litter_fn *fn, void *arg);
/* Take what gc takes of the store's, and what is strange in the memory folder. */
int epd_litter_take(struct epd_store *s, struct epd_swept *out);

/* Names in the store's folders that are not the store's; or in a workflow's. */
int epd_stray_tell(const struct epd_teller *t, const char *workflow);
/* Caches that are no files. */
int epd_stray_take(struct epd_store *s, struct epd_swept *out);
/* Remove it and count it, with the bytes that gives back. */
void epd_litter_remove(int dirfd, const char *name, uint64_t *n,
    uint64_t *bytes);

/* Runs in no order, or sorted. */
struct epd_run_ids {
	uint64_t *v;
	size_t n, cap;
};
int epd_run_ids_add(struct epd_run_ids *l, uint64_t run);	/* -ENOMEM */
void epd_run_ids_free(struct epd_run_ids *l);
/* Those that lie in a folder (-1: none), sorted. */
int epd_run_ids_list(struct epd_run_ids *l, int dir);
int epd_run_ids_has(const struct epd_run_ids *l, uint64_t run);

/*
 * Add the runs in a folder of the workflow's that no version shows, nor comes to show
 * in a moment, which is waited for if there are any.  Reads the log on.
 */
int epd_orphans(struct epd_run_ids *o, const struct epd_workflow *w, int dir,
    struct epd_why *why);

/* 0: no folder of the store has that name. */
int epd_is_workflow(const struct epd_store *s, const char *name);
/* What unlinking a file gives back: nothing while it has another name. */
struct stat;
uint64_t epd_bytes_back(const struct stat *st);

#endif
