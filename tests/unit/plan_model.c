/*
 * plan_model - the RFC's list of model and property tests, an item a test or more; V1 to
 * V9 are its items in order (tests/README.md).
 */
#include <string.h>

#include "tests/unit/plan.h"

static struct setup s, other;

static void
done(void)
{
	epd_planner_free(s.p);
	s.p = NULL;
}

/* ---- V1: invalid and unknown schema versions ---- */

TEST(schema_of_an_unknown_major_is_refused)
{
	set_up(&s, EPD_VIA_RDMA, EPD_VIA_TCP, 0);
	cap_of(&s, EPD_VIA_RDMA)->schema_version = 2 << 16;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_SCHEMA);
	CHECK_INT(refused_number(&s.d, EPD_VIA_RDMA), 2 << 16);
	CHECK(!epd_planner_capability(s.p, EPD_VIA_RDMA));
	cap_of(&s, EPD_VIA_RDMA)->schema_version = 0;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_SCHEMA);
	done();
}

TEST(schema_of_an_unknown_major_can_fall_back_to_the_legacy_selector)
{
	struct epd_legacy l = { .loaded = BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_TCP),
	    .selector = 1, .gpudirect = 1 };

	set_up(&s, EPD_VIA_RDMA, EPD_VIA_TCP, 0);
	cap_of(&s, EPD_VIA_RDMA)->schema_version = 2 << 16;
	s.config.legacy = &l;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
	CHECK(s.d.plan[0].reasons & WHY(LEGACY));
	/* Where all are known the planner itself decides. */
	cap_of(&s, EPD_VIA_RDMA)->schema_version = EPD_PLAN_SCHEMA;
	CHECK_INT(decide(&s), 2);
	CHECK(!(s.d.plan[0].reasons & WHY(LEGACY)));
	done();
}

TEST(schema_of_a_higher_minor_is_taken_and_its_bits_count_for_nothing)
{
	set_up(&s, EPD_VIA_TCP, 0);
	cap_of(&s, EPD_VIA_TCP)->schema_version = EPD_PLAN_SCHEMA + 7;
	cap_of(&s, EPD_VIA_TCP)->flags |= UINT32_C(1) << 31;
	cap_of(&s, EPD_VIA_TCP)->pairs |= UINT64_C(1) << 63;
	CHECK_INT(decide(&s), 1);
	ends(&s, EPD_IN_CUDA, EPD_IN_CUDA);
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	done();
}

TEST(schema_of_a_state_or_plan_that_is_unknown)
{
	struct epd_plan p;

	set_up(&s, EPD_VIA_TCP, 0);
	observe(&s, EPD_VIA_TCP, EPD_DOWN, 1e9, 1)->schema_version = 3 << 16;
	CHECK_INT(decide(&s), 1);
	CHECK(s.d.plan[0].reasons & WHY(UNTOLD));
	p = s.d.plan[0];
	CHECK_INT(epd_plan_check(s.p, &p, &s.why), 0);
	p.schema_version = 2 << 16;
	CHECK_INT(epd_plan_check(s.p, &p, &s.why), EPD_EKIND);
	p.schema_version = EPD_PLAN_SCHEMA + 1;
	CHECK_INT(epd_plan_check(s.p, &p, &s.why), 0);
	done();
}

/* ---- V2: unsupported memory pairs and operations ---- */

TEST(pairs_and_operations_that_are_not_supported)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	ends(&s, EPD_IN_ROCM, EPD_IN_ROCM);
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_PAIR);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_PAIR);
	ends(&s, EPD_IN_CPU, EPD_IN_CPU);
	cap_of(&s, EPD_VIA_RDMA)->flags &= ~(uint32_t)EPD_CAN_WRITE;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_OP);
	s.i.op = EPD_OP_READ;
	CHECK_INT(decide(&s), 2);
	s.i.op = 0;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.i.op = 3;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	done();
}

TEST(a_pair_is_as_the_bytes_go)
{
	set_up(&s, EPD_VIA_RDMA, 0);
	cap_of(&s, EPD_VIA_RDMA)->pairs = EPD_PAIR(EPD_IN_CPU, EPD_IN_CUDA);
	ends(&s, EPD_IN_CPU, EPD_IN_CUDA);
	CHECK_INT(decide(&s), 1);
	s.i.op = EPD_OP_READ;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	ends(&s, EPD_IN_CUDA, EPD_IN_CPU);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].stage[0].source, EPD_IN_CPU);
	CHECK_INT(s.d.plan[0].depends[0].generation, 22);
	done();
}

TEST(local_and_remote)
{
	set_up(&s, EPD_VIA_SHM, EPD_VIA_TCP, 0);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_SHM), EPD_REFUSED_REMOTE);
	s.i.there.machine = s.i.here.machine = 0;
	CHECK_INT(decide(&s), 1);
	s.i.there.node = s.i.here.node = 0;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_SHM), EPD_REFUSED_REMOTE);
	s.i.there.machine = s.i.here.machine = 1;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_SHM);
	CHECK_INT(s.d.plan[1].charge.nic_bytes, 0);
	cap_of(&s, EPD_VIA_TCP)->flags &= ~(uint32_t)EPD_CAN_LOCAL;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_LOCAL);
	done();
}

/* ---- V3: alignment and sizes ---- */

TEST(alignment_is_asked_of_offsets_and_length)
{
	set_up(&s, EPD_VIA_RDMA, EPD_VIA_TCP, 0);
	cap_of(&s, EPD_VIA_RDMA)->required_alignment = 4096;
	CHECK_INT(decide(&s), 2);
	s.i.alignment = 2048;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_ALIGNMENT);
	CHECK_INT(refused_number(&s.d, EPD_VIA_RDMA), 4096);
	s.i.alignment = 0;
	CHECK_INT(decide(&s), 1);
	s.i.alignment = UINT64_C(1) << 63;
	CHECK_INT(decide(&s), 2);
	s.i.alignment = 4095;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	cap_of(&s, EPD_VIA_RDMA)->required_alignment = 48;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	done();
}

TEST(sizes_beyond_what_a_backend_moves)
{
	set_up(&s, EPD_VIA_RDMA, EPD_VIA_TCP, 0);
	cap_of(&s, EPD_VIA_RDMA)->max_transfer_bytes = 1 << 20;
	CHECK_INT(decide(&s), 2);
	s.i.bytes++;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_SIZE);
	CHECK_INT(refused_number(&s.d, EPD_VIA_RDMA), 1 << 20);
	s.i.bytes = UINT64_MAX;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	s.i.bytes = 0;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	done();
}

/* ---- V4: cycles and the maximum of stages ---- */

static int
try_template(const struct epd_path_template *t)
{
	set_up(&s, EPD_VIA_TCP, 0);
	s.config.templates = t;
	s.config.ntemplates = 1;
	s.why.text[0] = '\0';
	return decide(&s);
}

