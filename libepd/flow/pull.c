/*
 * pull.c - the target's half of a hand-off made ready: features first, then pages,
 * then the record that names them.
 *
 * The two logs are open here, or one of them is a peer's.  Then pages travel: those
 * that the target's store has by name and sum already do not, and what is lost on the
 * way or asked for no more (prefetch none) is computed there when it is needed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "flow/book.h"
#include "flow/give.h"
#include "flow/lossy.h"
#include "flow/pair.h"
#include "flow/route.h"
#include "flow/settle.h"

/* JSON for people: where it came from. */
static void
note(const struct epd_pair *p, char text[EPD_REF_TEXT + 80])
{
	snprintf(text, EPD_REF_TEXT + 80, "{\"command\": \"handoff\", "
	    "\"from\": \"%s/s%u@%u\", \"lsn\": %llu}", p->src.workflow,
	    p->src.h.state, p->src.h.version,
	    (unsigned long long)p->src.h.lsn);
}

/* The target's half as it will be recorded. */
static void
describe(const struct epd_pair *p, struct epd_handoff *h)
{
	const int one = p->src.s && p->src.s == p->dst.s;

	*h = (struct epd_handoff){
		.target = 1, .peer_state = p->src.h.state,
		.peer_version = p->src.h.version, .peer_lsn = p->src.h.lsn,
		.store = one ? "" : p->src.store,
		.workflow = p->src.workflow, .deadline_ms = p->src.h.deadline_ms,
	};
	memcpy(h->id, p->id, 16);
	memcpy(h->peer, p->src.uuid, 16);
	if (!one)
		memcpy(h->home, p->src.home, 16);
	memcpy(h->boot, p->src.h.boot, 16);
}

/* ---- both here ---- */

static int
link_here(struct epd_pair *p, struct epd_whole *f, struct epd_why *why)
{
	struct epd_handoff h;
	char text[EPD_REF_TEXT + 80];
	uint32_t state;
	int rc;

	describe(p, &h);
	note(p, text);
	f->v.note = epd_span_str(text);
	f->foreign = p->src.s != p->dst.s;
	rc = epd_whole_features(f, p->src.s, p->dst.s, &p->moved, why);
	if (rc == 0)
		rc = epd_whole_pages(f, p->src.w.runs, p->dst.s, &p->dst.w,
		    &p->moved, why);
	/* What it rests on is in the source's log for good. */
	if (rc == 0)
		rc = epd_half_sync(&p->src, why);
	if (rc == 0)
		rc = epd_shard_ready(p->dst.w.shard, &h, &f->traits, &f->v,
		    &state, why);
	if ((rc < 0 && rc != EPD_EUNSURE) || (rc == 0 &&
	    epd_links_are_late(p->dst.w.shard, state, &f->v)))
		epd_whole_undo(f, p->dst.w.runs);
	return rc;
}

/* ---- one of them at a peer's ---- */

struct trip {
	struct epd_pair *p;
	struct epd_transfer_policy policy;
	uint64_t deadline_ns;
	struct epd_node *n;
	enum epd_op op;			/* READ: the source is there */
	struct epd_whole f;		/* a source here */
	struct epd_parcel parcel;	/* a source there */
	const struct epd_state *traits;
	struct epd_version *v;
	struct epd_page_ref *page;	/* of the state, as its source has them */
	uint32_t npages;
	int given;
	uint64_t *run;			/* that came */
	uint32_t nruns;
	uint64_t mapped;		/* pages of them whose file was linked */
	enum epd_backend by;		/* by which the last came; NONE: none was moved */
	struct epd_name *as;		/* their names there, if a codec makes others */
	uint8_t from[16];		/* the source's workflow, if the peer tells */
	uint32_t version;		/* and the state's, at which it is read */
	struct epd_clone *clone;	/* to be begun here, not handed over; or NULL */
};

static int
is_lossy(const struct trip *t)
{
	return *t->policy.compression && strcmp(t->policy.compression, "none");
}

static void
trip_free(struct trip *t)
{
	epd_whole_free(&t->f);
	epd_parcel_close(&t->parcel);
	epd_free(t->page);
	epd_free(t->run);
	epd_free(t->as);
}

/* Pictures and features, those first whose lack would stop the next step. */
static int
move_features(struct trip *t, struct epd_why *why)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < t->v->nimages; i++) {
		struct epd_transferred out;

		rc = epd_feature_move(t->n, t->op, &t->v->images[i].fp,
		    &t->policy, t->deadline_ns, &out, why);
		t->p->moved.bytes += out.bytes;
		/* Its source has it no more either: it is SUSPECT there and here. */
		if (rc == EPD_ENOTHING)
			rc = 0;
	}
	return rc;
}

