/*
 * answer.c - what peers ask of the halves of hand-offs here.  Each question opens its
 * workflow anew, must name the one it means by uuid, and is then what half.c does for
 * who has the log open.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/ask.h"
#include "flow/book.h"
#include "flow/half.h"
#include "flow/node.h"
#include "flow/settle.h"

struct asked {
	struct epd_store *s;
	struct epd_half_ask a;
	struct epd_half half;
	struct epd_cur c;		/* what follows */
	struct epd_buf *answer;
	int (*is_kept)(void *arg, const char *workflow, uint64_t run);
	void *arg;
};

/* ---- halves ---- */

static int
open_half(struct asked *x, struct epd_why *why)
{
	int rc;

	epd_half_place(&x->half, x->s->path, x->a.workflow);
	if (!epd_workflow_name_ok(x->a.workflow))
		return epd_why(why, EPD_ENOTHING, "no such workflow");
	memcpy(x->half.uuid, x->a.uuid, 16);
	epd_half_reach(&x->half, x->s);
	rc = x->half.gone;
	return rc < 0 ? epd_why(why, rc, "%s", rc == EPD_ENOTHING ?
	    "no such workflow" : epd_strerror(rc)) : 0;
}

/* Who asks of a state for the first time has its workflow's name alone. */
static void
by_name(struct asked *x)
{
	static const uint8_t unsaid[16];
	struct epd_workflow w;

	if (memcmp(x->a.uuid, unsaid, 16) ||
	    !epd_workflow_name_ok(x->a.workflow) ||
	    epd_workflow_open(&w, x->s, x->a.workflow, 1, NULL) < 0)
		return;
	epd_shard_uuid(w.shard, x->a.uuid);
	epd_workflow_close(&w);
}

static int
answer_look(struct asked *x, struct epd_why *why)
{
	struct epd_half_ask out = x->a;
	int rc = epd_half_look(&x->half, x->a.id, why);

	if (rc < 0)
		return rc;
	out.h = x->half.h;
	*out.store = *out.peer = 0;
	out.expired = (uint8_t)x->half.expired;
	epd_half_ask_pack(x->answer, &out);
	return 0;
}

static int
answer_status(struct asked *x, struct epd_why *why)
{
	struct epd_half_ask out = x->a;
	enum epd_status status;
	int rc = epd_half_status(&x->half, x->a.state, &status, why);

	if (rc < 0)
		return rc;
	out.status = (uint32_t)status;
	epd_half_ask_pack(x->answer, &out);
	return 0;
}

static int
answer_had(struct asked *x, struct epd_why *why)
{
	struct epd_half_ask out = x->a;
	int rc = epd_half_had(&x->half, x->a.id, why);

	if (rc < 0)
		return rc;
	out.had = rc > 0;
	epd_half_ask_pack(x->answer, &out);
	return 0;
}

/*
 * What a half tells of as its store is opened by whoever comes, and printed: it is no
 * path of ours, and nothing that a terminal would heed.
 */
static int
is_elsewhere(const struct epd_half_ask *a)
{
	for (const char *p = a->store; *p; p++)
		if (*p <= ' ' || *p > '~')
			return 0;
	return epd_workflow_name_ok(a->peer) &&
	    (epd_node_is_address(a->store) || !strcmp(a->store, EPD_AWAY));
}

/* No state is pinned for longer than by whoever may configure it. */
static uint64_t
bounded(uint64_t ms, uint64_t from)
{
	enum { DAY_MS = 86400000 };

	return ms < from + DAY_MS ? ms : from + DAY_MS;
}

static int
answer_prepare(struct asked *x, struct epd_why *why)
{
	if (!is_elsewhere(&x->a))
		return EPD_EFORMAT;
	x->a.h.deadline_ms = bounded(x->a.h.deadline_ms,
	    epd_clock_boot_ns() / 1000000);
	memcpy(x->a.h.id, x->a.id, 16);
	return epd_half_prepare(&x->half, &x->a.h, why);
}

static int
decide(struct asked *x, enum epd_ask verb, struct epd_why *why)
{
	x->half.h.lsn = x->a.lsn;
	switch (verb) {
	case EPD_ASK_COMMIT:
		return epd_half_commit(&x->half, x->a.id, why);
	case EPD_ASK_ROLLBACK:
		return epd_half_rollback(&x->half, x->a.id, x->a.reason, why);
	case EPD_ASK_FORGET:
		return epd_half_forget(&x->half, x->a.id, why);
	default:
		return epd_half_sync(&x->half, why);
	}
}

/* ---- a state ---- */