TEST(templates_with_a_cycle_are_refused)
{
	const struct epd_path_template again = { "again", { EPD_FROM_DEVICE,
	    EPD_FROM_HOST, EPD_FROM_DEVICE } };
	const struct epd_path_template back = { "back", { EPD_FROM_HOST, EPD_TO_HOST,
	    EPD_FROM_HOST } };
	const struct epd_path_template twice = { "twice", { EPD_FROM_HOST,
	    EPD_TO_HOST, EPD_TO_DEVICE, EPD_TO_HOST } };

	CHECK_INT(try_template(&again), EPD_EUSAGE);
	CHECK(strstr(s.why.text, "twice"));
	CHECK_INT(try_template(&back), EPD_EUSAGE);
	CHECK_INT(try_template(&twice), EPD_EUSAGE);
	done();
}

TEST(templates_of_too_many_stages_are_refused)
{
	const struct epd_path_template none = { "none", { EPD_FROM_HOST } };
	const struct epd_path_template direct = { "direct", { EPD_FROM_HOST,
	    EPD_TO_HOST } };
	const struct epd_path_template leap = { "leap", { EPD_FROM_DEVICE,
	    EPD_TO_HOST, EPD_TO_FILE } };
	const struct epd_path_template odd = { "odd", { EPD_FROM_HOST, 77 } };
	const struct epd_path_template six = { "six", { EPD_FROM_FILE, EPD_FROM_HOST,
	    EPD_FROM_DEVICE, EPD_TO_DEVICE, EPD_TO_HOST, EPD_TO_FILE } };

	CHECK_INT(try_template(&none), EPD_EUSAGE);
	CHECK_INT(try_template(&direct), EPD_EUSAGE);
	CHECK_INT(try_template(&leap), EPD_EUSAGE);
	CHECK_INT(try_template(&odd), EPD_EUSAGE);
	CHECK_INT(try_template(&six), EPD_EUSAGE);
	CHECK(strstr(s.why.text, "more than 4 stages"));
	s.config.ntemplates = EPD_PLAN_TEMPLATES + 1;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	done();
}

/* A staged plan between GPUs. */
static int
staged(void)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_COPY, 0);
	ends(&s, EPD_IN_CUDA, EPD_IN_CUDA);
	return decide(&s);
}

TEST(plans_with_a_cycle_or_too_many_stages_are_refused)
{
	struct epd_plan p, q;

	CHECK_INT(staged(), 1);
	p = s.d.plan[0];
	CHECK_INT(p.path_kind, EPD_PATH_STAGED);
	CHECK_INT(p.nstages, 3);
	CHECK_INT(epd_plan_check(s.p, &p, &s.why), 0);
	q = p;
	q.nstages = EPD_PLAN_STAGES + 1;
	CHECK_INT(epd_plan_check(s.p, &q, &s.why), EPD_EUSAGE);
	q.nstages = 0;
	CHECK_INT(epd_plan_check(s.p, &q, &s.why), EPD_EUSAGE);
	/* Back to the device, on the side it came from. */
	q = p;
	q.nstages = 4;
	q.stage[3] = q.stage[2];
	q.stage[2] = q.stage[1];
	q.stage[1] = q.stage[0];
	q.stage[1].source = EPD_IN_CPU;
	q.stage[1].target = EPD_IN_CUDA;
	q.stage[2].source = EPD_IN_CUDA;
	CHECK_INT(epd_plan_check(NULL, &q, &s.why), EPD_EUSAGE);
	CHECK(strstr(s.why.text, "comes back"));
	/* A gap. */
	q = p;
	q.stage[1].source = EPD_IN_CUDA;
	CHECK_INT(epd_plan_check(NULL, &q, &s.why), EPD_EUSAGE);
	CHECK(strstr(s.why.text, "did not end"));
	/* Across and across again. */
	done();
	set_up(&s, EPD_VIA_RDMA, 0);
	CHECK_INT(decide(&s), 1);
	q = s.d.plan[0];
	q.nstages = 2;
	q.stage[1] = q.stage[0];
	q.stage[0].target = q.stage[1].source = EPD_IN_CUDA;
	CHECK_INT(epd_plan_check(NULL, &q, &s.why), EPD_EUSAGE);
	CHECK(strstr(s.why.text, "transfers once"));
	done();
}

TEST(a_plan_is_checked_part_by_part)
{
	struct epd_plan p, q;

	CHECK_INT(staged(), 1);
	cap_of(&s, EPD_VIA_TCP)->required_alignment = 4096;
	CHECK_INT(decide(&s), 1);
	p = s.d.plan[0];
#define BAD(change) do { q = p; change; \
	CHECK_INT(epd_plan_check(s.p, &q, &s.why), EPD_EUSAGE); } while (0)
	BAD(q.path_kind = 0);
	BAD(q.path_kind = EPD_PATH_DIRECT);
	BAD(q.role = 0);
	BAD(q.role = 4);
	BAD(q.shape = 0);
	BAD(q.shape = EPD_SHAPE_DIRECT);
	BAD(q.shape = EPD_SHAPE_RECOMPUTE);
	BAD(q.lossy = EPD_LOSSY_FP8);
	BAD(q.lossy = 9);
	BAD(q.attempt = 0);
	BAD(q.alignment = 3);
	BAD(q.ndepends = EPD_PLAN_DEPENDS + 1);
	BAD(q.ndepends = 0);
	BAD(q.depends[4].backend = EPD_VIA_RDMA);
	BAD(q.depends[0].kind = 99);
	BAD(q.depends[0].backend = EPD_VIA_TCP);
	BAD(q.stage[0].type = 0);
	BAD(q.stage[0].type = EPD_STAGE_TRANSFER);
	BAD(q.stage[0].type = EPD_STAGE_RECOMPUTE);
	BAD(q.stage[0].backend = EPD_VIA_COUNT);
	BAD(q.stage[0].backend = EPD_VIA_SHM);
	BAD(q.stage[1].backend = EPD_VIA_COPY);
	BAD(q.stage[0].source = EPD_IN_CPU);
	BAD(q.stage[0].source = EPD_IN_COUNT);
	BAD(q.stage[0].bytes = 0);
	BAD(q.stage[0].bytes--);
	BAD(q.stage[1].bytes--);
	BAD(q.stage[1].priority = 3);
	BAD(q.stage[1].device = 1);
	BAD(q.stage[1].devices = 2);
	BAD(q.stage[2].type = EPD_STAGE_COMMIT);
	BAD(q.stage[0].type = EPD_STAGE_REMOTE_DELEGATE);
	BAD(q.remote = 2);
	BAD(q.nstages = 1);
	BAD(q.alignment = 2048);
