/*
 * watch.h - a workflow held open to be looked at again and again, as the file
 * system does.  What is told is of one moment, that of the last epd_watch_on, and
 * what is lent lasts until the next.  Nothing is written.  One thread a handle.
 */
#ifndef EPD_FLOW_WATCH_H
#define EPD_FLOW_WATCH_H

#include "base/span.h"
#include "flow/view.h"

struct epd_watch;

/* Fails: as epd_workflow_open.  Owns: the caller owns *out; s outlives it. */
int epd_watch_open(struct epd_watch **out, struct epd_store *s,
    const char *workflow, struct epd_why *why);
void epd_watch_close(struct epd_watch *w);
/*
 * Go on to what is published and in memory now: 1 if that is anything new, else
 * 0.  Fails: EPD_ENOTHING (the workflow is gone; one of its name may be there),
 * EPD_ECORRUPT, -errno; then it shows what it showed.
 */
int epd_watch_on(struct epd_watch *w, struct epd_why *why);
/* Its tables, to read (shard/view.h), leases too. */
struct epd_shard *epd_watch_shard(struct epd_watch *w);
/* Its folder on the memory tier, or -1; the watch's. */
int epd_watch_runs(const struct epd_watch *w);

/* As epd_view_state, epd_view_json and epd_view_tokens of one of its states. */
int epd_watch_state(struct epd_watch *w, uint32_t state, uint32_t version,
    int (*fn)(void *arg, const struct epd_sight *v), void *arg,
    struct epd_why *why);
int epd_watch_json(struct epd_watch *w, uint32_t state, uint32_t version,
    struct epd_buf *out, struct epd_why *why);
int epd_watch_tokens(struct epd_watch *w, uint32_t state, uint32_t version,
    int32_t **ids, uint64_t *n, struct epd_why *why);

/* A page as one version of the workflow shows it; lent for the call. */
struct epd_page_sight {
	const struct epd_page_ref *ref;
	uint64_t node, run, bytes, wall_ms;
	uint32_t k;			/* of the node's pages */
	uint32_t page_tokens;
	const char *kv_dtype;
	uint32_t states, leases;	/* that stand on the node */
	int in_memory;
};
/* The pages of a version in order. */
int epd_watch_table(struct epd_watch *w, uint32_t state, uint32_t version,
    int (*fn)(void *arg, const struct epd_page_sight *p), void *arg,
    struct epd_why *why);
/* Every page that any version of a live state shows; of one name there may be several. */
int epd_watch_pages(struct epd_watch *w,
    int (*fn)(void *arg, const struct epd_page_sight *p), void *arg,
    struct epd_why *why);

/* A page's bytes, there until they are let go, whatever becomes of the state. */
struct epd_pin;
/*
 * The node's kth page, its checksum looked at.  Fails: -ENODATA (in no tier: it would
 * have to be computed again), EPD_ECORRUPT, EPD_ENOTHING (no such node or page), -errno.
 * Owns: the caller owns *out, which needs the watch no more.
 */
int epd_watch_pin(struct epd_watch *w, uint64_t node, uint32_t k,
    struct epd_pin **out, struct epd_why *why);
struct epd_span epd_pin_bytes(const struct epd_pin *p);
void epd_pin_free(struct epd_pin *p);

#endif
