/*
 * plan_real_cluster - the RFC's list for a cluster of two nodes with GPUs and RoCE, as
 * decisions: what would be sent by what, and what would be told of it.
 */
#include <string.h>

#include "tests/unit/plan.h"

static struct setup s;

/* Two nodes with GPUs, two rails of 25 GB/s each, and two policies. */
static void
cluster(void)
{
	set_up(&s, EPD_VIA_RDMA, EPD_VIA_NVLINK, EPD_VIA_SHM, EPD_VIA_TCP,
	    EPD_VIA_COPY, 0);
	s.config.nrules = 2;
	s.rule[0] = (struct epd_rule){ .name = "foreground", .pool = 0,
	    .intents = BIT(EPD_INTENT_FOREGROUND), .devices = 3,
	    .contract.allows = EPD_MAY_FALLBACK };
	s.rule[1] = (struct epd_rule){ .name = "background", .pool = 1,
	    .intents = BIT(EPD_INTENT_BACKGROUND), .devices = 2,
	    .contract.allows = EPD_MAY_FALLBACK };
	observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, 25e9, 5e3)->devices_up = 3;
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 2e9, 50e3);
	observe(&s, EPD_VIA_NVLINK, EPD_HEALTHY, 150e9, 3e3);
	observe(&s, EPD_VIA_COPY, EPD_HEALTHY, 20e9, 8e3);
	ends(&s, EPD_IN_CUDA, EPD_IN_CUDA);
	s.i.intent = EPD_INTENT_FOREGROUND;
}

static int
sound(void)
{
	for (int n = 0; n < s.d.n; n++)
		if (epd_plan_check(s.p, &s.d.plan[n], &s.why))
			return 0;
	return s.d.n > 0;
}

/* Why b's last way was refused, when it had several. */
static unsigned
last_refusal(enum epd_backend b)
{
	for (int n = s.d.nrejected - 1; n >= 0; n--)
		if (s.d.rejected[n].backend == b)
			return s.d.rejected[n].reason;
	return EPD_REFUSED_NOT;
}

static void
done(void)
{
	epd_planner_free(s.p);
	s.p = NULL;
}

/* V16 */
TEST(direct_between_gpus_read_and_write)
{
	for (int op = EPD_OP_READ; op <= EPD_OP_WRITE; op++) {
		cluster();
		s.i.op = (uint8_t)op;
		CHECK_INT(decide(&s), 1);
		CHECK(sound());
		CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
		CHECK_INT(s.d.plan[0].path_kind, EPD_PATH_DIRECT);
		CHECK_INT(s.d.plan[0].nstages, 1);
		CHECK_INT(s.d.plan[0].stage[0].devices, 3);
		CHECK_INT(s.d.plan[0].charge.qp_slots, 1);
		CHECK_INT(refused(&s.d, EPD_VIA_NVLINK), EPD_REFUSED_REMOTE);
		CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_PAIR);
		done();
	}
}

/* V17 */
TEST(tcp_between_hosts_is_the_fallback)
{
	cluster();
	ends(&s, EPD_IN_CPU, EPD_IN_CPU);
	CHECK_INT(decide(&s), 2);
	CHECK(sound());
	CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
	CHECK_INT(nth(&s, 1), EPD_VIA_TCP);
	CHECK_INT(s.d.plan[1].role, EPD_ROLE_FALLBACK);
	observe(&s, EPD_VIA_RDMA, EPD_DOWN, 0, 0);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(s.d.plan[0].role, EPD_ROLE_PRIMARY);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_DOWN);
	done();
}