#undef BAD
	done();
}

/* ---- V5: ranking and ties ---- */

struct seen { double bps, latency; };

/* Three that lead from a host to a device, in this order for the target. */
static int
three(struct seen tcp, struct seen rdma, struct seen mnnvl)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_MNNVL, 0);
	ends(&s, EPD_IN_CPU, EPD_IN_CUDA);
	cap_of(&s, EPD_VIA_TCP)->pairs |= EPD_PAIR(EPD_IN_CPU, EPD_IN_CUDA);
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, tcp.bps, tcp.latency);
	observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, rdma.bps, rdma.latency);
	observe(&s, EPD_VIA_MNNVL, EPD_HEALTHY, mnnvl.bps, mnnvl.latency);
	return decide(&s);
}

TEST(ranking_goes_by_cost)
{
	CHECK_INT(three((struct seen){ 2e9, 60e3 }, (struct seen){ 1e9, 10e3 },
	    (struct seen){ 1e8, 1e3 }), 3);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(nth(&s, 1), EPD_VIA_RDMA);
	CHECK_INT(nth(&s, 2), EPD_VIA_MNNVL);
	CHECK_INT(s.d.plan[0].cost_ns, 60000 + 524288);
	CHECK(s.d.plan[0].reasons & WHY(COST));
	CHECK_INT(s.d.plan[0].estimate.source, EPD_COST_OBSERVED);
	/* Small ones go by what begins soonest. */
	s.i.bytes = 4096;
	CHECK_INT(decide(&s), 3);
	CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
	done();
}

TEST(ranking_of_equal_cost_goes_by_list_then_backend)
{
	const struct seen same = { 1e9, 1e3 };

	/* As the target's tags stand. */
	CHECK_INT(three(same, same, same), 3);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(nth(&s, 1), EPD_VIA_RDMA);
	CHECK_INT(nth(&s, 2), EPD_VIA_MNNVL);
	/* As the rule's list stands. */
	s.config.nrules = 1;
	s.rule[0] = (struct epd_rule){ .backend = { EPD_VIA_MNNVL, EPD_VIA_TCP,
	    EPD_VIA_RDMA }, .nbackends = 3,
	    .contract.allows = EPD_MAY_FALLBACK };
	CHECK_INT(decide(&s), 3);
	CHECK_INT(nth(&s, 0), EPD_VIA_MNNVL);
	CHECK_INT(nth(&s, 1), EPD_VIA_TCP);
	CHECK_INT(s.d.rule, 1);
	CHECK_INT(s.d.plan[0].policy, 1);
	done();
}

TEST(ranking_by_order_where_not_all_have_a_cost)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	memset(s.config.baseline, 0, sizeof s.config.baseline);
	observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, 50e9, 1e3);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(s.d.plan[0].cost_ns, 0);
	CHECK_INT(s.d.plan[1].cost_ns, 0);
	CHECK(s.d.plan[0].reasons & WHY(ORDER));
	CHECK_INT(s.d.plan[0].estimate.source, EPD_COST_NONE);
	/* A degraded one stands behind all that are not. */
	observe(&s, EPD_VIA_TCP, EPD_DEGRADED, 0, 0);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
	CHECK(s.d.plan[1].reasons & WHY(DEGRADED));
	done();
}

TEST(ranking_direct_before_staged_before_recompute_when_equal)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_NVLINK, EPD_VIA_RECOMPUTE, 0);
	memset(s.config.baseline, 0, sizeof s.config.baseline);
	ends(&s, EPD_IN_CUDA, EPD_IN_CUDA);
	cap_of(&s, EPD_VIA_RDMA)->pairs = EPD_PAIR(EPD_IN_CPU, EPD_IN_CPU);
	cap_of(&s, EPD_VIA_TCP)->pairs |= EPD_PAIR(EPD_IN_CUDA, EPD_IN_CUDA);
	cap_of(&s, EPD_VIA_TCP)->bounced = EPD_PAIR(EPD_IN_CUDA, EPD_IN_CUDA);
	s.config.contract.allows |= EPD_MAY_RECOMPUTE;
	s.i.tokens = 1;
	s.i.tokens_per_s = 1e9;
	CHECK_INT(decide(&s), 3);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(nth(&s, 1), EPD_VIA_RDMA);
	CHECK_INT(s.d.plan[1].path_kind, EPD_PATH_STAGED);
	CHECK_INT(nth(&s, 2), EPD_VIA_RECOMPUTE);
	CHECK_INT(s.d.plan[2].role, EPD_ROLE_DEGRADED);
	done();
}

static void
shuffle(struct setup *x, uint64_t *seed)
{
	for (int i = x->config.ncapabilities - 1; i > 0; i--) {
		const int j = (int)draw(seed, (uint32_t)i + 1);
		const struct epd_capability c = x->cap[i];

		x->cap[i] = x->cap[j];
		x->cap[j] = c;
	}
}

TEST(ranking_does_not_see_the_order_of_registration)
{
	uint64_t seed = 5;

	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_MNNVL, EPD_VIA_NVLINK,
	    EPD_VIA_SHM, EPD_VIA_COPY, EPD_VIA_RECOMPUTE, 0);
	ends(&s, EPD_IN_CPU, EPD_IN_CUDA);
	CHECK(decide(&s) > 1);
	for (int i = 0; i < 200; i++) {
		other = s;
		other.p = NULL;
		other.config.capability = other.cap;
		other.config.rule = other.rule;
		shuffle(&other, &seed);
		CHECK_INT(decide(&other), s.d.n);
		CHECK(!memcmp(&other.d, &s.d, sizeof s.d));
		epd_planner_free(other.p);
	}
	done();
}

/* ---- V6: stale health and cost ---- */

TEST(stale_estimates_never_rank)
{
	struct epd_operational *o;

	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, 1e9, 1e3);
	o = observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 100e9, 1);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	o->observed_at_ns = NOW - 1000001;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
	CHECK(s.d.plan[1].reasons & WHY(EXPIRED));
	CHECK(s.d.plan[1].reasons & WHY(BASELINE));
	CHECK_INT(s.d.plan[1].estimate.ignored, 1);
	CHECK_INT(s.d.plan[1].estimate.source, EPD_COST_BASELINE);
	CHECK_INT(s.d.plan[1].estimate.bandwidth_bps, 1000000000);
	/* To the ns. */
	o->observed_at_ns = NOW - 1000000;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	/* Told of a time that is still to come: not of this clock. */
	o->observed_at_ns = NOW + 1;
	o->valid_for_ns = UINT64_MAX;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
	done();
}

