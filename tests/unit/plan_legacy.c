/* plan_legacy - what is known of the legacy selector, fact by fact. */
#include <string.h>

#include "tests/unit/plan.h"

static struct epd_legacy l;
static struct epd_rule rule[4];
static struct epd_intent i;
static struct epd_legacy_choice c;

static void
set_legacy(uint32_t loaded, int selector)
{
	memset(rule, 0, sizeof rule);
	l = (struct epd_legacy){ .loaded = loaded, .selector = selector,
	    .gpudirect = 1, .shm_path = 1, .cuda = 1, .rule = rule };
	i = (struct epd_intent){ .op = EPD_OP_WRITE, .bytes = 1 << 20,
	    .priority = EPD_PRIO_NORMAL, .alignment = 4096,
	    .here = { .medium = EPD_IN_CPU, .node = 1, .machine = 1 },
	    .there = { .medium = EPD_IN_CPU, .node = 2, .machine = 2 } };
	i.there.ntags = (uint8_t)epd_legacy_tags(&l, i.there.tag);
}

static int
pick(void)
{
	const int rc = epd_legacy_select(&l, &i, &c);

	return rc ? rc : c.backend;
}

static void
media(enum epd_medium here, enum epd_medium there)
{
	i.here.medium = (uint8_t)here;
	i.there.medium = (uint8_t)there;
}

TEST(default_order_and_tags)
{
	static const uint8_t want[] = { EPD_VIA_MNNVL, EPD_VIA_NVLINK,
	    EPD_VIA_RDMA, EPD_VIA_SUNRISE, EPD_VIA_ASCEND, EPD_VIA_SHM,
	    EPD_VIA_TCP, EPD_VIA_GDS, EPD_VIA_MPCOMM, EPD_VIA_TPU };
	uint8_t tag[EPD_PLAN_BACKENDS];

	set_legacy(UINT32_MAX, 1);
	CHECK_INT(epd_legacy_tags(&l, tag), sizeof want);
	CHECK(!memcmp(tag, want, sizeof want));
	/* SHM only with a path, GDS only for CUDA. */
	l.shm_path = l.cuda = 0;
	CHECK_INT(epd_legacy_tags(&l, tag), sizeof want - 2);
	for (size_t n = 0; n < sizeof want - 2; n++)
		CHECK(tag[n] != EPD_VIA_SHM && tag[n] != EPD_VIA_GDS);
}

TEST(the_order_is_the_targets)
{
	for (int selector = 0; selector < 2; selector++) {
		set_legacy(BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_TCP), selector);
		CHECK_INT(pick(), EPD_VIA_RDMA);
		i.there.tag[0] = EPD_VIA_TCP;
		i.there.tag[1] = EPD_VIA_RDMA;
		CHECK_INT(pick(), EPD_VIA_TCP);
		i.there.ntags = 0;
		CHECK_INT(pick(), EPD_VIA_NONE);
	}
}

/* Whether b alone can be chosen between these memories. */
static int
can(enum epd_backend b, enum epd_medium here, enum epd_medium there)
{
	set_legacy(BIT(b), 1);
	i.there.machine = 1;
	media(here, there);
	i.there.ntags = 1;
	i.there.tag[0] = (uint8_t)b;
	return pick() == (int)b;
}

TEST(six_booleans)
{
	const enum epd_medium d = EPD_IN_CPU, g = EPD_IN_CUDA, f = EPD_IN_FILE;

	CHECK(can(EPD_VIA_TCP, d, d) && can(EPD_VIA_TCP, g, g));
	CHECK(can(EPD_VIA_RDMA, d, d) && can(EPD_VIA_RDMA, d, g));
	CHECK(can(EPD_VIA_SHM, d, d) && !can(EPD_VIA_SHM, d, g) &&
	    !can(EPD_VIA_SHM, g, g));
	CHECK(!can(EPD_VIA_NVLINK, d, d) && can(EPD_VIA_NVLINK, d, g) &&
	    can(EPD_VIA_NVLINK, g, d) && can(EPD_VIA_NVLINK, g, g));
	CHECK(can(EPD_VIA_MNNVL, d, g) && can(EPD_VIA_MNNVL, g, g) &&
	    !can(EPD_VIA_MNNVL, g, d) && !can(EPD_VIA_MNNVL, d, d));
	CHECK(can(EPD_VIA_TPU, d, EPD_IN_TPU) && can(EPD_VIA_TPU, EPD_IN_TPU, d) &&
	    !can(EPD_VIA_TPU, d, g) && !can(EPD_VIA_TPU, d, d));
	CHECK(can(EPD_VIA_GDS, g, f) && can(EPD_VIA_IO_URING, d, f));
	CHECK(!can(EPD_VIA_GDS, d, d) && !can(EPD_VIA_TCP, d, f));
	/* GPU pairs of TCP need a platform, of RDMA GPUDirect, of MNNVL either. */
	set_legacy(BIT(EPD_VIA_TCP) | BIT(EPD_VIA_RDMA), 1);
	media(g, g);
	l.gpudirect = 0;
	CHECK_INT(pick(), EPD_VIA_TCP);
	l.cpu = 1;
	CHECK_INT(pick(), EPD_VIA_NONE);
	l.gpudirect = 1;
	CHECK_INT(pick(), EPD_VIA_RDMA);
}

