/*
 * wire_ways.c - a state handed over by two ways, the first of which fails in the middle:
 * it is there, whole, once; and not here any more.
 */
#include "flow/handoff.h"
#include "flow/route.h"
#include "tests/check.h"
#include "tests/unit/depot_serve.h"

/* What calls itself rdma here goes by tcp, with faults; behind it there is tcp. */
struct journey {
	struct depot here, far;
	struct depot_server s;
	struct epd_faulty rdma;
	struct epd_transports all;
	const struct epd_transport *table[2];
};

static void
set_out(struct journey *j, const char *mode, const struct epd_fault *f, int n)
{
	struct epd_store_options o;

	memset(j, 0, sizeof *j);
	depot_begin(&j->far);
	depot_begin(&j->here);
	group_state(&j->here, "w1", 3, 12);
	depot_close(&j->here);
	if (depot_serve(&j->far, "tcp://127.0.0.1:0", &(struct depot_serving){
	    .slots = 8 }, &j->s))
		depot_die("server", "none");
	epd_faulty_init(&j->rdma, epd_transport_of(epd_transports(), EPD_VIA_TCP), f, n);
	j->rdma.ops.backend = EPD_VIA_RDMA;
	j->table[0] = epd_transport_of(epd_transports(), EPD_VIA_TCP);
	j->table[1] = &j->rdma.ops;
	j->all = (struct epd_transports){ j->table, 2 };
	j->here.config.rdma_enabled = 1;
	snprintf(j->here.config.default_transport,
	    sizeof j->here.config.default_transport, "rdma");
	j->here.config.transfer_timeout_ms = 5000;
	snprintf(j->here.config.transfer_mode,
	    sizeof j->here.config.transfer_mode, "%s", mode);
	o = depot_options(&j->here);
	o.transports = &j->all;
	if (epd_store_open(&j->here.s, &o, depot_why(&j->here)) < 0)
		depot_die("store", j->here.why.text);
}

static int
hand_over(struct journey *j)
{
	struct epd_offer o = { .state = { .kind = EPD_REF_STATE,
	    .workflow = "w1", .state = 1 }, .workflow = "to" };
	struct epd_handed out;

	o.store = j->s.address;
	return epd_flow_handoff_whole(j->here.s, &o, &out, depot_why(&j->here));
}

static int
arrived(struct journey *j)
{
	const struct group x = group(3, 12, NULL);
	struct depot_health was = { .fds = 0 }, now;
	struct epd_workflow w;
	uint32_t state;
	int n;

	depot_workflow(&j->far, "to", &w);
	state = group_find(&w, &x);
	n = state ? (int)group_whole(&w, state, 3, &x) : -1;
	epd_workflow_close(&w);
	now = was = depot_health(&j->s);
	if (now.n.guests || now.n.windows)
		n = -2;
	if (depot_check(&j->far) || depot_check(&j->here))
		n = -3;
	if (depot_runs(&j->far, "to") != 1 || depot_runs(&j->here, "w1"))
		n = -4;
	return n;
}

static void
come_home(struct journey *j)
{
	depot_unserve(&j->s, 0);
	depot_end(&j->here);
	depot_end(&j->far);
}

