/*
 * folder.h - a tier's folder, memory's or the disk's, and what lies there and is
 * nobody's: told by check, taken by gc.  Not for outsiders.
 */
#ifndef EPD_FLOW_FOLDER_H
#define EPD_FLOW_FOLDER_H

#include "flow/litter.h"
#include "flow/tiers.h"

struct epd_folder {
	struct epd_memory *m;
	const char *name;		/* "memory folder" */
	const char *where;		/* " in memory", or "" */
};
static inline struct epd_folder
epd_folder_memory(struct epd_store *s)
{
	return (struct epd_folder){ s->memory, "memory folder", "" };
}
/* m is NULL where there is none. */
static inline struct epd_folder
epd_folder_disk(struct epd_store *s)
{
	return (struct epd_folder){ epd_store_disk(s, 0), "nvme folder",
	    " in nvme" };
}

/* In all of it or a workflow's.  index: something stands in the index's place. */
int epd_folder_tell_strange(const struct epd_teller *t,
    const struct epd_folder *f, const char *workflow, int *index);
/* Folders of no workflow. */
int epd_folder_tell_adrift(const struct epd_teller *t,
    const struct epd_folder *f);
/* What writers would be refused. */
void epd_folder_tell_shut(const struct epd_teller *t,
    const struct epd_folder *f);
/* Runs in dir that no version shows, but for those of the last second. */
void epd_folder_tell_orphans(const struct epd_teller *t,
    const struct epd_folder *f, int dir, const struct epd_run_ids *o);

/* How many went, and what that gave back, is added. */
int epd_folder_take_strange(struct epd_store *s, const struct epd_folder *f,
    uint64_t *n, uint64_t *bytes);
typedef void epd_folder_failed_fn(void *arg, int rc, const char *text);
/* One that cannot be removed hinders no other, and failed is told. */
int epd_folder_take_adrift(struct epd_store *s, const struct epd_folder *f,
    uint64_t *n, uint64_t *bytes, epd_folder_failed_fn *failed, void *arg);

#endif