TEST(files_in_legacy_mode_and_by_default)
{
	for (int selector = 0; selector < 2; selector++) {
		set_legacy(BIT(EPD_VIA_GDS) | BIT(EPD_VIA_IO_URING), selector);
		media(EPD_IN_CPU, EPD_IN_FILE);
		CHECK_INT(pick(), EPD_VIA_GDS);
		i.index = 1;
		CHECK_INT(pick(), EPD_VIA_IO_URING);
		i.index = 2;
		CHECK_INT(pick(), EPD_VIA_NONE);
		i.index = 0;
		l.loaded = BIT(EPD_VIA_IO_URING);
		CHECK_INT(pick(), EPD_VIA_IO_URING);
		media(EPD_IN_CUDA, EPD_IN_FILE);
		CHECK_INT(pick(), EPD_VIA_NONE);
	}
}

TEST(what_needs_one_machine)
{
	set_legacy(BIT(EPD_VIA_SHM) | BIT(EPD_VIA_TCP), 0);
	CHECK_INT(pick(), EPD_VIA_TCP);
	i.there.machine = 1;
	CHECK_INT(pick(), EPD_VIA_SHM);
	/* Legacy mode: unknown is not the same, but one's own is. */
	i.here.machine = i.there.machine = 0;
	CHECK_INT(pick(), EPD_VIA_TCP);
	i.there.node = 1;
	CHECK_INT(pick(), EPD_VIA_SHM);
	/* Selector mode: ids are compared as they are. */
	i.there.node = 2;
	l.selector = 1;
	CHECK_INT(pick(), EPD_VIA_SHM);
	i.there.machine = 3;
	CHECK_INT(pick(), EPD_VIA_TCP);
}

TEST(first_policy_that_matches)
{
	set_legacy(BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_TCP), 1);
	l.nrules = 2;
	rule[0] = (struct epd_rule){ .min_size = 100, .max_size = 200,
	    .backend = { EPD_VIA_TCP }, .nbackends = 1, .pool = 1 };
	rule[1] = (struct epd_rule){ .priorities = BIT(EPD_PRIO_HIGH),
	    .backend = { EPD_VIA_TCP, EPD_VIA_RDMA }, .nbackends = 2 };
	CHECK_INT(pick(), EPD_VIA_RDMA);
	CHECK_INT(c.rule, 0);
	for (int n = 100; n <= 200; n += 100) {
		i.bytes = (uint64_t)n;
		CHECK_INT(pick(), EPD_VIA_TCP);
		CHECK_INT(c.rule, 1);
		CHECK_INT(c.pool, 1);
	}
	i.bytes = 201;
	CHECK_INT(pick(), EPD_VIA_RDMA);
	i.priority = EPD_PRIO_HIGH;
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK_INT(c.rule, 2);
	rule[1].intents = BIT(EPD_INTENT_PREFETCH);
	CHECK_INT(pick(), EPD_VIA_RDMA);
	i.intent = EPD_INTENT_PREFETCH;
	CHECK_INT(pick(), EPD_VIA_TCP);
	rule[1].same_machine = EPD_ASKED_YES;
	CHECK_INT(pick(), EPD_VIA_RDMA);
	rule[1].same_machine = EPD_ASKED_NO;
	CHECK_INT(pick(), EPD_VIA_TCP);
	/* Legacy mode has no policies. */
	l.selector = 0;
	CHECK_INT(pick(), EPD_VIA_RDMA);
}

TEST(patterns)
{
	CHECK_INT(epd_media_pattern("cpu"), BIT(EPD_IN_CPU));
	CHECK_INT(epd_media_pattern("cuda"), BIT(EPD_IN_CUDA));
	CHECK_INT(epd_media_pattern("rocm"), BIT(EPD_IN_ROCM));
	CHECK_INT(epd_media_pattern("tpu"), BIT(EPD_IN_TPU));
	CHECK(epd_media_pattern("*") & BIT(EPD_IN_CPU) &&
	    epd_media_pattern("*") & BIT(EPD_IN_TPU));
	CHECK_INT(epd_media_pattern("gpu"), 0);
	CHECK_INT(epd_media_pattern("file"), 0);
	CHECK_INT(epd_media_pattern(""), 0);
}

