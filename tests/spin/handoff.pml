/*
 * handoff.pml - a state handed over from one log to another: prepare, ready,
 * commit, abort, forget and adopt, with agents at both ends that know of the
 * other log only what they once read there.
 *
 * An append is one step: under the log's lock it validates and is durable.  All
 * else an agent knows is its view, which may be as old as it likes: that is a
 * frozen process.  Killed, it has no view.  A machine that goes down takes the
 * views of its agents along; the logs stay.  A half that is rolled back leaves
 * no trace in its log, and whoever still has the old view may make another one.
 * What the target adopted is offered again by a source that had rolled back.
 *
 * There is one owner, and it is not lost, whatever happens and as long as nobody
 * adopts.  By adopting a person takes the target's half for its own, whatever the
 * source, which is down or cut off, has decided:
 *   committed: it is the target's all the same;
 *   nothing: it commits when it next sees the target;
 *   rolled back, before it or after it by one who could not see that: both have
 *	it (twice), until they see each other.  Then the source commits too, if its
 *	state is as it was offered, at rest; if it has gone on, both keep theirs.
 * That is the only way to two owners, and one state of the target's a hand-off.
 *
 *	IDS	hand-offs tried, one after another, each with a new id
 *	HALVES	states that may come to be at the target
 *	SA, TA	agents at the source and at the target, for each hand-off
 *	ADOPT	0: no person adopts; 1: only if the source, down, is undecided;
 *		2: if the source is down; 3: at any time
 *	UNSEEN	1: a person rolls back when the target cannot be looked at
 *	ABSENT	1: a target that never had a record may go for good
 *	CUT	1: the two may not see each other though neither is down
 *	STRICT	1: nothing makes two owners
 *	ASK	1: the source rolls back only when the target has agreed
 *	MUTANT	a guard left out, see ./mutants
 */
#include "table.pml"

#ifndef IDS
#define IDS 1
#endif
#ifndef HALVES
#define HALVES 2
#endif
#ifndef SA
#define SA 2
#endif
#ifndef TA
#define TA 2
#endif
#ifndef ADOPT
#define ADOPT 2
#endif
#ifndef ASK
#define ASK 0
#endif
#ifndef UNSEEN
#define UNSEEN !ASK
#endif
#ifndef ABSENT
#define ABSENT !ASK
#endif
#ifndef CUT
#define CUT 0
#endif
#ifndef STRICT
#define STRICT ASK
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define SOURCES (SA * IDS)
#define AGENTS (SOURCES + TA * IDS)
#define NOBODY 255		/* no agent: has no view */
#define FORWARD 1		/* all is up and nobody dies: on with it */
#define BACK 2			/* the same, but what may be rolled back is */

/* What the source's log says of a hand-off; NONE is also what it forgot. */
#define W_NONE 0
#define W_PREPARED 1
#define W_ASKED 2
#define W_COMMITTED 3
/* What the target's says. */
#define H_NONE 0
#define H_READY 1
#define H_COMMITTED 2
#define H_ADOPTED 3
#define H_REFUSED 4

/* State 0 is the source's, the others are the target's. */
byte life[HALVES + 1];		/* as stored: ACTIVE for SHARED too */
byte version[HALVES + 1];
bool pinned[HALVES + 1];
bool twin;			/* the source's state has a branch */
byte pin;			/* the hand-off that state 0 is pinned by */
byte word[IDS + 1];
byte phase[IDS + 1];
byte half[IDS + 1];		/* the target's state, while it has a phase */
byte offered[IDS + 1];		/* the version, which both halves record */
byte wet;			/* a commit that is written and not yet flushed */
byte view[AGENTS];
bool up[2] = true;
bool cut;
bool absent;			/* the target's workflow is no more */
byte ids, states;		/* the last given out */
byte quiet;
/* Kept by no log: */
byte done[IDS + 1];		/* 1: committed, 2: aborted, at the source */
bool took[IDS + 1];		/* the target has the state, or had it */
bool twice[IDS + 1];		/* and so has the source, which rolled back */
byte gone;			/* owners that let it go */
byte i;

