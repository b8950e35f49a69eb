/*
 * rest.c - out to a tier, and resumed.
 *
 *  1. What leaves memory was put in the tier, and the log said OFFLOADED, before.
 *  2. It leaves under the workflow's lock, and only while the log still says so: who
 *     resumes the state comes before all of that, or after, and finds the pages in
 *     memory or in the tier.
 *  3. A run that cannot be moved as it should be (it is damaged) is not moved, and
 *     will be computed again: that is no failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/stop.h"
#include "flow/book.h"
#include "flow/handoff.h"
#include "flow/litter.h"
#include "flow/rest.h"
#include "flow/runs.h"
#include "flow/spare.h"
#include "flow/tiers.h"
#include "page/page.h"

#define MS UINT64_C(1000000)
enum { POLL_MS = 10, TRIES = 8 };

static uint64_t
patience(const struct epd_store *s)
{
	return epd_clock_boot_ns() + MS * (uint64_t)
	    (s->config.transfer_timeout_ms);
}

/* Another is at it: wait a moment; 0 when it has been too long. */
static int
bide(uint64_t end_ns)
{
	if (epd_clock_boot_ns() >= end_ns || epd_is_stopped())
		return 0;
	epd_clock_sleep_ns(POLL_MS * MS);
	return 1;
}

static int
name_it(const struct epd_workflow *w, uint32_t state, int rc,
    struct epd_why *why)
{
	char ref[EPD_REF_TEXT];

	epd_ref_format(ref, w->name, state, 0);
	return epd_why(why, rc, "%s: %s", ref, epd_strerror(rc));
}

/* The lease of who moves a state: each lot is moved within it. */
struct hold {
	uint64_t lease, renew_ns;	/* lease 0: none */
};

static struct hold
held(const struct epd_store *s, uint64_t lease)
{
	return (struct hold){ lease, epd_clock_boot_ns() +
	    (uint64_t)s->config.lease_ms * MS / 3 };
}

static int
keep(struct hold *h, const struct epd_workflow *w, struct epd_why *why)
{
	if (!h->lease || epd_clock_boot_ns() < h->renew_ns)
		return 0;
	*h = held(w->store, h->lease);
	return epd_shard_renew(w->shard, h->lease, (uint64_t)
	    w->store->config.lease_ms, why);
}

/* ---- into memory ---- */

struct back {
	struct epd_store *s;
	const struct epd_workflow *w;
	const struct epd_restore *r;	/* NULL: all, for a verb */
	int ahead;			/* what is there is not looked at, nor used */
	struct hold hold;
	struct epd_restored sum;
};

static int
is_asked(const struct epd_restore *r, uint32_t from, uint32_t to)
{
	int any = !r || !r->n;

	for (int i = 0; !any && i < r->n; i++)
		any = r->part[i].from < to && from < r->part[i].to;
	return any;
}

/* 1: it is in memory, and this counts as a use of it. */
static int
pin(const struct epd_workflow *w, const struct epd_lot *lot)
{
	struct epd_run *run;

	if (w->runs < 0 || epd_run_open(&run, w->runs, lot->run, &lot->shape,
	    lot->entry, lot->n, NULL) < 0)
		return 0;
	epd_run_close(run);
	return 1;
}

static int
fill_lot(void *arg, const struct epd_lot *lot, uint32_t first,
    struct epd_why *why)
{
	struct back *x = arg;
	struct epd_fill f = { .needed = !x->r && !x->ahead };
	int rc;

	if (!is_asked(x->r, first, first + (uint32_t)lot->n))
		return 0;
	x->sum.pages += (uint64_t)lot->n;
	if (x->ahead ? epd_run_is_in(x->w->runs, lot->run) : pin(x->w, lot)) {
		x->sum.pinned += (uint64_t)lot->n;
		return 0;
	}
	/* Without it the pages come all the same, and the end tells who restored. */
	(void)keep(&x->hold, x->w, NULL);
	rc = epd_fill_run(x->s, x->w, lot, &f, why);
	if (x->ahead)
		epd_count(x->s->metrics, EPD_M_PREFETCHED, f.runs);
	x->sum.came += f.pages;
	x->sum.bytes += f.bytes;
	x->sum.missing += f.missing;
	x->sum.tiers |= f.tiers;
	return rc == EPD_ENOTHING ? 0 : rc;
}

