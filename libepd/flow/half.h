/*
 * half.h - one half of a hand-off: a workflow's log, in a store that this process
 * has open, or in one that a peer serves.  What is said of a half is said the same
 * way in both.  Not for outsiders.
 */
#ifndef EPD_FLOW_HALF_H
#define EPD_FLOW_HALF_H

#include "flow/handoff.h"

/* What stands for the address of a store that has none to be reached by. */
#define EPD_AWAY "away:"

struct epd_half {
	char store[4096], workflow[EPD_WORKFLOW];	/* where it is */
	struct epd_store *s;		/* here; or NULL, then */
	struct epd_node *node;		/* at a peer's; or NULL: cannot be reached, for: */
	int gone;
	int absent;			/* its store is there, and has no such workflow */
	uint8_t home[16];		/* the store that it must be, if it is another one */
	struct epd_why why;
	int near;			/* s and w are the caller's */
	struct epd_workflow w;
	uint8_t uuid[16];		/* the workflow that it must be */
	struct epd_handoff h;		/* its strings are void */
	int expired;			/* past h's deadline, by the clock it is of */
	uint64_t end_ns;		/* of all that a peer is asked; 0: as configured */
};
/* What looks, or is another's business, waits no longer for a peer. */
#define EPD_REACH_NS UINT64_C(5000000000)
/* And behind the deadline, for what ends it. */
#define EPD_GRACE_NS UINT64_C(1000000000)

/* Where it is said to be; nothing is open. */
void epd_half_place(struct epd_half *half, const char *store,
    const char *workflow);
/*
 * Open it, only to look if near was.  One that cannot be reached is no failure: gone
 * and why say so, and absent, for then it has nothing, nor will it ever.
 */
void epd_half_reach(struct epd_half *half, struct epd_store *near);
void epd_half_leave(struct epd_half *half, const struct epd_store *near);
int epd_half_is_away(const struct epd_half *half);	/* it has no address */
static inline int
epd_half_is_there(const struct epd_half *half)
{
	return half->s || half->node;
}

/* By the clock here, of a record made here: its time is over. */
int epd_handoff_expired(const struct epd_handoff *h);

/*
 * For a peer that asks: a state here, pinned for the workflow that `to` names at the
 * peer's.  *h is the half, its strings "".  Fails: as epd_flow_handoff_prepare.
 */
int epd_flow_handoff_offer(struct epd_store *s, const struct epd_offer *o,
    struct epd_half *to, struct epd_handoff *h, uint8_t uuid[16],
    struct epd_why *why);
/* A workflow at a peer's that nothing came of: gone again if nothing is in it. */
int epd_half_unmake(struct epd_half *half);

/* Read its log on: h; phase 0 where it has none. */
int epd_half_look(struct epd_half *half, const uint8_t id[16],
    struct epd_why *why);
/* As the shard's verbs, at the lsn that h has; what that frees is unlinked. */
int epd_half_sync(struct epd_half *half, struct epd_why *why);
int epd_half_commit(struct epd_half *half, const uint8_t id[16],
    struct epd_why *why);
int epd_half_rollback(struct epd_half *half, const uint8_t id[16],
    const char *reason, struct epd_why *why);
int epd_half_forget(struct epd_half *half, const uint8_t id[16],
    struct epd_why *why);
int epd_half_prepare(struct epd_half *half, const struct epd_handoff *h,
    struct epd_why *why);
/* A state's status, or EPD_ENOSTATE. */
int epd_half_status(struct epd_half *half, uint32_t state,
    enum epd_status *out, struct epd_why *why);
/* Whether its log tells of a commit of this hand-off: 1, 0 or an error. */
int epd_half_had(struct epd_half *half, const uint8_t id[16],
    struct epd_why *why);

#endif
