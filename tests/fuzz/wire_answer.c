/*
 * wire_answer.c - a peer answers a store that fetches, sends, moves a feature, takes a
 * state or begins a branch of one: rc u8, length u16, the answer, one for each question; moves bring a byte over and
 * over.  First byte: what is done, and whether the peer is trusted with a feature.
 * Whatever is answered, nothing that came untrue is kept.
 */
#include "flow/clone.h"
#include "flow/handoff.h"
#include "tests/unit/depot_guest.h"
#include "tests/unit/loop.h"

enum { FETCH, FEATURE_IN, FEATURE_OUT, SEND, TAKE, FETCH_FP8, DOINGS };
enum { ANEW = 2000, ROOM = 32 << 20 };

static struct depot d;
static struct epd_workflow w;
static struct loop loop;
static const struct epd_transport *table[1];
static struct epd_transports all;
static struct epd_cur said;
static int inputs;

static const int how[] = { 0, 0, 0, 0, EPD_EPEER, EPD_ENOTHING, EPD_ECREDIT,
	-ENOMEM };

/* Who it is has to be told before anything is asked. */
static void
tell_node(struct epd_buf *answer)
{
	const struct epd_node_facts f = { .uuid = { 1, 2, 3 }, .credits = {
	    .generation = 1, .bytes = UINT64_C(1) << 30, .slots = 8 },
	    .most = UINT64_C(1) << 30 };

	epd_node_facts_pack(answer, &f);
}

static int
answer_as_told(struct loop *l, struct epd_guest *g, uint16_t verb,
    struct epd_span ask, struct epd_buf *answer, struct epd_opened *opened,
    struct epd_why *why)
{
	struct epd_span body;
	size_t most;
	int rc;

	(void)g;
	(void)ask;
	(void)opened;
	if (verb == EPD_ASK_NODE && l->calls == 1) {
		tell_node(answer);
		return 0;
	}
	rc = how[epd_unpack_u8(&said) % 8];
	most = epd_unpack_u8(&said);
	most |= (size_t)epd_unpack_u8(&said) << 8;
	if (said.failed)
		return epd_why(why, EPD_ENOTHING, "it says nothing more");
	if (most > epd_cur_left(&said))
		most = epd_cur_left(&said);
	body = epd_unpack_bytes(&said, most);
	if (rc < 0)
		return epd_why(why, rc, "as you like");
	epd_buf_put(answer, body.p, body.n);
	return 0;
}

static int
move_as_told(struct loop *l, const struct epd_piece *p)
{
	const uint8_t b = epd_unpack_u8(&said);

	(void)l;
	/* A page of group 1's is true, for who is told to come so far. */
	if (p->op == EPD_OP_READ && b == 1 && p->bytes == DEPOT_PAGE)
		group_bytes(p->local, 1, (uint32_t)(p->offset / DEPOT_PAGE));
	else if (p->op == EPD_OP_READ)
		memset(p->local, b, p->bytes);
	return 0;
}

/* A feature may have gigabytes, by its peer's word: there is not the room here. */
static int
refuse(void *arg, size_t n)
{
	(void)arg;
	return n > ROOM;
}

static void
end(void)
{
	if (!d.s)
		return;
	epd_workflow_close(&w);
	depot_end(&d);
}

static void
begin(void)
{
	struct epd_store_options o;

	if (!inputs)
		atexit(end);
	if (inputs++ % ANEW)
		return;
	end();
	depot_begin(&d);
	depot_close(&d);
	loop_init(&loop, EPD_VIA_TCP, NULL);
	loop.call = answer_as_told;
	loop.move = move_as_told;
	table[0] = &loop.ops;
	all = (struct epd_transports){ table, 1 };
	o = depot_options(&d);
	o.transports = &all;
	if (epd_store_open(&d.s, &o, depot_why(&d)) < 0)
		abort();
	group_state(&d, "mine", 2, 3);
	depot_feature(&d, 2);
	depot_workflow(&d, "came", &w);
	epd_alloc_hook(refuse, NULL);
}

