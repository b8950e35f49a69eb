/*
 * shard_life.h - sequences drawn from the table of life.h and played on a
 * shard: what the table allows must be accepted, and check must agree.
 *
 * A hand-off's halves are played each as its own log sees it.  Leases come and
 * go between the moves, and checkpoints, and other handles.
 */
#ifndef TESTS_SHARD_LIFE_H
#define TESTS_SHARD_LIFE_H

#include "shard/life.h"
#include "tests/unit/shard_hold.h"

enum { LIFE_STATES = 64, LIFE_HALVES = 64, LIFE_LONG = 600000 };

struct life_state {
	enum epd_state_life is;		/* as stored: ACTIVE for SHARED too */
	uint32_t versions;
	int half;			/* the hand-off it is in, or 0 */
	uint64_t lease;			/* one that stands on it, or 0 */
	int decoding;			/* it is a decode lease */
	uint64_t rest;			/* of who moves it out or in, or 0 */
};
struct life {
	struct epd_shard *s;
	struct epd_procs *procs;
	int dir, store;
	uint64_t r;
	int moved;			/* the last verb did */
	struct life_state state[LIFE_STATES];
	uint32_t n;			/* states so far */
	struct life_half { int target, decided; } half[LIFE_HALVES];
	int halves;
};

static struct {
	unsigned long long sequences, records;
	char made[64];			/* by the move's place in the table */
} life_all;

static inline uint64_t
life_die(struct life *p, uint64_t n)
{
	return shard_mix(++p->r) % n;
}

static inline void
life_begin(struct life *p, uint32_t id)
{
	p->state[id].versions = 1;
	p->n++;
	p->moved = 1;
}

static inline void
life_offer(struct life *p, struct epd_handoff *h, int n)
{
	*h = (struct epd_handoff){
		.store = "/store/b", .workflow = "w2", .peer_state = 1,
		.peer_version = 1, .peer_lsn = 2, .deadline_ms = 9000,
	};
	memset(h->id, 0x40, 16);
	memcpy(h->id, &n, sizeof n);
	memset(h->peer, 5, 16);
	memset(h->home, 6, 16);
	p->half[n].decided = 0;
}

/* ---- the verbs; each makes the move m of state id, or says it did not ---- */

static inline void
life_create(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	uint64_t run = p->r & 1 ? p->r : 0;
	uint32_t got;

	(void)m;
	CHECK_INT(shard_create(p->s, p->r, run, &got), 0);
	CHECK_INT(got, id);
	life_begin(p, id);
}

static inline void
life_advance(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	struct life_state *s = &p->state[id];
	struct shard_made made;
	uint32_t version;

	(void)m;
	if (s->decoding) {
		CHECK_INT(shard_advance(p->s, id, s->versions, 0, p->r, 0,
		    &version), EPD_ELOCKED);
		CHECK_INT(epd_shard_advance_leased(p->s, s->lease, id,
		    s->versions, shard_make(&made, p->r, 0), &version, NULL),
		    0);
		s->lease = 0;
		s->decoding = 0;
	} else {
		CHECK_INT(shard_advance(p->s, id, s->versions, 0, p->r, 0,
		    &version), 0);
	}
	CHECK_INT(version, ++s->versions);
	p->moved = 1;
}

static inline void
life_fork(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	struct epd_fork_ask f = {
		.state = id, .branches = 1 + (uint32_t)life_die(p, 3),
		.version = (uint32_t)life_die(p, p->state[id].versions + 1),
		.replace = m->to == EPD_STATE_FREE, .reason = m->reason,
	};
	uint32_t first;

	if (p->n + f.branches >= LIFE_STATES)
		return;
	if (p->state[id].decoding) {
		CHECK_INT(epd_shard_fork(p->s, &f, &first, NULL), EPD_ELOCKED);
		return;
	}
	CHECK_INT(epd_shard_fork(p->s, &f, &first, NULL), 0);
	CHECK_INT(first, p->n + 1);
	for (uint32_t i = 0; i < f.branches; i++) {
		p->state[first + i].is = EPD_STATE_ACTIVE;
		life_begin(p, first + i);
	}
}