/* The state as one version, and which pages it has. */
static int
answer_state(struct asked *x, struct epd_why *why)
{
	struct epd_buf parcel = {0};
	struct epd_state st = { .versions = 0 };
	struct epd_whole f;
	uint8_t uuid[16];
	int rc = epd_whole_make(&f, &x->half.w, x->a.state, x->a.version, why);

	if (rc < 0)
		return rc;
	if (strcmp(f.traits.tenant, x->s->tenant)) {
		epd_whole_free(&f);
		return epd_why(why, EPD_ENOSTATE, "no such state");
	}
	epd_parcel_pack(&parcel, &f.traits, &f.v);
	epd_pack_span(x->answer, epd_span(parcel.p, parcel.n));
	epd_pack_u8(x->answer, f.given != 0);
	epd_pack_u32(x->answer, (uint32_t)f.rows);
	for (uint64_t i = 0; i < f.rows; i++) {
		epd_buf_put(x->answer, f.row[i].ref.name.b, EPD_NAME);
		epd_pack_u32(x->answer, f.row[i].ref.rows);
		epd_pack_u64(x->answer, f.row[i].ref.sum);
	}
	/* Who begins it anew elsewhere tells whence it came. */
	epd_shard_uuid(x->half.w.shard, uuid);
	epd_buf_put(x->answer, uuid, sizeof uuid);
	rc = epd_shard_state(x->half.w.shard, x->a.state, &st);
	epd_pack_u32(x->answer, x->a.version ? x->a.version : st.versions);
	rc = parcel.failed ? -ENOMEM : rc;
	epd_buf_free(&parcel);
	epd_whole_free(&f);
	return rc;
}

/* ---- ready ---- */

struct arrived {
	struct epd_parcel parcel;
	struct epd_page_ref *page;
	uint32_t npages;
	uint64_t *run;
	uint32_t nruns;
	int given;
};

static int
unpack_runs(struct asked *x, struct arrived *r)
{
	r->nruns = epd_unpack_u32(&x->c);
	if (x->c.failed || r->nruns > epd_cur_left(&x->c) / 8)
		return EPD_EFORMAT;
	if (!(r->run = epd_calloc(r->nruns + 1u, sizeof *r->run)))
		return -ENOMEM;
	for (uint32_t i = 0; i < r->nruns; i++) {
		r->run[i] = epd_unpack_u64(&x->c);
		/*
		 * Only what this guest wrote: others' names are not its to use up, and
		 * what an earlier connection wrote went with it.
		 */
		if (!x->is_kept(x->arg, x->a.workflow, r->run[i]))
			return EPD_ESTALE;
	}
	return x->c.failed || epd_cur_left(&x->c) ? EPD_EFORMAT : 0;
}

static int
unpack_arrived(struct asked *x, struct arrived *r, struct epd_why *why)
{
	const struct epd_span parcel = epd_unpack_span(&x->c);
	int rc;

	if (x->c.failed)
		return EPD_EFORMAT;
	if ((rc = epd_parcel_open(&r->parcel, parcel, why)) < 0)
		return rc;
	if (r->parcel.v.npages || r->parcel.v.nlinks || r->parcel.v.run)
		return EPD_EFORMAT;
	r->given = epd_unpack_u8(&x->c);
	rc = epd_ask_refs_unpack(&x->c, &r->page, &r->npages);
	return rc < 0 ? rc : unpack_runs(x, r);
}

static int
ready(struct asked *x, struct arrived *r, struct epd_why *why)
{
	const struct epd_workflow *w = &x->half.w;
	struct epd_state *traits = &r->parcel.traits;
	struct epd_settled settled;
	uint32_t state;
	int rc;

	if (strcmp(traits->tenant, x->s->tenant))
		return epd_why(why, EPD_EMODEL, "it belongs to another tenant");
	rc = epd_settle(&settled, x->s, w, &r->parcel.v, traits,
	    r->page, r->npages, r->run, r->nruns, why);
	if (rc < 0)
		return rc;
	/* What rests on given pages is given, wherever these came from. */
	settled.v.given |= r->given && settled.v.npages;
	memcpy(x->a.h.id, x->a.id, 16);
	x->a.h.target = 1;
	rc = epd_shard_ready(w->shard, &x->a.h, traits, &settled.v, &state,
	    why);
	if (rc == 0) {
		if (epd_links_are_late(w->shard, state, &settled.v))
			epd_settle_undo(&settled, w);
		epd_pack_u32(x->answer, state);
		epd_pack_u64(x->answer, settled.moved.linked);
		epd_pack_u64(x->answer, settled.moved.copied);
		epd_pack_u64(x->answer, settled.moved.missing);
	} else if (rc != EPD_EUNSURE) {
		epd_settle_undo(&settled, w);
	}
	epd_settle_free(&settled);
	return rc;
}