static void
pages(struct epd_node *n, int what, uint64_t end_ns)
{
	const struct epd_pages_ask of = { .workflow = "mine", .state = 1 };
	const struct group x = group(what == SEND ? 2 : 1, 3, NULL);
	struct epd_transfer_policy policy;
	struct epd_transferred out;
	struct epd_pages_ask a;
	uint64_t *run = NULL;
	uint32_t nruns = 0;
	int rc;

	epd_transfer_policy_default(&policy, &d.config);
	policy.checksum = what != FETCH_FP8;
	group_ask(&x, &a);
	memcpy(a.workflow, what == SEND ? "sent" : "w1", what == SEND ? 5 : 3);
	a.state = 1;
	if (what == FETCH_FP8)
		memcpy(a.codec, "fp8", 4);
	rc = what == SEND ? epd_pages_send(n, &of, &a, &policy, end_ns, &run,
	    &nruns, &out, depot_why(&d)) : epd_pages_fetch(n, &w, &a, &policy,
	    end_ns, &run, &nruns, &out, depot_why(&d));
	if (rc == 0 && out.moved + out.mapped + out.had + out.missing !=
	    out.wanted)
		abort();
	if (rc < 0 && run)
		abort();
	for (uint32_t i = 0; what != SEND && i < nruns; i++)
		epd_run_free(w.runs, run[i]);
	epd_free(run);
	epd_pages_ask_free(&a);
}

static void
feature_by(struct epd_node *n, int what, uint64_t end_ns)
{
	const struct epd_name fp = numbered(what == FEATURE_IN ? 1 : 2).fp;
	struct epd_transfer_policy policy;
	struct epd_transferred out;

	epd_transfer_policy_default(&policy, &d.config);
	(void)epd_feature_move(n, what == FEATURE_IN ? EPD_OP_READ :
	    EPD_OP_WRITE, &fp, &policy, end_ns, &out, depot_why(&d));
	if (what == FEATURE_IN)
		epd_feature_remove(d.s->features, &fp);
}

static void
take(void)
{
	const struct epd_offer o = { .state = { .kind = EPD_REF_STATE,
	    .workflow = "w1", .state = 1 }, .store = "tcp://loop:1",
	    .workflow = "came", .timeout_ms = 4 };
	struct epd_handed out;

	d.s->config.transfer_timeout_ms = 4;
	(void)epd_flow_handoff_take(d.s, &o, &out, depot_why(&d));
}

/* What is begun is a state whose pages are true or missing; it ends here. */
static void
branch(void)
{
	const struct epd_clone_ask ask = { .address = "tcp://loop:1",
		.from = { .kind = EPD_REF_STATE, .workflow = "w1", .state = 1 },
		.workflow = "came", .timeout_ms = 4 };
	struct epd_cloned out;
	struct epd_state st;

	d.s->config.transfer_timeout_ms = 4;
	if (epd_flow_clone(d.s, &ask, &out, depot_why(&d)) < 0)
		return;
	if (epd_shard_catch_up(w.shard, NULL) < 0 ||
	    epd_shard_state(w.shard, out.state, &st) < 0 ||
	    strcmp(st.tenant, d.s->tenant) ||
	    epd_shard_release(w.shard, out.state, "seen", NULL, NULL,
	    NULL) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const uint64_t end_ns = epd_clock_boot_ns() + 4 * MS;
	struct epd_node *node;
	int what, trust, begins;

	begin();
	said = epd_cur(epd_span(p, n));
	what = epd_unpack_u8(&said);
	trust = !(what / DOINGS & 1);
	begins = what / DOINGS & 2;
	what %= DOINGS;
	d.s->config.trust_peers = trust && (what == FEATURE_IN ||
	    what == FEATURE_OUT);
	loop.calls = 0;
	if (what == TAKE && begins) {
		branch();
	} else if (what == TAKE) {
		take();
	} else if (epd_node_open(&node, d.s, "tcp://loop:1", end_ns,
	    depot_why(&d)) == 0) {
		if (what == FEATURE_IN || what == FEATURE_OUT)
			feature_by(node, what, end_ns);
		else
			pages(node, what, end_ns);
		epd_node_close(node);
	}
	if (loop.links)
		abort();
	return 0;
}