static inline void
life_release(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	CHECK_INT(epd_shard_release(p->s, id, m->reason, NULL, NULL, NULL), 0);
	p->moved = 1;
}

static inline void
life_suspect(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	CHECK_INT(epd_shard_suspect(p->s, id, m->reason, NULL), 0);
	p->moved = 1;
}

static inline void
life_wait(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	CHECK_INT(epd_shard_wait(p->s, id, life_die(p, 3) ? "search" : "stop",
	    0, m->reason, NULL), 0);
	p->moved = 1;
}

/* Out, by two moves with a lease between them. */
static inline void
life_offload(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	struct life_state *s = &p->state[id];
	struct epd_rest rest;

	if (m->to == EPD_STATE_OFFLOADING && s->decoding) {
		CHECK_INT(epd_shard_offload(p->s, id, "nvme", LIFE_LONG,
		    m->reason, &rest, NULL), EPD_ELOCKED);
		return;
	}
	if (m->to == EPD_STATE_OFFLOADING) {
		CHECK_INT(epd_shard_offload(p->s, id, "nvme", LIFE_LONG,
		    m->reason, &rest, NULL), 0);
		s->rest = rest.lease;
	} else {
		CHECK_INT(epd_shard_offloaded(p->s, id, s->rest, m->reason,
		    NULL), 0);
		s->rest = 0;
	}
	p->moved = 1;
}

/* Out of SUSPECT; or back, by two moves with a lease between them. */
static inline void
life_restore(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	struct life_state *s = &p->state[id];
	struct epd_rest rest;

	if (m->from == EPD_STATE_SUSPECT) {
		CHECK_INT(epd_shard_clear(p->s, id, m->reason, NULL), 0);
	} else if (m->from == EPD_STATE_RESTORING &&
	    m->to == EPD_STATE_RESTORING) {
		CHECK_INT(epd_shard_restore(p->s, id, LIFE_LONG, m->reason,
		    &rest, NULL), EPD_ELOCKED);
		return;
	} else if (m->to == EPD_STATE_RESTORING) {
		CHECK_INT(epd_shard_restore(p->s, id, LIFE_LONG, m->reason,
		    &rest, NULL), 0);
		/* Who moved it out is late. */
		if (s->rest) {
			CHECK_INT(epd_shard_offloaded(p->s, id, s->rest, "",
			    NULL), EPD_ESTATUS);
			CHECK_INT(epd_shard_drop(p->s, s->rest, "", NULL), 0);
		}
		s->rest = rest.lease;
	} else {
		CHECK_INT(epd_shard_restored(p->s, id, s->rest, m->reason,
		    NULL), 0);
		s->rest = 0;
	}
	p->moved = 1;
}

static inline void
life_prepare(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	struct epd_handoff h;

	(void)m;
	if (p->halves + 1 == LIFE_HALVES)
		return;
	life_offer(p, &h, p->halves + 1);
	h.state = id;
	h.version = p->state[id].versions;
	if (p->state[id].decoding) {
		CHECK_INT(epd_shard_prepare(p->s, &h, NULL), EPD_ELOCKED);
		return;
	}
	CHECK_INT(epd_shard_prepare(p->s, &h, NULL), 0);
	p->state[id].half = ++p->halves;
	p->half[p->halves].target = 0;
	p->moved = 1;
}

static inline void
life_ready(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	struct epd_state traits = shard_traits(p->r);
	struct shard_made made;
	struct epd_handoff h;
	uint32_t got;

	(void)m;
	if (p->halves + 1 == LIFE_HALVES)
		return;
	life_offer(p, &h, p->halves + 1);
	CHECK_INT(epd_shard_ready(p->s, &h, &traits,
	    shard_make(&made, p->r, 0), &got, NULL), 0);
	CHECK_INT(got, id);
	p->state[id].half = ++p->halves;
	p->half[p->halves].target = 1;
	life_begin(p, id);
}