/* Which of the pages the target's store has: have[i]. */
static int
ask_have(struct trip *t, uint8_t *have, struct epd_why *why)
{
	struct epd_page_ask *q = epd_calloc(t->npages + 1u, sizeof *q);
	struct epd_buf b = {0}, answer = {0};
	struct epd_span got;
	struct epd_cur c;
	int rc = q ? 0 : -ENOMEM;

	for (uint32_t i = 0; q && i < t->npages; i++)
		q[i].entry = (struct epd_page_entry){ t->page[i].name,
		    t->page[i].rows, t->page[i].sum };
	if (rc == 0 && t->op == EPD_OP_READ) {
		rc = epd_gift_have(t->p->dst.s, q, t->npages, have);
	} else if (rc == 0) {
		epd_ask_pages_pack(&b, q, t->npages);
		rc = b.failed ? -ENOMEM : epd_node_ask(t->n, EPD_ASK_HAVE,
		    epd_span(b.p, b.n), &answer, t->deadline_ns, why);
		c = epd_cur(epd_span(answer.p, answer.n));
		got = epd_unpack_bytes(&c, t->npages);
		if (rc == 0 && c.failed)
			rc = epd_ask_no_answer(why);
		if (rc == 0)
			memcpy(have, got.p, t->npages);
	}
	epd_free(q);
	epd_buf_free(&b);
	epd_buf_free(&answer);
	return rc;
}

/* What is to travel: a's pages, and at[i] which of the state's each is. */
static int
select_pages(struct trip *t, struct epd_pages_ask *a, uint32_t *at,
    struct epd_why *why)
{
	uint8_t *have = epd_calloc(t->npages + 1u, 1);
	int rc = have ? 0 : -ENOMEM;

	/* Of another family nothing can be there. */
	if (rc == 0 && !is_lossy(t))
		rc = ask_have(t, have, why);
	for (uint32_t i = 0; rc == 0 && i < t->npages; i++) {
		if (have[i])
			continue;
		at[a->n] = i;
		a->page[a->n].entry.name = t->page[i].name;
		a->page[a->n++].entry.rows = t->page[i].rows;
	}
	epd_free(have);
	return rc;
}

/* What came of a codec has sums of its own. */
static void
take_sums(struct trip *t, const struct epd_pages_ask *a, const uint32_t *at)
{
	for (uint32_t i = 0; i < t->npages && t->as; i++)
		t->page[i].name = t->as[i];
	for (uint32_t i = 0; i < a->n && t->as; i++)
		if (a->page[i].there)
			t->page[at[i]].sum = a->page[i].entry.sum;
}

static int
travel(struct trip *t, struct epd_pages_ask *a, struct epd_why *why)
{
	const struct epd_half *src = &t->p->src, *dst = &t->p->dst;
	struct epd_pages_ask of = { .state = src->h.state,
	    .version = src->h.version };
	struct epd_transferred out = {0};
	int rc;

	memcpy(of.workflow, src->workflow, sizeof of.workflow);
	memcpy(a->codec, t->policy.compression, sizeof a->codec);
	if (t->op == EPD_OP_READ) {
		memcpy(a->workflow, src->workflow, sizeof a->workflow);
		a->state = of.state;
		a->version = of.version;
		rc = epd_pages_fetch(t->n, &dst->w, a, &t->policy,
		    t->deadline_ns, &t->run, &t->nruns, &out, why);
	} else {
		memcpy(a->workflow, dst->workflow, sizeof a->workflow);
		memcpy(a->uuid, dst->uuid, sizeof a->uuid);
		rc = epd_pages_send(t->n, &of, a, &t->policy, t->deadline_ns,
		    &t->run, &t->nruns, &out, why);
	}
	t->p->moved.bytes += out.bytes;
	t->mapped = out.mapped;
	t->by = out.moved ? out.last.backend : EPD_VIA_NONE;
	return rc;
}

/* What was linked was not copied. */
static void
tell_moved(struct trip *t, uint64_t linked, uint64_t came, uint64_t missing)
{
	struct epd_moved *m = &t->p->moved;
	const uint64_t mapped = t->mapped < came ? t->mapped : came;

	m->linked = linked + mapped;
	m->copied = came - mapped;
	m->missing = missing;
}