TEST(policy_name_bypasses_all_but_the_segment)
{
	set_legacy(BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_TCP), 1);
	l.nrules = 2;
	rule[0] = (struct epd_rule){ .here = BIT(EPD_IN_ROCM), .min_size = 1,
	    .max_size = 2, .same_machine = EPD_ASKED_YES,
	    .backend = { EPD_VIA_TCP }, .nbackends = 1 };
	rule[1] = (struct epd_rule){ .segment = EPD_SEGMENT_FILE };
	i.policy = 1;
	CHECK_INT(pick(), EPD_VIA_TCP);
	i.policy = 2;
	CHECK_INT(pick(), EPD_VIA_NONE);
	i.policy = EPD_NO_POLICY;
	CHECK_INT(pick(), EPD_VIA_NONE);
}

TEST(a_list_stands_instead_of_the_tags)
{
	set_legacy(BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_TCP), 1);
	l.nrules = 1;
	rule[0] = (struct epd_rule){ .backend = { EPD_VIA_RDMA },
	    .nbackends = 1 };
	i.there.ntags = 1;
	i.there.tag[0] = EPD_VIA_TCP;
	CHECK_INT(pick(), EPD_VIA_RDMA);
	/* Typos are dropped; nothing but typos authorises everything. */
	rule[0] = (struct epd_rule){ .backend = { EPD_VIA_NONE, EPD_VIA_TCP },
	    .nbackends = 2 };
	CHECK_INT(pick(), EPD_VIA_TCP);
	rule[0].nbackends = 1;
	i.there.ntags = 2;
	i.there.tag[0] = EPD_VIA_RDMA;
	CHECK_INT(pick(), EPD_VIA_RDMA);
}

TEST(index_counts_what_is_available)
{
	for (int selector = 0; selector < 2; selector++) {
		set_legacy(BIT(EPD_VIA_MNNVL) | BIT(EPD_VIA_RDMA) |
		    BIT(EPD_VIA_TCP), selector);
		CHECK_INT(pick(), EPD_VIA_RDMA);
		i.index = 1;
		CHECK_INT(pick(), EPD_VIA_TCP);
		i.index = 2;
		CHECK_INT(pick(), EPD_VIA_NONE);
		i.index = -1;
		CHECK_INT(pick(), EPD_VIA_NONE);
	}
}

TEST(hints)
{
	set_legacy(BIT(EPD_VIA_MNNVL) | BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_TCP), 1);
	i.hint = EPD_VIA_TCP;
	CHECK_INT(pick(), EPD_VIA_TCP);
	i.index = 1;
	CHECK_INT(pick(), EPD_VIA_RDMA);
	/* In the list and not available: nothing, at every index. */
	i.hint = EPD_VIA_MNNVL;
	for (i.index = 0; i.index < 3; i.index++)
		CHECK_INT(pick(), EPD_VIA_NONE);
	i.index = 0;
	/* Not in the list. */
	l.nrules = 1;
	rule[0] = (struct epd_rule){ .backend = { EPD_VIA_TCP }, .nbackends = 1 };
	i.hint = EPD_VIA_RDMA;
	CHECK_INT(pick(), EPD_VIA_NONE);
	/* Not loaded: wrong at submit. */
	i.hint = EPD_VIA_GDS;
	CHECK_INT(pick(), EPD_EUSAGE);
	/* Legacy mode goes on as if it had not been asked for. */
	l.selector = 0;
	i.hint = EPD_VIA_MNNVL;
	CHECK_INT(pick(), EPD_VIA_RDMA);
	i.hint = EPD_VIA_TCP;
	CHECK_INT(pick(), EPD_VIA_TCP);
}

TEST(device_masks_fail_open)
{
	set_legacy(BIT(EPD_VIA_RDMA), 1);
	l.nrules = 1;
	CHECK_INT(pick(), EPD_VIA_RDMA);
	CHECK(c.devices == UINT64_MAX);
	rule[0].devices = 6;
	CHECK_INT(pick(), EPD_VIA_RDMA);
	CHECK_INT(c.devices, 6);
	rule[0].devices_unknown = 1;
	CHECK_INT(pick(), EPD_VIA_RDMA);
	CHECK(c.devices == UINT64_MAX);
}

