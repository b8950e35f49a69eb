/*
 * wire_memory.c - memory that fails at each allocation of a whole push and a whole fetch,
 * on either side: the state is at one of the two, whole, or it is not known yet and is as
 * soon as anybody asks; nothing is left and nothing leaks.
 */
#include "flow/handoff.h"
#include "tests/check.h"
#include "tests/unit/depot_guest.h"
#include "tests/unit/loop.h"

struct pair {
	struct manor far;
	struct depot here;
	struct loop loop;
	const struct epd_transport *table[1];
	struct epd_transports all;
};

static void
up(struct pair *p)
{
	struct epd_store_options o;

	memset(p, 0, sizeof *p);
	manor_begin(&p->far);
	depot_begin(&p->here);
	depot_close(&p->here);
	loop_init(&p->loop, EPD_VIA_TCP, &p->far.host);
	p->table[0] = &p->loop.ops;
	p->all = (struct epd_transports){ p->table, 1 };
	o = depot_options(&p->here);
	o.transports = &p->all;
	if (epd_store_open(&p->here.s, &o, depot_why(&p->here)) < 0)
		depot_die("here", p->here.why.text);
}

static int
down(struct pair *p)
{
	const int even = manor_is_even(&p->far) && !p->loop.links &&
	    !p->loop.windows;

	depot_end(&p->here);
	manor_end(&p->far);
	return even;
}

/* The state of the group that is ACTIVE in a workflow; 0: none. */
static uint32_t
active(struct depot *d, const char *workflow, const struct group *x)
{
	struct epd_workflow w;
	struct epd_state st;
	uint32_t state = 0;

	if (epd_workflow_open(&w, d->s, workflow, 1, NULL) < 0)
		return 0;
	state = group_find(&w, x);
	if (state && (epd_shard_state(w.shard, state, &st) < 0 ||
	    st.status != EPD_ACTIVE))
		state = 0;
	epd_workflow_close(&w);
	return state;
}

static int
resolve(void *arg, const struct epd_handed *h)
{
	memcpy(arg, h->id, 16);
	return 1;
}

/* What waits is asked about again, with memory: from here, then from there. */
static int
settle(struct depot *d)
{
	struct epd_handed out;
	uint8_t id[16];

	for (int i = 0; i < 8; i++) {
		if (epd_flow_handoff_each(d->s, resolve, id, NULL) != 1)
			return 1;
		if (epd_flow_handoff_commit(d->s, id, &out, NULL) < 0)
			(void)epd_flow_handoff_abort(d->s, id, "test", &out,
			    NULL);
	}
	return 0;
}

/* The group is in exactly one of the two, whole. */
static int
is_one(struct pair *p, struct depot *from, const char *of, struct depot *to,
    const char *into, uint32_t g, const struct group *x, int rc)
{
	const uint32_t a = active(from, of, x), b = active(to, into, x);
	struct epd_workflow w;
	uint32_t whole = 0;

	if (!!a == !!b || (rc == 0 && !b)) {
		printf("# rc %d: state %u and %u\n", rc, a, b);
		return 0;
	}
	depot_workflow(a ? from : to, a ? of : into, &w);
	whole = group_whole(&w, a ? a : b, g, x);
	epd_workflow_close(&w);
	/* What did not go is computed there: but then it is not there at all. */
	if (whole != x->n && (a || whole)) {
		printf("# rc %d: %u of %u pages\n", rc, whole, x->n);
		return 0;
	}
	return !p->loop.links && !p->loop.windows && manor_is_even(&p->far);
}

static int
try(struct pair *p, int push, uint32_t state)
{
	struct epd_handed out;
	struct epd_offer o = { .state = { .kind = EPD_REF_STATE, .state = state,
	    .workflow = "mine" }, .store = "tcp://loop:1", .workflow = "to" };

	return push ? epd_flow_handoff_whole(p->here.s, &o, &out,
	    depot_why(&p->here)) : epd_flow_handoff_take(p->here.s, &o, &out,
	    depot_why(&p->here));
}