TEST(stale_health_counts_as_unknown)
{
	struct epd_operational *o;

	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	o = observe(&s, EPD_VIA_RDMA, EPD_DOWN, 0, 0);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_DOWN);
	o->observed_at_ns = 1;
	CHECK_INT(decide(&s), 2);
	CHECK(s.d.plan[0].reasons & WHY(UNTOLD));
	CHECK(s.d.plan[0].reasons & WHY(EXPIRED));
	o->observed_at_ns = NOW - 1;
	o->confidence = 0.49;
	CHECK_INT(decide(&s), 2);
	CHECK(s.d.plan[0].reasons & WHY(UNSURE));
	o->confidence = 0.5;
	CHECK_INT(decide(&s), 1);
	s.config.min_confidence = 0.6;
	CHECK_INT(decide(&s), 2);
	done();
}

TEST(degraded_costs_by_its_factor)
{
	uint64_t healthy;

	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, 10e9, 10e3);
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 5e9, 10e3);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
	healthy = s.d.plan[0].cost_ns;
	observe(&s, EPD_VIA_RDMA, EPD_DEGRADED, 10e9, 10e3);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK(s.d.plan[1].cost_ns >= 4 * healthy &&
	    s.d.plan[1].cost_ns <= 4 * healthy + 4);
	s.config.degraded_factor = 1;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_RDMA);
	done();
}

TEST(observations_that_are_no_numbers_are_none)
{
	struct epd_operational *o;

	set_up(&s, EPD_VIA_TCP, 0);
	o = observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 1e9, 1e3);
	o->bandwidth_bps = -1;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].estimate.source, EPD_COST_BASELINE);
	o->bandwidth_bps = 0.0 / *(volatile double *)&(double){ 0 };
	o->latency_ns = o->bandwidth_bps;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].estimate.source, EPD_COST_BASELINE);
	CHECK(s.d.plan[0].cost_ns < UINT64_C(1) << 40);
	o->confidence = o->latency_ns;
	CHECK_INT(decide(&s), 1);
	CHECK(s.d.plan[0].reasons & WHY(UNSURE));
	o->confidence = 1;
	o->bandwidth_bps = 1e-300;
	o->latency_ns = 1e300;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].cost_ns, INT64_MAX);
	done();
}

/* ---- V7: fallback, degraded actions, the contract, strict ---- */

TEST(fallback_only_where_the_contract_allows_it)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(s.d.plan[0].role, EPD_ROLE_PRIMARY);
	CHECK_INT(s.d.plan[1].role, EPD_ROLE_FALLBACK);
	CHECK(s.d.plan[1].reasons & WHY(FALLBACK));
	CHECK_INT(s.d.plan[0].id, 100);
	CHECK_INT(s.d.plan[1].id, 101);
	CHECK_INT(s.d.plan[1].attempt, 2);
	s.config.contract.allows = 0;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_CONTRACT);
	/* What has failed once has nothing left. */
	s.i.index = 1;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_CONTRACT);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_INDEX);
	done();
}

TEST(fallback_by_index)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	s.i.index = 1;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(s.d.plan[0].role, EPD_ROLE_FALLBACK);
	CHECK_INT(s.d.plan[0].attempt, 2);
	CHECK_INT(s.d.passed, 1);
	s.i.index = 2;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	s.i.index = -1;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	set_up(&other, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_COPY, EPD_VIA_SHM, 0);
	other.i.there.machine = 1;
	other.i.index = 2;
	CHECK_INT(decide(&other), 2);
	other.config.max_attempts = 1;
	CHECK_INT(decide(&other), EPD_ENOPLAN);
	epd_planner_free(other.p);
	s.i.index = INT32_MAX;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	s.i.index = INT32_MIN;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	done();
}

TEST(degraded_only_where_asked_for_and_allowed)
{
	set_up(&s, EPD_VIA_RDMA, 0);
	s.i.lossy = EPD_LOSSY_FP8;
	s.i.lossy_bytes = 1 << 19;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].lossy, EPD_LOSSY_NONE);
	CHECK_INT(s.d.plan[0].role, EPD_ROLE_PRIMARY);
	CHECK_INT(refused(&s.d, EPD_VIA_NONE), EPD_REFUSED_CONTRACT);
	s.config.contract.allows = EPD_MAY_INT8;
	CHECK_INT(decide(&s), 1);
	s.config.contract.allows = EPD_MAY_FP8;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(s.d.plan[0].lossy, EPD_LOSSY_FP8);
	CHECK_INT(s.d.plan[0].role, EPD_ROLE_DEGRADED);
	CHECK_INT(s.d.plan[0].stage[0].bytes, 1 << 19);
	CHECK_INT(s.d.plan[0].charge.nic_bytes, 1 << 19);
	CHECK_INT(s.d.plan[1].role, EPD_ROLE_PRIMARY);
	for (int n = 0; n < 2; n++)
		CHECK_INT(epd_plan_check(s.p, &s.d.plan[n], &s.why), 0);
	s.i.lossy_bytes = (1 << 20) + 1;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.i.lossy_bytes = 0;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.i.lossy = EPD_LOSSY_NONE;
	CHECK_INT(decide(&s), 1);
	done();
}

TEST(degraded_staged_paths_copy_all_and_move_less)
{
	CHECK_INT(staged(), 1);
	s.i.lossy = EPD_LOSSY_INT8;
	s.i.lossy_bytes = 1 << 19;
	s.config.contract.allows = EPD_MAY_INT8;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(s.d.plan[0].stage[0].bytes, 1 << 20);
	CHECK_INT(s.d.plan[0].stage[1].bytes, 1 << 19);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	done();
}

TEST(recompute_wins_on_cost_and_only_where_allowed)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RECOMPUTE, 0);
	s.i.bytes = UINT64_C(1) << 30;
	s.i.tokens = 100;
	s.i.tokens_per_s = 1000;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RECOMPUTE), EPD_REFUSED_CONTRACT);
	s.config.contract.allows |= EPD_MAY_RECOMPUTE;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_RECOMPUTE);
	CHECK_INT(s.d.plan[0].cost_ns, 100000000);
	CHECK_INT(s.d.plan[0].role, EPD_ROLE_PRIMARY);
	CHECK_INT(s.d.plan[0].estimate.source, EPD_COST_MEASURED);
	CHECK_INT(s.d.plan[0].charge.nic_bytes, 0);
	CHECK_INT(s.d.plan[1].role, EPD_ROLE_FALLBACK);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	/* Dearer than to move it. */
	s.i.bytes = 1 << 20;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK_INT(s.d.plan[1].role, EPD_ROLE_DEGRADED);
	s.i.tokens_per_s = 0;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RECOMPUTE), EPD_REFUSED_RATE);
	s.i.tokens_per_s = 1000;
	observe(&s, EPD_VIA_RECOMPUTE, EPD_DOWN, 0, 0);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RECOMPUTE), EPD_REFUSED_DOWN);
	done();
}

