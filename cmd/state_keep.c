/* state_keep.c - release, abort, check, gc, metrics. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/state.h"

/*
 * A workflow whose lock was waited for in vain: for more operands of it the lock
 * is asked for once.
 */
struct patience {
	char workflow[EPD_WORKFLOW];
	int64_t ms;		/* as configured */
	uint64_t from;
};

static void
ask(struct state_args *a, struct patience *p, const struct epd_ref *ref)
{
	if (!p->ms)
		p->ms = a->store->config.lock_timeout_ms;
	a->store->config.lock_timeout_ms = *p->workflow &&
	    !strcmp(p->workflow, ref->workflow) ? 0 : p->ms;
	p->from = epd_clock_boot_ns();
}

/* What an operand came to, for people. */
static void
tell(struct state_args *a, struct patience *p, const char *operand,
    const struct epd_ref *ref, const char *done, int rc,
    const struct epd_why *why)
{
	struct cli *c = a->cli;

	if (rc == EPD_ELOCKED && epd_clock_boot_ns() - p->from >=
	    (uint64_t)p->ms * 1000000)
		memcpy(p->workflow, ref->workflow, sizeof p->workflow);
	if (rc < 0)
		cli_fail(c, operand, rc, why);
	else if (c->verbose)
		cli_say(c, "%s: %s", operand, done);
}

void
state_release(struct state_args *a)
{
	struct patience p = { .ms = 0 };

	for (int i = 0; i < a->n; i++) {
		struct epd_why why = {0};
		struct epd_ref ref;
		int rc = 0;

		if (state_ref(a, a->operand[i], &ref) < 0)
			continue;
		ask(a, &p, &ref);
		if (ref.kind == EPD_REF_WORKFLOW && !a->recursive)
			rc = epd_why(&why, EPD_EUSAGE, "a workflow; -r "
			    "releases all its states");
		if (rc == 0)
			rc = epd_flow_release(a->store, &ref, a->reason, &why);
		tell(a, &p, a->operand[i], &ref, "released", rc, &why);
	}
}

void
state_abort(struct state_args *a)
{
	struct patience p = { .ms = 0 };

	for (int i = 0; i < a->n; i++) {
		struct epd_why why = {0};
		struct epd_ref ref;
		int rc;

		if (state_ref(a, a->operand[i], &ref) < 0)
			continue;
		ask(a, &p, &ref);
		rc = epd_flow_abort(a->store, &ref, a->reason, &why);
		tell(a, &p, a->operand[i], &ref, "aborted", rc, &why);
	}
}

/* ---- check ---- */

struct checker {
	struct state_args *a;
	const char *workflow;	/* "": the store */
};

