/*
 * drive.c - a hand-off's next step, from what both logs say:
 *
 *	source		target		step
 *	PREPARED	-		pull, and be ready; or roll back
 *	PREPARED	READY		commit, or roll back, at the source
 *	PREPARED	ADOPTED		commit at the source: the target has it
 *	COMMITTED	READY		commit at the target
 *	COMMITTED	COMMITTED	forget at the source
 *	-		READY		roll back at the target: the source did
 *	-		COMMITTED	forget at the target
 *
 * ADOPTED goes on as COMMITTED does.  A step is made durable before the other
 * log rests on it.  Two that drive at once both find each step done.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "flow/pair.h"

enum { STEPS = 64 };

static void
freed(void *arg, uint64_t run)
{
	const struct epd_half *half = arg;

	if (half->w.runs >= 0)
		(void)epd_run_free(half->w.runs, run);
}

/* Durable, then decided; what that freed is unlinked. */
static int
commit(struct epd_half *half, struct epd_half *rests_on, const uint8_t id[16],
    struct epd_why *why)
{
	int rc = epd_shard_sync(rests_on->w.shard, why);

	if (rc == 0)
		rc = epd_shard_commit(half->w.shard, id, why);
	epd_shard_tell(half->w.shard, freed, half);
	return rc;
}

static int
rollback(struct epd_half *half, const uint8_t id[16], const char *reason,
    struct epd_why *why)
{
	int rc = epd_shard_rollback(half->w.shard, id, reason, why);

	epd_shard_tell(half->w.shard, freed, half);
	return rc;
}

static int
forget(struct epd_half *half, struct epd_half *rests_on, const uint8_t id[16],
    struct epd_why *why)
{
	int rc = epd_shard_sync(rests_on->w.shard, why);

	return rc < 0 ? rc : epd_shard_forget(half->w.shard, id, why);
}

static int
waits(const struct epd_half *half, struct epd_why *why)
{
	return epd_why(why, EPD_ETIMEOUT, "%s of %s cannot be reached; it "
	    "waits", half->workflow, half->store);
}

/* The source is pinned and nothing is decided. */
static int
prepared(struct epd_pair *p, enum epd_goal goal, const char *reason,
    struct epd_why *why)
{
	const unsigned target = p->dst.h.phase;

	if (target == EPD_ADOPTED)
		return commit(&p->src, &p->dst, p->id, why);
	if (target == EPD_COMMITTED)
		return epd_why(why, EPD_ECORRUPT, "the target committed what "
		    "its source has not");
	if (goal == EPD_GOAL_ABORT)
		return rollback(&p->src, p->id, reason, why);
	if (epd_pair_expired(p) && !(goal == EPD_GOAL_COMMIT &&
	    target == EPD_READY))
		return rollback(&p->src, p->id, "its time was over", why);
	if (goal == EPD_GOAL_SETTLE)
		return 0;
	if (!p->dst.s)
		return waits(&p->dst, why);
	return target == EPD_READY ? commit(&p->src, &p->dst, p->id, why) :
	    epd_pair_pull(p, why);
}

static int
committed(struct epd_pair *p, enum epd_goal goal, struct epd_why *why)
{
	if (!p->dst.s)
		return goal == EPD_GOAL_SETTLE ? 0 : waits(&p->dst, why);
	if (p->dst.h.phase == EPD_READY)
		return commit(&p->dst, &p->src, p->id, why);
	if (p->dst.h.phase)
		return forget(&p->src, &p->dst, p->id, why);
	return epd_why(why, EPD_ECORRUPT, "the target knows nothing of what "
	    "its source committed");
}

/* The source knows of nothing. */
static int
unknown(struct epd_pair *p, enum epd_goal goal, struct epd_why *why)
{
	if (!p->src.s)
		return goal == EPD_GOAL_SETTLE ||
		    p->dst.h.phase >= EPD_COMMITTED ? 0 : waits(&p->src, why);
	if (p->dst.h.phase == EPD_READY)
		return rollback(&p->dst, p->id, "its source rolled back", why);
	return forget(&p->dst, &p->src, p->id, why);
}