static int
move_pages(struct trip *t, struct epd_why *why)
{
	struct epd_pages_ask a = { .shape = {
		.kind = EPD_OBJECT_KV_PAGE, .type = t->traits->kv_type,
		.tokens = t->traits->page_tokens,
		.bytes = t->traits->page_bytes,
	} };
	uint32_t *at = epd_calloc(t->npages + 1u, sizeof *at);
	struct epd_name *as = epd_calloc(t->npages + 1u, sizeof *as);
	int rc;

	a.page = epd_calloc(t->npages + 1u, sizeof *a.page);
	rc = at && as && a.page ? select_pages(t, &a, at, why) : -ENOMEM;
	for (uint32_t i = 0; rc == 0 && t->as && i < a.n; i++)
		as[i] = t->as[at[i]];
	a.as = t->as ? as : NULL;
	if (rc == 0 && a.n && t->policy.prefetch != EPD_PREFETCH_NONE)
		rc = travel(t, &a, why);
	/* Without its pages it is no less the state. */
	if (rc == EPD_ENOTHING || rc == EPD_ENOPLAN || rc == EPD_ETOOBIG ||
	    rc == -ENOSPC)
		rc = 0;
	if (rc == 0)
		take_sums(t, &a, at);
	epd_free(a.page);
	epd_free(at);
	epd_free(as);
	return rc == -ENOMEM ? epd_why(why, rc, "no memory") : rc;
}

/* ---- a source here, its target there ---- */

static int
make_whole(struct trip *t, struct epd_why *why)
{
	struct epd_pair *p = t->p;
	int rc = epd_whole_make(&t->f, &p->src.w, p->src.h.state,
	    p->src.h.version, why);

	if (rc < 0)
		return rc;
	t->npages = (uint32_t)t->f.rows;
	t->given = t->f.given || is_lossy(t);
	t->page = epd_calloc(t->f.rows + 1, sizeof *t->page);
	for (uint64_t i = 0; t->page && i < t->f.rows; i++)
		t->page[i] = t->f.row[i].ref;
	t->traits = &t->f.traits;
	t->v = &t->f.v;
	if (!t->page)
		return epd_why(why, -ENOMEM, "no memory");
	return is_lossy(t) && t->npages ? epd_lossy_rename(&t->f,
	    t->policy.compression, &t->as, why) : 0;
}

/*
 * Over the link that the pages came by.  Where that broke they went with it, as they
 * did that came by another one before: EPD_ESTALE, and the trip is made again.
 */
static int
ask_ready(struct trip *t, struct epd_span ask, struct epd_buf *answer,
    struct epd_why *why)
{
	const enum epd_backend b = t->by ? t->by : epd_node_control(t->n);
	int rc;

	if (b == epd_node_control(t->n))
		return epd_node_ask(t->n, EPD_ASK_READY, ask, answer,
		    t->deadline_ns, why);
	rc = epd_node_ask_by(t->n, b, EPD_ASK_READY, ask, answer,
	    t->deadline_ns, why);
	epd_node_failed(t->n, b, rc);
	return rc == EPD_EPEER ? epd_why(why, EPD_ESTALE, "the link that pages "
	    "came by broke") : rc;
}

static int
ready_there(struct trip *t, struct epd_why *why)
{
	struct epd_pair *p = t->p;
	struct epd_buf parcel = {0}, b = {0}, answer = {0};
	struct epd_half_ask a = { .lsn = 0 };
	char text[EPD_REF_TEXT + 80];
	uint64_t linked, came;
	struct epd_cur c;
	int rc;

	describe(p, &a.h);
	memcpy(a.workflow, p->dst.workflow, sizeof a.workflow);
	memcpy(a.uuid, p->dst.uuid, sizeof a.uuid);
	memcpy(a.id, p->id, sizeof a.id);
	/* How we may be reached, if at all: our path means nothing there. */
	snprintf(a.store, sizeof a.store, "%s", *p->src.s->config.transfer_address ?
	    p->src.s->config.transfer_address : EPD_AWAY);
	memcpy(a.peer, p->src.workflow, sizeof a.peer);
	note(p, text);
	t->v->note = epd_span_str(text);
	epd_parcel_pack(&parcel, t->traits, t->v);
	epd_half_ask_pack(&b, &a);
	epd_pack_span(&b, epd_span(parcel.p, parcel.n));
	epd_pack_u8(&b, t->given != 0);
	epd_ask_refs_pack(&b, t->page, t->npages);
	epd_pack_u32(&b, t->nruns);
	for (uint32_t i = 0; i < t->nruns; i++)
		epd_pack_u64(&b, t->run[i]);
	rc = parcel.failed || b.failed ? -ENOMEM : ask_ready(t, epd_span(b.p,
	    b.n), &answer, why);
	if (rc == 0) {
		c = epd_cur(epd_span(answer.p, answer.n));
		(void)epd_unpack_u32(&c);
		linked = epd_unpack_u64(&c);
		came = epd_unpack_u64(&c);
		tell_moved(t, linked, came, epd_unpack_u64(&c));
	}
	epd_buf_free(&parcel);
	epd_buf_free(&b);
	epd_buf_free(&answer);
	return rc;
}