static void
fault(void *arg, const char *text)
{
	struct checker *x = arg;
	struct cli *c = x->a->cli;
	struct epd_buf b = {0};
	struct epd_jw w;

	cli_status(c, epd_exitcode(EPD_ECORRUPT));
	if (!c->json) {
		cli_line(c, text);
		return;
	}
	cli_object(&w, &b);
	epd_jw_str(&w, "fault", text);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static void
litter(void *arg, const char *text)
{
	const struct checker *x = arg;
	struct cli *c = x->a->cli;
	struct epd_buf b = {0};
	struct epd_jw w;

	if (!c->json) {
		if (!c->quiet)
			cli_say(c, "%s; gc takes it", text);
		return;
	}
	cli_object(&w, &b);
	epd_jw_str(&w, "litter", text);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static const char *
s_of(uint64_t n)
{
	return n == 1 ? "" : "s";
}

#define LLU(x) ((unsigned long long)(x))

/* The seven invariants, and what each was proven on. */
static void
explain(struct cli *c, const struct epd_proof *p)
{
	cli_say(c, "1 sealed pages: %llu page%s in %llu run%s, each with the "
	    "bytes and the name that the log has of it", LLU(p->pages),
	    s_of(p->pages), LLU(p->runs), s_of(p->runs));
	cli_say(c, "2 counts: %llu node%s, recounted from %llu version%s and "
	    "%llu lease%s", LLU(p->nodes), s_of(p->nodes), LLU(p->versions),
	    s_of(p->versions), LLU(p->leases), s_of(p->leases));
	cli_say(c, "3 no use after free: what %llu state%s and %llu lease%s "
	    "hold is there", LLU(p->states), s_of(p->states), LLU(p->leases),
	    s_of(p->leases));
	cli_say(c, "4 no double free: every run begins once and ends once at "
	    "most, in %llu record%s", LLU(p->records), s_of(p->records));
	cli_say(c, "5 snapshots: those records give the tables, and every "
	    "state's pages follow one another");
	cli_say(c, "6 fall-back: %llu page%s not in memory, to be computed "
	    "again on use", LLU(p->missing), s_of(p->missing));
	cli_say(c, "7 hand-offs: %llu %s, the undecided with their states "
	    "pinned", LLU(p->handoffs), p->handoffs == 1 ? "half" : "halves");
}

static void
proof_json(struct epd_jw *w, const struct epd_proof *p)
{
	epd_jw_uint(w, "records", p->records);
	epd_jw_uint(w, "states", p->states);
	epd_jw_uint(w, "versions", p->versions);
	epd_jw_uint(w, "nodes", p->nodes);
	epd_jw_uint(w, "leases", p->leases);
	epd_jw_uint(w, "handoffs", p->handoffs);
	epd_jw_uint(w, "runs", p->runs);
	epd_jw_uint(w, "pages", p->pages);
	epd_jw_uint(w, "pages_missing", p->missing);
	epd_jw_uint(w, "litter", p->litter);
}

static void
verdict(struct checker *x, int faults, const struct epd_proof *proof)
{
	struct cli *c = x->a->cli;
	const char *what = *x->workflow ? x->workflow : x->a->store->path;
	struct epd_buf b = {0};
	struct epd_jw w;

	if (c->verbose) {
		explain(c, proof);
		cli_say(c, "%s: %d fault%s", what, faults,
		    faults == 1 ? "" : "s");
	}
	if (!c->json)
		return;
	cli_object(&w, &b);
	epd_jw_str(&w, "checked", what);
	epd_jw_int(&w, "faults", faults);
	proof_json(&w, proof);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static int
check_one(void *arg, const char *workflow)
{
	struct state_args *a = arg;
	struct checker x = { a, workflow };
	const struct epd_findings f = { fault, litter, &x };
	struct epd_proof proof = {0};
	struct epd_why why = {0};
	int rc = epd_flow_prove(a->store, workflow, &f, &proof, &why);

	if (rc < 0)
		cli_fail(a->cli, *workflow ? workflow : NULL, rc, &why);
	else
		verdict(&x, rc, &proof);
	return 0;
}

void
state_check(struct state_args *a)
{
	if (a->n || a->cli->workflow)
		state_each(a, check_one, a);
	else
		check_one(a, "");
}

/* ---- gc ---- */

static void
tell_swept(struct cli *c, const struct epd_swept *s)
{
	char run[24], over[24], feature[24], folder[24], evicted[64] = "";

	if (s->evicted)
		snprintf(evicted, sizeof evicted, "%llu above the cap (%s), ",
		    LLU(s->evicted), cli_bytes(over, s->evicted_bytes));
	cli_say(c, "%llu state%s expired, %llu run%s (%s), %s%llu feature%s "
	    "and %llu orphan%s (%s), %llu memory folder%s, %llu leftover%s "
	    "(%s), %.1f ms", LLU(s->states), s_of(s->states), LLU(s->runs),
	    s_of(s->runs), cli_bytes(run, s->run_bytes), evicted,
	    LLU(s->features), s_of(s->features), LLU(s->orphans),
	    s_of(s->orphans), cli_bytes(feature, s->feature_bytes),
	    LLU(s->memory_folders), s_of(s->memory_folders),
	    LLU(s->temporaries), s_of(s->temporaries),
	    cli_bytes(folder, s->other_bytes), (double)s->ns / 1e6);
}

void
state_gc(struct state_args *a)
{
	struct cli *c = a->cli;
	struct epd_swept s;
	struct epd_why why = {0};
	struct epd_buf b = {0};
	struct epd_jw w;
	int rc = epd_flow_gc(a->store, &s, &why);

	if (rc < 0) {
		cli_fail(c, NULL, rc, &why);
		return;
	}
	if (c->verbose)
		tell_swept(c, &s);
	if (!c->json)
		return;
	cli_object(&w, &b);
	epd_jw_uint(&w, "states", s.states);
	epd_jw_uint(&w, "runs", s.runs);
	epd_jw_uint(&w, "run_bytes", s.run_bytes);
	epd_jw_uint(&w, "evicted", s.evicted);
	epd_jw_uint(&w, "evicted_bytes", s.evicted_bytes);
	epd_jw_uint(&w, "features", s.features);
	epd_jw_uint(&w, "orphans", s.orphans);
	epd_jw_uint(&w, "feature_bytes", s.feature_bytes);
	epd_jw_uint(&w, "memory_folders", s.memory_folders);
	epd_jw_uint(&w, "leftovers", s.temporaries);
	epd_jw_uint(&w, "other_bytes", s.other_bytes);
	epd_jw_real(&w, "ms", (double)s.ns / 1e6);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

/* ---- metrics ---- */

void
state_metrics(struct state_args *a)
{
	struct cli *c = a->cli;
	struct epd_buf b = {0};
	struct epd_why why = {0};
	int rc;

	if (a->reset) {
		epd_metrics_reset(a->store->metrics);
		return;
	}
	rc = epd_view_metrics(a->store, c->json, &b, &why);
	if (rc < 0)
		cli_fail(c, NULL, rc, &why);
	else if (c->json)
		cli_line(c, epd_buf_cstr(&b));
	else
		cli_out(c, epd_span(b.p, b.n));
	epd_buf_free(&b);
}
