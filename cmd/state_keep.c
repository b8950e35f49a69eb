/* state_keep.c - release, abort, check, gc, metrics. */
#include <stdio.h>

#include "cmd/state.h"

/* fn on each operand; what one came to is said to people who ask, as done. */
static void
each(struct state_args *a, const char *done, int (*fn)(struct state_args *a,
    const struct epd_ref *ref, struct epd_why *why))
{
	struct cli *c = a->cli;

	for (int i = 0; i < a->n && !c->out_failed; i++) {
		struct epd_why why = {0};
		struct epd_ref ref;
		int rc = state_ref(a, a->operand[i], &ref);

		if (rc < 0)
			continue;
		rc = fn(a, &ref, &why);
		if (rc < 0)
			cli_fail(c, a->operand[i], rc, &why);
		else if (c->verbose)
			cli_say(c, "%s: %s", a->operand[i], done);
	}
}

static int
release(struct state_args *a, const struct epd_ref *ref, struct epd_why *why)
{
	if (ref->kind == EPD_REF_WORKFLOW && !a->recursive)
		return epd_why(why, EPD_EUSAGE, "a workflow; -r releases all "
		    "its states");
	return epd_flow_release(a->store, ref, a->reason, why);
}

void
state_release(struct state_args *a)
{
	each(a, "released", release);
}

static int
give_up(struct state_args *a, const struct epd_ref *ref, struct epd_why *why)
{
	return epd_flow_abort(a->store, ref, a->reason, why);
}

void
state_abort(struct state_args *a)
{
	each(a, "aborted", give_up);
}

static int
wait_for(struct state_args *a, const struct epd_ref *ref, struct epd_why *why)
{
	char name[EPD_REF_TEXT];
	struct epd_buf b = {0};
	struct epd_jw w;
	int rc = epd_flow_wait(a->store, ref, a->done ? "" : a->tool,
	    a->ttl_ms, a->reason, why);

	if (rc < 0 || !a->cli->json)
		return rc;
	cli_object(&w, &b);
	epd_jw_str(&w, "state", epd_ref_format(name, ref->workflow,
	    ref->state, 0));
	epd_jw_str(&w, "waits_for_tool", a->done ? NULL : a->tool);
	if (a->ttl_ms)
		epd_jw_uint(&w, "ttl_ms", a->ttl_ms);
	else
		epd_jw_str(&w, "ttl_ms", NULL);
	cli_object_end(a->cli, &w);
	epd_buf_free(&b);
	return 0;
}