static int
push(struct trip *t, struct epd_why *why)
{
	int rc = make_whole(t, why);

	if (rc == 0)
		rc = move_features(t, why);
	if (rc == 0)
		rc = move_pages(t, why);
	if (rc == 0)
		rc = epd_half_sync(&t->p->src, why);
	return rc < 0 ? rc : ready_there(t, why);
}

/* ---- a source there, its target here ---- */

static int
ask_state(struct trip *t, struct epd_why *why)
{
	struct epd_half_ask a = { .state = t->p->src.h.state,
	    .version = t->p->src.h.version };
	struct epd_buf b = {0}, answer = {0};
	struct epd_cur c;
	int rc;

	memcpy(a.workflow, t->p->src.workflow, sizeof a.workflow);
	memcpy(a.uuid, t->p->src.uuid, sizeof a.uuid);
	epd_half_ask_pack(&b, &a);
	rc = b.failed ? -ENOMEM : epd_node_ask(t->n, EPD_ASK_STATE,
	    epd_span(b.p, b.n), &answer, t->deadline_ns, why);
	c = epd_cur(epd_span(answer.p, answer.n));
	if (rc == 0)
		rc = epd_parcel_open(&t->parcel, epd_unpack_span(&c), why);
	if (rc == 0) {
		t->given = epd_unpack_u8(&c);
		rc = epd_ask_refs_unpack(&c, &t->page, &t->npages);
	}
	if (rc == 0 && epd_cur_left(&c) >= 20) {
		memcpy(t->from, epd_unpack_bytes(&c, 16).p, 16);
		t->version = epd_unpack_u32(&c);
	}
	epd_buf_free(&b);
	epd_buf_free(&answer);
	t->traits = &t->parcel.traits;
	t->v = &t->parcel.v;
	return rc == EPD_EFORMAT ? epd_ask_no_answer(why) : rc;
}

/* Of another numeric family from here on. */
static int
rename_parcel(struct trip *t, struct epd_why *why)
{
	struct epd_whole *f = &t->f;
	int rc;

	f->row = epd_calloc(t->npages + 1u, sizeof *f->row);
	if (!f->row)
		return epd_why(why, -ENOMEM, "no memory");
	f->rows = t->npages;
	for (uint32_t i = 0; i < t->npages; i++)
		f->row[i].ref = t->page[i];
	f->traits = t->parcel.traits;
	f->v = t->parcel.v;
	rc = epd_lossy_rename(f, t->policy.compression, &t->as, why);
	/* Its arrays are the parcel's. */
	f->v = (struct epd_version){ .run = 0 };
	t->traits = &f->traits;
	t->given = 1;
	return rc;
}

static int
ready_here(struct trip *t, struct epd_why *why)
{
	struct epd_pair *p = t->p;
	struct epd_settled x;
	struct epd_handoff h;
	char text[EPD_REF_TEXT + 80];
	uint32_t state;
	int rc;

	if (strcmp(t->traits->tenant, p->dst.s->tenant))
		return epd_why(why, EPD_EMODEL, "it belongs to another tenant");
	rc = epd_settle(&x, p->dst.s, &p->dst.w, t->v, t->traits,
	    t->page, t->npages, t->run, t->nruns, why);
	if (rc < 0)
		return rc;
	describe(p, &h);
	note(p, text);
	x.v.note = epd_span_str(text);
	x.v.given |= t->given && x.v.npages;
	rc = epd_shard_ready(p->dst.w.shard, &h, t->traits, &x.v, &state, why);
	if ((rc < 0 && rc != EPD_EUNSURE) || (rc == 0 &&
	    epd_links_are_late(p->dst.w.shard, state, &x.v)))
		epd_settle_undo(&x, &p->dst.w);
	tell_moved(t, x.moved.linked, x.moved.copied, x.moved.missing);
	epd_settle_free(&x);
	return rc;
}

