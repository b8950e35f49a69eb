/*
 * plan.c - how long a decision takes: the RFC's five scenarios in turn, all ten steps,
 * every candidate written whole.
 *
 *	plan [DECISIONS]
 *
 * Writes one JSON line: plan_ns, ok (scenarios decided as expected), and by itself
 * each of the five.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "plan/plan.h"

enum { FIVE = 5 };

#define NOW UINT64_C(5000000000)

static const struct {
	enum epd_medium medium;
	int remote, rdma, tcp;
	enum epd_backend first;
} five[FIVE] = {
	{ EPD_IN_CUDA, 1, 1, 1, EPD_VIA_RDMA },
	{ EPD_IN_CPU, 0, 1, 1, EPD_VIA_SHM },
	{ EPD_IN_CPU, 1, 0, 1, EPD_VIA_TCP },
	{ EPD_IN_CUDA, 1, 0, 1, EPD_VIA_TCP },
	{ EPD_IN_CUDA, 1, 0, 0, EPD_VIA_RECOMPUTE },
};

static struct epd_operations how[FIVE];
static struct epd_intent intent[FIVE];
static struct epd_planner *planner;

static void
observe(int n, enum epd_backend b, int up, double bps, double latency)
{
	how[n].of[b] = (struct epd_operational){
		.schema_version = EPD_PLAN_SCHEMA, .backend = (uint8_t)b,
		.health = up ? EPD_HEALTHY : EPD_DOWN, .generation = 1,
		.observed_at_ns = NOW - 1000, .valid_for_ns = 1000000,
		.confidence = 0.9, .has_bandwidth = 1, .bandwidth_bps = bps,
		.has_latency = 1, .latency_ns = latency,
	};
}

static void
make(void)
{
	static const enum epd_backend loaded[] = { EPD_VIA_RDMA, EPD_VIA_SHM,
	    EPD_VIA_TCP, EPD_VIA_COPY, EPD_VIA_RECOMPUTE };
	struct epd_capability cap[FIVE];
	struct epd_plan_config c;

	epd_plan_config_default(&c);
	for (int n = 0; n < FIVE; n++)
		if (epd_capability_default(&cap[n], loaded[n]))
			abort();
	cap[0].flags &= ~(uint32_t)EPD_CAN_LOCAL;
	c.capability = cap;
	c.ncapabilities = FIVE;
	c.contract.allows |= EPD_MAY_RECOMPUTE;
	if (epd_planner_new(&planner, &c, NULL))
		abort();
	for (int n = 0; n < FIVE; n++) {
		observe(n, EPD_VIA_RDMA, five[n].rdma, 50e9, 10e3);
		observe(n, EPD_VIA_SHM, 1, 20e9, 1e3);
		observe(n, EPD_VIA_TCP, five[n].tcp, 3e9, 60e3);
		observe(n, EPD_VIA_COPY, 1, 10e9, 5e3);
		intent[n] = (struct epd_intent){
			.id = 1, .op = EPD_OP_WRITE, .bytes = 1 << 20,
			.alignment = 4096, .now_ns = NOW,
			.priority = EPD_PRIO_NORMAL,
			.here = { .medium = (uint8_t)five[n].medium, .node = 1,
			    .machine = 1 },
			.there = { .medium = (uint8_t)five[n].medium,
			    .node = 2, .machine = five[n].remote ? 2 : 1,
			    .tag = { EPD_VIA_RDMA, EPD_VIA_SHM, EPD_VIA_TCP },
			    .ntags = 3 },
			.tokens = 1000, .tokens_per_s = 5000,
		};
	}
}

/* ns a decision of n of them, over scenarios from first on, so many. */
static double
time_of(long n, int first, int count)
{
	static struct epd_decision d;
	const uint64_t began = epd_clock_boot_ns();
	int at = 0;

	for (long i = 0; i < n; i++) {
		if (epd_plan_decide(planner, &how[first + at],
		    &intent[first + at], &d) < 1)
			abort();
		at = at + 1 == count ? 0 : at + 1;
	}
	return (double)(epd_clock_boot_ns() - began) / (double)n;
}

int
main(int argc, char **argv)
{
	static struct epd_decision d;
	const long n = argc > 1 ? atol(argv[1]) : 2000000;
	double each[FIVE];
	int ok = 0;

	if (n < 10)
		return 2;
	make();
	for (int i = 0; i < FIVE; i++)
		ok += epd_plan_decide(planner, &how[i], &intent[i], &d) > 0 &&
		    epd_plan_backend(&d.plan[0]) == five[i].first;
	(void)time_of(n / 10, 0, FIVE);
	for (int i = 0; i < FIVE; i++)
		each[i] = time_of(n / 10, i, 1);
	printf("{\"plan_ns\": %.2f, \"ok\": %d, \"rdma\": %.2f, \"shm\": %.2f, "
	    "\"tcp\": %.2f, \"staged\": %.2f, \"recompute\": %.2f}\n",
	    time_of(n, 0, FIVE), ok, each[0], each[1], each[2], each[3], each[4]);
	epd_planner_free(planner);
	return 0;
}
