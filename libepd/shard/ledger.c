/* ledger.c - which state and which run is in what part of its life. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shard/check.h"
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
add(struct epd_ledger *l, uint32_t id, uint32_t versions, uint32_t life)
{
	struct epd_ledger_state s = { id, versions, life };

	epd_buf_put(&l->states, &s, sizeof s);
	return l->states.failed ? -ENOMEM : 0;
}

int
epd_ledger_start(struct epd_ledger *l, const struct epd_table *t)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < t->n; i++)
		rc = add(l, t->head[i]->state.id, t->head[i]->state.versions,
		    epd_life_of(t->head[i]->state.status));
	return rc;
}

/* Move a state that must be there, if the table has the edge. */
static struct epd_ledger_state *
move(struct epd_ledger *l, const struct epd_rec *r, uint32_t id,
    enum epd_state_life to, struct epd_faults *f)
{
	struct epd_ledger_state *s = find(l, id);
	enum epd_state_life from = s ? s->life : EPD_STATE_NONE;

	if (!epd_life_state(from, to, r->kind)) {
		epd_fault(f, "record %llu: %s of s%u: no move from %s to %s",
		    LLU(r->lsn), epd_kind_name(r->kind), id,
		    epd_state_life_name(from), epd_state_life_name(to));
		return NULL;
	}
	if (s)
		s->life = to;
	return s;
}

int
epd_ledger_record(struct epd_ledger *l, const struct epd_rec *r,
    struct epd_faults *f)
{
	struct epd_ledger_state *s;
	struct epd_glance g = { 0 };
	struct epd_create create;
	struct epd_advance advance;
	struct epd_release release;

	switch (r->kind) {
	case EPD_KIND_CREATE:
		if (epd_create_unpack(r->payload, &create) ||
		    epd_body_glance(create.body, &g))
			return EPD_ECORRUPT;
		move(l, r, create.id, EPD_STATE_ACTIVE, f);
		if (add(l, create.id, 1, EPD_STATE_ACTIVE))
			return -ENOMEM;
		return epd_ledger_run(l, g.run, r->lsn, 1);
	case EPD_KIND_ADVANCE:
		if (epd_advance_unpack(r->payload, &advance) ||
		    epd_body_glance(advance.body, &g))
			return EPD_ECORRUPT;
		s = move(l, r, advance.id, EPD_STATE_ACTIVE, f);
		if (s && s->versions++ != advance.expect)
			epd_fault(f, "record %llu: s%u advances from @%u, but "
			    "is at @%u", LLU(r->lsn), advance.id,
			    advance.expect, s->versions - 1);
		return epd_ledger_run(l, g.run, r->lsn, 1);
	case EPD_KIND_RELEASE:
		if (epd_release_unpack(r->payload, &release))
			return EPD_ECORRUPT;
		move(l, r, release.id, EPD_STATE_FREE, f);
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
