/*
 * store.h - a directory of workflows and features, used by many processes at once.
 *
 *	store procs metrics	one file each
 *	w/NAME/			a workflow (see shard)
 *	features/			the feature cache (see feature)
 *	cache/				what can be made again
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
#include "feature/feature.h"
#include "shard/shard.h"
#include "tier/tier.h"

enum { EPD_WORKFLOW = 64 };	/* bytes of a workflow's name with its NUL */

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
	char tenant[64];
	struct epd_metrics *metrics;
	struct epd_procs *procs;	/* NULL when looking; so cache is -1 */
	struct epd_features *features;
	struct epd_memory *memory;
	struct epd_index *index;	/* NULL until epd_store_index, or if it cannot be had */
	int indexed, read_only;		/* it cannot be written */
	struct epd_owed *owed;		/* leases to be given back (inner.h) */
	size_t nowed, owed_room;
	struct epd_vain { char workflow[EPD_WORKFLOW]; unsigned n; } vain;	/* see shard */
};

struct epd_store_options {
	const char *path;
	const struct epd_config *config;
	const char *tenant;		/* "" is the default tenant */
	struct epd_log log;
	const struct epd_transports *transports;	/* lent, as are codecs; or NULL */
	const struct epd_codecs *codecs;
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

/* "w1/s3", "w1/s3@2", "w1" or "f:HEX"; what is not said is 0 or "". */
enum epd_ref_kind { EPD_REF_WORKFLOW, EPD_REF_STATE, EPD_REF_FEATURE };
struct epd_ref {
	enum epd_ref_kind kind;
	char workflow[EPD_WORKFLOW];
	uint32_t state, version;
	struct epd_name feature;
};
enum { EPD_REF_TEXT = 128 };
/*
 * Hex names may be cut to four digits or more.  Fails: EPD_EUSAGE (not a ref),
 * EPD_ENOTHING (no feature begins so), EPD_EAMBIGUOUS with candidates in why.
 * Whether a workflow or state is there is not asked.
 */
int epd_ref_parse(struct epd_ref *out, struct epd_store *s, const char *text,
    struct epd_why *why);
/* "w1/s3", or with the version "w1/s3@2". */
const char *epd_ref_format(char out[EPD_REF_TEXT], const char *workflow,
    uint32_t state, uint32_t version);

/* A workflow's name: 1 to 63 of [A-Za-z0-9._-], not beginning with . or -. */
int epd_workflow_name_ok(const char *name);
/* Make the first free of w1, w2, ... (name "") or the one named; out gets it. */
int epd_workflow_make(struct epd_store *s, const char *name,
    char out[EPD_WORKFLOW], struct epd_why *why);
/*
 * Open a workflow's shard.  Fails: EPD_ENOTHING (no such workflow), and as
 * epd_shard_open.  *dirfd is closed with epd_workflow_close.
 */
struct epd_workflow {
	char name[EPD_WORKFLOW];
	int dirfd;
	int runs;		/* its folder on the memory tier, or -1 when read_only and absent */
	struct epd_shard *shard;
	struct epd_store *store;	/* of a writer: hears how its lock was had */
};
int epd_workflow_open(struct epd_workflow *out, struct epd_store *s,
    const char *name, int read_only, struct epd_why *why);
void epd_workflow_close(struct epd_workflow *w);
/* By name and dirfd: 1 if it is gone, as nothing was in it and nobody had its lock. */
int epd_workflow_unmake(struct epd_store *s, const struct epd_workflow *w);
/* Workflow names in natural order (w2 before w10). */
int epd_workflow_each(struct epd_store *s,
    int (*fn)(void *arg, const char *name), void *arg);

#endif