void
state_wait(struct state_args *a)
{
	each(a, a->done ? "waits no more" : "waits", wait_for);
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
litter(void *arg, enum epd_finding what, const char *text)
{
	const struct checker *x = arg;
	struct cli *c = x->a->cli;
	const char *const keys[] = { "fault", "litter", "foreign", "lost" };
	struct epd_buf b = {0};
	struct epd_jw w;

	if (!c->json) {
		if (!c->quiet)
			cli_say(c, "%s%s", text, what == EPD_LITTER &&
			    !x->a->store->read_only ? "; gc takes it" : "");
		return;
	}
	cli_object(&w, &b);
	epd_jw_str(&w, keys[what], text);
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
explain(struct cli *c, const struct epd_proof *p, int quick)
{
	cli_say(c, "1 sealed pages: %llu page%s in %llu run%s, each with the "
	    "bytes and the name that the log has of it", LLU(p->pages),
	    s_of(p->pages), LLU(p->runs), s_of(p->runs));
	if (p->packs)
		cli_say(c, "  and %llu page%s in %llu pack%s in nvme%s",
		    LLU(p->packed), s_of(p->packed), LLU(p->packs),
		    s_of(p->packs), quick ? ", named so by their fronts" : "");
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
	cli_say(c, "6 fall-back: %llu page%s not in memory, to be had from a "
	    "tier or computed again on use", LLU(p->missing), s_of(p->missing));
	if (p->lost)
		cli_say(c, "  %llu page%s that a lower tier was to have and has "
		    "not", LLU(p->lost), s_of(p->lost));
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
	epd_jw_uint(w, "nvme_runs", p->packs);
	epd_jw_uint(w, "nvme_pages", p->packed);
	epd_jw_uint(w, "pages_lost", p->lost);
	epd_jw_uint(w, "litter", p->litter);
	epd_jw_uint(w, "foreign", p->foreign);
}

static void
verdict(struct checker *x, int faults, const struct epd_proof *proof)
{
	struct cli *c = x->a->cli;
	const char *what = *x->workflow ? x->workflow : x->a->store->path;
	struct epd_buf b = {0};
	struct epd_jw w;

	if (c->verbose) {
		explain(c, proof, x->a->quick);
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
	const struct epd_findings f = { fault, litter, &x, a->quick };
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

/* "2 runs (8.0 KiB)", with a comma before all but the first. */
static void
part(struct epd_buf *b, uint64_t n, const char *what, uint64_t bytes)
{
	char size[24];

	epd_buf_fmt(b, "%s%llu %s%s (%s)", b->n ? ", " : "", LLU(n), what,
	    s_of(n), cli_bytes(size, bytes));
}

/* What went from the tier on the disk. */
static void
tell_disk(struct cli *c, const struct epd_swept_disk *s)
{
	struct epd_buf b = {0};
	char size[24];

	part(&b, s->runs, "run", s->run_bytes);
	if (s->evicted)
		epd_buf_fmt(&b, ", %llu above the cap (%s)", LLU(s->evicted),
		    cli_bytes(size, s->evicted_bytes));
	part(&b, s->folders, "folder", s->folder_bytes);
	part(&b, s->leftovers, "leftover", s->leftover_bytes);
	cli_say(c, "nvme: %s", epd_buf_cstr(&b));
	epd_buf_free(&b);
}

static void
tell_swept(struct cli *c, const struct epd_swept *s)
{
	struct epd_buf b = {0};
	char size[24];

	epd_buf_fmt(&b, "%llu state%s expired", LLU(s->states),
	    s_of(s->states));
	part(&b, s->runs, "run", s->run_bytes);
	if (s->evicted)
		epd_buf_fmt(&b, ", %llu above the cap (%s)", LLU(s->evicted),
		    cli_bytes(size, s->evicted_bytes));
	epd_buf_fmt(&b, ", %llu feature%s and", LLU(s->features),
	    s_of(s->features));
	epd_buf_fmt(&b, " %llu orphan%s (%s)", LLU(s->orphans),
	    s_of(s->orphans), cli_bytes(size, s->feature_bytes));
	part(&b, s->memory_folders, "memory folder", s->folder_bytes);
	part(&b, s->temporaries, "leftover", s->temporary_bytes);
	part(&b, s->tails, "log tail", s->tail_bytes);
	if (s->checkpoints)
		epd_buf_fmt(&b, ", %llu checkpoint%s written again",
		    LLU(s->checkpoints), s_of(s->checkpoints));
	if (s->offloads || s->restores)
		epd_buf_fmt(&b, ", %llu offload%s rolled back, %llu restore%s "
		    "ended", LLU(s->offloads), s_of(s->offloads),
		    LLU(s->restores), s_of(s->restores));
	if (s->rested || s->expected)
		epd_buf_fmt(&b, ", %llu put to rest, %llu brought back",
		    LLU(s->rested), LLU(s->expected));
	epd_buf_fmt(&b, ", %llu hand-off%s settled, %.1f ms", LLU(s->handoffs),
	    s_of(s->handoffs), (double)s->ns / 1e6);
	cli_say(c, "%s", epd_buf_cstr(&b));
	epd_buf_free(&b);
}

static void
swept_json(struct cli *c, const struct epd_swept *s)
{
	struct epd_buf b = {0};
	struct epd_jw w;

	cli_object(&w, &b);
	epd_jw_uint(&w, "states", s->states);
	epd_jw_uint(&w, "runs", s->runs);
	epd_jw_uint(&w, "run_bytes", s->run_bytes);
	epd_jw_uint(&w, "evicted", s->evicted);
	epd_jw_uint(&w, "evicted_bytes", s->evicted_bytes);
	epd_jw_uint(&w, "features", s->features);
	epd_jw_uint(&w, "orphans", s->orphans);
	epd_jw_uint(&w, "feature_bytes", s->feature_bytes);
	epd_jw_uint(&w, "memory_folders", s->memory_folders);
	epd_jw_uint(&w, "memory_folder_bytes", s->folder_bytes);
	epd_jw_uint(&w, "leftovers", s->temporaries);
	epd_jw_uint(&w, "leftover_bytes", s->temporary_bytes);
	epd_jw_uint(&w, "log_tails", s->tails);
	epd_jw_uint(&w, "log_tail_bytes", s->tail_bytes);
	epd_jw_uint(&w, "checkpoints", s->checkpoints);
	epd_jw_uint(&w, "handoffs", s->handoffs);
	epd_jw_uint(&w, "offloads_rolled_back", s->offloads);
	epd_jw_uint(&w, "restores_ended", s->restores);
	epd_jw_uint(&w, "dead_leases", s->dead);
	epd_jw_uint(&w, "rested", s->rested);
	epd_jw_uint(&w, "expected", s->expected);
	epd_jw_uint(&w, "nvme_runs", s->disk.runs);
	epd_jw_uint(&w, "nvme_run_bytes", s->disk.run_bytes);
	epd_jw_uint(&w, "nvme_evicted", s->disk.evicted);
	epd_jw_uint(&w, "nvme_evicted_bytes", s->disk.evicted_bytes);
	epd_jw_uint(&w, "nvme_folders", s->disk.folders);
	epd_jw_uint(&w, "nvme_unseen", s->disk.unseen);
	epd_jw_uint(&w, "nvme_folder_bytes", s->disk.folder_bytes);
	epd_jw_uint(&w, "nvme_leftovers", s->disk.leftovers);
	epd_jw_uint(&w, "nvme_leftover_bytes", s->disk.leftover_bytes);
	epd_jw_real(&w, "ms", (double)s->ns / 1e6);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static void
not_swept(void *arg, int rc, const char *text)
{
	struct cli *c = arg;
	struct epd_why why;

	if (rc == 0) {
		if (!c->quiet)
			cli_say(c, "%s", text);
		return;
	}
	epd_why(&why, rc, "%s", text);
	cli_fail(c, NULL, rc, &why);
}

void
state_gc(struct state_args *a)
{
	struct cli *c = a->cli;
	struct epd_swept s;

	(void)epd_flow_sweep(a->store, &s, not_swept, c);
	if (c->verbose)
		tell_swept(c, &s);
	if (c->verbose && a->store->disk)
		tell_disk(c, &s.disk);
	if (c->json)
		swept_json(c, &s);
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