static int
answer_ready(struct asked *x, struct epd_why *why)
{
	struct arrived r = { .nruns = 0 };
	int rc = is_elsewhere(&x->a) ? epd_half_look(&x->half, x->a.id, why) :
	    EPD_EFORMAT;

	/* Asked again, because the answer was lost: what it named is named. */
	if (rc == 0 && x->half.h.phase && x->half.h.target) {
		epd_pack_u32(x->answer, x->half.h.state);
		for (int i = 0; i < 3; i++)
			epd_pack_u64(x->answer, 0);
		return 0;
	}
	if (rc == 0)
		rc = unpack_arrived(x, &r, why);
	if (rc == 0)
		rc = ready(x, &r, why);
	epd_parcel_close(&r.parcel);
	epd_free(r.page);
	epd_free(r.run);
	return rc;
}

/* ---- workflows ---- */

static int
answer_make(struct epd_store *s, struct epd_cur *c, struct epd_buf *answer,
    struct epd_why *why)
{
	char name[EPD_WORKFLOW], out[EPD_WORKFLOW];
	struct epd_workflow w;
	uint8_t uuid[16];
	int rc;

	if (epd_ask_take_str(c, name, sizeof name) < 0 || epd_cur_left(c))
		return EPD_EFORMAT;
	rc = epd_workflow_make(s, name, out, why);
	if (rc == 0)
		rc = epd_workflow_open(&w, s, out, 0, why);
	if (rc < 0)
		return rc;
	epd_shard_uuid(w.shard, uuid);
	epd_workflow_close(&w);
	epd_ask_str(answer, out);
	epd_buf_put(answer, uuid, sizeof uuid);
	return 0;
}

static int
answer_offer(struct epd_store *s, struct epd_cur *c, struct epd_buf *answer,
    struct epd_why *why)
{
	struct epd_half to = { .near = 0 };
	struct epd_half_ask a;
	struct epd_offer o = { .state = { .kind = EPD_REF_STATE } };
	struct epd_handoff h;
	int rc = epd_half_ask_unpack(c, &a);

	if (rc < 0 || epd_cur_left(c) || !epd_workflow_name_ok(a.workflow) ||
	    !is_elsewhere(&a))
		return epd_why(why, EPD_EFORMAT, "a question that is none");
	memcpy(o.state.workflow, a.workflow, sizeof o.state.workflow);
	o.state.state = a.state;
	o.state.version = a.version;
	o.timeout_ms = bounded(a.timeout_ms, 0);
	epd_half_place(&to, a.store, a.peer);
	memcpy(to.uuid, a.h.peer, 16);
	memcpy(to.home, a.h.home, 16);
	if (!memcmp(to.home, s->uuid, 16))
		return epd_why(why, EPD_EUSAGE, "that is this store's own "
		    "server");
	rc = epd_flow_handoff_offer(s, &o, &to, &h, a.uuid, why);
	if (rc < 0)
		return rc;
	memcpy(a.id, h.id, 16);
	a.h = h;
	*a.store = *a.peer = 0;
	a.expired = 0;
	epd_half_ask_pack(answer, &a);
	return 0;
}

/* ---- what stands ---- */

struct standing {
	struct epd_store *s;
	struct epd_buf list;
	uint8_t home[16];
	uint32_t n;
};

/* The halves of a workflow whose other one is in that store. */
static int
list_halves(void *arg, const char *name)
{
	struct standing *x = arg;
	struct epd_half_ask a = { .lsn = 0 };
	struct epd_handoff h;
	struct epd_workflow w;
	uint64_t lsn = 0;

	/* One that cannot be read hides no other. */
	if (epd_workflow_open(&w, x->s, name, 1, NULL) < 0)
		return 0;
	snprintf(a.workflow, sizeof a.workflow, "%s", w.name);
	epd_shard_uuid(w.shard, a.uuid);
	for (; x->n < EPD_ASK_HALVES &&
	    epd_shard_handoff_next(w.shard, lsn, &h) == 0; lsn = h.lsn) {
		if (memcmp(h.home, x->home, 16) ||
		    !epd_workflow_serves(&w, x->s, h.state) ||
		    strlen(h.workflow) >= sizeof a.peer)
			continue;
		memcpy(a.id, h.id, sizeof a.id);
		a.lsn = h.lsn;
		snprintf(a.peer, sizeof a.peer, "%s", h.workflow);
		a.h = h;
		a.expired = (uint8_t)epd_handoff_expired(&h);
		epd_half_ask_pack(&x->list, &a);
		x->n++;
	}
	epd_workflow_close(&w);
	return 0;
}