TEST(recompute_is_left_when_fallback_is_not_allowed)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RECOMPUTE, 0);
	s.config.contract.allows = EPD_MAY_RECOMPUTE;
	s.i.tokens = 100;
	s.i.tokens_per_s = 10;
	s.i.index = 1;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(nth(&s, 0), EPD_VIA_RECOMPUTE);
	CHECK_INT(s.d.plan[0].role, EPD_ROLE_DEGRADED);
	done();
}

TEST(strict_wants_health_and_an_estimate_that_are_fresh)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_MNNVL, 0);
	ends(&s, EPD_IN_CPU, EPD_IN_CPU);
	s.config.nrules = 1;
	s.rule[0].backend[0] = EPD_VIA_TCP;
	s.rule[0].backend[1] = EPD_VIA_RDMA;
	s.rule[0].nbackends = 2;
	s.rule[0].contract.strict = 1;
	s.rule[0].contract.allows = EPD_MAY_FALLBACK;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_HEALTH);
	CHECK_INT(refused(&s.d, EPD_VIA_MNNVL), EPD_REFUSED_POLICY);
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 0, 1e3);
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_ESTIMATE);
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 1e9, 1e3);
	CHECK_INT(decide(&s), 1);
	observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, 1e9, 1e3);
	CHECK_INT(decide(&s), 2);
	s.rule[0].contract.allows = 0;
	CHECK_INT(decide(&s), 1);
	/* Without strict none of it is needed. */
	s.rule[0].contract.strict = 0;
	memset(&s.how, 0, sizeof s.how);
	CHECK_INT(decide(&s), 1);
	s.i.strict = 1;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	done();
}

TEST(strict_takes_no_default)
{
	set_up(&s, EPD_VIA_TCP, 0);
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 1e9, 1e3);
	CHECK_INT(decide(&s), 1);
	s.i.strict = 1;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_UNNAMED);
	done();
}

TEST(deadlines)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	s.i.deadline_ns = NOW;
	CHECK_INT(decide(&s), EPD_ETIMEOUT);
	s.i.deadline_ns = NOW + 500000;
	CHECK_INT(decide(&s), 2);
	CHECK(!(s.d.plan[0].reasons & WHY(LATE)));
	CHECK(s.d.plan[1].reasons & WHY(LATE));
	s.config.nrules = 1;
	s.rule[0].contract.strict = 1;
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 1e9, 60e3);
	observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, 10e9, 10e3);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_LATE);
	CHECK_INT(refused_number(&s.d, EPD_VIA_TCP), 60000 + 1048576 - 500000);
	done();
}

TEST(caps_of_the_contract)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_COPY, EPD_VIA_RDMA, 0);
	s.config.contract.max_nic_bytes = (1 << 20) - 1;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_NIC_CAP);
	s.config.contract.max_nic_bytes++;
	CHECK_INT(decide(&s), 2);
	ends(&s, EPD_IN_ROCM, EPD_IN_CPU);
	s.config.contract.max_staging_bytes = (1 << 20) - 1;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	s.config.contract.max_staging_bytes++;
	CHECK_INT(decide(&s), 2);
	/* What gives up bytes may fit where the whole does not. */
	ends(&s, EPD_IN_CPU, EPD_IN_CPU);
	s.config.contract.max_nic_bytes = 1 << 19;
	s.config.contract.allows |= EPD_MAY_FP8;
	s.i.lossy = EPD_LOSSY_FP8;
	s.i.lossy_bytes = 1 << 19;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(s.d.plan[0].role, EPD_ROLE_DEGRADED);
	CHECK_INT(s.d.plan[1].role, EPD_ROLE_DEGRADED);
	done();
}

/* ---- V8: the whole charge ---- */

TEST(charge_of_a_staged_plan_is_whole)
{
	struct epd_plan p, q;

	CHECK_INT(staged(), 1);
	p = s.d.plan[0];
	CHECK_INT(p.charge.nic_bytes, 1 << 20);
	CHECK_INT(p.charge.receiver_bytes, 1 << 20);
	CHECK_INT(p.charge.host_staging_bytes, 2 << 20);
	CHECK_INT(p.charge.staging_slots, 2);
	CHECK_INT(p.charge.consumer_slots, 1);
	CHECK_INT(p.charge.request_slots, 1);
#define LESS(field) do { q = p; q.charge.field--; \
	CHECK_INT(epd_plan_check(s.p, &q, &s.why), EPD_EUSAGE); \
	CHECK(strstr(s.why.text, "charge")); } while (0)
	LESS(nic_bytes);
	LESS(receiver_bytes);
	LESS(host_staging_bytes);
	LESS(staging_slots);
	LESS(consumer_slots);
	LESS(request_slots);
	done();
	set_up(&s, EPD_VIA_RDMA, 0);
	CHECK_INT(decide(&s), 1);
	p = s.d.plan[0];
	LESS(qp_slots);
	LESS(cq_slots);
#undef LESS
	done();
}

TEST(charge_of_staging_is_bounded)
{
	CHECK_INT(staged(), 1);
	s.i.bytes = UINT64_C(1) << 40;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].charge.staging_slots, 32);
	CHECK_INT(s.d.plan[0].charge.host_staging_bytes, INT64_C(32) * (4 << 20));
	s.config.staging_slots = 2;
	s.config.staging_chunk = 1 << 20;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].charge.staging_slots, 4);
	CHECK_INT(s.d.plan[0].charge.host_staging_bytes, 4 << 20);
	s.i.bytes = UINT64_MAX;
	s.config.staging_chunk = UINT64_C(1) << 40;
	s.config.staging_slots = 1 << 16;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].charge.host_staging_bytes, INT64_C(1) << 57);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	s.config.staging_slots++;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	done();
}

/* ---- credits ---- */

TEST(credits_count_only_if_enabled)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_COPY, 0);
	CHECK_INT(decide(&s), 1);
	s.i.credits_enabled = 1;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_CREDIT);
	CHECK_INT(refused_number(&s.d, EPD_VIA_TCP), 1 << 20);
	s.i.credits = (struct epd_credits){ .generation = 9, .bytes = 1 << 20 };
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused_number(&s.d, EPD_VIA_TCP), 1);
	s.i.credits.slots = 1;
	CHECK_INT(decide(&s), 1);
	CHECK(s.d.plan[0].reasons & WHY(CREDIT));
	CHECK_INT(s.d.plan[0].depends[6].kind, EPD_DEP_CREDIT);
	CHECK_INT(s.d.plan[0].depends[6].generation, 9);
	/* The slot that consumes a staged one is among them. */
	ends(&s, EPD_IN_CPU, EPD_IN_CUDA);
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	s.i.credits.staging = 1;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	done();
}

/* ---- dependencies ---- */

