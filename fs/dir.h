/*
 * dir.h - for the table of kinds: find and list of each directory of many, and the
 * sizes that are known without a text.  Under the lock.
 */
#ifndef EPD_FS_DIR_H
#define EPD_FS_DIR_H

#include "fs/world.h"

#define EPD_FS_DIRS(X) \
	X(workflow, workflows) X(state, states) X(child, children) \
	X(version, versions) X(part, parts) X(page, pages) \
	X(feature, features) X(handoff, handoffs) X(tier, tiers)
#define X(one, many) \
	int epd_fs_find_##one(struct epd_fs *fs, const struct epd_fs_at *dir, \
	    const char *name, struct epd_fs_at *out); \
	int epd_fs_list_##many(struct epd_fs *fs, \
	    const struct epd_fs_at *dir, epd_fs_entry_fn *fn, void *arg);
EPD_FS_DIRS(X)
#undef X

/* Digits alone behind a prefix, no leading zero; -ENOENT otherwise. */
int epd_fs_number(const char *name, const char *prefix, uint32_t *out);

int epd_fs_size_page(struct epd_fs *fs, const struct epd_fs_at *at,
    uint64_t *out);
int epd_fs_size_blob(struct epd_fs *fs, const struct epd_fs_at *at,
    uint64_t *out);
int epd_fs_size_log(struct epd_fs *fs, const struct epd_fs_at *at,
    uint64_t *out);
int epd_fs_size_events(struct epd_fs *fs, const struct epd_fs_at *at,
    uint64_t *out);
int epd_fs_size_half(struct epd_fs *fs, const struct epd_fs_at *at,
    uint64_t *out);

#endif
