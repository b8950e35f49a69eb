/*
 * handoff.h - a state's way from one workflow to another, of this store or
 * another one: two-phase commit between two logs.  Outside this room include
 * shard/shard.h.
 *
 *	source				target
 *	prepare	  pinned
 *					ready	  RESTORING, whole, not yet its
 *	commit	  FREE: the decision
 *					commit	  ACTIVE
 *	forget				forget
 *
 * The decision word is the source's alone: until it says COMMITTED the state is
 * the source's, whatever the target has.  A source that knows no such hand-off
 * has rolled it back.  So the target commits only on COMMITTED in the source's
 * log, the source forgets only after it saw the target's commit, and the target
 * after the source has forgotten.  Only a person's adopt does without: it raises
 * the target's term, and a source that comes back commits to it.
 *
 * Each half is a log of its own; nothing here reads the other's.  That is
 * flow's.
 */
#ifndef EPD_SHARD_HANDOFF_H
#define EPD_SHARD_HANDOFF_H

#include "base/err.h"
#include "shard/types.h"

struct epd_shard;

enum epd_phase {
	EPD_PREPARED = 1, EPD_READY, EPD_COMMITTED, EPD_ADOPTED,
};
const char *epd_phase_name(unsigned phase);	/* "PREPARED"; NULL if none */

/* One half.  Strings are on loan from caller or shard. */
struct epd_handoff {
	uint8_t id[16];
	int target;			/* 0: the source's half */
	enum epd_phase phase;		/* out */
	uint32_t state, version;	/* here */
	uint64_t lsn;			/* out: of its prepare or ready */
	/* the other half */
	uint8_t peer[16];		/* the workflow's uuid, */
	uint8_t home[16];		/* and its store's; zero: this one */
	uint32_t peer_state, peer_version;	/* of the source; a source has 0 */
	uint64_t peer_lsn;		/* the source's prepare; a source has 0 */
	const char *store, *workflow;	/* the store's absolute path; its name */
	/* a source may be rolled back by whoever comes after */
	uint8_t boot[16];
	uint64_t deadline_ms;		/* of that boot's clock */
};

/*
 * The source's half: state at version h->version, which must be its newest,
 * and h's id, peer, store, workflow, boot and deadline_ms.
 * Fails: EPD_ENOSTATE, EPD_EVERSION, EPD_ESTATUS, EPD_ELOCKED (under a decode
 * lease), EPD_ESTATUS too if it is mid-hand-off; as create.  An id that is
 * there with all the same is 0 again.
 */
int epd_shard_prepare(struct epd_shard *s, const struct epd_handoff *h,
    struct epd_why *why);
/*
 * The target's half with its state, RESTORING at @1; *state is its number.  An
 * id that is there gives its state again.
 */
int epd_shard_ready(struct epd_shard *s, const struct epd_handoff *h,
    const struct epd_state *traits, const struct epd_version *v,
    uint32_t *state, struct epd_why *why);
/*
 * Decide a half: the source's COMMIT frees its state, the target's makes it
 * ACTIVE; ABORT is the other way round.  Done before so is 0 again, decided the
 * other way, or unknown, EPD_EABORTED.
 *
 * Who decides from what he read of the other log says by lsn which half that
 * was for: one that was begun again since, with another lsn, is EPD_EABORTED.
 * lsn 0: whatever is there.
 */
int epd_shard_commit_at(struct epd_shard *s, const uint8_t id[16],
    uint64_t lsn, struct epd_why *why);
int epd_shard_rollback_at(struct epd_shard *s, const uint8_t id[16],
    uint64_t lsn, const char *reason, struct epd_why *why);
/* The target's commit without the source, with a new term. */
int epd_shard_adopt(struct epd_shard *s, const uint8_t id[16],
    const char *reason, struct epd_why *why);
/*
 * Forget a half that is COMMITTED or ADOPTED; unknown is 0, else EPD_ESTATUS.  lsn
 * as above.
 */
int epd_shard_forget_at(struct epd_shard *s, const uint8_t id[16],
    uint64_t lsn, struct epd_why *why);

/* -ENOENT: no such half here. */
int epd_shard_handoff(struct epd_shard *s, const uint8_t id[16],
    struct epd_handoff *out);
/* The first that was begun behind that lsn; -ENOENT past the last. */
int epd_shard_handoff_next(struct epd_shard *s, uint64_t lsn,
    struct epd_handoff *out);

#endif
