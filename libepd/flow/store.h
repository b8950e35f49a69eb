/*
 * store.h - a directory of workflows and features, used by any number of
 * processes at once; workflow.h has the names people give to what is in it.
 *
 *	store procs metrics	one file each
 *	w/NAME/			a workflow (see shard)
 *	features/			the feature cache (see feature)
 *	cache/				what can be made again
 *	disk/				the tier nvme, if it has no other place (tiers.h)
 */
#ifndef EPD_FLOW_STORE_H
#define EPD_FLOW_STORE_H

#include "base/config.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/transport.h"
#include "dir/dir.h"
#include "feature/feature.h"
#include "flow/workflow.h"
#include "shard/shard.h"
#include "tier/tier.h"

/* Who hears, while it goes on, what takes long and why: a sentence. */
struct epd_listener {
	void (*fn)(void *arg, const char *text);	/* NULL: nobody */
	void *arg;
};

struct epd_store {
	char *path;			/* absolute */
	int dirfd;			/* of the store */
	int workflows;			/* of w/ */
	int cache;			/* of cache/ */
	uint8_t uuid[16];
	struct epd_config config;
	struct epd_log log;
	const struct epd_transports *transports;	/* NULL: no peer can be reached */
	const struct epd_codecs *codecs;
	struct epd_listener listener;
	char tenant[64];
	char node[EPD_NODE_NAME];	/* which one this is; "": there are none */
	struct epd_metrics *metrics;
	struct epd_procs *procs;	/* NULL when looking; so cache is -1 */
	struct epd_features *features;
	struct epd_memory *memory;
	struct epd_dir *dir;		/* where.h; NULL until it is asked for */
	int no_dir;			/* why it cannot be had */
	uint64_t dir_left_ns;		/* till then it is not asked for pages: it was away */
	/* Whose the address is that a node's name was found to mean: who else is there is not it. */
	struct { char address[256]; uint8_t uuid[16]; } named;
	struct epd_memory *disk;	/* of the tier nvme (tiers.h); NULL until it is asked for */
	int no_disk;			/* why it cannot be had */
	int told_below;			/* that the tier below takes nothing (room.c) */
	struct epd_lower *lower[EPD_TIER_COUNT];	/* likewise */
	struct epd_index *index;	/* NULL until epd_store_index, or if it cannot be had */
	int indexed;
	int read_only;			/* it cannot be written */
	struct epd_owed *owed;		/* leases to be given back (inner.h) */
	size_t nowed, owed_room;
	struct epd_vain { char workflow[EPD_WORKFLOW]; unsigned n; } vain;	/* see shard */
	/* Peers that let a wait for them run out: till then they are not asked again. */
	struct epd_hung { uint64_t till_ns; char address[256]; } hung[4];
};

struct epd_store_options {
	const char *path;
	const struct epd_config *config;
	const char *tenant;		/* "" is the default tenant */
	struct epd_log log;
	const struct epd_transports *transports;	/* lent, as are codecs; or NULL */
	const struct epd_codecs *codecs;
	struct epd_listener listener;
	int create;			/* make it if it is not there */
	int look;			/* no verb that changes it follows */
	int still;			/* and nothing at all is written, though it could be */
};
/*
 * To look, a store that cannot be written will do, be it on a read-only file
 * system or another user's: then nothing is written at all, counters neither.
 * One's own is counted in all the same, and mended where a crash left it half
 * made, unless still.
 * Fails: EPD_ENOTHING (not there, create 0), EPD_EKIND (another format),
 * EPD_EFORMAT (a directory that is something else), -EROFS (cannot be written,
 * and is not only looked at), -EPERM (another's that can), -ENOENT (cannot be
 * written, and lacks w or features), -errno.
 * Owns: the caller owns *out and may read its fields.
 */
int epd_store_open(struct epd_store **out, const struct epd_store_options *o,
    struct epd_why *why);
void epd_store_close(struct epd_store *s);
/* The memory tier's index of pages, opened when first needed; NULL without. */
struct epd_index *epd_store_index(struct epd_store *s);

#endif