TEST(a_changed_dependency_is_told)
{
	struct epd_generations g, h;
	const struct epd_depends *d;

	CHECK_INT(staged(), 1);
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 1e9, 1);
	s.i.credits_enabled = 1;
	s.i.credits = (struct epd_credits){ 3, UINT64_MAX, 9, 9 };
	CHECK_INT(decide(&s), 1);
	epd_plan_generations(s.p, &s.how, &s.i, &g);
	CHECK(!epd_plan_stale(&s.d.plan[0], &g));
#define CHANGED(field, k, b) do { h = g; h.field++; \
	d = epd_plan_stale(&s.d.plan[0], &h); \
	CHECK(d); CHECK_INT(d->kind, k); CHECK_INT(d->backend, b); } while (0)
	CHANGED(source, EPD_DEP_SOURCE, 0);
	CHANGED(target, EPD_DEP_TARGET, 0);
	CHANGED(policy, EPD_DEP_POLICY, 0);
	CHANGED(topology, EPD_DEP_TOPOLOGY, 0);
	CHANGED(credit, EPD_DEP_CREDIT, 0);
	CHANGED(capability[EPD_VIA_TCP], EPD_DEP_CAPABILITY, EPD_VIA_TCP);
	CHANGED(capability[EPD_VIA_COPY], EPD_DEP_CAPABILITY, EPD_VIA_COPY);
	CHANGED(health[EPD_VIA_TCP], EPD_DEP_HEALTH, EPD_VIA_TCP);
	CHANGED(health[EPD_VIA_COPY], EPD_DEP_HEALTH, EPD_VIA_COPY);
#undef CHANGED
	/* What it does not rest on may change. */
	h = g;
	h.health[EPD_VIA_RDMA]++;
	CHECK(!epd_plan_stale(&s.d.plan[0], &h));
	done();
}

/* ---- ids ---- */

TEST(parents_and_attempts_have_ids)
{
	CHECK_INT(staged(), 1);
	s.i.parent = 4711;
	s.config.contract.allows |= EPD_MAY_RECOMPUTE;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].parent, 4711);
	CHECK_INT(s.d.plan[0].id, 100);
	CHECK_INT(s.d.plan[0].attempt, 1);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	done();
	/* Each that may be tried has a number and is an attempt of its own. */
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_SHM, EPD_VIA_COPY, 0);
	s.i.there.machine = 1;
	s.i.parent = 4711;
	for (s.i.index = 0; s.i.index < 3; s.i.index++) {
		CHECK_INT(decide(&s), 4 - s.i.index);
		for (int n = 0; n < s.d.n; n++) {
			CHECK_INT(s.d.plan[n].parent, 4711);
			CHECK_INT(s.d.plan[n].id, 100 + (uint64_t)n);
			CHECK_INT(s.d.plan[n].attempt, s.i.index + n + 1);
		}
	}
	done();
}

/* ---- notification, cancel ---- */

TEST(notification_and_cancel_are_of_the_capability)
{
	static const char *const text = "backends: { tcp: { notify: false, "
	    "cancel: false }, rdma: { cancel: true } }\n"
	    "from: host@a\nto: host@b\nbytes: 1M\n";
	static const uint32_t both = EPD_CAN_NOTIFY | EPD_CAN_CANCEL;
	static struct epd_scenario x;
	struct epd_legacy l;

	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_SHM, 0);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(epd_planner_capability(s.p, EPD_VIA_TCP)->flags & both, both);
	CHECK_INT(epd_planner_capability(s.p, EPD_VIA_RDMA)->flags & both,
	    EPD_CAN_NOTIFY);
	CHECK_INT(epd_planner_capability(s.p, EPD_VIA_SHM)->flags & both, 0);
	done();
	epd_scenario_default(&x);
	CHECK_INT(epd_scenario_parse(&x, epd_span_str(text), "x", &s.why), 0);
	CHECK_INT(epd_scenario_make(&x, &s.p, &s.i, &l, &s.why), 0);
	CHECK_INT(epd_planner_capability(s.p, EPD_VIA_TCP)->flags & both, 0);
	CHECK_INT(epd_planner_capability(s.p, EPD_VIA_RDMA)->flags & both, both);
	/* A transfer asks for neither, so no way is lost. */
	CHECK_INT(epd_plan_decide(s.p, &x.how, &s.i, &s.d), 2);
	done();
}

/* ---- policies ---- */

TEST(the_first_rule_that_matches_counts)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	s.config.nrules = 4;
	for (int n = 0; n < 4; n++)
		s.rule[n] = (struct epd_rule){ .backend = { EPD_VIA_TCP },
		    .nbackends = 1 };
	strcpy(s.rule[0].name, "file");
	s.rule[0].segment = EPD_SEGMENT_FILE;
	strcpy(s.rule[1].name, "high");
	s.rule[1].priorities = BIT(EPD_PRIO_HIGH);
	strcpy(s.rule[2].name, "small");
	s.rule[2].min_size = 100;
	s.rule[2].max_size = 200;
	strcpy(s.rule[3].name, "cuda");
	s.rule[3].there = epd_media_pattern("cuda");
	CHECK_INT(decide(&s), 2);
	CHECK_INT(s.d.rule, 0);
	s.i.bytes = 200;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.rule, 3);
	s.i.bytes = 100;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.rule, 3);
	s.i.bytes = 99;
	CHECK_INT(decide(&s), 2);
	s.i.bytes = 201;
	CHECK_INT(decide(&s), 2);
	s.i.bytes = 150;
	s.i.priority = EPD_PRIO_HIGH;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.rule, 2);
	/* By name its filters count for nothing, but of what segment it is. */
	s.i.policy = epd_planner_policy(s.p, "cuda");
	CHECK_INT(s.i.policy, 4);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.rule, 4);
	s.i.policy = epd_planner_policy(s.p, "file");
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	s.i.policy = epd_planner_policy(s.p, "nobody");
	CHECK_INT(s.i.policy, EPD_NO_POLICY);
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_TCP), EPD_REFUSED_POLICY);
	done();
}

TEST(rules_that_are_none_are_refused)
{
	set_up(&s, EPD_VIA_TCP, 0);
	s.config.nrules = 1;
	s.rule[0].min_size = 2;
	s.rule[0].max_size = 1;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.rule[0] = (struct epd_rule){ .nbackends = EPD_PLAN_BACKENDS + 1 };
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.rule[0] = (struct epd_rule){ .segment = 9 };
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.rule[0] = (struct epd_rule){ .name = "twice" };
	s.rule[1] = (struct epd_rule){ .name = "twice" };
	s.config.nrules = 2;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	/* What does not end where its place does is no name at all. */
	memset(s.rule[0].name, 'n', EPD_PLAN_NAME);
	memset(s.rule[1].name, 'n', EPD_PLAN_NAME);
	CHECK_INT(decide(&s), 1);
	s.config.nrules = EPD_PLAN_RULES + 1;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.config.nrules = 0;
	s.cap[1] = s.cap[0];
	s.config.ncapabilities = 2;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.config.ncapabilities = 1;
	s.cap[0].backend = EPD_VIA_COUNT;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	done();
}

