/* plan.h - planners, states and intents for tests of the plan room. */
#ifndef TESTS_UNIT_PLAN_H
#define TESTS_UNIT_PLAN_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/plan.h"
#include "tests/check.h"

#define NOW UINT64_C(5000000000)
#define WHY(id) (UINT64_C(1) << EPD_WHY_##id)
#define BIT(b) (UINT32_C(1) << (unsigned)(b))

/* A planner's configuration with room for what it points to. */
struct setup {
	struct epd_plan_config config;
	struct epd_capability cap[EPD_VIA_COUNT];
	struct epd_rule rule[EPD_PLAN_RULES];
	struct epd_operations how;
	struct epd_intent i;
	struct epd_planner *p;
	struct epd_decision d;
	struct epd_why why;
};

/* The next random number of a sequence. */
static inline uint32_t
draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)((*seed >> 33) % below);
}

/* With these backends, as they are by default; 0 ends. */
static inline void
set_up(struct setup *s, ...)
{
	va_list ap;
	int b;

	memset(s, 0, sizeof *s);
	epd_plan_config_default(&s->config);
	epd_plan_baseline_default(&s->config);
	s->config.capability = s->cap;
	s->config.rule = s->rule;
	s->i = (struct epd_intent){
		.id = 100, .op = EPD_OP_WRITE, .priority = EPD_PRIO_NORMAL,
		.bytes = 1 << 20, .alignment = 4096, .now_ns = NOW,
		.here = { .medium = EPD_IN_CPU, .node = 1, .machine = 1,
		    .generation = 11 },
		.there = { .medium = EPD_IN_CPU, .node = 2, .machine = 2,
		    .generation = 22 },
	};
	va_start(ap, s);
	while ((b = va_arg(ap, int)) != 0) {
		if (epd_capability_default(&s->cap[s->config.ncapabilities],
		    (enum epd_backend)b))
			abort();
		s->config.ncapabilities++;
		if (b != EPD_VIA_RECOMPUTE)
			s->i.there.tag[s->i.there.ntags++] = (uint8_t)b;
	}
	va_end(ap);
}

static inline struct epd_capability *
cap_of(struct setup *s, enum epd_backend b)
{
	for (int i = 0; i < s->config.ncapabilities; i++)
		if (s->cap[i].backend == b)
			return &s->cap[i];
	abort();
}

/* A fresh and sure observation. */
static inline struct epd_operational *
observe(struct setup *s, enum epd_backend b, enum epd_health h, double bps,
    double latency)
{
	struct epd_operational *o = &s->how.of[b];

	*o = (struct epd_operational){
		.schema_version = EPD_PLAN_SCHEMA, .backend = (uint8_t)b,
		.health = (uint8_t)h, .generation = 7,
		.observed_at_ns = NOW - 1000, .valid_for_ns = 1000000,
		.confidence = 0.9, .has_bandwidth = bps > 0,
		.bandwidth_bps = bps, .has_latency = latency > 0,
		.latency_ns = latency,
	};
	return o;
}

static inline void
ends(struct setup *s, enum epd_medium here, enum epd_medium there)
{
	s->i.here.medium = (uint8_t)here;
	s->i.there.medium = (uint8_t)there;
}

/* Made anew from the configuration, and asked. */
static inline int
decide(struct setup *s)
{
	int rc;

	epd_planner_free(s->p);
	s->p = NULL;
	rc = epd_planner_new(&s->p, &s->config, &s->why);
	return rc ? rc : epd_plan_decide(s->p, &s->how, &s->i, &s->d);
}

static inline enum epd_backend
nth(const struct setup *s, int n)
{
	return n < s->d.n ? epd_plan_backend(&s->d.plan[n]) : EPD_VIA_NONE;
}

/* Why b was refused; EPD_REFUSED_NOT if it was not. */
static inline unsigned
refused(const struct epd_decision *d, enum epd_backend b)
{
	for (int n = 0; n < d->nrejected; n++)
		if (d->rejected[n].backend == b)
			return d->rejected[n].reason;
	return EPD_REFUSED_NOT;
}

static inline uint64_t
refused_number(const struct epd_decision *d, enum epd_backend b)
{
	for (int n = 0; n < d->nrejected; n++)
		if (d->rejected[n].backend == b)
			return d->rejected[n].number;
	return 0;
}

#endif
