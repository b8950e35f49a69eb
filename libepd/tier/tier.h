/*
 * tier.h - where pages are kept.  Here: the memory tier of a store, a folder on
 * tmpfs that is tagged by the store's UUID and held to a cap.
 *
 *	DIR/epd-UUIDHEX/	mode 0700, ours
 *		store		the store's absolute path
 *		pages		which page is where (tier/index.h)
 *		w/WORKFLOW/RUN	run files (page/page.h), and temporaries, of
 *				which drafts (flow/draft.h) count for nothing
 *
 * Pages are a cache: any published run may be unlinked at any moment, and
 * whoever has it mapped keeps it.  So eviction asks nobody (tier/fit.h).
 */
#ifndef EPD_TIER_H
#define EPD_TIER_H

#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "tier/fit.h"
#include "tier/index.h"
#include "tier/lower.h"
#include "tier/mooncake.h"
#include "tier/nvme.h"

struct epd_memory;

#define EPD_DRAFT_PREFIX EPD_TEMP_PREFIX "draft."
int epd_memory_is_draft(const char *name);

/*
 * Open, or make, the memory folder of the store at store_path (absolute)
 * beneath dir.  dir "" is /dev/shm if that is a tmpfs we can write, else the
 * folder `memory` in the store.  A copy of a store that lives has its UUID too
 * and gets a folder of its own.  A folder that is a link, another's, or open to
 * others is refused: -EPERM.  Fails: -EINVAL, -errno.
 * Owns: the caller owns *out.
 */
int epd_memory_open(struct epd_memory **out, const char *dir,
    const uint8_t store_uuid[16], const char *store_path, uint64_t cap,
    struct epd_why *why);
/*
 * The same to look only: nothing is made, and a folder that is not there, or
 * not ours, counts as empty.  One that cannot be looked at does not: -EACCES
 * (of a store of ours), -EMFILE, -errno.  What would change it fails: -EBADF.
 */
int epd_memory_look(struct epd_memory **out, const char *dir,
    const uint8_t store_uuid[16], const char *store_path, uint64_t cap,
    struct epd_why *why);
/*
 * Whether epd_memory_open would be refused the folder, for what stands in its
 * place: -EPERM, which why tells with its name; or 0, and so if there is none.
 */
int epd_memory_shut(const struct epd_memory *m, struct epd_why *why);
void epd_memory_close(struct epd_memory *m);
uint64_t epd_memory_cap(const struct epd_memory *m);
/* The store's folder, lent; -1: there was none. */
int epd_memory_folder(const struct epd_memory *m);

/*
 * A descriptor of the workflow's folder, made on demand; the caller closes it.
 * _find makes nothing: -ENOENT if there is none.
 * Fails: -EINVAL (a name that would leave the folder), -errno.
 */
int epd_memory_dir(struct epd_memory *m, const char *workflow);
int epd_memory_find(struct epd_memory *m, const char *workflow);
/* The workflow's folder and all runs in it; absent is fine. */
int epd_memory_remove(struct epd_memory *m, const char *workflow);
/* Call fn for each workflow's folder; a nonzero return stops and is returned. */
int epd_memory_each(struct epd_memory *m,
    int (*fn)(void *arg, const char *workflow), void *arg);

/*
 * Call fn for what lies in the folder and is none of the above, all told or in
 * one workflow's: path is beneath the folder, its last part lies in dirfd.  A
 * `store` or `pages` that is no file is told too.
 */
typedef int epd_memory_strange_fn(void *arg, int dirfd, const char *path);
int epd_memory_strange(struct epd_memory *m, const char *workflow,
    epd_memory_strange_fn *fn, void *arg);

/* Files in a folder of runs, and the bytes that unlinking them gives back. */
int epd_memory_weigh(int dirfd, uint64_t *names, uint64_t *bytes);
/* Bytes taken up now; a run of several names counts once, the index is in it. */
int epd_memory_used(struct epd_memory *m, uint64_t *bytes);

/*
 * Remove memory folders of ours in dir ("" as in epd_memory_open, /dev/shm
 * only) whose store is gone: the path they name is no store, or one of another
 * UUID.  In those that stay, remove what writers that died left behind.
 * bytes (may be NULL) is what that gave back.  One that cannot be removed hinders
 * no other; failed (may be NULL) is the first such error, or 0.
 * The number of folders removed, or -errno: nothing was looked at.
 */
int epd_memory_sweep(const char *dir, uint64_t *bytes, int *failed);
/*
 * Call fn with the name of each folder that the sweep would remove, and leave all as it
 * is: of a disk that stores share one that is not seen from here may well live.
 */
typedef void epd_memory_unseen_fn(void *arg, const char *name);
int epd_memory_unseen(const char *dir, epd_memory_unseen_fn *fn, void *arg);

#endif