TEST(a_hint_goes_first_or_nothing_does)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_SHM, 0);
	s.i.hint = EPD_VIA_TCP;
	CHECK_INT(decide(&s), 2);
	CHECK_INT(nth(&s, 0), EPD_VIA_TCP);
	CHECK(s.d.plan[0].cost_ns > s.d.plan[1].cost_ns);
	CHECK(s.d.plan[0].reasons & WHY(HINT));
	s.i.hint = EPD_VIA_SHM;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_HINT);
	s.i.hint = EPD_VIA_GDS;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.i.hint = 200;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	done();
}

TEST(a_target_is_reached_only_by_what_it_is_registered_with)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, 0);
	s.config.nrules = 1;
	s.rule[0] = (struct epd_rule){ .backend = { EPD_VIA_RDMA, EPD_VIA_TCP },
	    .nbackends = 2, .contract.allows = EPD_MAY_FALLBACK };
	CHECK_INT(decide(&s), 2);
	s.i.there.ntags = 1;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(refused(&s.d, EPD_VIA_RDMA), EPD_REFUSED_PEER);
	s.i.there.ntags = EPD_PLAN_BACKENDS + 1;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	s.i.there.ntags = 1;
	s.i.there.tag[0] = EPD_VIA_COUNT;
	CHECK_INT(decide(&s), EPD_EUSAGE);
	done();
}

TEST(a_completion_that_says_only_sent_is_committed)
{
	set_up(&s, EPD_VIA_TCP, 0);
	cap_of(&s, EPD_VIA_TCP)->completion = EPD_DONE_SENT;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].nstages, 2);
	CHECK_INT(s.d.plan[0].stage[1].type, EPD_STAGE_COMMIT);
	CHECK_INT(s.d.plan[0].path_kind, EPD_PATH_DIRECT);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	s.i.op = EPD_OP_READ;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].nstages, 1);
	done();
}

TEST(what_is_not_idempotent_says_so)
{
	set_up(&s, EPD_VIA_TCP, 0);
	cap_of(&s, EPD_VIA_TCP)->flags &= ~(uint32_t)EPD_CAN_RETRY;
	CHECK_INT(decide(&s), 1);
	CHECK(s.d.plan[0].reasons & WHY(UNSAFE));
	done();
}

TEST(files_are_reached_through_the_host)
{
	set_up(&s, EPD_VIA_IO_URING, EPD_VIA_COPY, 0);
	ends(&s, EPD_IN_CUDA, EPD_IN_FILE);
	s.i.there.ntags = 0;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].nstages, 2);
	CHECK_INT(s.d.plan[0].stage[0].type, EPD_STAGE_LOCAL_COPY);
	CHECK_INT(s.d.plan[0].stage[1].target, EPD_IN_FILE);
	CHECK_INT(s.d.plan[0].charge.receiver_bytes, 0);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	s.i.op = EPD_OP_READ;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].stage[0].source, EPD_IN_FILE);
	CHECK_INT(s.d.plan[0].stage[1].type, EPD_STAGE_LOCAL_COPY);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	done();
}

TEST(staging_is_for_one_side_too_and_never_for_ones_own)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_COPY, 0);
	ends(&s, EPD_IN_CUDA, EPD_IN_CPU);
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].nstages, 2);
	CHECK_INT(s.d.plan[0].charge.consumer_slots, 0);
	CHECK_INT(epd_plan_check(s.p, &s.d.plan[0], &s.why), 0);
	s.i.op = EPD_OP_READ;
	CHECK_INT(decide(&s), 1);
	CHECK_INT(s.d.plan[0].stage[0].source, EPD_IN_CPU);
	CHECK_INT(s.d.plan[0].stage[1].type, EPD_STAGE_LOCAL_COPY);
	s.i.op = EPD_OP_WRITE;
	s.i.there.node = s.i.here.node;
	cap_of(&s, EPD_VIA_COPY)->pairs &= ~EPD_PAIR(EPD_IN_CUDA, EPD_IN_CPU);
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_INT(refused(&s.d, EPD_VIA_NONE), EPD_REFUSED_OWN);
	done();
}

/* ---- properties ---- */

static const uint8_t all[] = { EPD_VIA_MNNVL, EPD_VIA_NVLINK, EPD_VIA_RDMA,
    EPD_VIA_SHM, EPD_VIA_TCP, EPD_VIA_GDS, EPD_VIA_TPU, EPD_VIA_IO_URING,
    EPD_VIA_COPY, EPD_VIA_RECOMPUTE };

static void
random_capabilities(struct setup *x, uint64_t *seed)
{
	for (size_t n = 0; n < sizeof all; n++) {
		struct epd_capability *c = &x->cap[x->config.ncapabilities];

		if (!draw(seed, 3) ||
		    epd_capability_default(c, (enum epd_backend)all[n]))
			continue;
		x->config.ncapabilities++;
		if (!draw(seed, 10))
			c->flags = draw(seed, 2048);
		if (!draw(seed, 10))
			c->pairs = (uint64_t)draw(seed, 1u << 30) * 8191 << 8;
		if (!draw(seed, 4))
			c->bounced = c->pairs & ((uint64_t)draw(seed, 1u << 30) << 9);
		if (!draw(seed, 6))
			c->required_alignment = UINT64_C(1) << draw(seed, 16);
		if (!draw(seed, 6))
			c->max_transfer_bytes = 1 + draw(seed, 1 << 24);
		if (!draw(seed, 8))
			c->completion = EPD_DONE_SENT;
		if (!draw(seed, 12))
			c->schema_version = draw(seed, 3) << 16;
		c->generation = draw(seed, 9);
		c->pools = draw(seed, 4);
		if (c->backend != EPD_VIA_RECOMPUTE && draw(seed, 4))
			x->i.there.tag[x->i.there.ntags++] = c->backend;
		if (draw(seed, 3))
			*observe(x, (enum epd_backend)c->backend,
			    (enum epd_health)draw(seed, 4), draw(seed, 2) ?
			    1e6 * (1 + draw(seed, 50000)) : 0,
			    draw(seed, 2) * 1e3) = (struct epd_operational){
				.schema_version = draw(seed, 9) ?
				    EPD_PLAN_SCHEMA : 5 << 16,
				.health = (uint8_t)draw(seed, 4),
				.generation = draw(seed, 9),
				.observed_at_ns = NOW - draw(seed, 3000),
				.valid_for_ns = 2000,
				.devices_up = draw(seed, 4) ? 0 : draw(seed, 16),
				.has_bandwidth = 1, .has_latency = 1,
				.bandwidth_bps = 1e7 * (1 + draw(seed, 3)),
				.latency_ns = 1e3 * draw(seed, 3),
				.confidence = draw(seed, 10) / 10.0,
			};
	}
}

