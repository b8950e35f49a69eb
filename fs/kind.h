/*
 * kind.h - the tree: what there is, where, and how it is told.  One row a kind;
 * the rest of the room asks the table.
 */
#ifndef EPD_FS_KIND_H
#define EPD_FS_KIND_H

#include <sys/stat.h>

#include "epd.h"

enum epd_fs_id {
	EPD_FS_ROOT, EPD_FS_README, EPD_FS_METRICS, EPD_FS_EVENTS,
	EPD_FS_WORKFLOWS, EPD_FS_WORKFLOW, EPD_FS_LOG, EPD_FS_CHECK,
	EPD_FS_LEASES, EPD_FS_STATES, EPD_FS_HANDOFFS,
	EPD_FS_HANDOFF, EPD_FS_PHASE, EPD_FS_SOURCE, EPD_FS_TARGET,
	EPD_FS_DEADLINE, EPD_FS_DECISION,
	EPD_FS_STATE, EPD_FS_STATE_JSON, EPD_FS_STATUS, EPD_FS_VERSION_NO,
	EPD_FS_EPOCH, EPD_FS_REASON, EPD_FS_TTL, EPD_FS_OWNER,
	EPD_FS_REST, EPD_FS_TOOL,
	EPD_FS_PARENT, EPD_FS_CHILDREN, EPD_FS_CHILD, EPD_FS_FORKS,
	EPD_FS_VERSIONS, EPD_FS_VERSION, EPD_FS_VERSION_JSON, EPD_FS_SAY,
	EPD_FS_CTL,
	EPD_FS_SAMPLER, EPD_FS_TEXT, EPD_FS_MESSAGES, EPD_FS_TOKENS,
	EPD_FS_TABLE, EPD_FS_TABLE_PAGE, EPD_FS_BUNDLES, EPD_FS_BUNDLE,
	EPD_FS_PAGES, EPD_FS_PAGE, EPD_FS_FEATURES, EPD_FS_FEATURE,
	EPD_FS_META, EPD_FS_BLOB, EPD_FS_IMAGE,
	EPD_FS_TIERS, EPD_FS_TIER, EPD_FS_USED, EPD_FS_CAPACITY,
	EPD_FS_TIER_PAGES,
	EPD_FS_KINDS
};

/* What a node shows; beneath a directory its own words go on. */
struct epd_fs_at {
	enum epd_fs_id kind;
	uint32_t state, version;	/* version 0: the newest */
	uint32_t index;			/* of a page, feature, child, tier */
	uint32_t depth;			/* levels below where states/sN is */
	struct epd_name id;		/* of a page, feature, hand-off (16 bytes) */
	char workflow[EPD_WORKFLOW];
	uint64_t life;			/* tells it from others that had its name */
};

struct epd_fs;

/* An entry of a directory; a nonzero return stops the listing. */
typedef int epd_fs_entry_fn(void *arg, const char *name,
    const struct epd_fs_at *at);

enum epd_fs_how {
	EPD_FS_FIXED = 1,	/* never changes: kept by the kernel */
	EPD_FS_GROWS = 2,	/* only ever added to: read on at its end */
	EPD_FS_ASIDE = 4,	/* may take long or wait: text without the lock */
	EPD_FS_WRITES = 8,	/* takes writes */
	EPD_FS_MAYBE = 16,	/* there only if what it holds can be had */
	EPD_FS_FLEETS = 32	/* changes though its workflow does not */
};

struct epd_fs_kind {
	const char *name;	/* NULL: one of many */
	uint64_t in;		/* of the kinds, bits: the directories it is in */
	mode_t mode;
	unsigned how;
	/* A directory of many: find one, list all.  at is the directory's. */
	int (*find)(struct epd_fs *fs, const struct epd_fs_at *at,
	    const char *name, struct epd_fs_at *out);
	int (*list)(struct epd_fs *fs, const struct epd_fs_at *at,
	    epd_fs_entry_fn *fn, void *arg);
	/* What a file or a link holds; why may be NULL. */
	int (*text)(struct epd_fs *fs, const struct epd_fs_at *at,
	    struct epd_buf *out, struct epd_why *why);
	/* Its size without that; -EAGAIN: it is not known, and out is the best guess. */
	int (*size)(struct epd_fs *fs, const struct epd_fs_at *at,
	    uint64_t *out);
};
const struct epd_fs_kind *epd_fs_kind(enum epd_fs_id id);

/* The entry of that name; -ENOENT, -errno.  Under the lock, as all of these but
   the text of those that are EPD_FS_ASIDE. */
int epd_fs_find(struct epd_fs *fs, const struct epd_fs_at *dir,
    const char *name, struct epd_fs_at *out);
/* All entries, the fixed ones first. */
int epd_fs_list(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg);
/* at becomes what lies in it under a kind's fixed name. */
struct epd_fs_at epd_fs_in(const struct epd_fs_at *dir, enum epd_fs_id kind);

#endif