static int
step(struct epd_pair *p, enum epd_goal goal, const char *reason,
    struct epd_why *why)
{
	int rc;

	if (p->src.h.phase == EPD_PREPARED)
		rc = prepared(p, goal, reason, why);
	else if (p->src.h.phase)
		rc = committed(p, goal, why);
	else
		rc = unknown(p, goal, why);
	/* Another drove it on meanwhile: look again. */
	return rc == EPD_EABORTED || rc == EPD_ESTATUS ? 0 : rc;
}

int
epd_pair_drive(struct epd_pair *p, enum epd_goal goal, const char *reason,
    struct epd_why *why)
{
	unsigned source = 0, target = 0;
	int rc = 0;

	for (int i = 0; i < STEPS; i++) {
		if ((rc = epd_pair_look(p, why)) < 0)
			return rc;
		if (!p->src.h.phase && !p->dst.h.phase)
			break;
		/* Nothing came of the last step: it waits for somebody. */
		if (i && source == p->src.h.phase && target == p->dst.h.phase)
			break;
		source = p->src.h.phase;
		target = p->dst.h.phase;
		if ((rc = step(p, goal, reason, why)) < 0)
			return rc;
	}
	if (goal == EPD_GOAL_COMMIT && !p->committed)
		return epd_why(why, EPD_EABORTED, "%s",
		    epd_strerror(EPD_EABORTED));
	if (goal == EPD_GOAL_ABORT && p->committed)
		return epd_why(why, EPD_ESTATUS, "it was committed");
	return 0;
}

/* JSON for people: where it came from. */
static void
note(const struct epd_pair *p, char text[EPD_REF_TEXT + 80])
{
	snprintf(text, EPD_REF_TEXT + 80, "{\"command\": \"handoff\", "
	    "\"from\": \"%s/s%u@%u\", \"lsn\": %llu}", p->src.workflow,
	    p->src.h.state, p->src.h.version,
	    (unsigned long long)p->src.h.lsn);
}

/* Whether the state that is ready has the pages of this one. */
static int
is_ours(struct epd_pair *p, const struct epd_whole *f, uint32_t state)
{
	struct epd_version v;

	return epd_shard_version(p->dst.w.shard, state, 1, &v) == 0 &&
	    epd_version_run(&v, 0) == epd_version_run(&f->v, 0);
}

int
epd_pair_pull(struct epd_pair *p, struct epd_why *why)
{
	struct epd_handoff h = {
		.target = 1, .peer_state = p->src.h.state,
		.peer_version = p->src.h.version, .peer_lsn = p->src.h.lsn,
		.store = p->src.store, .workflow = p->src.workflow,
		.deadline_ms = p->src.h.deadline_ms,
	};
	char text[EPD_REF_TEXT + 80];
	struct epd_whole f;
	uint32_t state;
	int rc = epd_whole_make(&f, &p->src.w, p->src.h.state,
	    p->src.h.version, why);

	if (rc < 0)
		return rc;
	memcpy(h.id, p->id, 16);
	memcpy(h.peer, p->src.uuid, 16);
	memcpy(h.boot, p->src.h.boot, 16);
	note(p, text);
	f.v.note = epd_span_str(text);
	rc = epd_whole_features(&f, p->src.s, p->dst.s, &p->moved, why);
	if (rc == 0)
		rc = epd_whole_pages(&f, p->src.w.runs, p->dst.w.runs,
		    &p->moved, why);
	/* What it rests on is in the source's log for good. */
	if (rc == 0)
		rc = epd_shard_sync(p->src.w.shard, why);
	if (rc == 0)
		rc = epd_shard_ready(p->dst.w.shard, &h, &f.traits, &f.v,
		    &state, why);
	if ((rc < 0 && rc != EPD_EUNSURE) || (rc == 0 &&
	    !is_ours(p, &f, state)))
		epd_whole_undo(&f, p->dst.w.runs);
	epd_whole_free(&f);
	return rc;
}
