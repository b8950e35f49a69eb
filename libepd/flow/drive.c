/*
 * drive.c - a hand-off's next step, from what both logs say:
 *
 *	source		target		step
 *	PREPARED	-		pull, and be ready; or roll back, as where
 *					the workflow itself is gone
 *	PREPARED	READY		commit, or roll back, at the source
 *	PREPARED	ADOPTED		commit at the source: the target has it
 *	COMMITTED	READY		commit at the target
 *	COMMITTED	COMMITTED	forget at the source
 *	-		READY		roll back at the target: the source did
 *	-		COMMITTED	forget at the target
 *	(away)		COMMITTED	forget at the target, if a person says so or
 *					its time is over: a source without an address
 *					never comes to be seen from there, and one
 *					that has not forgotten finds it in our log
 *	-		ADOPTED		offer it again, if the source rolled back
 *					unknowing; or forget at the target
 *
 * ADOPTED else goes on as COMMITTED does.  Where the source cannot be seen a target
 * only waits, or a person adopts; but a half that came late, to a target that had
 * the state already, may be rolled back.  A step is made durable before the other
 * log rests on it.  Two that drive at once both find each step done; a step that
 * the shard refuses was overtaken, and the logs are read again.  Who pulls too
 * late makes a second half of what has ended: a step is about the half that was
 * seen, no other.
 */
#include <stdio.h>
#include <string.h>

#include "flow/pair.h"

enum { STEPS = 64 };

/* Durable, then decided. */
static int
commit(struct epd_pair *p, struct epd_half *half, struct epd_half *rests_on,
    struct epd_why *why)
{
	int rc = epd_half_sync(rests_on, why);

	if (rc == 0)
		rc = epd_half_commit(half, p->id, why);
	/* Whether the question came through, who lost the line cannot tell. */
	if (half->node && (rc == EPD_EPEER || rc == EPD_ETIMEOUT))
		rc = epd_why(why, EPD_EUNSURE, "%s may have committed: it did "
		    "not answer", half->workflow);
	/* It may be forgotten by others before it is looked at again. */
	p->committed |= rc == 0;
	return rc;
}

static int
rollback(struct epd_pair *p, struct epd_half *half, const char *reason,
    struct epd_why *why)
{
	int rc = epd_half_rollback(half, p->id, reason, why);

	p->undone |= rc == 0 && half == &p->src;
	return rc;
}

static int
forget(struct epd_pair *p, struct epd_half *half, struct epd_half *rests_on,
    struct epd_why *why)
{
	int rc = epd_half_sync(rests_on, why);

	return rc < 0 ? rc : epd_half_forget(half, p->id, why);
}

static int
waits(const struct epd_half *half, struct epd_why *why)
{
	return epd_why(why, EPD_ETIMEOUT, "it waits for %s of %s, which cannot "
	    "be reached: %s", half->workflow, half->store, *half->why.text ?
	    half->why.text : epd_strerror(half->gone));
}

/* The source is pinned and nothing is decided. */
static int
prepared(struct epd_pair *p, enum epd_goal goal, const char *reason,
    struct epd_why *why)
{
	const unsigned target = p->dst.h.phase;
	int rc;

	if (target == EPD_ADOPTED)
		return commit(p, &p->src, &p->dst, why);
	if (target == EPD_COMMITTED)
		return epd_why(why, EPD_ECORRUPT, "the target committed what "
		    "its source has not");
	if (goal == EPD_GOAL_ABORT)
		return rollback(p, &p->src, reason, why);
	if (p->dst.absent && (goal == EPD_GOAL_COMMIT || epd_pair_expired(p)))
		return rollback(p, &p->src, "its target is gone", why);
	/*
	 * One without an address asks before it has the state, and is told no.  But
	 * a person may adopt there, who has been warned.
	 */
	if (epd_half_is_away(&p->dst) && epd_pair_expired(p))
		return rollback(p, &p->src, "its time was over", why);
	/* Out there it may have been adopted: only a person rolls back unseen. */
	if (!epd_half_is_there(&p->dst))
		return goal == EPD_GOAL_SETTLE ? 0 : waits(&p->dst, why);
	if (epd_pair_expired(p) && !(goal == EPD_GOAL_COMMIT &&
	    target == EPD_READY))
		return rollback(p, &p->src, "its time was over", why);
	if (goal == EPD_GOAL_SETTLE)
		return 0;
	if (target == EPD_READY)
		return commit(p, &p->src, &p->dst, why);
	rc = epd_pair_pull(p, why);
	/* It expired: nobody will have it, and it need not wait for that. */
	if (rc == EPD_ENOSTATE)
		(void)rollback(p, &p->src, "it expired", NULL);
	return rc;
}

static int
committed(struct epd_pair *p, enum epd_goal goal, struct epd_why *why)
{
	int had;

	if (!epd_half_is_there(&p->dst))
		return goal == EPD_GOAL_SETTLE ? 0 : waits(&p->dst, why);
	if (p->dst.h.phase == EPD_READY)
		return commit(p, &p->dst, &p->src, why);
	if (p->dst.h.phase)
		return forget(p, &p->src, &p->dst, why);
	/* It was told to forget unseen; its log still tells. */
	if ((had = epd_half_had(&p->dst, p->id, why)) < 0)
		return had;
	if (had)
		return forget(p, &p->src, &p->dst, why);
	return epd_why(why, EPD_ECORRUPT, "the target knows nothing of what "
	    "its source committed");
}