static int
answer_standing(struct epd_store *s, struct epd_cur *c, struct epd_buf *answer,
    struct epd_why *why)
{
	static const uint8_t none[16];
	struct standing x = { .s = s };
	char workflow[EPD_WORKFLOW];
	int rc = epd_standing_ask_unpack(c, x.home, workflow);

	if (rc < 0 || (*workflow && !epd_workflow_name_ok(workflow)))
		return epd_why(why, EPD_EFORMAT, "a question that is none");
	/* Those within a store have no home. */
	if (memcmp(x.home, none, 16))
		rc = *workflow ? list_halves(&x, workflow) :
		    epd_workflow_each(s, list_halves, &x);
	if (rc == 0) {
		epd_pack_u32(answer, x.n);
		epd_buf_put(answer, x.list.p, x.list.n);
	}
	rc = rc == 0 && x.list.failed ? -ENOMEM : rc;
	epd_buf_free(&x.list);
	return rc < 0 ? epd_why(why, rc, "%s", epd_strerror(rc)) : 0;
}

/* ---- all ---- */

/* What is asked about is of the tenant that is served, or there is no such thing. */
static int
is_served(const struct asked *x, enum epd_ask verb)
{
	struct epd_handoff h;
	uint32_t state = x->a.state;

	switch (verb) {
	case EPD_ASK_REACH: case EPD_ASK_UNMAKE: case EPD_ASK_READY:
		return 1;
	case EPD_ASK_PREPARE:
		state = x->a.h.state;
		break;
	case EPD_ASK_STATE: case EPD_ASK_STATUS:
		break;
	default:
		if (epd_shard_handoff(x->half.w.shard, x->a.id, &h) < 0)
			return 1;
		state = h.state;
	}
	return epd_workflow_serves(&x->half.w, x->s, state);
}

static int
answer_half(struct asked *x, enum epd_ask verb, struct epd_why *why)
{
	if (!is_served(x, verb))
		return epd_why(why, EPD_ENOSTATE, "no such state");
	switch (verb) {
	case EPD_ASK_REACH: return 0;
	case EPD_ASK_STATE: return answer_state(x, why);
	case EPD_ASK_LOOK: return answer_look(x, why);
	case EPD_ASK_PREPARE: return answer_prepare(x, why);
	case EPD_ASK_READY: return answer_ready(x, why);
	case EPD_ASK_STATUS: return answer_status(x, why);
	case EPD_ASK_HAD: return answer_had(x, why);
	case EPD_ASK_UNMAKE:
		return epd_workflow_unmake(x->s, &x->half.w) < 0 ? -EIO : 0;
	case EPD_ASK_SYNC: case EPD_ASK_COMMIT: case EPD_ASK_ROLLBACK:
	case EPD_ASK_FORGET:
		return decide(x, verb, why);
	default:
		return EPD_EUNSUPPORTED;
	}
}

int
epd_ask_answer(struct epd_store *s, enum epd_ask verb, struct epd_span ask,
    struct epd_buf *answer, int (*is_kept)(void *arg, const char *workflow,
    uint64_t run), void *arg, struct epd_why *why)
{
	struct asked x = { .s = s, .c = epd_cur(ask), .answer = answer,
	    .is_kept = is_kept, .arg = arg };
	const size_t had = answer->n;
	int rc;

	if (verb == EPD_ASK_MAKE)
		return answer_make(s, &x.c, answer, why);
	if (verb == EPD_ASK_OFFER)
		return answer_offer(s, &x.c, answer, why);
	if (verb == EPD_ASK_STANDING)
		return answer_standing(s, &x.c, answer, why);
	if ((rc = epd_half_ask_unpack(&x.c, &x.a)) < 0 ||
	    (verb != EPD_ASK_READY && epd_cur_left(&x.c)))
		return epd_why(why, EPD_EFORMAT, "a question that is none");
	if (verb == EPD_ASK_STATE)
		by_name(&x);
	rc = open_half(&x, why);
	if (rc == 0)
		rc = answer_half(&x, verb, why);
	epd_half_leave(&x.half, s);
	if (rc == 0 && answer->failed)
		rc = -ENOMEM;
	if (rc < 0)
		answer->n = had;
	if (rc == EPD_EFORMAT)
		epd_why(why, rc, "a question that is none");
	return rc;
}
