/*
 * state.pml - the states of one log: created, forked, advanced, offloaded,
 * restored, suspected, aborted and released, by workers that die or freeze at
 * any step, under leases that a reaper may drop at any time.
 *
 * An append is one step: under the log's lock it validates and is durable.  What
 * a worker remembers between two appends may be as old as it likes.  A state
 * holds its newest node, a node the one before it, a lease the node it is for.
 *
 *	NS, NN	states and nodes that come to be: numbers are never used again
 *	NW	workers, each with a lease at most
 *	MUTANT	a guard left out, see ./mutants
 */
#include "table.pml"

#ifndef NS
#define NS 2
#endif
#ifndef NN
#define NN 2
#endif
#ifndef NW
#define NW 2
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

byte life[NS];			/* as stored: ACTIVE for SHARED too */
byte head[NS];			/* its newest node; 0: none */
byte states, nodes;		/* the last given out */
byte up[NN + 1];		/* the node before it */
byte held[NN + 1];		/* the count kept */
byte page[NN + 1];
byte lease[NW];			/* the node it holds; 0: gone */
byte seen[NW];			/* what its worker remembers of it; 0: dead */
bool calm;			/* nobody dies or begins anything new */
byte i, n, m;

#define ALIVE(n) (page[n] != P_NONE && page[n] != P_FREED)

/* A recount of node n. */
#if NS == 2
#define BY_STATES(n) ((head[0] == n) + (head[1] == n))
#else
#define BY_STATES(n) ((head[0] == n) + (head[1] == n) + (head[2] == n))
#endif
#if NN == 2
#define BY_NODES(n) ((up[1] == n) + (up[2] == n))
#else
#define BY_NODES(n) ((up[1] == n) + (up[2] == n) + (up[3] == n))
#endif
#if NW == 2
#define BY_LEASES(n) ((lease[0] == n) + (lease[1] == n))
#else
#define BY_LEASES(n) ((lease[0] == n) + (lease[1] == n) + (lease[2] == n))
#endif

/* SHARED is never stored. */
#define LIFE(s) (life[s] == ACTIVE && BY_STATES(head[s]) + BY_NODES(head[s]) > 1 \
	-> SHARED : life[s])

/* The count kept is a recount; a node lives as long as it is held. */
#define SOUND_NODE(n) \
	(held[n] == BY_STATES(n) + BY_NODES(n) + BY_LEASES(n) && \
	(held[n] > 0) == ALIVE(n))
/* What is computed with is here; what is over holds nothing. */
#define SOUND_STATE(s) ((life[s] != ACTIVE || page[head[s]] == P_REFERENCED) && \
	(head[s] == 0) == (life[s] == NONE || life[s] == FREE))

inline check()
{
	assert(SOUND_STATE(0) && SOUND_STATE(1));
#if NS > 2
	assert(SOUND_STATE(2));
#endif
	assert(SOUND_NODE(1) && SOUND_NODE(2));
#if NN > 2
	assert(SOUND_NODE(3))
#endif
}

#define TURN(n, to) assert(MAY_PAGE(page[n], to)); page[n] = P_##to

inline hold(n)
{
	assert(ALIVE(n));
	held[n]++
}

/* One holder less; a node without one goes, and then the one before it. */
inline drop(which)
{
	n = which;
	do
	:: n == 0 -> break
	:: else ->
		assert(held[n] > 0);
		held[n]--;
		if
		:: held[n] > 0 -> break
		:: else ->
			/* It was moving out: it is out now, for good. */
			if
			:: page[n] == P_EVICTING -> TURN(n, EVICTED)
			:: page[n] == P_RESTORED -> TURN(n, REFERENCED)
			:: else -> skip
			fi;
			TURN(n, FREED);
			m = up[n];
			up[n] = 0;
			n = m
		fi
	od;
	n = 0;
	m = 0
}

/* The next node, held by whoever asked for it. */
inline grow(parent)
{
	nodes++;
	up[nodes] = parent;
	if
	:: parent -> hold(parent)
	:: else -> skip
	fi;
	TURN(nodes, ALLOCATED);
	TURN(nodes, SEALED);
	TURN(nodes, REFERENCED);
	hold(nodes)
}

#define STORED(to) (to == SHARED -> ACTIVE : to)

/* What no table may allow. */
inline move(s, from, to, verb)
{
	assert(from != FREE);
	assert(from != SUSPECT || verb == V_RESTORE && to == ACTIVE ||
	    verb == V_ABORT && to == ABORTED);
	assert(from != ABORTED || to == FREE);
	assert(to != FREE || verb == V_RELEASE || verb == V_FORK);
	life[s] = STORED(to)
}

