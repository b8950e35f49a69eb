/*
 * plan_scenarios - the five decisions of the prototype that the RFC tells of, and the
 * five shipped examples, which are the same.
 */
#include "tests/unit/plan.h"

/* Health of RDMA and of the way through the host, and what is to be first. */
static const struct {
	enum epd_medium medium;
	int remote, rdma, tcp;
	enum epd_backend first;
	enum epd_path_kind kind;
	enum epd_stage_type type;
	const char *file;
} five[] = {
	{ EPD_IN_CUDA, 1, 1, 1, EPD_VIA_RDMA, EPD_PATH_DIRECT, EPD_STAGE_TRANSFER,
	    "examples/plan/rdma.yaml" },
	{ EPD_IN_CPU, 0, 1, 1, EPD_VIA_SHM, EPD_PATH_DIRECT, EPD_STAGE_TRANSFER,
	    "examples/plan/shm.yaml" },
	{ EPD_IN_CPU, 1, 0, 1, EPD_VIA_TCP, EPD_PATH_DIRECT, EPD_STAGE_TRANSFER,
	    "examples/plan/tcp.yaml" },
	{ EPD_IN_CUDA, 1, 0, 1, EPD_VIA_TCP, EPD_PATH_STAGED,
	    EPD_STAGE_LOCAL_COPY, "examples/plan/staged.yaml" },
	{ EPD_IN_CUDA, 1, 0, 0, EPD_VIA_RECOMPUTE, EPD_PATH_DIRECT,
	    EPD_STAGE_RECOMPUTE, "examples/plan/recompute.yaml" },
};

static void
scenario(struct setup *s, size_t n)
{
	set_up(s, EPD_VIA_RDMA, EPD_VIA_SHM, EPD_VIA_TCP, EPD_VIA_COPY,
	    EPD_VIA_RECOMPUTE, 0);
	s->config.contract.allows |= EPD_MAY_RECOMPUTE;
	cap_of(s, EPD_VIA_RDMA)->flags &= ~(uint32_t)EPD_CAN_LOCAL;
	observe(s, EPD_VIA_RDMA, five[n].rdma ? EPD_HEALTHY : EPD_DOWN, 50e9, 10e3);
	observe(s, EPD_VIA_SHM, EPD_HEALTHY, 20e9, 1e3);
	observe(s, EPD_VIA_TCP, five[n].tcp ? EPD_HEALTHY : EPD_DOWN, 3e9, 60e3);
	observe(s, EPD_VIA_COPY, EPD_HEALTHY, 10e9, 5e3);
	ends(s, five[n].medium, five[n].medium);
	s->i.there.machine = five[n].remote ? 2 : 1;
	s->i.tokens = 1000;
	s->i.tokens_per_s = 5000;
}

TEST(all_five_are_decided_as_expected)
{
	static struct setup s;
	int right = 0;

	for (size_t n = 0; n < 5; n++) {
		scenario(&s, n);
		if (decide(&s) >= 1 && nth(&s, 0) == five[n].first &&
		    s.d.plan[0].path_kind == five[n].kind &&
		    s.d.plan[0].stage[0].type == five[n].type &&
		    s.d.plan[0].role == EPD_ROLE_PRIMARY)
			right++;
		for (int i = 0; i < s.d.n; i++)
			CHECK_INT(epd_plan_check(s.p, &s.d.plan[i], &s.why), 0);
		epd_planner_free(s.p);
	}
	printf("# plan: %d/5 scenarios\n", right);
	CHECK_INT(right, 5);
}

TEST(why_the_others_were_not_first)
{
	static struct setup s;

	scenario(&s, 0);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(refused(&s.d, EPD_VIA_SHM), EPD_REFUSED_REMOTE);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_PAIR);
	epd_planner_free(s.p);
	scenario(&s, 3);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_DOWN);
	CHECK(s.d.plan[0].reasons & WHY(STAGED));
	CHECK_INT(s.d.plan[0].nstages, 3);
	CHECK_INT(s.d.plan[0].stage[1].backend, EPD_VIA_TCP);
	CHECK_INT(s.d.plan[0].stage[2].type, EPD_STAGE_REMOTE_DELEGATE);
	epd_planner_free(s.p);
}

TEST(the_examples_are_the_same)
{
	static struct epd_scenario sc;
	static struct epd_decision d;

	for (size_t n = 0; n < 5; n++) {
		struct epd_planner *p;
		struct epd_legacy l;
		struct epd_intent i;
		struct epd_why why = { "" };

		epd_scenario_default(&sc);
		if (epd_scenario_read(&sc, five[n].file, &why) ||
		    epd_scenario_make(&sc, &p, &i, &l, &why))
			CHECK_FAIL("%s: %s", five[n].file, why.text);
		CHECK(epd_plan_decide(p, &sc.how, &i, &d) >= 1);
		CHECK_INT(epd_plan_backend(&d.plan[0]), five[n].first);
		CHECK_INT(d.plan[0].path_kind, five[n].kind);
		epd_planner_free(p);
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
