/*
 * handoff.h - a state from one workflow to another, of this store or another
 * one on this machine: shard/handoff.h has the protocol, this drives both halves.
 *
 * Every step is a record in one log, made after the other log was read; so any
 * step may be done again, by any process, and whoever comes after a crash goes
 * on where it stands.  What is not committed by its deadline is rolled back by
 * who next looks at the source, if he can see the target, or that its store has
 * it no more; unseen only a person rolls back.
 */
#ifndef EPD_FLOW_HANDOFF_H
#define EPD_FLOW_HANDOFF_H

#include "flow/store.h"

struct epd_offer {
	struct epd_ref state;		/* at its version, 0: the newest */
	const char *store;		/* the target's; NULL: this one */
	const char *workflow;		/* "": a new one */
	uint64_t timeout_ms;		/* 0: state.handoff_ms */
	uint64_t end_ns;		/* when that is over; 0: it begins now */
};

/* How a hand-off stands.  phase 0: this half is not there. */
struct epd_handed {
	uint8_t id[16];
	unsigned source, target;	/* phases */
	char from_store[4096], to_store[4096];
	char from[EPD_WORKFLOW], to[EPD_WORKFLOW];
	uint32_t state, version, to_state;	/* 0: not known here */
	int unreachable;		/* the other half's log cannot be read */
	int expired;			/* past its deadline */
	uint64_t linked, copied, bytes, missing;	/* pages; bytes copied; by this call */
};

/* Prepare: the source is pinned until it is decided. */
int epd_flow_handoff_prepare(struct epd_store *s, const struct epd_offer *o,
    struct epd_handed *out, struct epd_why *why);
/*
 * Go on to the end: pull, ready, commit, forget, whatever is left of it.
 * Fails: EPD_EABORTED (it was rolled back), EPD_ETIMEOUT (the other half cannot
 * be reached: it waits), and as the steps; the source is untouched or the
 * target has it, and the same call may be made again.
 */
int epd_flow_handoff_commit(struct epd_store *s, const uint8_t id[16],
    struct epd_handed *out, struct epd_why *why);
/*
 * The whole: prepare and commit, and back if it cannot be carried through.
 * Fails: as both, EPD_EABORTED too if somebody rolled it back unseen, EPD_ENOTHING
 * if he carried it through.  If it waits, or that is unsure, out->id stands as out
 * says; else *out has no phase, and nothing is left.
 */
int epd_flow_handoff_whole(struct epd_store *s, const struct epd_offer *o,
    struct epd_handed *out, struct epd_why *why);
/*
 * The whole from the target's side: o's state is the peer's at address o->store, and
 * goes to a workflow here.  Fails and tells as whole.
 */
int epd_flow_handoff_take(struct epd_store *s, const struct epd_offer *o,
    struct epd_handed *out, struct epd_why *why);
/* Roll back.  EPD_ESTATUS: it was committed. */
int epd_flow_handoff_abort(struct epd_store *s, const uint8_t id[16],
    const char *reason, struct epd_handed *out, struct epd_why *why);
/*
 * Have the target's half without the source's word, because a person knows that
 * it never comes.  A source that comes back all the same commits to it, even if
 * it had rolled back, unless its state has gone on: then both have one.
 * Fails: EPD_ESTATUS (the source can be reached, ask it; or the target had the state
 * already, and this half came late), -ENOMEM and what else passes (it is not known
 * whether it can be).
 */
int epd_flow_handoff_adopt(struct epd_store *s, const uint8_t id[16],
    const char *reason, struct epd_handed *out, struct epd_why *why);

/* How it stands, nothing done; and of one that is known to have a half in a workflow. */
int epd_flow_handoff_show(struct epd_store *s, const uint8_t id[16],
    struct epd_handed *out, struct epd_why *why);
int epd_flow_handoff_show_in(struct epd_store *s, const char *workflow,
    const uint8_t id[16], struct epd_handed *out, struct epd_why *why);
/* Every half in this store; a nonzero return stops and is returned. */
int epd_flow_handoff_each(struct epd_store *s,
    int (*fn)(void *arg, const struct epd_handed *h), void *arg,
    struct epd_why *why);
/* That whose hex begins so, by the logs here alone.  EPD_ENOTHING, EPD_EAMBIGUOUS, EPD_EUSAGE. */
int epd_flow_handoff_find(struct epd_store *s, const char *hex,
    uint8_t id[16], struct epd_why *why);

/*
 * The same by what the store at an address tells (at most 256 at a time): of those
 * with this one, which may know nothing of them.
 * Fails: as those, and as epd_node_open.
 */
int epd_flow_handoff_each_at(struct epd_store *s, const char *address,
    int (*fn)(void *arg, const struct epd_handed *h), void *arg,
    struct epd_why *why);
int epd_flow_handoff_find_at(struct epd_store *s, const char *address,
    const char *hex, uint8_t id[16], struct epd_why *why);
int epd_flow_handoff_commit_at(struct epd_store *s, const char *address,
    const uint8_t id[16], struct epd_handed *out, struct epd_why *why);
int epd_flow_handoff_abort_at(struct epd_store *s, const char *address,
    const uint8_t id[16], const char *reason, struct epd_handed *out,
    struct epd_why *why);

/*
 * Of a workflow's halves: what is past its deadline is rolled back, what was
 * decided is carried through.  How many were; what cannot be reached waits.
 */
int epd_flow_handoff_settle(struct epd_store *s, struct epd_workflow *w);
/* The same, and peers are waited for no longer than to end_ns; waits hears of the rest. */
struct epd_settling {
	uint64_t end_ns;		/* 0: EPD_REACH_NS */
	void (*waits)(void *arg, const char *text);	/* or NULL */
	void *arg;
};
int epd_flow_handoff_settle_by(struct epd_store *s, struct epd_workflow *w,
    const struct epd_settling *by);

#endif