/* ---- out ---- */

struct out {
	struct epd_store *s;
	struct epd_workflow *w;
	struct epd_lower *tier;
	struct hold hold;
	int rests;			/* there already: what came into memory goes again */
	struct epd_buf manifest;	/* whose pages these are, for who finds them */
	struct epd_offloaded sum;
};

/*
 * Not in memory: 1 if the tier has all of it from before; else it comes from another
 * one, and is looked at again: 0.  EPD_ENOTHING: none has it.
 */
static int
elsewhere(struct out *x, const struct epd_lot *lot, struct epd_why *why)
{
	const enum epd_tier tier = epd_lower_ops(x->tier)->tier;
	const long n = epd_lower_ops(x->tier)->has(x->tier, lot,
	    epd_store_tier_end(x->s, tier, 1), why);
	struct epd_fill f = { .needed = 1 };

	/* Of a tier that cannot be asked nobody knows: what it has costs it little. */
	if (n < 0 && n != EPD_EUNSUPPORTED)
		return (int)n;
	if (n == lot->n) {
		x->sum.had += (uint64_t)n;
		return 1;
	}
	return epd_fill_run(x->s, x->w, lot, &f, why);
}

static int
put_lot(void *arg, const struct epd_lot *lot, uint32_t first,
    struct epd_why *why)
{
	struct out *x = arg;
	const enum epd_tier tier = epd_lower_ops(x->tier)->tier;
	const void **page = epd_calloc((size_t)lot->n, sizeof *page);
	struct epd_lot mine = *lot;
	struct epd_run *run;
	int rc;

	(void)first;
	if (!page)
		return -ENOMEM;
	x->sum.pages += (uint64_t)lot->n;
	mine.manifest = epd_span(x->manifest.p, x->manifest.n);
	rc = epd_lot_look(x->w->runs, lot, &run, page);
	if (rc < 0 && rc != -ENOMEM && x->rests) {
		x->sum.had += (uint64_t)lot->n;
		rc = 1;
	} else if (rc < 0 && rc != -ENOMEM) {
		rc = elsewhere(x, lot, why);
		if (rc == 0)
			rc = epd_lot_look(x->w->runs, lot, &run, page);
	}
	if (rc != 0) {
		epd_free(page);
		if (rc == 1)
			return 0;
		if (rc != EPD_ENOTHING && rc != -ENOENT && rc != EPD_ECORRUPT)
			return rc;
		x->sum.missing += (uint64_t)lot->n;
		return 0;
	}
	/* What the log knows, and what the file does. */
	mine.given |= epd_run_is_given(run);
	rc = keep(&x->hold, x->w, why);
	if (rc == 0)
		rc = epd_lower_ops(x->tier)->put(x->tier, &mine, page,
		    epd_store_tier_end(x->s, tier, lot->n), why);
	if (rc == 0)
		x->sum.bytes += (uint64_t)lot->n * lot->shape.bytes;
	epd_run_close(run);
	epd_free(page);
	return rc;
}

/* It may be asked for while another moves it there: then both are done together. */
static int
begin(struct epd_store *s, struct epd_workflow *w, const struct epd_offload *o,
    struct epd_rest *r, struct epd_why *why)
{
	const uint64_t end = patience(s);
	int rc;

	for (;;) {
		rc = epd_shard_offload(w->shard, o->state.state,
		    epd_tier_name(o->tier), (uint64_t)s->config.lease_ms,
		    o->reason, r, why);
		if (rc != 1 || r->was == EPD_OFFLOADED)
			return rc;
		if (!bide(end))
			return epd_why(why, EPD_ELOCKED, "s%u: another process "
			    "offloads it, and takes long", o->state.state);
	}
}