#define SUP up[0]
#define TUP up[1]
#define SIDE(s) (s == 0 -> SUP && !wet : TUP)
#define LIFE(s) (s == 0 && life[0] == ACTIVE && twin -> SHARED : life[s])
#define FREELY(s) (!quiet && me == NOBODY && SIDE(s) && !pinned[s])
#define PINNED_TOO(s) (!quiet && me == NOBODY && SIDE(s))

/* An agent's view of the target: 0, or its phase and 1. */
#define TARGET_SAYS(h) (1 + phase[h])
#define SAW_TARGET(p) (view[me] == 1 + (p))
#define IN_SIGHT (SUP && TUP && !cut)
/* Of an adoption: who could not look, or had looked before it. */
#define UNKNOWING (!IN_SIGHT || (view[me] && !SAW_TARGET(H_ADOPTED)))
/* Of the source: its word and 1, and the half that stood here meanwhile. */
#if MUTANT == 5
#define WORD(h) (wet == h -> W_COMMITTED : word[h])
#else
#define WORD(h) word[h]
#endif
#define SPENT 32		/* that the source's state is not what was offered */
#define SOURCE_SAYS(h) (1 + WORD(h) + 8 * half[h] + \
	(phase[h] == H_ADOPTED && HAS_GONE_ON(h) -> SPENT : 0))
#define SAW_ONCE(w) ((view[me] & 7) == 1 + (w))
#define SAW_SOURCE(w) ((view[me] & 31) == 1 + (w) + 8 * half[hand])
#define HAS_GONE_ON(h) (life[0] == FREE || life[0] == ABORTED || \
	version[0] != offered[h])

#define SOURCE_OWNS (life[0] != FREE && !pinned[0])
#define TARGET_OWNS(s) (life[s] != NONE && life[s] != FREE && !pinned[s])
#define TARGET_WILL(h) (phase[h] == H_READY && done[h] == 1 && !took[h])
#define UNDECIDED(h) (word[h] || phase[h] == H_READY)
/* Both have it, and would not if the source could commit. */
#define WAITING(h) (twice[h] && !HAS_GONE_ON(h))
#define LEFT(h) (!ASK && phase[h] && !WAITING(h))
#define UNSETTLED(h) (WAITING(h) && life[0] == ACTIVE)
#if HALVES == 2
#define OWNERS (SOURCE_OWNS + TARGET_OWNS(1) + TARGET_OWNS(2))
#define PINS (pinned[0] || pinned[1] || pinned[2])
#else
#define PINS (pinned[0] || pinned[1] || pinned[2] || pinned[3])
#define OWNERS (SOURCE_OWNS + TARGET_OWNS(1) + TARGET_OWNS(2) + TARGET_OWNS(3))
#endif
#if IDS == 1
#define ANY(f) (f(1))
#define TWICE twice[1]
#else
#define ANY(f) (f(1) || f(2))
#define TWICE (twice[1] + twice[2])
#endif

/* At every point: one owner at most, and none is lost. */
inline check()
{
	assert(OWNERS <= 1 + TWICE);
	assert(OWNERS || life[0] != FREE || ANY(TARGET_WILL) || gone)
}

#define STORED(to) (to == SHARED -> ACTIVE : to)

/* What no table may allow. */
inline move(s, from, to, verb)
{
	assert(from != FREE);
	assert(from != SUSPECT || verb == V_RESTORE || verb == V_ABORT);
	assert(from != ABORTED || to == FREE);
	life[s] = STORED(to)
}

inline change(s, from, to, verb)
{
	move(s, from, to, verb);
	gone = gone + (life[s] == FREE);
	check()
}

inline branch(s, from, to)
{
	if
	:: to == SHARED -> twin = 1
	:: else -> skip
	fi;
	change(s, from, to, V_FORK)
}

inline release(s, from, to)
{
	if
	:: to == FREE -> change(s, from, to, V_RELEASE)
	:: else -> twin = 0; check()	/* it was the branch's release */
	fi
}

inline prepare(h, from, to)
{
	if
	:: h > ids ->
		ids = h;
		offered[h] = version[0];
		view[me] = 1 + H_NONE	/* nobody can have seen it yet */
	:: else ->
		twice[h] = 0
	fi;
	pin = h;
	pinned[0] = 1;
	word[h] = W_PREPARED;
	move(0, from, to, V_PREPARE);
	check()
}