inline create(s, to)
{
	states++;
	grow(0);
	head[s] = nodes;
	move(s, NONE, to, V_CREATE);
	check()
}

inline branch(parent)
{
	assert(MAY(NONE, SHARED, FORK));
	hold(head[parent]);
#if MUTANT == 1
	held[head[parent]]--;
#endif
	head[states] = head[parent];
	life[states] = ACTIVE;
	states++
}

inline fork(s, from, to)
{
	branch(s);
	move(s, from, to, V_FORK);
	if
	:: to == FREE ->
		drop(head[s]);
		head[s] = 0
	:: else -> skip
	fi;
	check()
}

inline release(s, from, to)
{
	move(s, from, to, V_RELEASE);
	drop(head[s]);
#if MUTANT == 2
	drop(head[s]);
#endif
	head[s] = 0;
	check()
}

/* Nothing but its life changes. */
inline change(s, from, to, verb)
{
	move(s, from, to, verb);
	if
	:: life[s] == FREE || life[s] == NONE -> drop(head[s]); head[s] = 0
	:: else -> skip
	fi;
	check()
}

#define CAN_CREATE(s, from, to) (!calm && s == states && nodes < NN)
#define DO_CREATE(s, from, to) create(s, to)
#define CAN_FORK(s, from, to) (!calm && from != NONE && states < NS)
#define DO_FORK(s, from, to) fork(s, from, to)
/* That another's release ends the sharing is seen by counting. */
#define CAN_RELEASE(s, from, to) (to == FREE)
#define DO_RELEASE(s, from, to) release(s, from, to)
#define CAN_SUSPECT(s, from, to) (!calm)
#define DO_SUSPECT(s, from, to) change(s, from, to, V_SUSPECT)
#define CAN_ABORT(s, from, to) (!calm && to == ABORTED)
#define DO_ABORT(s, from, to) change(s, from, to, V_ABORT)
/* What takes no lease; the rest is a worker's. */
#define CAN_RESTORE(s, from, to) (to == ACTIVE && from != RESTORING)
#define DO_RESTORE(s, from, to) change(s, from, to, V_RESTORE)

/* What is done to a state in one append, as the table allows it. */
proctype others(byte s)
{
end:	do
	MOVES_CREATE(s)
	MOVES_FORK(s)
	MOVES_RELEASE(s)
	MOVES_SUSPECT(s)
	MOVES_ABORT(s)
	MOVES_RESTORE(s)
	od
}

/* Any lease may be past its deadline, and any holder dead. */
#define REAPED(k) (lease[k] && (!calm || !seen[k]))

proctype reaper()
{
end:	do
	:: d_step { REAPED(0) -> drop(lease[0]); lease[0] = 0; check() }
	:: d_step { REAPED(1) -> drop(lease[1]); lease[1] = 0; check() }
#if NW > 2
	:: d_step { REAPED(2) -> drop(lease[2]); lease[2] = 0; check() }
#endif
	:: d_step { !calm -> calm = 1 }
	:: timeout -> d_step {
		for (i : 0 .. NS - 1) {
			assert(life[i] == NONE || life[i] == FREE)
		}
		for (i : 1 .. NN) {
			assert(!ALIVE(i))
		}
	}; break
	od
}

inline take(which)
{
	seen[me] = which;
	hold(seen[me]);
	lease[me] = seen[me]
}

inline give_back()
{
	if
	:: lease[me] -> drop(lease[me]); lease[me] = 0
	:: else -> skip
	fi;
	seen[me] = 0;
	s = 0
}

/* Another's lease on the node goes, so that what it still does is refused. */
inline revoke()
{
	for (i : 0 .. NW - 1) {
		if
		:: lease[i] == head[s] && i != me -> drop(lease[i]); lease[i] = 0
		:: else -> skip
		fi
	}
	i = 0
}

#if MUTANT == 5
#define REVOKE skip
#else
#define REVOKE revoke()
#endif

#define MAY_ADVANCE(s) (MAY(LIFE(s), ACTIVE, ADVANCE) || \
	MAY(LIFE(s), SHARED, ADVANCE))
#define IDLE(s) (!calm && lease[me] == 0)
/* The id of its lease is looked up at every write. */
#if MUTANT == 3
#define FENCED (seen[me] != 0)
#else
#define FENCED (lease[me] == seen[me])
#endif
#if MUTANT == 4
#define SAME(s) (head[s] != 0)
#else
#define SAME(s) (head[s] == seen[me])
#endif