static inline void
life_commit(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	int n = p->state[id].half, adopted = p->half[n].target &&
	    life_die(p, 4) == 0;
	struct epd_handoff h;

	life_offer(p, &h, n);
	CHECK_INT(adopted ? epd_shard_adopt(p->s, h.id, m->reason, NULL) :
	    epd_shard_commit_at(p->s, h.id, 0, NULL), 0);
	p->half[n].decided = 1;
	p->state[id].half = 0;
	p->moved = 1;
}

/* A failure, or the rolling back of a hand-off. */
static inline void
life_abort(struct life *p, uint32_t id, const struct epd_state_move *m)
{
	struct epd_handoff h;

	if (m->to == EPD_STATE_ABORTED) {
		CHECK_INT(epd_shard_abort(p->s, id, m->reason, NULL), 0);
	} else {
		life_offer(p, &h, p->state[id].half);
		CHECK_INT(epd_shard_rollback_at(p->s, h.id, 0, m->reason,
		    NULL), 0);
		p->state[id].half = 0;
	}
	p->moved = 1;
}

/* No entry: the shard has no such verb, its rows are not drawn. */
static void (*const life_verbs[])(struct life *p, uint32_t id,
    const struct epd_state_move *m) = {
	[EPD_KIND_CREATE] = life_create,
	[EPD_KIND_ADVANCE] = life_advance,
	[EPD_KIND_FORK] = life_fork,
	[EPD_KIND_RELEASE] = life_release,
	[EPD_KIND_WAIT] = life_wait,
	[EPD_KIND_OFFLOAD] = life_offload,
	[EPD_KIND_RESTORE] = life_restore,
	[EPD_KIND_SUSPECT] = life_suspect,
	[EPD_KIND_ABORT] = life_abort,
	[EPD_KIND_PREPARE] = life_prepare,
	[EPD_KIND_READY] = life_ready,
	[EPD_KIND_COMMIT] = life_commit,
	[EPD_KIND_TERM] = NULL,
};

/* ---- drawing ---- */

/* Whether a node of the state is held or built on by others. */
static inline int
life_shared(struct life *p, uint32_t id)
{
	uint32_t heads, children, last = p->state[id].versions;
	uint64_t node;

	for (uint32_t v = 1; v <= last; v++)
		if (!epd_shard_holds(p->s, id, v, &node) &&
		    !epd_shard_counts(p->s, node, &heads, &children) &&
		    (heads > 1 || children > (v < last)))
			return 1;
	return 0;
}

/* Whether the state itself can be asked for that move now. */
static inline int
life_fits(const struct life *p, uint32_t id, const struct epd_state_move *m)
{
	int half = p->state[id].half, target = p->half[half].target;

	if (!life_verbs[m->verb])
		return 0;
	if (half && m->verb == EPD_KIND_COMMIT)
		return (m->to == EPD_STATE_FREE) == !target;
	if (half)
		return m->verb == EPD_KIND_ABORT && m->to != EPD_STATE_ABORTED &&
		    (m->to == EPD_STATE_FREE) == target;
	switch (m->verb) {
	case EPD_KIND_FORK:
		return m->from != EPD_STATE_NONE;
	case EPD_KIND_RELEASE:
		return m->to == EPD_STATE_FREE;
	case EPD_KIND_ABORT:
		return m->to == EPD_STATE_ABORTED;
	default:
		return m->verb != EPD_KIND_COMMIT;
	}
}

/* A random move of the state's, or NULL. */
static inline const struct epd_state_move *
life_draw(struct life *p, uint32_t id)
{
	const struct epd_state_move *found = NULL;
	enum epd_state_life from = p->state[id].is;
	uint64_t n = 0;

	if (from == EPD_STATE_ACTIVE && life_shared(p, id))
		from = EPD_STATE_SHARED;
	for (int i = 0; i < epd_state_nmoves; i++)
		if (epd_state_moves[i].from == from &&
		    life_fits(p, id, &epd_state_moves[i]) &&
		    life_die(p, ++n) == 0)
			found = &epd_state_moves[i];
	return found;
}