inline ready(h, from, to)
{
	states++;
	half[h] = states;
	phase[h] = H_READY;
	version[states] = offered[h];
	pinned[states] = 1;
	move(states, from, to, V_READY);
	check()
}

inline commit(s, from, to)
{
	move(s, from, to, V_COMMIT);
	pinned[s] = 0;
	if
	:: s == 0 ->
		assert(done[wet] == 0 || (done[wet] == 2 && took[wet]));
		assert(phase[wet] == H_READY || phase[wet] == H_ADOPTED);
		assert(version[half[wet]] == version[0]);
		done[wet] = 1;
		word[wet] = W_COMMITTED;
		pin = 0;
		wet = 0
	:: else ->
		assert(done[hand] == 1 && !took[hand]);
		assert(life[s] == ACTIVE);
		took[hand] = 1;
		phase[hand] = H_COMMITTED
	fi;
	check()
}

inline undo(s, from, to)
{
	move(s, from, to, V_ABORT);
	if
	:: to == ABORTED -> skip
	:: to != ABORTED && s == 0 ->
		assert(done[pin] == 0 || (done[pin] == 2 && took[pin]));
		done[pin] = 2;
		twice[pin] = !STRICT && phase[pin] == H_ADOPTED && UNKNOWING;
		word[pin] = W_NONE;
		pin = 0;
		pinned[0] = 0
	:: else ->
		assert(done[hand] != 1 || took[hand]);
		pinned[s] = 0;
		phase[hand] = (ASK -> H_REFUSED : H_NONE);
		half[hand] = 0
	fi;
	check()
}

/* When a verb may be tried; whether it is allowed is up to the table. */
#if MUTANT == 2
#define CAN_ADVANCE(s, from, to) (s == 0 && version[0] == 0 && PINNED_TOO(s))
#else
#define CAN_ADVANCE(s, from, to) (s == 0 && version[0] == 0 && FREELY(s))
#endif
#define DO_ADVANCE(s, from, to) version[s]++; change(s, from, to, V_ADVANCE)
#define CAN_FORK(s, from, to) (s == 0 && from != NONE && FREELY(s))
#define DO_FORK(s, from, to) branch(s, from, to)
#if MUTANT == 1
#define CAN_RELEASE(s, from, to) (PINNED_TOO(s) && (to == FREE || s == 0))
#else
#define CAN_RELEASE(s, from, to) (to == FREE -> FREELY(s) : \
	s == 0 && PINNED_TOO(s))
#endif
#define DO_RELEASE(s, from, to) release(s, from, to)
#define CAN_OFFLOAD(s, from, to) FREELY(s)
#define DO_OFFLOAD(s, from, to) change(s, from, to, V_OFFLOAD)
#if MUTANT == 3
#define CAN_RESTORE(s, from, to) PINNED_TOO(s)
#else
#define CAN_RESTORE(s, from, to) FREELY(s)
#endif
#define DO_RESTORE(s, from, to) change(s, from, to, V_RESTORE)
#if MUTANT == 4
#define CAN_SUSPECT(s, from, to) PINNED_TOO(s)
#else
#define CAN_SUSPECT(s, from, to) FREELY(s)
#endif
#define DO_SUSPECT(s, from, to) change(s, from, to, V_SUSPECT)

#if MUTANT == 12
#define FRESH_ID (hand == ids || hand == ids + 1)
#else
#define FRESH_ID (hand == ids + 1)
#endif
#if MUTANT == 17
#define AS_OFFERED true
#else
#define AS_OFFERED (version[0] == offered[hand])
#endif
#define AGAIN (!ASK && hand <= ids && word[hand] == W_NONE && \
	SAW_TARGET(H_ADOPTED) && AS_OFFERED)
#define CAN_PREPARE(s, from, to) (SUP && !wet && !pinned[0] && \
	(AGAIN || !quiet && FRESH_ID))
#define DO_PREPARE(s, from, to) prepare(hand, from, to)
/* The state is the target's next: there is no other way to begin one. */
#if MUTANT == 13
#define UNKNOWN_ID (phase[hand] == H_NONE || phase[hand] == H_READY)
#else
#define UNKNOWN_ID (phase[hand] == H_NONE)
#endif
#define CAN_READY(s, from, to) (s == states + 1 && TUP && quiet != BACK && \
	UNKNOWN_ID && SAW_ONCE(W_PREPARED))