TEST(staging_only_where_tcp_was_chosen)
{
	const uint32_t both = BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_NVLINK) |
	    BIT(EPD_VIA_TCP);

	set_legacy(both, 1);
	l.gpudirect = 0;
	media(EPD_IN_CUDA, EPD_IN_CUDA);
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK(c.staged);
	CHECK_INT(c.cross, EPD_VIA_RDMA);
	CHECK_INT(c.leg, EPD_VIA_NVLINK);
	/* RDMA has the pair: chosen itself. */
	l.gpudirect = 1;
	CHECK_INT(pick(), EPD_VIA_RDMA);
	CHECK(!c.staged);
	/* Chosen by hint though RDMA has the pair: not staged. */
	i.hint = EPD_VIA_TCP;
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK(!c.staged);
	i.hint = 0;
	l.gpudirect = 0;
	/* Both are needed, and CUDA. */
	l.loaded = both & ~BIT(EPD_VIA_NVLINK);
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK(!c.staged);
	l.loaded = both & ~BIT(EPD_VIA_RDMA);
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK(!c.staged);
	l.loaded = both;
	media(EPD_IN_CPU, EPD_IN_CPU);
	CHECK_INT(pick(), EPD_VIA_RDMA);
	CHECK(!c.staged);
	media(EPD_IN_ROCM, EPD_IN_CUDA);
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK(!c.staged);
	/* One's own is never staged. */
	media(EPD_IN_CUDA, EPD_IN_CUDA);
	i.there.node = 1;
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK(!c.staged);
}

TEST(staging_of_tpu)
{
	set_legacy(BIT(EPD_VIA_TPU) | BIT(EPD_VIA_TCP) | BIT(EPD_VIA_RDMA), 1);
	l.gpudirect = 0;
	media(EPD_IN_TPU, EPD_IN_TPU);
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK(c.staged);
	CHECK_INT(c.cross, EPD_VIA_RDMA);
	CHECK_INT(c.leg, EPD_VIA_TPU);
	l.loaded &= ~BIT(EPD_VIA_RDMA);
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK_INT(c.cross, EPD_VIA_TCP);
	l.loaded &= ~BIT(EPD_VIA_TPU);
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK(!c.staged);
}

TEST(failover)
{
	struct epd_legacy_failure f = { .failures = 1 };

	set_legacy(BIT(EPD_VIA_MNNVL) | BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_TCP), 1);
	CHECK_INT(pick(), EPD_VIA_RDMA);
	CHECK_INT(epd_legacy_retry(&l, &i, &f, &c), 0);
	CHECK_INT(c.backend, EPD_VIA_TCP);
	f.failures = 2;
	CHECK_INT(epd_legacy_retry(&l, &i, &f, &c), EPD_ENOPLAN);
	f = (struct epd_legacy_failure){ .failures = 1, .at_submit = 1 };
	CHECK_INT(epd_legacy_retry(&l, &i, &f, &c), EPD_ENOPLAN);
	f = (struct epd_legacy_failure){ .failures = 1, .cancelled = 1 };
	CHECK_INT(epd_legacy_retry(&l, &i, &f, &c), EPD_ENOPLAN);
	/* Three after the first, were there ever so many. */
	f = (struct epd_legacy_failure){ .failures = EPD_LEGACY_ATTEMPTS + 1 };
	memset(i.there.tag, EPD_VIA_TCP, sizeof i.there.tag);
	i.there.ntags = 8;
	CHECK_INT(epd_legacy_retry(&l, &i, &f, &c), EPD_ENOPLAN);
	f.failures--;
	CHECK_INT(epd_legacy_retry(&l, &i, &f, &c), 0);
}

TEST(a_failed_staged_task_is_retried_unstaged_then_jumps)
{
	struct epd_legacy_failure f = { .failures = 1, .staged = 1,
	    .unstaged = 1 };

	set_legacy(BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_NVLINK) | BIT(EPD_VIA_TCP), 1);
	l.gpudirect = 0;
	media(EPD_IN_CUDA, EPD_IN_CUDA);
	memset(i.there.tag, 0, sizeof i.there.tag);
	for (int n = 0; n < 4; n++)
		i.there.tag[n] = EPD_VIA_TCP;
	i.there.ntags = 4;
	CHECK_INT(pick(), EPD_VIA_TCP);
	CHECK(c.staged);
	CHECK_INT(epd_legacy_retry(&l, &i, &f, &c), 0);
	CHECK_INT(c.backend, EPD_VIA_TCP);
	CHECK(!c.staged);
	f = (struct epd_legacy_failure){ .failures = 2, .unstaged = 1 };
	i.there.ntags = 2;
	CHECK_INT(epd_legacy_retry(&l, &i, &f, &c), EPD_ENOPLAN);
	i.there.ntags = 3;
	CHECK_INT(epd_legacy_retry(&l, &i, &f, &c), 0);
}

