/* ledger.c - which state and which run is in what part of its life. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shard/check.h"
#include "shard/hold.h"
#include "shard/life.h"

#define LLU(x) ((unsigned long long)(x))

static struct epd_ledger_state *
find(struct epd_ledger *l, uint32_t id)
{
	struct epd_ledger_state *v = (void *)l->states.p;
	size_t lo = 0, hi = l->states.n / sizeof *v;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < l->states.n / sizeof *v && v[lo].id == id ? &v[lo] : NULL;
}

static int
add(struct epd_ledger *l, uint32_t id, uint32_t versions, uint32_t life,
    int pinned)
{
	struct epd_ledger_state s = { id, versions, life, (uint32_t)pinned };

	epd_buf_put(&l->states, &s, sizeof s);
	return l->states.failed ? -ENOMEM : 0;
}

int
epd_ledger_start(struct epd_ledger *l, const struct epd_table *t)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < t->n; i++)
		rc = add(l, t->head[i]->state.id, t->head[i]->state.versions,
		    epd_life_of(t->head[i]->state.status),
		    t->head[i]->pinned);
	return rc;
}

struct of {
	struct epd_ledger *l;
	uint64_t lsn;
};

static int
of_run(void *arg, uint64_t run)
{
	const struct of *o = arg;

	return epd_ledger_run(o->l, run, o->lsn, 1);
}

/*
 * Move a state that must be there, if the table has the edge; one that is
 * pinned only as its hand-off is decided.
 */
static struct epd_ledger_state *
move(struct epd_ledger *l, const struct epd_rec *r, uint32_t id,
    enum epd_state_life to, int decides, struct epd_faults *f)
{
	struct epd_ledger_state *s = find(l, id);
	enum epd_state_life from = s ? s->life : EPD_STATE_NONE;

	/* A branch once is SHARED for good here; who shares is not kept. */
	if (from == EPD_STATE_SHARED && to == EPD_STATE_ACTIVE)
		to = from;
	if (!epd_life_state(from, to, r->kind)) {
		epd_fault(f, "record %llu: %s of s%u: no move from %s to %s",
		    LLU(r->lsn), epd_kind_name(r->kind), id,
		    epd_state_life_name(from), epd_state_life_name(to));
		return NULL;
	}
	if (s && !s->pinned != !decides) {
		epd_fault(f, "record %llu: %s of s%u, which is %smid-hand-off",
		    LLU(r->lsn), epd_kind_name(r->kind), id,
		    decides ? "not " : "");
		return NULL;
	}
	if (s)
		s->life = to;
	return s;
}

static int
of_body(struct epd_ledger *l, const struct epd_rec *r, struct epd_span body)
{
	struct of of = { l, r->lsn };

	return epd_body_runs(body, of_run, &of);
}

static int
begin_one(struct epd_ledger *l, const struct epd_rec *r,
    const struct epd_create *in, enum epd_state_life life, int pinned,
    struct epd_faults *f)
{
	move(l, r, in->id, life, 0, f);
	if (add(l, in->id, 1, life, pinned))
		return -ENOMEM;
	return of_body(l, r, in->body);
}

static int
fork_of(struct epd_ledger *l, const struct epd_rec *r, struct epd_faults *f)
{
	struct epd_arena a = { NULL };
	struct epd_fork in;
	int rc = epd_fork_unpack(r->payload, &a, &in);

	if (!rc)
		move(l, r, in.id, in.replace ? EPD_STATE_FREE :
		    EPD_STATE_SHARED, 0, f);
	for (uint32_t i = 0; !rc && i < in.count; i++) {
		move(l, r, in.first + i, EPD_STATE_SHARED, 0, f);
		rc = add(l, in.first + i, 1, EPD_STATE_SHARED, 0);
	}
	epd_arena_free(&a);
	return rc;
}

static int
decision_of(struct epd_ledger *l, const struct epd_rec *r,
    struct epd_faults *f)
{
	struct epd_ledger_state *s;
	struct epd_move in;
	int decides;

	if (epd_move_unpack(r->payload, r->kind, &in))
		return EPD_ECORRUPT;
	decides = epd_handoff_is(in.handoff);
	s = move(l, r, in.id, epd_life_of(in.to), decides, f);
	if (s)
		s->pinned = 0;
	return 0;
}