/* A lease is taken, renewed or dropped; a half is forgotten. */
static inline void
life_between(struct life *p, uint32_t id)
{
	struct life_state *s = &p->state[id];
	int n = p->halves ? 1 + (int)life_die(p, (uint64_t)p->halves) : 0;
	enum epd_lease_kind kind = s->is == EPD_STATE_ACTIVE && !s->half &&
	    life_die(p, 2) ? EPD_LEASE_DECODE : EPD_LEASE_TRANSFER;
	struct epd_handoff h;

	if (n && p->half[n].decided) {
		life_offer(p, &h, n);
		CHECK_INT(epd_shard_forget_at(p->s, h.id, 0, NULL), 0);
	}
	if (s->lease && life_die(p, 3) == 0) {
		CHECK_INT(epd_shard_renew(p->s, s->lease, LIFE_LONG, NULL), 0);
	} else if (s->lease) {
		CHECK_INT(epd_shard_drop(p->s, s->lease, "", NULL), 0);
		s->lease = 0;
		s->decoding = 0;
	} else if (s->is != EPD_STATE_NONE && s->is != EPD_STATE_FREE) {
		CHECK_INT(epd_shard_lease(p->s, id, 0, kind, LIFE_LONG,
		    &s->lease, NULL), 0);
		s->decoding = kind == EPD_LEASE_DECODE;
	}
}

static inline void
life_step(struct life *p)
{
	uint32_t id = 1 + (uint32_t)life_die(p, p->n + 1), version;
	const struct epd_state_move *m;

	if (id >= LIFE_STATES)
		return;
	m = life_draw(p, id);
	p->moved = 0;
	if (m) {
		life_verbs[m->verb](p, id, m);
	} else {
		/* Nothing leads out of FREE. */
		CHECK_INT(p->state[id].is, EPD_STATE_FREE);
		CHECK_INT(shard_advance(p->s, id, 1, 0, 1, 0, &version),
		    EPD_ENOSTATE);
	}
	if (p->moved) {
		p->state[id].is = m->to == EPD_STATE_SHARED ?
		    EPD_STATE_ACTIVE : m->to;
		life_all.made[m - epd_state_moves] = 1;
	}
	if (!check_failed && life_die(p, 4) == 0)
		life_between(p, id);
	if (life_die(p, 16) == 0)
		CHECK_INT(epd_shard_checkpoint(p->s, NULL), 0);
	if (life_die(p, 16) == 0) {
		epd_shard_close(p->s);
		CHECK_INT(hold_open(&p->s, p->dir, p->procs), 0);
	}
}

/* Each state is in the part of its life that the sequence led to. */
static inline void
life_verify(struct life *p)
{
	uint64_t h = hold_hash(p->s);
	struct epd_state st;

	for (uint32_t id = 1; id <= p->n; id++)
		CHECK_INT(epd_shard_state(p->s, id, &st) ? EPD_STATE_FREE :
		    epd_life_of(st.status), p->state[id].is);
	CHECK_INT(epd_shard_check(p->s, shard_fault_print, NULL, NULL), 0);
	life_all.sequences++;
	life_all.records += epd_shard_lsn(p->s);
	epd_shard_close(p->s);
	CHECK_INT(hold_open(&p->s, p->dir, p->procs), 0);
	CHECK(h && hold_hash(p->s) == h);
}

static inline void
life_play(uint64_t seed, int steps)
{
	struct life p = { .r = seed * 1000003 };

	p.dir = scratch_open();
	p.store = scratch_open();
	CHECK_INT(epd_procs_open(&p.procs, p.store), 0);
	CHECK_INT(hold_open(&p.s, p.dir, p.procs), 0);
	for (int i = 0; i < steps && !check_failed; i++)
		life_step(&p);
	if (!check_failed)
		life_verify(&p);
	if (check_failed)
		printf("# sequence %llu\n", (unsigned long long)seed);
	epd_shard_close(p.s);
	epd_procs_close(p.procs);
	scratch_close(p.store);
	scratch_close(p.dir);
}

/* How many moves of the table were made. */
static inline int
life_made(void)
{
	int n = 0;

	for (int i = 0; i < epd_state_nmoves; i++)
		n += life_all.made[i];
	return n;
}

static inline void
life_tell(void)
{
	printf("# row 11: %s sequences, %s records, 100 %% accepted\n",
	    row_n(life_all.sequences), row_n(life_all.records));
}

#endif
