/*
 * workflow.h - the names people give to what is in a store, and the workflows that
 * are so called.  store.h includes it.
 */
#ifndef EPD_FLOW_WORKFLOW_H
#define EPD_FLOW_WORKFLOW_H

#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

enum { EPD_WORKFLOW = 64 };	/* bytes of a workflow's name with its NUL */

struct epd_shard;
struct epd_store;

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
/* Whether a state is the store's tenant's; true of one that is not there. */
int epd_workflow_serves(const struct epd_workflow *w, const struct epd_store *s,
    uint32_t state);
/* By name and dirfd: 1 if it is gone, as nothing was in it and nobody had its lock. */
int epd_workflow_unmake(struct epd_store *s, const struct epd_workflow *w);
/* Workflow names in natural order (w2 before w10). */
int epd_workflow_each(struct epd_store *s,
    int (*fn)(void *arg, const char *name), void *arg);

#endif
