/*
 * view.h - reading a shard's tables.  Outside this room include shard/shard.h.
 *
 * EPD_ENOSTATE: never was, released, or expired.  EPD_ENOTHING: no such version;
 * 0 means the newest.  -ENOENT: no such node.  What is lent lasts until the next
 * call that appends or catches up.
 */
#ifndef EPD_SHARD_VIEW_H
#define EPD_SHARD_VIEW_H

#include "shard/types.h"

struct epd_shard;

/* One record of the log, as epd_shard_walk tells it. */
struct epd_record {
	uint64_t lsn, term, wall_ms;
	const char *kind;		/* "create", "advance", ... */
	uint32_t state, version;	/* 0: not about one */
	uint32_t tokens, pages;
	uint32_t first, count;		/* states that begin: a fork's */
	int replaced;			/* and the one it is about ended */
	uint64_t lease;			/* 0: not about one */
	int has_handoff;
	uint8_t handoff[16];
	uint64_t bytes;
	const char *reason;		/* or "" */
	const char *status;		/* it moves to, or "" */
	const char *tier, *tool;	/* it is offloaded to; it waits for; or "" */
	const char *owner;		/* the node whose the workflow is from here on; or "" */
};

int epd_shard_state(struct epd_shard *s, uint32_t id, struct epd_state *out);
/* The first live state with an id above `after`; EPD_ENOSTATE past the last. */
int epd_shard_next(struct epd_shard *s, uint32_t after, struct epd_state *out);
int epd_shard_version(struct epd_shard *s, uint32_t id, uint32_t version,
    struct epd_version *out);
/* The node that a version holds. */
int epd_shard_holds(struct epd_shard *s, uint32_t id, uint32_t version,
    uint64_t *node);

/* A node, however many states point at it. */
int epd_shard_node(struct epd_shard *s, uint64_t node, struct epd_version *out);
/* What of it a walk looks at; nothing is lent, so that it may go over all. */
int epd_shard_glance(struct epd_shard *s, uint64_t node,
    struct epd_glance *out);
/* What the tables know of it, no body read. */
struct epd_outline {
	uint64_t node, parent, run, wall_ms;
	uint32_t nlinks;
};
int epd_shard_outline(struct epd_shard *s, uint64_t node,
    struct epd_outline *out);
/* The same of the first node with an id above `after`. */
int epd_shard_outline_next(struct epd_shard *s, uint64_t after,
    struct epd_outline *out);
/* Holders and children of a node. */
int epd_shard_counts(struct epd_shard *s, uint64_t node, uint32_t *heads,
    uint32_t *children);
/* Each live node that has a run, for mark and sweep; v is lent for the call. */
int epd_shard_runs(struct epd_shard *s,
    int (*fn)(void *arg, const struct epd_version *v), void *arg);
/*
 * What lies behind the published end of the log: 0 (nothing, or what a crash
 * leaves, or somebody is at it), 1 (bytes that the next append or a sweep cuts),
 * EPD_ECORRUPT (a writer would refuse it), -errno.  why says what.
 */
int epd_shard_tail(struct epd_shard *s, struct epd_why *why);

/*
 * The log's records as they lie, oldest kept first, and those that come later
 * when it is asked again.  What a checkpoint let go of between two askings is left
 * out: the numbers tell.  One that was told is not told again, though fn refused it.
 * Fails: EPD_ECORRUPT with file and offset, what fn gives, -errno.
 * Owns: the caller owns *out; s outlives it.
 */
struct epd_follow;
int epd_follow_open(struct epd_follow **out, struct epd_shard *s);
int epd_follow_on(struct epd_follow *f,
    int (*fn)(void *arg, const struct epd_record *r), void *arg,
    struct epd_why *why);
void epd_follow_close(struct epd_follow *f);

#endif
