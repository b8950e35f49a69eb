/* pair.h - the two halves of a hand-off, opened.  Not for outsiders. */
#ifndef EPD_FLOW_PAIR_H
#define EPD_FLOW_PAIR_H

#include "flow/half.h"
#include "flow/whole.h"

struct epd_pair {
	uint8_t id[16];
	struct epd_half src, dst;
	struct epd_moved moved;
	int committed, undone;		/* some half was seen to be; by this call */
	uint32_t state, version, to_state;	/* seen, or 0 */
};

/*
 * Open the halves that a workflow's record tells of: w's own, lent, and the
 * other one where that says, only to look if s was.  One that cannot be reached
 * is no failure.  One that is absent has nothing, nor will it ever.  No peer is waited
 * for beyond the hand-off's deadline, or EPD_REACH_NS where that is over or near.
 */
int epd_pair_open(struct epd_pair *p, struct epd_store *s,
    struct epd_workflow *w, const struct epd_handoff *h, struct epd_why *why);
/* The same, and none beyond end_ns. */
int epd_pair_open_by(struct epd_pair *p, struct epd_store *s,
    struct epd_workflow *w, const struct epd_handoff *h, uint64_t end_ns,
    struct epd_why *why);
void epd_pair_close(struct epd_pair *p);
/*
 * Read both logs on; phase 0 where a half is not there.  The target's is as it
 * was at a time when the source's was as it is told.
 */
int epd_pair_look(struct epd_pair *p, struct epd_why *why);
int epd_pair_expired(const struct epd_pair *p);
/* The caller's half. */
static inline struct epd_half *
epd_pair_near(struct epd_pair *p)
{
	return p->src.near ? &p->src : &p->dst;
}
/* What the source's record says of its other half: who and where that is. */
void epd_pair_point(const struct epd_pair *p, struct epd_handoff *h);
void epd_pair_tell(const struct epd_pair *p, struct epd_handed *out);

/* The target's half: pull what the source has, and be ready. */
int epd_pair_pull(struct epd_pair *p, struct epd_why *why);

/* A peer's state, of which another is begun here. */
struct epd_clone {
	uint32_t state;			/* the new one */
	uint32_t version;		/* of the other, at which it was read */
	uint8_t from[16];		/* its workflow */
};
/* p->src has node, workflow, state and version; p->dst is near. */
int epd_pair_clone(struct epd_pair *p, struct epd_clone *out,
    struct epd_why *why);

enum epd_goal { EPD_GOAL_COMMIT, EPD_GOAL_ABORT, EPD_GOAL_SETTLE };
/* Step by step until the goal, or nothing more can be done. */
int epd_pair_drive(struct epd_pair *p, enum epd_goal goal, const char *reason,
    struct epd_why *why);

#endif
