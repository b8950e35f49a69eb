/*
 * fork.h - branches, and a state's moves from one status to another.  Outside
 * this room include shard/shard.h.
 */
#ifndef EPD_SHARD_FORK_H
#define EPD_SHARD_FORK_H

#include <stdint.h>

#include "base/err.h"

struct epd_shard;
struct epd_state;
struct epd_version;

/*
 * fork_state: branches that begin at @1 where the state's version stands, each
 * with a salt of its own for the sampler; theirs are *first and the numbers
 * behind it.
 * Costs the branches, whatever the context.
 * Fails: EPD_ENOSTATE, EPD_ENOTHING (no such version), EPD_EVERSION,
 * EPD_ESTATUS (its status, or mid-hand-off), EPD_ELOCKED (under a decode
 * lease), and as create; no branch was made then.
 */
struct epd_fork_ask {
	uint32_t state, version;	/* version 0: the newest */
	uint32_t expect;		/* its newest; 0: whatever it is */
	uint32_t branches;
	int replace;			/* the parent ends in the same record */
	int has_seed;
	uint64_t seed;
	uint64_t ttl_ms;		/* of the branches; 0: the parent's */
	const char *reason;
};
int epd_shard_fork(struct epd_shard *s, const struct epd_fork_ask *f,
    uint32_t *first, struct epd_why *why);
/*
 * Branches that share nothing: each is created with these traits and with v, but
 * for its salt, its time to live and where it comes from.  All, and the end of
 * the parent, under one lock and as one frame if they fit; elsewise in several, and
 * a crash may leave the first of them.  f->version is said.
 * Fails: as both; EPD_EUNSURE: any of them may be there, and why names them.
 */
int epd_shard_fork_alone(struct epd_shard *s, const struct epd_fork_ask *f,
    const struct epd_state *traits, const struct epd_version *v,
    uint32_t *first, struct epd_why *why);

/*
 * To and from SUSPECT (what it needs cannot be reached now), and to ABORTED,
 * which only release leads out of.  What expired may be cleared or aborted, and
 * is reclaimed then.  Fails: EPD_ENOSTATE, EPD_ESTATUS, as create.
 */
int epd_shard_suspect(struct epd_shard *s, uint32_t id, const char *reason,
    struct epd_why *why);
int epd_shard_clear(struct epd_shard *s, uint32_t id, const char *reason,
    struct epd_why *why);
int epd_shard_abort(struct epd_shard *s, uint32_t id, const char *reason,
    struct epd_why *why);

#endif