/* V18 */
TEST(staged_between_gpus_with_the_direct_backend_disabled)
{
	for (int op = EPD_OP_READ; op <= EPD_OP_WRITE; op++) {
		cluster();
		s.i.op = (uint8_t)op;
		/* RDMA of host memory only, as without GPUDirect. */
		cap_of(&s, EPD_VIA_RDMA)->pairs = EPD_PAIR(EPD_IN_CPU, EPD_IN_CPU);
		CHECK_INT(decide(&s), 2);
		CHECK(sound());
		CHECK_INT(s.d.plan[0].path_kind, EPD_PATH_STAGED);
		CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
		CHECK_INT(s.d.plan[0].stage[0].type, op == EPD_OP_WRITE ?
		    EPD_STAGE_LOCAL_COPY : EPD_STAGE_REMOTE_DELEGATE);
		CHECK_INT(s.d.plan[0].stage[2].type, op == EPD_OP_WRITE ?
		    EPD_STAGE_REMOTE_DELEGATE : EPD_STAGE_LOCAL_COPY);
		CHECK_INT(s.d.plan[0].stage[0].backend, EPD_VIA_NVLINK);
		CHECK_INT(s.d.plan[0].charge.staging_slots, 2);
		CHECK_INT(nth(&s, 1), EPD_VIA_TCP);
		CHECK_INT(s.d.plan[1].path_kind, EPD_PATH_STAGED);
		/* Without what copies there is no way at all. */
		observe(&s, EPD_VIA_NVLINK, EPD_DOWN, 0, 0);
		CHECK_INT(decide(&s), 2);
		CHECK_INT(s.d.plan[0].stage[0].backend, EPD_VIA_COPY);
		observe(&s, EPD_VIA_COPY, EPD_DOWN, 0, 0);
		CHECK_INT(decide(&s), EPD_ENOPLAN);
		done();
	}
}

/* V19 */
TEST(one_rail_down)
{
	cluster();
	observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, 25e9, 5e3)->devices_up = 2;
	CHECK_INT(decide(&s), 1);
	CHECK(sound());
	CHECK_INT(s.d.plan[0].stage[0].devices, 2);
	CHECK_INT(s.d.plan[0].stage[0].device, 1);
	CHECK(s.d.plan[0].reasons & WHY(RAILS));
	/* The one that background is kept to. */
	s.i.intent = EPD_INTENT_BACKGROUND;
	CHECK_INT(decide(&s), 1);
	CHECK(!(s.d.plan[0].reasons & WHY(RAILS)));
	s.how.of[EPD_VIA_RDMA].devices_up = 1;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_RAIL);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(s.d.plan[0].path_kind, EPD_PATH_STAGED);
	/* Between hosts there is still TCP. */
	ends(&s, EPD_IN_CPU, EPD_IN_CPU);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	/* What is told of rails too long ago is not told. */
	s.how.of[EPD_VIA_RDMA].observed_at_ns = 0;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(s.d.plan[0].stage[0].devices, 2);
	done();
}

TEST(a_policy_may_name_rails_that_are_not_there)
{
	cluster();
	s.rule[0].devices_unknown = 1;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_RAIL);
	ends(&s, EPD_IN_CPU, EPD_IN_CPU);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	done();
}

/* V20 */
TEST(credits_on_and_off)
{
	cluster();
	cap_of(&s, EPD_VIA_RDMA)->pairs = EPD_PAIR(EPD_IN_CPU, EPD_IN_CPU);
	s.i.credits_enabled = 1;
	s.i.credits = (struct epd_credits){ 5, 1 << 20, 1, 0 };
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(last_refusal(EPD_VIA_RDMA), EPD_REFUSED_CREDIT);
	s.i.credits.staging = 1;
	CHECK_INT(decide(&s), 2);
	CHECK(sound());
	s.i.bytes++;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(last_refusal(EPD_VIA_RDMA), EPD_REFUSED_CREDIT);
	CHECK_INT(s.d.rejected[s.d.nrejected - 1].number, 1);
	s.i.credits_enabled = 0;
	CHECK_INT(decide(&s), 2);
	done();
}

/* V21 */
TEST(foreground_and_background_have_pools_of_their_own)
{
	cluster();
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.rule, 1);
	CHECK_INT(s.d.plan[0].stage[0].pool, 0);
	s.i.intent = EPD_INTENT_BACKGROUND;
	s.i.priority = EPD_PRIO_LOW;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.rule, 2);
	CHECK_INT(s.d.plan[0].stage[0].pool, 1);
	CHECK_INT(s.d.plan[0].stage[0].devices, 2);
	CHECK_INT(s.d.plan[0].stage[0].priority, EPD_PRIO_LOW);
	/* Where there is but one, it is that. */
	cap_of(&s, EPD_VIA_RDMA)->pools = 1;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].stage[0].pool, 0);
	done();
}

TEST(a_stages_own_plan_is_its_parents)
{
	cluster();
	s.i.parent = 4711;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].parent, 4711);
	done();
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