static void
each_allocation(int push)
{
	struct pair p;
	struct depot *from, *to;
	uint32_t state = 0, g = 500;
	int failed = 0, count = 0, n, most = 100000, round = 0;

	up(&p);
	from = push ? &p.here : &p.far.d;
	to = push ? &p.far.d : &p.here;
	for (n = 1; n < most; n++) {
		struct group x;
		int rc;

		/* A log that is long takes many itself. */
		if (++round % 24 == 0) {
			CHECK(down(&p));
			up(&p);
			state = 0;
		}
		/* One that stayed is tried again. */
		if (!state)
			state = group_state(from, "mine", ++g, 5);
		x = group(g, 5, NULL);
		scratch_starve(n, n % 2);
		rc = try(&p, push, state);
		count = scratch_mem.count;
		scratch_starve(0, 0);
		failed += rc < 0;
		CHECK(settle(&p.here) && settle(&p.far.d) && settle(&p.here));
		CHECK(is_one(&p, from, "mine", to, "to", g, &x, rc));
		if (active(to, "to", &x))
			state = 0;
		if (round % 8 == 7) {
			depot_sweep(&p.here);
			depot_sweep(&p.far.d);
			CHECK_INT(depot_check(&p.here), 0);
			CHECK_INT(depot_check(&p.far.d), 0);
			CHECK_INT(depot_runs(from, "mine"), state != 0);
			CHECK_INT(depot_temporaries(p.here.dir), 0);
			CHECK_INT(depot_temporaries(p.far.d.dir), 0);
		}
		if (count < n)
			break;
	}
	printf("# %s: %d allocations, %d of them failed it\n", push ? "push" :
	    "fetch", count, failed);
	CHECK(n < most);
	CHECK(failed > 30);
	CHECK(down(&p));
}

TEST(memory_for_a_push)
{
	each_allocation(1);
}

TEST(memory_for_a_fetch)
{
	each_allocation(0);
}

/* Pages and features alone, without a hand-off about them. */
TEST(memory_for_a_transfer)
{
	struct epd_transfer_policy policy;
	struct epd_node *node;
	struct pair p;
	struct group x;
	int n, failed = 0;

	up(&p);
	epd_transfer_policy_default(&policy, &p.here.config);
	group_state(&p.here, "mine", 700, 5);
	x = group(700, 5, NULL);
	for (n = 1;; n++) {
		const struct epd_pages_ask of = { .workflow = "mine",
		    .state = 1 };
		const struct epd_name in = numbered(1).fp;
		const struct group y = group(1, 3, NULL);
		struct epd_pages_ask a, b;
		struct epd_transferred out;
		struct epd_workflow w;
		uint64_t *run[2] = { NULL };
		uint32_t nruns[2] = { 0 };
		int rc[3] = { 0 }, count;

		depot_workflow(&p.here, "came", &w);
		epd_feature_remove(p.here.s->features, &in);
		group_ask(&x, &a);
		memcpy(a.workflow, "w2", 3);
		memcpy(a.uuid, p.far.w2, 16);
		group_ask(&y, &b);
		memcpy(b.workflow, "w1", 3);
		b.state = 1;
		CHECK_INT(epd_node_open(&node, p.here.s, "tcp://loop:1", 0,
		    NULL), 0);
		scratch_starve(n, n % 2);
		rc[0] = epd_pages_send(node, &of, &a, &policy, in_ms(1000),
		    run, nruns, &out, depot_why(&p.here));
		if (rc[0] == 0)
			rc[1] = epd_pages_fetch(node, &w, &b, &policy,
			    in_ms(1000), run + 1, nruns + 1, &out,
			    &p.here.why);
		if (rc[0] == 0 && rc[1] == 0)
			rc[2] = epd_feature_move(node, EPD_OP_READ, &in,
			    &policy, in_ms(1000), &out, &p.here.why);
		count = scratch_mem.count;
		scratch_starve(0, 0);
		for (int i = 0; i < 3; i++)
			failed += rc[i] < 0;
		/* One that failed gave nothing. */
		CHECK(rc[0] == 0 || !run[0]);
		CHECK(rc[1] == 0 || !run[1]);
		CHECK_INT(depot_runs(&p.here, "came"), nruns[1]);
		for (uint32_t i = 0; i < nruns[1]; i++)
			epd_run_free(w.runs, run[1][i]);
		epd_node_close(node);
		epd_free(a.page);
		epd_free(b.page);
		epd_free(run[0]);
		epd_free(run[1]);
		epd_workflow_close(&w);
		CHECK(manor_is_even(&p.far) && !p.loop.links &&
		    !p.loop.windows);
		CHECK_INT(depot_runs(&p.far.d, "w2"), 0);
		CHECK_INT(manor_leases(&p.far), 0);
		if (count < n)
			break;
	}
	printf("# %d allocations, %d of them failed it\n", n - 1, failed);
	CHECK(failed > 60);
	CHECK_INT(depot_temporaries(p.here.dir), 0);
	CHECK_INT(depot_temporaries(p.far.d.dir), 0);
	CHECK(down(&p));
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