/* How it ended, for the log: done, or back as it was. */
static int
end(struct out *x, const struct epd_offload *o, int rc, struct epd_why *why)
{
	const uint32_t id = o->state.state;

	if (rc == 0) {
		rc = epd_shard_offloaded(x->w->shard, id, x->hold.lease,
		    o->reason, why);
		if (rc == 0)
			return 0;
	}
	epd_count(x->s->metrics, EPD_M_OFFLOAD_ABORTS, 1);
	/* Whoever released it has decided; the lease is all that is left. */
	if (epd_shard_restored(x->w->shard, id, x->hold.lease, "the offload "
	    "did not end", NULL) < 0)
		(void)epd_shard_drop(x->w->shard, x->hold.lease, "late", NULL);
	return rc;
}

/* It rests in memory: what is not there comes. */
static int
stay(struct out *x, uint32_t state, struct epd_why *why)
{
	struct back all = { .s = x->s, .w = x->w, .hold = x->hold };
	int rc = epd_lots_of(x->w, state, 0, 0, fill_lot, &all, why);

	x->sum.pages = all.sum.pages;
	x->sum.had = all.sum.pinned;
	x->sum.bytes = all.sum.bytes;
	x->sum.missing = all.sum.missing;
	return rc;
}

/* The state as JSON; without memory for it pages go without. */
static void
describe(struct out *x, const struct epd_offload *o)
{
	struct epd_buf *b = &x->manifest;
	struct epd_jw w = { .out = b };
	char name[EPD_REF_TEXT];
	struct epd_state st;

	if (epd_shard_state(x->w->shard, o->state.state, &st) < 0)
		return;
	epd_jw_begin(&w, NULL, '{');
	epd_jw_int(&w, "schema_version", 1);
	epd_jw_str(&w, "object", "kv_page");
	epd_jw_str(&w, "state", epd_ref_format(name, x->w->name, st.id,
	    st.versions));
	epd_jw_hex(&w, "store", x->s->uuid, 16);
	epd_jw_hex(&w, "model_fp", st.model_fp.b, EPD_NAME);
	epd_jw_str(&w, "tenant", *st.tenant ? st.tenant : NULL);
	epd_jw_uint(&w, "wall_ms", epd_clock_wall_ms());
	epd_jw_str(&w, "reason", o->reason);
	epd_jw_end(&w, '}');
	if (b->failed)
		epd_buf_free(b);
}

static int
offload(struct epd_store *s, struct epd_workflow *w,
    const struct epd_offload *o, struct epd_offloaded *sum, struct epd_why *why)
{
	const uint64_t from = epd_clock_boot_ns();
	struct out x = { .s = s, .w = w };
	struct epd_rest r = { 0 };
	int rc = 0;

	if (o->tier != EPD_TIER_CPU)
		rc = epd_store_tier(s, o->tier, &x.tier, why);
	if (rc == 0)
		rc = begin(s, w, o, &r, why);
	if (rc < 0)
		return rc;
	x.rests = rc == 1;
	x.sum.before = x.rests;
	x.sum.version = r.version;
	if (!x.rests)
		x.hold = held(s, r.lease);
	describe(&x, o);
	rc = o->tier == EPD_TIER_CPU ? stay(&x, o->state.state, why) :
	    epd_lots_of(w, o->state.state, 0, 1, put_lot, &x, why);
	if (!x.rests)
		rc = end(&x, o, rc, why);
	/* It rests, whatever becomes of its memory: eviction finds that later. */
	if (rc == 0 && o->tier != EPD_TIER_CPU)
		(void)epd_spare(w, o->state.state, &x.sum.freed, &x.sum.shared,
		    NULL);
	x.sum.ns = epd_clock_boot_ns() - from;
	epd_buf_free(&x.manifest);
	*sum = x.sum;
	return rc;
}