#define DO_READY(s, from, to) ready(hand, from, to)

/* An agent writes the source's commit, the world flushes it. */
#if MUTANT == 6
#define READY_SEEN (view[me] != 0)
#else
#define READY_SEEN SAW_TARGET(H_READY)
#endif
#if MUTANT == 7
#define DECIDABLE (READY_SEEN || SAW_TARGET(H_ADOPTED))
#else
#define DECIDABLE (pin == hand && (SAW_TARGET(H_ADOPTED) || READY_SEEN && \
	word[hand] == W_PREPARED && quiet != BACK))
#endif
#if MUTANT == 8
#define COMMIT_SEEN (SAW_SOURCE(W_COMMITTED) || SAW_SOURCE(W_PREPARED))
#elif MUTANT == 15
#define COMMIT_SEEN SAW_ONCE(W_COMMITTED)
#else
#define COMMIT_SEEN SAW_SOURCE(W_COMMITTED)
#endif
#define CAN_COMMIT(s, from, to) (s == 0 -> wet && me == NOBODY && SUP : \
	me != NOBODY && s == half[hand] && phase[hand] == H_READY && TUP && \
	COMMIT_SEEN)
#define DO_COMMIT(s, from, to) commit(s, from, to)

/*
 * The source must have looked at the target, or never have been down since; or
 * there is nothing to be looked at, now or for good.
 */
#if MUTANT == 20
#define BLINDLY (UNSEEN && !quiet && !IN_SIGHT)
#else
#define BLINDLY (UNSEEN && !quiet && !IN_SIGHT || absent)
#endif
#if MUTANT == 9
#define MAY_ROLL_BACK (quiet != FORWARD || absent)
#elif ASK
#define MAY_ROLL_BACK (word[pin] == W_ASKED && SAW_TARGET(H_REFUSED))
#else
#define MAY_ROLL_BACK (BLINDLY || view[me] && !SAW_TARGET(H_ADOPTED) && \
	(quiet != FORWARD || SAW_TARGET(H_NONE) && states == HALVES))
#endif
/* The target gives up what the source, asked after READY, knows nothing of. */
#if MUTANT == 10
#define ABORT_SEEN SAW_ONCE(W_NONE)
#else
#define ABORT_SEEN (SAW_SOURCE(W_NONE) || SAW_SOURCE(W_ASKED))
#endif
#define CAN_ABORT(s, from, to) (to == ABORTED -> FREELY(s) : me != NOBODY && \
	(s == 0 -> SUP && !wet && pin == hand && pin && MAY_ROLL_BACK : \
	s == half[hand] && phase[hand] == H_READY && TUP && ABORT_SEEN))
#define DO_ABORT(s, from, to) undo(s, from, to)

#if MUTANT == 11
#define MAY_FORGET (word[hand] == W_COMMITTED)
#else
#define MAY_FORGET (word[hand] == W_COMMITTED && \
	(SAW_TARGET(H_COMMITTED) || SAW_TARGET(H_ADOPTED)))
#endif
/* The target is the last to forget; one that is asked never does. */
#if MUTANT == 14
#define SOURCE_FORGOT true
#elif MUTANT == 16
#define SOURCE_FORGOT SAW_ONCE(W_NONE)
#else
#define SOURCE_FORGOT SAW_SOURCE(W_NONE)
#endif
/* What the source, which rolled back, could still offer is not forgotten. */
#if MUTANT == 18
#define NO_MORE_OFFERED true
#else
#define NO_MORE_OFFERED (phase[hand] == H_COMMITTED || (view[me] & SPENT))
#endif

#define LOOK(what) :: d_step { IN_SIGHT && view[me] != what -> view[me] = what }
#define KILLED :: d_step { !quiet && view[me] -> view[me] = 0 }

proctype source(byte me, hand)
{
end:	do
	LOOK(TARGET_SAYS(hand))
	KILLED
	MOVES_PREPARE(0)
	MOVES_ABORT(0)
	:: d_step { SUP && !wet && DECIDABLE && MAY(LIFE(0), FREE, COMMIT) ->
		wet = hand }
	:: d_step { SUP && !wet && MAY_FORGET -> word[hand] = W_NONE; check() }
#if ASK
	:: d_step { SUP && !wet && quiet != FORWARD &&
		word[hand] == W_PREPARED -> word[hand] = W_ASKED }
#endif
	od
}