/*
 * Adopted while the source, which could not know, rolled back.  Where nobody has
 * gone on with what it kept, the adopter's is the one that stays.
 */
static int
offer_again(struct epd_pair *p, struct epd_why *why)
{
	struct epd_handoff h = {
		.state = p->dst.h.peer_state, .version = p->dst.h.peer_version,
	};

	memcpy(h.id, p->id, 16);
	epd_pair_point(p, &h);
	return epd_half_prepare(&p->src, &h, why);
}

/* Whether the source gave up what it kept. */
static int
is_aborted(struct epd_pair *p)
{
	enum epd_status status;

	return epd_half_status(&p->src, p->dst.h.peer_state, &status,
	    NULL) == 0 && status == EPD_ABORTED;
}

/* The source knows of nothing. */
static int
unknown(struct epd_pair *p, enum epd_goal goal, struct epd_why *why)
{
	int rc = EPD_ENOSTATE;

	if (!epd_half_is_there(&p->src) && goal == EPD_GOAL_ABORT &&
	    p->dst.h.phase == EPD_READY && epd_half_had(&p->dst, p->id, NULL) == 1)
		return rollback(p, &p->dst, "it came late", why);
	/* One that has no address has forgotten, or finds it in our log. */
	if (epd_half_is_away(&p->src) && p->dst.h.phase == EPD_COMMITTED &&
	    (goal == EPD_GOAL_COMMIT ||
	    (goal == EPD_GOAL_SETTLE && p->dst.expired)))
		return epd_half_forget(&p->dst, p->id, why);
	if (!epd_half_is_there(&p->src))
		return goal == EPD_GOAL_SETTLE ||
		    p->dst.h.phase >= EPD_COMMITTED ? 0 : waits(&p->src, why);
	if (p->dst.h.phase == EPD_READY)
		return rollback(p, &p->dst, "its source rolled back", why);
	if (p->dst.h.phase == EPD_ADOPTED && !is_aborted(p))
		rc = offer_again(p, why);
	if (rc == EPD_EVERSION)
		epd_log(&epd_pair_near(p)->s->log, "op=adopted why=\"%s/s%u has gone on, "
		    "and so may who adopted it\"", p->src.workflow,
		    p->dst.h.peer_state);
	return rc != EPD_ENOSTATE && rc != EPD_EVERSION ? rc :
	    forget(p, &p->dst, &p->src, why);
}

static int
step(struct epd_pair *p, enum epd_goal goal, const char *reason,
    struct epd_why *why)
{
	if (p->src.h.phase == EPD_PREPARED)
		return prepared(p, goal, reason, why);
	if (p->src.h.phase)
		return committed(p, goal, why);
	return unknown(p, goal, why);
}

/* The source still has what it offered: it was rolled back. */
static int
is_back(struct epd_pair *p)
{
	enum epd_status status;

	return p->undone || (epd_half_is_there(&p->src) && !p->src.h.phase &&
	    epd_half_status(&p->src, p->state, &status, NULL) == 0);
}

/* Nothing more can be done.  refused: by the last step, or 0. */
static int
ended(struct epd_pair *p, enum epd_goal goal, int refused, struct epd_why *why)
{
	if (goal == EPD_GOAL_SETTLE || p->committed)
		return goal == EPD_GOAL_ABORT ? epd_why(why, EPD_ESTATUS,
		    "it was committed") : 0;
	if (p->src.h.phase || p->dst.h.phase)
		return refused ? refused : epd_why(why, EPD_ETIMEOUT,
		    "it does not go on");
	if (!is_back(p))
		return epd_why(why, EPD_ENOTHING, "it ended meanwhile, and its "
		    "source has the state no more");
	return goal == EPD_GOAL_ABORT ? 0 : epd_why(why, EPD_EABORTED, "it "
	    "was rolled back: its source has the state");
}

/*
 * A step failed.  Once the source has decided nothing is as before; and once the
 * target has too, what is left to do is anybody's.
 */
static int
failed(struct epd_pair *p, enum epd_goal goal, int rc, struct epd_why *why)
{
	char text[sizeof why->text];

	if (!p->committed || goal == EPD_GOAL_SETTLE || rc == EPD_ETIMEOUT)
		return rc;
	if (p->dst.h.phase >= EPD_COMMITTED)
		return ended(p, goal, 0, why);
	snprintf(text, sizeof text, "%s", why && *why->text ? why->text :
	    epd_strerror(rc));
	return epd_why(why, EPD_EUNSURE, "it is committed, but not yet at its "
	    "target: %s", text);
}

int
epd_pair_drive(struct epd_pair *p, enum epd_goal goal, const char *reason,
    struct epd_why *why)
{
	unsigned source = 0, target = 0;
	int rc = 0;

	for (int i = 0; i < STEPS; i++) {
		int looked = epd_pair_look(p, why);

		if (looked < 0)
			return looked;
		if (!p->src.h.phase && !p->dst.h.phase)
			break;
		/* Nothing came of the last step: it waits for somebody. */
		if (i && source == p->src.h.phase && target == p->dst.h.phase)
			break;
		source = p->src.h.phase;
		target = p->dst.h.phase;
		rc = step(p, goal, reason, why);
		if (rc < 0 && rc != EPD_EABORTED && rc != EPD_ESTATUS)
			return failed(p, goal, rc, why);
	}
	return ended(p, goal, rc, why);
}