static void
count_out(struct epd_store *s, const struct epd_offloaded *sum)
{
	epd_count(s->metrics, EPD_M_OFFLOADS, 1);
	epd_count(s->metrics, EPD_M_OFFLOAD_NS, sum->ns);
	epd_count(s->metrics, EPD_M_OFFLOAD_BYTES, sum->bytes);
}

static int
enter(struct epd_store *s, const struct epd_ref *ref, struct epd_workflow *w,
    struct epd_why *why)
{
	int rc;

	if (ref->kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	rc = epd_workflow_open(w, s, ref->workflow, 0, why);
	if (rc < 0)
		return rc;
	(void)epd_flow_handoff_settle(s, w);
	if (epd_workflow_serves(w, s, ref->state))
		return 0;
	rc = name_it(w, ref->state, EPD_ENOSTATE, why);
	epd_workflow_close(w);
	return rc;
}

int
epd_flow_offload(struct epd_store *s, const struct epd_offload *o,
    struct epd_offloaded *out, struct epd_why *why)
{
	struct epd_offloaded sum = { 0 };
	struct epd_workflow w;
	int rc;

	if (!s->config.enable_offload)
		return epd_why(why, EPD_EUNSUPPORTED, "state.enable_offload is "
		    "off");
	if (o->state.version)
		return epd_why(why, EPD_EUSAGE, "all versions of a state are "
		    "offloaded together");
	rc = enter(s, &o->state, &w, why);
	if (rc < 0)
		return rc;
	rc = offload(s, &w, o, &sum, why);
	epd_workflow_close(&w);
	epd_log(&s->log, "op=offload workflow=%s state=%u tier=%s pages=%llu "
	    "bytes=%llu freed=%llu rc=%d", o->state.workflow, o->state.state,
	    epd_tier_name(o->tier), (unsigned long long)sum.pages,
	    (unsigned long long)sum.bytes, (unsigned long long)sum.freed, rc);
	if (rc < 0)
		return rc;
	if (!sum.before)
		count_out(s, &sum);
	*out = sum;
	return 0;
}

/* ---- back ---- */

/* RESTORING by us, or 1: it need not be; whoever else restores it is waited for. */
static int
resume(struct epd_workflow *w, uint32_t state, const char *reason,
    struct epd_rest *r, struct epd_why *why)
{
	const uint64_t end = patience(w->store);
	int rc;

	do
		rc = epd_shard_restore(w->shard, state, (uint64_t)
		    w->store->config.lease_ms, reason, r, why);
	while (rc == EPD_ELOCKED && bide(end));
	if (rc == 0 && r->was == EPD_OFFLOADING)
		epd_count(w->store->metrics, EPD_M_RESTORE_PINS, 1);
	return rc;
}

static int
restore(struct epd_workflow *w, uint32_t state, const char *reason,
    struct back *x, struct epd_why *why)
{
	struct epd_rest r;
	int rc = resume(w, state, reason, &r, why), ended;

	if (rc < 0)
		return rc;
	x->sum.rested = rc == 0;
	x->sum.version = r.version;
	x->hold = held(w->store, r.lease);
	rc = x->s ? epd_lots_of(w, state, 0, 0, fill_lot, x, why) : 0;
	if (!x->sum.rested)
		return rc;
	ended = epd_shard_restored(w->shard, state, r.lease, reason, rc ? NULL :
	    why);
	if (ended < 0)
		(void)epd_shard_drop(w->shard, r.lease, "late", NULL);
	return rc ? rc : ended;
}

static int
reach(void *arg, const struct epd_lot *lot, uint32_t first, struct epd_why *why)
{
	uint32_t *end = arg, to = first + (uint32_t)lot->n;

	(void)why;
	if (*end < to)
		*end = to;
	return 0;
}

/* Each part has some page of the state; it may reach past the last. */
static int
has_parts(const struct epd_workflow *w, const struct epd_restore *r,
    struct epd_why *why)
{
	uint32_t end = 0;
	int rc = r->n ? epd_lots_of(w, r->state.state, 0, 0, reach, &end, why) :
	    0;