proctype target(byte me, hand)
{
end:	do
	LOOK(SOURCE_SAYS(hand))
	KILLED
	MOVES_READY(1)
	MOVES_READY(2)
#if HALVES > 2
	MOVES_READY(3)
#endif
	MOVES_COMMIT(half[hand])
	MOVES_ABORT(half[hand])
#if !ASK
	:: d_step { TUP && (phase[hand] == H_COMMITTED ||
		phase[hand] == H_ADOPTED) && SOURCE_FORGOT && NO_MORE_OFFERED ->
		phase[hand] = H_NONE; half[hand] = 0; check() }
#else
	/* Asked before it was ready: it never will be. */
	:: d_step { TUP && phase[hand] == H_NONE && SAW_SOURCE(W_ASKED) ->
		phase[hand] = H_REFUSED }
#endif
	od
}

/* All that has nothing to do with a hand-off, as the table allows it. */
proctype others(byte s)
{
	byte me = NOBODY, hand;

end:	do
	MOVES_ADVANCE(s)
	MOVES_FORK(s)
	MOVES_RELEASE(s)
	MOVES_OFFLOAD(s)
	MOVES_RESTORE(s)
	MOVES_SUSPECT(s)
	MOVES_ABORT(s)
	od
}

/*
 * Without the source: the target's half becomes its own, if the state was not its
 * own already, as its log tells.
 */
#if MUTANT == 19
#define CAME_LATE(h) false
#else
#define CAME_LATE(h) took[h]
#endif
#define ADOPTABLE(h) (!quiet && TUP && phase[h] == H_READY && !CAME_LATE(h) && \
	MAY(LIFE(half[h]), ACTIVE, COMMIT) && (ADOPT == 3 || (!SUP || cut) && \
	(ADOPT == 2 || word[h] == W_PREPARED)))
#define ADOPT_ONE(h) :: d_step { ADOPTABLE(h) -> phase[h] = H_ADOPTED; \
	life[half[h]] = ACTIVE; pinned[half[h]] = 0; took[h] = 1; \
	twice[h] = !STRICT && done[h] == 2; check() }

inline go_down(m, first, last)
{
	up[m] = 0;
	for (i : first .. last) {
		view[i] = 0
	}
	i = 0
}

proctype world()
{
	byte me = NOBODY, hand;

end:	do
	:: d_step { !quiet && SUP -> go_down(0, 0, SOURCES - 1) }
	:: d_step { !quiet && TUP -> go_down(1, SOURCES, AGENTS - 1) }
	:: d_step { !quiet && !SUP -> SUP = 1 }
	:: d_step { !quiet && !TUP && !absent -> TUP = 1 }
	:: d_step { !quiet && wet -> wet = 0 }
#if CUT
	:: d_step { !quiet -> cut = !cut }
#endif
#if ABSENT
	:: d_step { !quiet && !absent && states == 0 -> absent = 1;
		go_down(1, SOURCES, AGENTS - 1) }
#endif
	MOVES_COMMIT(0)
#if ADOPT
	ADOPT_ONE(1)
#if IDS > 1
	ADOPT_ONE(2)
#endif
#endif
	:: d_step { !quiet -> quiet = FORWARD; SUP = 1; TUP = !absent; cut = 0 }
	:: d_step { !quiet -> quiet = BACK; SUP = 1; TUP = !absent; cut = 0 }
	/* All are up again and have done what they can: nothing hangs. */
	:: timeout -> d_step {
		assert(!ANY(UNDECIDED) && !PINS && !ANY(LEFT));
		assert(OWNERS + gone == 1 + TWICE);
		assert(!ANY(UNSETTLED))
	}; break
	od
}

init
{
	byte k;

	atomic {
		life[0] = ACTIVE;
		for (k : 0 .. SOURCES - 1) {
			run source(k, 1 + k / SA)
		}
		for (k : SOURCES .. AGENTS - 1) {
			run target(k, 1 + (k - SOURCES) / TA)
		}
		for (k : 0 .. HALVES) {
			run others(k)
		}
		run world();
		k = 0
	}
}
