/* view.h - looking at a store, and letting go; keep.h is for the rest of it. */
#ifndef EPD_FLOW_VIEW_H
#define EPD_FLOW_VIEW_H

#include "base/json.h"
#include "base/span.h"
#include "flow/keep.h"
#include "flow/store.h"

/* One line a state for `ls`. */
struct epd_state_line {
	const char *workflow;
	uint32_t state, versions;
	const char *status;		/* ACTIVE, SHARED, ... (from counts) */
	uint64_t tokens;
	uint32_t images;
	uint64_t pages, missing;	/* pages; those not in memory now */
	uint64_t below;			/* of those, how many the disk's tier has */
	const char *tier, *tool;	/* as of its state (shard/types.h) */
	uint64_t private_bytes, shared_bytes, proportional_bytes;
	uint64_t created_ms, changed_ms, ttl_deadline_ms;
	uint32_t parent_state, parent_version;
};
/*
 * States of a workflow, or of all (NULL), in natural order.  A workflow that
 * cannot be read hides none of the others: its error is returned at the end.
 */
int epd_view_states(struct epd_store *s, const char *workflow,
    int (*fn)(void *arg, const struct epd_state_line *l), void *arg,
    struct epd_why *why);

/* A state at one of its versions; all is lent for the call. */
struct epd_sight {
	struct epd_state_line line;	/* of that version; changed_ms too if it was asked for */
	uint32_t version;
	const char *kv_dtype;
	const struct epd_state *state;
	const struct epd_version *head;		/* what the version adds */
	const struct epd_image_ref *images;	/* line.images of them */
};
/* A summary, no page looked at by itself.  Fails as epd_view_json, or with fn's. */
int epd_view_state(struct epd_store *s, const struct epd_ref *ref,
    int (*fn)(void *arg, const struct epd_sight *v), void *arg,
    struct epd_why *why);

/*
 * What a ref names as one JSON object with schema_version: a state with every
 * field of R's MultimodalState, FeatureBundleRef and KVPageRef, a workflow, or
 * a feature.  Fails: EPD_ENOSTATE, EPD_ENOTHING, -errno.
 */
int epd_view_json(struct epd_store *s, const struct epd_ref *ref,
    struct epd_buf *out, struct epd_why *why);
/* The fields of a log's record, put into an object that has begun. */
void epd_view_record(struct epd_jw *w, const char *workflow,
    const struct epd_record *r);
/* The token ids of a state's version (0: newest), and the text of its tokens is the caller's to make. */
int epd_view_tokens(struct epd_store *s, const struct epd_ref *ref,
    int32_t **ids, uint64_t *n, struct epd_why *why);
/* The model path a state carries, for commands without -m.  Owns: caller frees. */
int epd_flow_model_of(struct epd_store *s, const struct epd_ref *ref,
    char **path, struct epd_why *why);
/* The branches of a workflow drawn as text lines. */
int epd_view_tree(struct epd_store *s, const char *workflow,
    struct epd_buf *out, struct epd_why *why);

/* What a tier here, cpu or nvme, has now: its cap, and if it is asked for the rest. */
struct epd_tier_sight {
	uint64_t used, cap, runs;
};
/* -ENOENT: there is none of it here; -ENOMEM, -errno. */
int epd_view_tier(struct epd_store *s, enum epd_tier tier, int used,
    struct epd_tier_sight *out);
/* Runs of a workflow that nvme has, ascending.  Owns: the caller frees *run. */
int epd_view_packs(struct epd_store *s, const char *workflow, uint64_t **run,
    size_t *n);

/* release_state, and its runs are unlinked. */
int epd_flow_release(struct epd_store *s, const struct epd_ref *ref,
    const char *reason, struct epd_why *why);

/*
 * A state becomes ABORTED: nothing goes on from it, its pages stay, and only
 * release leads out.  Fails: EPD_ENOSTATE, -EPERM (ABORTED already), EPD_ESTATUS
 * (mid-hand-off), EPD_EUSAGE (not a whole state), -errno.
 */
int epd_flow_abort(struct epd_store *s, const struct epd_ref *ref,
    const char *reason, struct epd_why *why);

/* Gauges and counters, R's groups and P's names: Prometheus text, or one JSON object. */
int epd_view_metrics(struct epd_store *s, int json, struct epd_buf *out,
    struct epd_why *why);

#endif