static void
random_rules(struct setup *x, uint64_t *seed)
{
	x->config.nrules = (int)draw(seed, 4);
	for (int n = 0; n < x->config.nrules; n++) {
		struct epd_rule *r = &x->rule[n];

		if (draw(seed, 2))
			r->here = draw(seed, 64);
		if (draw(seed, 2))
			r->max_size = 1 + draw(seed, 1 << 22);
		r->same_machine = (uint8_t)draw(seed, 3);
		r->segment = (uint8_t)draw(seed, 3);
		for (uint32_t k = draw(seed, 6); k > 0; k--)
			r->backend[r->nbackends++] =
			    (uint8_t)draw(seed, EPD_VIA_COUNT);
		r->devices = draw(seed, 3) ? 0 : draw(seed, 16);
		r->pool = (uint8_t)draw(seed, 4);
		r->contract.allows = draw(seed, 32);
		r->contract.strict = !draw(seed, 12);
		r->contract.max_nic_bytes = draw(seed, 4) ? 0 :
		    draw(seed, 1 << 22);
		r->contract.max_staging_bytes = draw(seed, 4) ? 0 :
		    draw(seed, 1 << 22);
	}
	x->config.contract.allows = draw(seed, 32);
	if (draw(seed, 3) == 0)
		memset(x->config.baseline, 0, sizeof x->config.baseline);
}

static void
random_intent(struct setup *x, uint64_t *seed)
{
	struct epd_intent *i = &x->i;

	i->op = (uint8_t)(1 + draw(seed, 2));
	i->here.medium = (uint8_t)(1 + draw(seed, draw(seed, 3) ? 2 :
	    EPD_IN_COUNT - 1));
	i->there.medium = (uint8_t)(1 + draw(seed, draw(seed, 3) ? 2 :
	    EPD_IN_COUNT - 1));
	i->here.node = draw(seed, 3);
	i->there.node = draw(seed, 3);
	i->here.machine = draw(seed, 3);
	i->there.machine = draw(seed, 3);
	i->bytes = 1 + draw(seed, 1 << 23);
	i->alignment = UINT64_C(1) << draw(seed, 16);
	i->priority = (uint8_t)draw(seed, 3);
	i->intent = (uint8_t)draw(seed, EPD_INTENT_COUNT);
	i->index = draw(seed, 6) ? 0 : (int32_t)draw(seed, 6) - 1;
	i->hint = draw(seed, 12) ? 0 : (uint8_t)(1 + draw(seed, 13));
	i->strict = !draw(seed, 12);
	i->lossy = draw(seed, 3) ? 0 : (uint8_t)draw(seed, 4);
	i->lossy_bytes = i->bytes / 2 + 1;
	i->credits_enabled = !draw(seed, 8);
	i->credits = (struct epd_credits){ draw(seed, 5), draw(seed, 1 << 24),
	    draw(seed, 3), draw(seed, 3) };
	i->deadline_ns = draw(seed, 4) ? 0 : NOW + draw(seed, 1 << 30);
	i->tokens = draw(seed, 3000);
	i->tokens_per_s = draw(seed, 3) * 1000.0;
	i->policy = draw(seed, 12) ? 0 : (uint16_t)draw(seed, 4);
}

/* Loaded backends that are in no plan and no rejection. */
static uint32_t
forgotten(const struct setup *x)
{
	uint32_t left = 0;

	for (int n = 0; n < x->config.ncapabilities; n++)
		left |= BIT(x->cap[n].backend);
	for (int n = 0; n < x->d.n; n++)
		for (int k = 0; k < x->d.plan[n].nstages; k++)
			left &= ~BIT(x->d.plan[n].stage[k].backend);
	for (int n = 0; n < x->d.nrejected; n++)
		left &= ~BIT(x->d.rejected[n].backend);
	return left;
}

static const char *
broken(const struct setup *x, int rc)
{
	const struct epd_decision *d = &x->d;
	static struct epd_why why;

	if (rc == EPD_EUSAGE || rc == EPD_ETIMEOUT)
		return NULL;
	if (rc != (d->n ? d->n : EPD_ENOPLAN))
		return "it counts wrong";
	if (d->n > EPD_PLAN_CANDIDATES || d->nrejected >= EPD_PLAN_REJECTED)
		return "more than there may be";
	for (int n = 0; n < d->n; n++) {
		const struct epd_plan *p = &d->plan[n];

		if (epd_plan_check(x->p, p, &why))
			return why.text;
		if (n && p->role == EPD_ROLE_PRIMARY &&
		    d->plan[n - 1].role != EPD_ROLE_DEGRADED)
			return "two that are first";
		if (n && !x->i.hint && p->cost_ns < d->plan[n - 1].cost_ns)
			return "a cheaper one stands behind";
	}
	for (int n = 0; n < d->nrejected; n++)
		if (!d->rejected[n].reason ||
		    d->rejected[n].reason >= EPD_REFUSED_COUNT)
			return "a rejection without a reason";
	return forgotten(x) ? "a backend is forgotten" : NULL;
}

TEST(properties_of_random_decisions)
{
	uint64_t seed = 20261130;
	long plans = 0, none = 0, odd = 0;

	for (int n = 0; n < 60000; n++) {
		const char *why;
		int rc;

		set_up(&s, 0);
		random_capabilities(&s, &seed);
		random_rules(&s, &seed);
		random_intent(&s, &seed);
		rc = decide(&s);
		why = broken(&s, rc);
		if (why)
			CHECK_FAIL("decision %d: %s", n, why);
		plans += rc > 0 ? rc : 0;
		none += rc == EPD_ENOPLAN;
		odd += rc == EPD_EUSAGE;
		other = s;
		other.p = NULL;
		other.config.capability = other.cap;
		other.config.rule = other.rule;
		shuffle(&other, &seed);
		CHECK_INT(decide(&other), rc);
		CHECK_INT(other.d.n, s.d.n);
		CHECK_INT(other.d.nrejected, s.d.nrejected);
		for (int k = 0; rc > 0 && k < rc; k++)
			CHECK(!memcmp(other.d.plan[k].stage, s.d.plan[k].stage,
			    s.d.plan[k].nstages * sizeof *s.d.plan[k].stage));
		epd_planner_free(other.p);
		done();
	}
	printf("# plan: 60000 random decisions, %ld plans, %ld without one, "
	    "%ld of no intent\n", plans, none, odd);
	CHECK(plans > 20000 && none > 5000);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
