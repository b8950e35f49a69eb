/*
 * life.h - the life cycles of states and pages, one table each.  apply() obeys
 * it, check walks it, tests draw sequences from it, a model is made of it: X(from, to,
 * verb, origin, reason), origin R for an edge of the RFC's diagrams, else OURS.
 *
 * SHARED is ACTIVE with a node that others hold or build on too, never stored, with
 * the same ways out.
 */
#ifndef EPD_SHARD_LIFE_H
#define EPD_SHARD_LIFE_H

#include "shard/record.h"

#define EPD_STATE_LIVES(X) \
	X(NONE) X(ACTIVE) X(SHARED) X(OFFLOADING) X(OFFLOADED) X(RESTORING) \
	X(SUSPECT) X(ABORTED) X(FREE)

#define EPD_STATE_MOVES(X) \
	X(NONE, ACTIVE, CREATE, R, "a state begins") \
	X(NONE, SHARED, FORK, OURS, "a branch begins, on its parent's node") \
	X(ACTIVE, SHARED, FORK, R, "agent branch: its nodes are held twice") \
	X(SHARED, SHARED, FORK, OURS, "a shared state forks again") \
	X(ACTIVE, FREE, FORK, OURS, "--replace: the parent becomes its branches") \
	X(SHARED, FREE, FORK, OURS, "--replace of a parent with older branches") \
	X(ACTIVE, ACTIVE, ADVANCE, OURS, "advance_step gives the next version") \
	X(SHARED, SHARED, ADVANCE, OURS, "the others keep the older nodes") \
	X(SHARED, ACTIVE, RELEASE, OURS, "the last other holder was released") \
	X(ACTIVE, FREE, RELEASE, R, "release") \
	X(SHARED, FREE, RELEASE, R, "its own holds go; nodes go at zero") \
	X(ACTIVE, ACTIVE, PREPARE, OURS, "to be handed over: pinned till decided") \
	X(SHARED, SHARED, PREPARE, OURS, "a branch is handed over too") \
	X(ACTIVE, FREE, COMMIT, OURS, "handed over: the target has it") \
	X(SHARED, FREE, COMMIT, OURS, "its branches stay, it went") \
	X(ACTIVE, ACTIVE, ABORT, OURS, "its hand-off rolled back") \
	X(SHARED, SHARED, ABORT, OURS, "its hand-off rolled back") \
	X(NONE, RESTORING, READY, OURS, "a hand-off's target: whole, not yet its") \
	X(RESTORING, ACTIVE, COMMIT, OURS, "the source's log says committed") \
	X(RESTORING, FREE, ABORT, OURS, "the source's log says otherwise") \
	X(ACTIVE, OFFLOADING, OFFLOAD, R, "tool wait or memory pressure") \
	X(SHARED, OFFLOADING, OFFLOAD, OURS, "a branch waits for a tool too") \
	X(OFFLOADING, OFFLOADED, OFFLOAD, OURS, "all is in the tier: it rests") \
	X(OFFLOADING, RESTORING, RESTORE, R, "resume while still moving out") \
	X(OFFLOADED, RESTORING, RESTORE, OURS, "resume after resting") \
	X(RESTORING, RESTORING, RESTORE, OURS, "who restored it died") \
	X(RESTORING, ACTIVE, RESTORE, R, "its pages are back") \
	X(RESTORING, FREE, RELEASE, OURS, "released while its pages come back") \
	X(OFFLOADING, ABORTED, ABORT, OURS, "moving out failed beyond repair") \
	X(OFFLOADING, FREE, RELEASE, OURS, "released while moving out") \
	X(OFFLOADED, FREE, RELEASE, OURS, "released at rest: pages EVICTED to FREED") \
	X(OFFLOADED, ABORTED, ABORT, OURS, "by command, at rest") \
	X(ACTIVE, ACTIVE, WAIT, OURS, "it waits for a tool, or does no more") \
	X(SHARED, SHARED, WAIT, OURS, "a branch waits") \
	X(OFFLOADING, OFFLOADING, WAIT, OURS, "it is told late, or over") \
	X(OFFLOADED, OFFLOADED, WAIT, OURS, "the same at rest") \
	X(ACTIVE, SUSPECT, SUSPECT, OURS, "worker crash; image or model out of reach") \
	X(SHARED, SUSPECT, SUSPECT, OURS, "sharing does not protect from a crash") \
	X(SUSPECT, ACTIVE, RESTORE, OURS, "what was out of reach is back") \
	X(SUSPECT, ABORTED, ABORT, OURS, "by command, or proven impossible") \
	X(ACTIVE, ABORTED, ABORT, R, "failure") \
	X(SHARED, ABORTED, ABORT, OURS, "one branch fails, the others stand") \
	X(ABORTED, FREE, RELEASE, R, "cleanup")

#define EPD_PAGE_LIVES(X) \
	X(NONE) X(ALLOCATED) X(SEALED) X(REFERENCED) X(COW_PRIVATE) \
	X(EVICTING) X(EVICTED) X(RESTORED) X(FREED)

#define EPD_PAGE_MOVES(X) \
	X(NONE, ALLOCATED, "new", OURS, "room in a run not yet published") \
	X(ALLOCATED, SEALED, "publish", R, "prefill complete") \
	X(SEALED, REFERENCED, "log", R, "used by a state") \
	X(REFERENCED, COW_PRIVATE, "copy", R, "write on a shared page") \
	X(COW_PRIVATE, SEALED, "publish", OURS, "the copy goes out with its run") \
	X(REFERENCED, EVICTING, "evict", R, "memory pressure") \
	X(EVICTING, EVICTED, "evict", R, "it is in the lower tier") \
	X(EVICTED, RESTORED, "restore", R, "on-demand restore") \
	X(RESTORED, REFERENCED, "restore", R, "used again") \
	X(REFERENCED, FREED, "release", R, "refcount zero") \
	X(EVICTED, FREED, "release", OURS, "refcount zero while in a lower tier") \
	X(ALLOCATED, FREED, "close", OURS, "its run was never published") \
	X(COW_PRIVATE, FREED, "close", OURS, "its run was never published") \
	X(SEALED, FREED, "sweep", OURS, "published, but no record came of it")

enum epd_state_life {
#define X(name) EPD_STATE_##name,
	EPD_STATE_LIVES(X)
#undef X
};
enum epd_page_life {
#define X(name) EPD_PAGE_##name,
	EPD_PAGE_LIVES(X)
#undef X
};

struct epd_state_move {
	enum epd_state_life from, to;
	enum epd_kind verb;
	int ours;
	const char *reason;
};
struct epd_page_move {
	enum epd_page_life from, to;
	const char *verb;
	int ours;
	const char *reason;
};

extern const struct epd_state_move epd_state_moves[];
extern const struct epd_page_move epd_page_moves[];
extern const int epd_state_nmoves, epd_page_nmoves;
const char *epd_state_life_name(enum epd_state_life l);
const char *epd_page_life_name(enum epd_page_life l);
enum epd_state_life epd_life_of(enum epd_status s);	/* ACTIVE for ACTIVE */

/* The move, or NULL if it is not in the table. */
const struct epd_state_move *epd_life_state(enum epd_state_life from,
    enum epd_state_life to, enum epd_kind verb);
const struct epd_page_move *epd_life_page(enum epd_page_life from,
    enum epd_page_life to);

#endif