/* A state of its own, that says whence it came. */
static int
begin_here(struct trip *t, struct epd_why *why)
{
	struct epd_pair *p = t->p;
	struct epd_settled x;
	struct epd_buf text = {0};
	char from[EPD_REF_TEXT], hex[33];
	int rc;

	if (strcmp(t->traits->tenant, p->dst.s->tenant))
		return epd_why(why, EPD_EMODEL, "it belongs to another tenant");
	rc = epd_settle(&x, p->dst.s, &p->dst.w, t->v, t->traits, t->page,
	    t->npages, t->run, t->nruns, why);
	if (rc < 0)
		return rc;
	epd_hex_format(hex, t->from, 16);
	epd_buf_fmt(&text, "{\"command\": \"fork\", \"from\": \"%s\", "
	    "\"origin\": \"%s\", \"version\": %u, \"node\": ",
	    epd_ref_format(from, p->src.workflow, p->src.h.state, 0), hex,
	    t->version);
	epd_json_quote(&text, epd_span_str(epd_node_address(t->n)));
	epd_buf_str(&text, "}");
	x.v.note = epd_span(text.p, text.n);
	x.v.given |= t->given && x.v.npages;
	rc = text.failed ? -ENOMEM : epd_shard_create(p->dst.w.shard,
	    t->traits, &x.v, &t->clone->state, why);
	if (rc < 0 && rc != EPD_EUNSURE)
		epd_settle_undo(&x, &p->dst.w);
	t->clone->version = t->version;
	memcpy(t->clone->from, t->from, 16);
	tell_moved(t, x.moved.linked, x.moved.copied, x.moved.missing);
	epd_settle_free(&x);
	epd_buf_free(&text);
	return rc;
}

static int
fetch(struct trip *t, struct epd_why *why)
{
	const int runs = t->p->dst.w.runs;
	const int marked = runs >= 0 && epd_lock_share(runs, 0) == 0;
	int rc = ask_state(t, why);

	if (rc == 0 && is_lossy(t) && t->npages)
		rc = rename_parcel(t, why);
	if (rc == 0)
		rc = move_features(t, why);
	if (rc == 0)
		rc = move_pages(t, why);
	if (rc == 0 && !t->clone)
		rc = epd_half_sync(&t->p->src, why);
	if (rc == 0)
		rc = t->clone ? begin_here(t, why) : ready_here(t, why);
	if (rc < 0)
		for (uint32_t i = 0; i < t->nruns; i++)
			(void)epd_run_free(runs, t->run[i]);
	if (marked)
		epd_lock_drop(runs);
	return rc;
}

static int
pull_over(struct epd_pair *p, struct epd_clone *clone, struct epd_why *why)
{
	enum { TRIPS = 4 };
	const struct epd_config *c = &epd_pair_near(p)->s->config;
	const struct epd_half *far = p->src.node ? &p->src : &p->dst;
	struct epd_node *n = p->src.node ? p->src.node : p->dst.node;
	const enum epd_op op = p->src.node ? EPD_OP_READ : EPD_OP_WRITE;
	struct epd_transfer_policy policy;
	uint64_t end = epd_clock_boot_ns() +
	    (uint64_t)c->transfer_timeout_ms * UINT64_C(1000000);
	int rc;

	epd_transfer_policy_default(&policy, c);
	policy.intent = EPD_INTENT_HANDOFF;
	if ((rc = epd_route_compress(n, op, &policy, why)) < 0)
		return rc;
	/* Not beyond the hand-off's own, where that is by this clock. */
	if (p->src.near && p->src.h.deadline_ms < end / UINT64_C(1000000))
		end = p->src.h.deadline_ms * UINT64_C(1000000);
	if (far->end_ns && far->end_ns < end)
		end = far->end_ns;

	/* What a connection brought goes with it: then it is brought again. */
	rc = EPD_ESTALE;
	for (int i = 0; i < TRIPS && rc == EPD_ESTALE; i++) {
		struct trip t = { .p = p, .policy = policy, .op = op, .n = n,
		    .deadline_ns = end, .clone = clone };

		rc = op == EPD_OP_READ ? fetch(&t, why) : push(&t, why);
		trip_free(&t);
	}
	return rc;
}

int
epd_pair_pull(struct epd_pair *p, struct epd_why *why)
{
	const int runs = p->dst.w.runs;
	struct epd_whole f;
	int rc, marked;

	if (p->src.node || p->dst.node)
		return pull_over(p, NULL, why);
	rc = epd_whole_make(&f, &p->src.w, p->src.h.state, p->src.h.version,
	    why);
	if (rc < 0)
		return rc;
	/* A sweep that sees it leaves what no record names yet. */
	marked = runs >= 0 && epd_lock_share(runs, 0) == 0;
	rc = link_here(p, &f, why);
	if (marked)
		epd_lock_drop(runs);
	epd_whole_free(&f);
	return rc;
}

int
epd_pair_clone(struct epd_pair *p, struct epd_clone *out, struct epd_why *why)
{
	return pull_over(p, out, why);
}