/* It stays as it is, where it may wait at all. */
static int
wait_of(struct epd_ledger *l, const struct epd_rec *r, struct epd_faults *f)
{
	const struct epd_ledger_state *s;
	struct epd_wait in;

	if (epd_wait_unpack(r->payload, &in))
		return EPD_ECORRUPT;
	s = find(l, in.id);
	move(l, r, in.id, s ? s->life : EPD_STATE_ACTIVE, 0, f);
	return 0;
}

static int
advance_of(struct epd_ledger *l, const struct epd_rec *r,
    struct epd_faults *f)
{
	struct epd_ledger_state *s;
	struct epd_advance in;

	if (epd_advance_unpack(r->payload, &in))
		return EPD_ECORRUPT;
	s = move(l, r, in.id, EPD_STATE_ACTIVE, 0, f);
	if (s && s->versions++ != in.expect)
		epd_fault(f, "record %llu: s%u advances from @%u, but is at "
		    "@%u", LLU(r->lsn), in.id, in.expect, s->versions - 1);
	return of_body(l, r, in.body);
}

int
epd_ledger_record(struct epd_ledger *l, const struct epd_rec *r,
    struct epd_faults *f)
{
	struct epd_ledger_state *s;
	struct epd_handoff half;
	struct epd_create create;
	struct epd_release release;

	switch (r->kind) {
	case EPD_KIND_CREATE:
		return epd_create_unpack(r->payload, &create) ? EPD_ECORRUPT :
		    begin_one(l, r, &create, EPD_STATE_ACTIVE, 0, f);
	case EPD_KIND_READY:
		return epd_ready_unpack(r->payload, &half, &create) ?
		    EPD_ECORRUPT : begin_one(l, r, &create,
		    EPD_STATE_RESTORING, 1, f);
	case EPD_KIND_ADVANCE:
		return advance_of(l, r, f);
	case EPD_KIND_FORK:
		return fork_of(l, r, f);
	case EPD_KIND_PREPARE:
		if (epd_prepare_unpack(r->payload, &half))
			return EPD_ECORRUPT;
		s = move(l, r, half.state, EPD_STATE_ACTIVE, 0, f);
		if (s)
			s->pinned = 1;
		return 0;
	case EPD_KIND_WAIT:
		return wait_of(l, r, f);
	case EPD_KIND_COMMIT:
	case EPD_KIND_ABORT:
	case EPD_KIND_OFFLOAD:
	case EPD_KIND_SUSPECT:
	case EPD_KIND_RESTORE:
		return decision_of(l, r, f);
	case EPD_KIND_RELEASE:
		if (epd_release_unpack(r->payload, &release))
			return EPD_ECORRUPT;
		move(l, r, release.id, EPD_STATE_FREE, 0, f);
		return 0;
	default:
		return 0;
	}
}

int
epd_ledger_run(struct epd_ledger *l, uint64_t run, uint64_t lsn, int begins)
{
	struct epd_ledger_run r = { .run = run, .lsn = lsn, .begins = begins };

	if (!run)
		return 0;
	epd_buf_put(&l->runs, &r, sizeof r);
	return l->runs.failed ? -ENOMEM : 0;
}

static int
by_run(const void *x, const void *y)
{
	const struct epd_ledger_run *a = x, *b = y;

	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	if (a->lsn != b->lsn)
		return a->lsn < b->lsn ? -1 : 1;
	return b->begins - a->begins;
}

int
epd_ledger_settle(struct epd_ledger *l, struct epd_faults *f)
{
	struct epd_ledger_run *v = (void *)l->runs.p;
	size_t n = l->runs.n / sizeof *v;
	enum epd_page_life life = EPD_PAGE_SEALED, to;

	if (n)
		qsort(v, n, sizeof *v, by_run);
	for (size_t i = 0; i < n; i++) {
		/* A run is published before any record can speak of it. */
		if (!i || v[i].run != v[i - 1].run)
			life = EPD_PAGE_SEALED;
		to = v[i].begins ? EPD_PAGE_REFERENCED : EPD_PAGE_FREED;
		if (!epd_life_page(life, to))
			epd_fault(f, "record %llu: run %016llx: no move from "
			    "%s to %s", LLU(v[i].lsn), LLU(v[i].run),
			    epd_page_life_name(life), epd_page_life_name(to));
		life = to;
	}
	return 0;
}

void
epd_ledger_free(struct epd_ledger *l)
{
	epd_buf_free(&l->states);
	epd_buf_free(&l->runs);
}