TEST(its_decision_as_plans)
{
	static struct setup s;
	struct epd_capability cap;

	set_legacy(BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_NVLINK) | BIT(EPD_VIA_TCP), 1);
	l.gpudirect = 0;
	set_up(&s, 0);
	for (int b = 1; b < EPD_VIA_COUNT; b++)
		if (l.loaded & BIT(b)) {
			CHECK_INT(epd_legacy_capability(&l,
			    (enum epd_backend)b, &cap), 0);
			s.cap[s.config.ncapabilities++] = cap;
		}
	CHECK_INT(epd_planner_new(&s.p, &s.config, &s.why), 0);
	media(EPD_IN_CUDA, EPD_IN_CUDA);
	for (i.op = EPD_OP_READ; i.op <= EPD_OP_WRITE; i.op++) {
		CHECK_INT(epd_legacy_decide(&l, s.p, &i, &s.d), 2);
		for (int n = 0; n < 2; n++) {
			if (epd_plan_check(s.p, &s.d.plan[n], &s.why))
				CHECK_FAIL("%s", s.why.text);
			CHECK(s.d.plan[n].reasons & WHY(LEGACY));
		}
		CHECK_INT(s.d.plan[0].path_kind, EPD_PATH_STAGED);
		CHECK_INT(s.d.plan[0].nstages, 3);
		CHECK_INT(s.d.plan[0].stage[1].backend, EPD_VIA_RDMA);
		/* WRITE copies here first, READ there. */
		CHECK_INT(s.d.plan[0].stage[0].type, i.op == EPD_OP_WRITE ?
		    EPD_STAGE_LOCAL_COPY : EPD_STAGE_REMOTE_DELEGATE);
		CHECK_INT(s.d.plan[1].path_kind, EPD_PATH_DIRECT);
		CHECK_INT(s.d.plan[1].role, EPD_ROLE_FALLBACK);
		CHECK_INT(refused(&s.d, EPD_VIA_NVLINK), EPD_REFUSED_LEGACY);
	}
	i.op = EPD_OP_WRITE;
	i.hint = EPD_VIA_SHM;
	CHECK_INT(epd_legacy_decide(&l, s.p, &i, &s.d), EPD_EUSAGE);
	i.hint = 0;
	i.there.ntags = 0;
	CHECK_INT(epd_legacy_decide(&l, s.p, &i, &s.d), EPD_ENOPLAN);
	CHECK_INT(s.d.n, 0);
	epd_planner_free(s.p);
}

TEST(modes)
{
	static struct setup s;
	static struct epd_decision d;
	struct epd_shadow sh = { 0 };

	set_legacy(BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_TCP), 1);
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	CHECK_INT(decide(&s), 2);
	/* By cost RDMA, by the target's order TCP. */
	CHECK_INT(epd_plan_choose(EPD_PLAN_DISABLED, s.p, &l, &s.how, &s.i, &s.d,
	    &d, &sh), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(sh.compared, 0);
	CHECK_INT(epd_plan_choose(EPD_PLAN_SHADOW, s.p, &l, &s.how, &s.i, &s.d,
	    &d, &sh), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(epd_plan_backend(&d.plan[0]), EPD_VIA_RDMA);
	CHECK_INT(sh.compared, 1);
	CHECK_INT(sh.equal, 0);
	CHECK_INT(sh.backend, 1);
	CHECK_INT(sh.order, 1);
	CHECK_INT(epd_plan_choose(EPD_PLAN_ENFORCED, s.p, &l, &s.how, &s.i, &s.d,
	    &d, &sh), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
	s.i.hint = EPD_VIA_TCP;
	CHECK_INT(epd_plan_choose(EPD_PLAN_SHADOW, s.p, &l, &s.how, &s.i, &s.d,
	    &d, &sh), 2);
	CHECK_INT(sh.equal, 1);
	d = s.d;
	d.plan[0].stage[0].devices = 8;
	CHECK_INT(epd_shadow_compare(&sh, &d, &s.d), EPD_DIFFER_DEVICES);
	d.n = 0;
	CHECK_INT(epd_shadow_compare(&sh, &d, &s.d), EPD_DIFFER_ANY);
	CHECK_INT(sh.devices, 1);
	CHECK_INT(sh.any, 1);
	epd_planner_free(s.p);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