/* decode: read, compute under a lease, append if it is still the newest. */
#define BEGIN_ADVANCE(k) :: d_step { IDLE(k) && nodes < NN && MAY_ADVANCE(k) -> \
	s = k; take(head[k]); check() }; goto advancing
/* offload: what others hold too stays where it is. */
#define BEGIN_OFFLOAD(k) :: d_step { IDLE(k) && MAY(LIFE(k), OFFLOADING, OFFLOAD) \
	-> s = k; take(head[k]); move(k, life[k], OFFLOADING, V_OFFLOAD); \
	check() }; goto offloading
#define RESUME_OFFLOAD(k) :: d_step { IDLE(k) && life[k] == OFFLOADING && \
	held[head[k]] == 1 -> s = k; take(head[k]); check() }; goto offloading
#define BEGIN_RESTORE(k) :: d_step { IDLE(k) && MAY(LIFE(k), RESTORING, RESTORE) \
	-> s = k; take(head[k]); REVOKE; \
	move(k, life[k], RESTORING, V_RESTORE); check() }; goto restoring
#define RESUME_RESTORE(k) :: d_step { lease[me] == 0 && life[k] == RESTORING -> \
	s = k; take(head[k]); check() }; goto restoring
#define BEGIN(k) BEGIN_ADVANCE(k) BEGIN_OFFLOAD(k) RESUME_OFFLOAD(k) \
	BEGIN_RESTORE(k) RESUME_RESTORE(k)

/* Killed: its memory is gone, its lease is left to the reaper. */
#define KILLED :: d_step { !calm -> seen[me] = 0; s = 0 }; goto idle
#define OVER :: d_step { true -> give_back(); check() }; goto idle
#define REFUSED(so) :: d_step { so -> give_back(); check() }; goto idle

proctype worker(byte me)
{
	byte s;

idle:
end:	if
	BEGIN(0)
	BEGIN(1)
#if NS > 2
	BEGIN(2)
#endif
	fi;

advancing:
	if
	:: d_step { FENCED && SAME(s) && MAY_ADVANCE(s) && nodes < NN ->
		assert(head[s] == seen[me] && page[seen[me]] == P_REFERENCED);
		grow(seen[me]);
		drop(seen[me]);
		head[s] = nodes;
		move(s, life[s], ACTIVE, V_ADVANCE);
		check() }; goto ending
	REFUSED(!(FENCED && SAME(s) && MAY_ADVANCE(s) && nodes < NN))
	KILLED
	fi;

offloading:
	if
	:: d_step { FENCED && life[s] == OFFLOADING && held[seen[me]] == 2 &&
		page[seen[me]] == P_REFERENCED ->
		TURN(seen[me], EVICTING); check() }
	:: d_step { FENCED && (held[seen[me]] > 2 || page[seen[me]] == P_EVICTED) };
		goto offloaded
	:: d_step { FENCED && life[s] == OFFLOADING &&
		page[seen[me]] == P_EVICTING }
	REFUSED(!FENCED || life[s] != OFFLOADING)
	KILLED
	fi;
	if
	:: d_step { FENCED -> TURN(seen[me], EVICTED); check() }
	REFUSED(!FENCED)
	KILLED
	fi;
offloaded:
	if
	:: d_step { FENCED && SAME(s) && MAY(LIFE(s), OFFLOADED, OFFLOAD) ->
		move(s, life[s], OFFLOADED, V_OFFLOAD); check() }; goto ending
	REFUSED(!FENCED || !SAME(s) || !MAY(LIFE(s), OFFLOADED, OFFLOAD))
	KILLED
	fi;

restoring:
	if
	:: d_step { FENCED && page[seen[me]] == P_EVICTING ->
		TURN(seen[me], EVICTED); check() }; goto restoring
	:: d_step { FENCED && page[seen[me]] == P_EVICTED ->
		TURN(seen[me], RESTORED); check() }; goto restoring
	:: d_step { FENCED && page[seen[me]] == P_RESTORED ->
		TURN(seen[me], REFERENCED); check() }; goto restoring
	:: d_step { FENCED && SAME(s) && MAY(LIFE(s), ACTIVE, RESTORE) &&
		life[s] == RESTORING && page[seen[me]] == P_REFERENCED ->
		move(s, RESTORING, ACTIVE, V_RESTORE); check() }; goto ending
	REFUSED(!FENCED || life[s] != RESTORING)
	KILLED
	fi;

ending:
	if
	OVER
	KILLED
	fi
}

init
{
	byte k;

	atomic {
		for (k : 0 .. NS - 1) {
			run others(k)
		}
		for (k : 0 .. NW - 1) {
			run worker(k)
		}
		run reaper();
		k = 0
	}
}
