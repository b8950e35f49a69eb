/*
 * carry.h - a plan carried out.  Outside this room include move/move.h.
 *
 * A carry is one logical transfer: items, each a stretch of memory here and one of a
 * peer's window.  It is decided, reserved, and attempted; an attempt that fails is
 * made again, or the next path of the decision is taken, once what that rests on is
 * seen to be as it was, else it is decided anew.  A plan is not changed meanwhile: an
 * attempt has a copy with a number, and what completes for an earlier one is nothing.
 *
 *  1. The whole charge of a plan is reserved before anything is submitted, and given
 *     back before the next attempt.
 *  2. A passage that failed is closed before memory is used again: nothing of an
 *     earlier attempt can land on a later one.
 *  3. What has moved and was found whole is not moved again.
 *  4. Every wait ends by the deadline.  While bytes come it goes on; where none come,
 *     an attempt has half of the time that is left.
 *  5. A path has some tries, then the next; if the last finds no peer they are gone
 *     round again till the deadline (backoff.h).  What is refused for good ends it.
 */
#ifndef EPD_MOVE_CARRY_H
#define EPD_MOVE_CARRY_H

#include "base/log.h"
#include "base/metrics.h"
#include "base/transport.h"
#include "move/ledger.h"

struct epd_item {
	void *local;			/* lent till the carry has ended */
	uint64_t bytes;
	uint64_t sum;			/* XXH3-64 of them */
	int has_sum;			/* and they are looked at as they come */
	uint64_t offset;		/* in the window; the carrier's open sets it */
};

/* A way there, open: its link, and the window that the items lie in. */
struct epd_passage {
	struct epd_link *link;
	uint64_t window;
	int fresh;			/* nothing that moved by another is in it */
};

/* What this room does not know.  arg is the carry's. */
struct epd_carrier {
	/*
	 * Decide by how things are now, and on what generations that rests.  index:
	 * paths that failed before.  Fails: as epd_plan_decide.
	 */
	int (*decide)(void *arg, int32_t index, struct epd_decision *out,
	    struct epd_why *why);
	void (*now)(void *arg, struct epd_generations *out);
	/*
	 * Open a way by plan and set the items' offsets.  moved[i]: item i has moved
	 * already, and need not be there.
	 */
	int (*open)(void *arg, const struct epd_plan *plan,
	    const uint8_t *moved, struct epd_passage *out, uint64_t deadline_ns,
	    struct epd_why *why);
	void (*close)(void *arg, struct epd_passage *p, int broken);
	/*
	 * n bytes from one memory here to another; NULL: both are the processor's.  And
	 * at the peer, bytes of the window.  Either NULL: no plan has such stages.
	 */
	int (*copy)(void *arg, const struct epd_stage *s, void *to,
	    const void *from, uint64_t n);
	int (*delegate)(void *arg, const struct epd_passage *p,
	    const struct epd_stage *s, uint64_t offset, uint64_t n,
	    uint64_t deadline_ns, struct epd_why *why);
	/* All has moved: make it so at the peer, or tell it.  May be NULL. */
	int (*commit)(void *arg, const struct epd_plan *plan,
	    const struct epd_passage *p, uint64_t deadline_ns,
	    struct epd_why *why);
	/* Nothing moves, it will be computed.  NULL: no plan says so. */
	int (*recompute)(void *arg, const struct epd_plan *plan,
	    struct epd_why *why);
	/* How a backend did, for operational states.  May be NULL. */
	void (*told)(void *arg, enum epd_backend b, int rc, uint64_t bytes,
	    uint64_t ns);
};

struct epd_carry {
	enum epd_op op;
	struct epd_item *item;
	uint32_t n;
	/*
	 * What is written is nobody's until it is committed, so beginning again is safe
	 * whatever the backend does.
	 */
	int versioned;
	uint64_t deadline_ns;
	uint64_t piece_bytes;		/* 0: 1 MiB */
	uint32_t tries;			/* of a path; 0: 3 */
	struct epd_ledger *books;	/* NULL: nothing is reserved */
	struct epd_metrics *metrics;
	const struct epd_log *log;
	const struct epd_carrier *how;
	void *arg;
};

struct epd_carried {
	enum epd_backend backend;	/* by which it went at last */
	enum epd_plan_role role;
	uint64_t plan;			/* its id */
	uint32_t attempts, retries, fallbacks, replans;
	uint32_t late;			/* completions of earlier attempts */
	uint32_t corrupt;		/* sums that were wrong */
	uint64_t bytes, again;		/* moved; of them, more than once */
	uint64_t ns;
};

/*
 * Carry it through.  out is told whatever comes of it.
 * Fails: EPD_ENOPLAN; EPD_ETIMEOUT; EPD_ECREDIT (never granted by then); EPD_EPARTIAL
 * (bytes have moved, and neither is the way idempotent nor the target versioned);
 * -ECANCELED (base/stop.h); and what the last path failed by.
 */
int epd_carry(const struct epd_carry *c, struct epd_carried *out,
    struct epd_why *why);

#endif