	for (int i = 0; rc == 0 && i < r->n; i++)
		if (r->part[i].from >= end)
			rc = epd_why(why, EPD_EUSAGE, "it has no such page: %u "
			    "of %u", r->part[i].from, end);
	return rc;
}

int
epd_flow_restore(struct epd_store *s, const struct epd_restore *r,
    struct epd_restored *out, struct epd_why *why)
{
	const uint64_t from = epd_clock_boot_ns();
	struct back x = { .s = s, .r = r };
	struct epd_workflow w;
	int rc;

	if (r->state.version)
		return epd_why(why, EPD_EUSAGE, "a state is restored at its "
		    "newest version; others come back when they are forked");
	rc = enter(s, &r->state, &w, why);
	if (rc < 0)
		return rc;
	x.w = &w;
	rc = has_parts(&w, r, why);
	if (rc == 0)
		rc = restore(&w, r->state.state, r->reason, &x, why);
	epd_workflow_close(&w);
	x.sum.ns = epd_clock_boot_ns() - from;
	epd_log(&s->log, "op=restore workflow=%s state=%u pages=%llu "
	    "pinned=%llu came=%llu missing=%llu rc=%d", r->state.workflow,
	    r->state.state, (unsigned long long)x.sum.pages,
	    (unsigned long long)x.sum.pinned, (unsigned long long)x.sum.came,
	    (unsigned long long)x.sum.missing, rc);
	if (rc < 0)
		return rc;
	epd_count(s->metrics, EPD_M_RESTORES, 1);
	*out = x.sum;
	return 0;
}

/* ---- for other verbs ---- */

static int
rests(enum epd_status s)
{
	return s == EPD_OFFLOADING || s == EPD_OFFLOADED || s == EPD_RESTORING;
}

int
epd_rest_wake(struct epd_workflow *w, struct epd_state *st, int fill,
    struct epd_why *why)
{
	struct back x = { .s = fill ? w->store : NULL, .w = w };
	int rc;

	if (!w->store || !rests(st->status))
		return 0;
	rc = restore(w, st->id, "it goes on", &x, why);
	if (rc == 0 && (rc = epd_shard_state(w->shard, st->id, st)) < 0)
		name_it(w, st->id, rc, why);
	return rc;
}

int
epd_rest_fill(struct epd_workflow *w, uint32_t state, uint32_t version)
{
	struct back x = { .s = w->store, .w = w, .ahead = 1 };

	return w->store ? epd_lots_of(w, state, version, 0, fill_lot, &x,
	    NULL) : 0;
}

int
epd_rest_again(struct epd_workflow *w, uint32_t state, int rc, int *tries)
{
	struct epd_state st;

	return rc == EPD_ESTATUS && ++*tries < TRIES &&
	    epd_shard_state(w->shard, state, &st) == 0 && rests(st.status) &&
	    epd_rest_wake(w, &st, 0, NULL) == 0 && st.status == EPD_ACTIVE;
}

int
epd_flow_wait(struct epd_store *s, const struct epd_ref *ref, const char *tool,
    uint64_t ttl_ms, const char *reason, struct epd_why *why)
{
	const uint64_t now = epd_clock_wall_ms();
	struct epd_workflow w;
	int rc;

	if (ref->version)
		return epd_why(why, EPD_EUSAGE, "a state waits, not one of its "
		    "versions");
	rc = enter(s, ref, &w, why);
	if (rc < 0)
		return rc;
	rc = epd_shard_wait(w.shard, ref->state, tool, !ttl_ms ? 0 :
	    ttl_ms < UINT64_MAX - now ? now + ttl_ms : UINT64_MAX, reason, why);
	/* Where it cannot be told eviction goes by age alone. */
	if (rc == 0 && *tool)
		(void)epd_spare_first(&w, ref->state);
	epd_workflow_close(&w);
	return rc;
}