TEST(a_state_goes_by_the_way_that_is_there)
{
	static const struct epd_fault fault[][2] = {
		{ { EPD_FAULT_OPEN, 1000, 1, 0, 0, 0 } },	/* none */
		{ { EPD_FAULT_OPEN, 0, 0, -ENODEV, 0, 0 } },
		{ { EPD_FAULT_OPEN, 0, 0, EPD_EPEER, 0, 0 } },
		{ { EPD_FAULT_CALL, 0, 1, EPD_EPEER, 0, 0 } },
		{ { EPD_FAULT_CALL, 1, 1, EPD_EPEER, 0, 0 } },
		{ { EPD_FAULT_CUT, 3, 0, EPD_EPEER, 0, 0 } },
		{ { EPD_FAULT_MOVE, 3, 1, EPD_EPEER, 100, 0 },
		    { EPD_FAULT_CUT, 6, 1, EPD_EPEER, 0, 0 } },
		{ { EPD_FAULT_CORRUPT, 2, 2, 0, 17, 0 } },
		{ { EPD_FAULT_TWICE, 0, 3, 0, 0, 0 },
		    { EPD_FAULT_LATE, 4, 2, 0, 0, 30 * MS } },
	};

	for (size_t i = 0; i < 2 * (sizeof fault / sizeof *fault); i++) {
		const struct epd_fault *f = fault[i / 2];
		struct journey j;
		int rc, n;

		set_out(&j, i % 2 ? "enforced" : "disabled", f,
		    f[1].kind ? 2 : 1);
		rc = hand_over(&j);
		if (rc < 0)
			printf("# fault %zu: %d %s\n", i / 2, rc, j.here.why.text);
		CHECK_INT(rc, 0);
		for (int k = 0; k < 200 && depot_health(&j.s).n.guests; k++)
			epd_clock_sleep_ns(10 * MS);
		if ((n = arrived(&j)) != 12)
			printf("# fault %zu: %d\n", i / 2, n);
		CHECK_INT(n, 12);
		CHECK_INT(j.rdma.links, 0);
		come_home(&j);
	}
}

/* A planner is made once a node, and again after a link broke; no id is there twice. */
TEST(a_node_plans_by_one_planner_and_each_decision_has_ids_of_its_own)
{
	enum { DECISIONS = 3, ROUTES = 4 };
	uint64_t id[ROUTES * DECISIONS * EPD_PLAN_CANDIDATES];
	static struct epd_route r;
	static struct epd_decision d;
	struct epd_transfer_policy policy;
	const struct epd_ways *ways = NULL, *again = NULL;
	struct epd_planner *first;
	struct epd_node *n = NULL;
	struct epd_link *l;
	struct journey j;
	int ids = 0, twice = 0, probed;

	set_out(&j, "shadow", NULL, 0);
	epd_transfer_policy_default(&policy, &j.here.config);
	CHECK_INT(epd_node_open(&n, j.here.s, j.s.address, 0,
	    depot_why(&j.here)), 0);
	CHECK_INT(epd_node_ways(n, &ways, NULL), 0);
	first = ways->planner;
	for (int k = 0; k < ROUTES; k++) {
		CHECK_INT(epd_route_open(&r, n, EPD_OP_WRITE, 4096, 0, &policy,
		    0, depot_why(&j.here)), 0);
		CHECK(r.way.planner == first);
		for (int i = 0; i < DECISIONS; i++) {
			CHECK(epd_route_decide(&r, i % 2, &d,
			    depot_why(&j.here)) > 0);
			for (int p = 0; p < d.n; p++)
				id[ids++] = d.plan[p].id;
		}
	}
	for (int a = 0; a < ids; a++)
		for (int b = 0; b < a; b++)
			twice += id[a] == id[b];
	CHECK(ids > ROUTES * DECISIONS);
	CHECK_INT(twice, 0);
	/* What is no backend is looked at nowhere. */
	epd_node_observe(n, (enum epd_backend)100000000, EPD_EPEER, 0, 0);
	/* What the link went by may be gone. */
	CHECK_INT(epd_node_link(n, EPD_VIA_TCP, &l, 0, NULL), 0);
	epd_node_drop_link(n, EPD_VIA_TCP);
	probed = ways->mask >> EPD_VIA_RDMA & 1;
	j.all.n = 1;
	CHECK_INT(epd_node_ways(n, &again, NULL), 0);
	CHECK(probed && !(again->mask >> EPD_VIA_RDMA & 1));
	epd_node_close(n);
	come_home(&j);
}

int
main(int argc, char **argv)
{
	DEPOT_MAIN(argc, argv);
	return check_main(argc, argv);
}
