/* route.c - a peer, a policy and the state of links as one intent of the planner's. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/route.h"

/* What this program can reach the peer by, as its transports say they are. */
static int
capabilities(struct epd_node *n, struct epd_capability out[EPD_VIA_COUNT])
{
	const uint32_t mask = epd_node_backends(n);
	int k = 0;

	for (int b = 1; b < EPD_VIA_COUNT; b++) {
		const struct epd_transport *t = epd_transport_of(
		    epd_node_here(n)->transports, (enum epd_backend)b);
		struct epd_transport_facts facts;

		if (!(mask >> b & 1) || !t || t->probe(t, &facts, NULL) < 0 ||
		    epd_capability_default(out + k, (enum epd_backend)b) < 0)
			continue;
		out[k].required_alignment = facts.alignment;
		out[k].max_sge = facts.max_sge;
		out[k].generation = 1;
		if (t->cancel)
			out[k].flags |= EPD_CAN_CANCEL;
		else
			out[k].flags &= ~(uint32_t)EPD_CAN_CANCEL;
		k++;
	}
	if (epd_capability_default(out + k, EPD_VIA_RECOMPUTE) == 0)
		k++;
	return k;
}

/* Tokens a second of prefills so far; 0: none yet. */
static double
prefill_rate(const struct epd_store *s)
{
	const uint64_t n = epd_metrics_get(s->metrics, EPD_M_PREFILL_TOKENS);
	const uint64_t ns = epd_metrics_get(s->metrics, EPD_M_PREFILL_NS);

	return n && ns ? (double)n * 1e9 / (double)ns : 0;
}

static uint64_t
number_of(const uint8_t id[16])
{
	uint64_t v;

	memcpy(&v, id, sizeof v);
	return v ? v : 1;
}

static void
describe(struct epd_route *r, struct epd_node *n, enum epd_op op,
    uint64_t bytes, uint64_t deadline_ns)
{
	const struct epd_store *here = epd_node_here(n);
	const uint32_t mask = epd_node_backends(n);
	struct epd_intent *i = &r->intent;
	uint8_t boot[16] = {0};

	(void)epd_clock_boot_id(boot);
	*i = (struct epd_intent){
		.id = number_of(here->uuid) ^ epd_clock_boot_ns(),
		.op = (uint8_t)op, .bytes = bytes,
		.here = { .medium = EPD_IN_CPU, .node = number_of(here->uuid),
		    .machine = number_of(boot) },
		.there = { .medium = EPD_IN_CPU,
		    .node = number_of(epd_node_facts(n)->uuid) },
		.priority = (uint8_t)r->policy->priority,
		.hint = (uint8_t)r->policy->transport,
		.strict = r->policy->strict != 0,
		.credits_enabled = op == EPD_OP_WRITE,
		.credits = epd_node_facts(n)->credits,
		.deadline_ns = deadline_ns,
	};
	if (epd_node_is_near(n))
		i->there.machine = i->here.machine;
	for (uint8_t b = 1; b < EPD_VIA_COUNT; b++)
		if (mask >> b & 1) {
			i->here.tag[i->here.ntags++] = b;
			i->there.tag[i->there.ntags++] = b;
		}
}

int
epd_route_open(struct epd_route *out, struct epd_node *n, enum epd_op op,
    uint64_t bytes, uint64_t tokens, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, struct epd_why *why)
{
	const struct epd_store *here = epd_node_here(n);
	const int mode = epd_plan_mode_parse(here->config.transfer_mode);
	struct epd_route r = { .n = n, .policy = policy,
	    .mode = mode < 0 ? EPD_PLAN_DISABLED : (enum epd_plan_mode)mode,
	    .legacy = { .loaded = epd_node_backends(n), .cpu = 1,
	    .shm_path = epd_node_is_near(n) } };
	const struct epd_scenario *rules = epd_node_rules(n);
	struct epd_capability can[EPD_VIA_COUNT];
	struct epd_plan_config c;
	int rc;

	/* To wait for it would be to wait for the deadline. */
	if (op == EPD_OP_WRITE && bytes > epd_node_facts(n)->most)
		return epd_why(why, EPD_ETOOBIG, "%s: %llu bytes have to be "
		    "there at once, and it never grants more than %llu",
		    epd_node_address(n), (unsigned long long)bytes,
		    (unsigned long long)epd_node_facts(n)->most);
	epd_plan_config_default(&c);
	if (rules) {
		c.rule = r.legacy.rule = rules->rule;
		c.nrules = r.legacy.nrules = rules->nrules;
		c.contract = rules->contract;
		r.legacy.selector = 1;
	}
	c.capability = can;
	c.ncapabilities = capabilities(n, can);
	if (tokens)
		c.contract.allows |= EPD_MAY_RECOMPUTE;
	if ((rc = epd_planner_new(&r.planner, &c, why)) < 0)
		return rc;
	describe(&r, n, op, bytes, deadline_ns);
	r.intent.tokens = tokens;
	r.intent.tokens_per_s = prefill_rate(here);
	/* A hint of what is not there is none, unless it is all that may be. */
	if (r.intent.hint && !policy->strict &&
	    !epd_planner_capability(r.planner, policy->transport))
		r.intent.hint = EPD_VIA_NONE;
	if (*policy->rule)
		r.intent.policy = epd_planner_policy(r.planner, policy->rule);
	*out = r;
	return 0;
}

void
epd_route_close(struct epd_route *r)
{
	epd_planner_free(r->planner);
	r->planner = NULL;
}

/* What the peer grants by now; if it does not say, it is as it was. */
static void
ask_credit(struct epd_route *r)
{
	if (r->intent.credits_enabled)
		(void)epd_node_refresh(r->n, r->intent.deadline_ns, NULL);
	r->refused = 0;
}

/*
 * How backends do, with those given up as down.  The selector of today passes as many
 * ways as failed; a planner that knows of the failures would pass them twice.
 */
static void
look_at_ways(struct epd_route *r, int32_t index, struct epd_operations *out)
{
	*out = *epd_node_operations(r->n);
	if (index > r->passed && r->failed)
		r->given_up |= UINT32_C(1) << r->failed;
	if (index < r->passed)
		r->given_up = 0;
	r->passed = index;
	/* A hint is a wish: what it names has failed. */
	if (r->mode == EPD_PLAN_ENFORCED && !r->policy->strict &&
	    (r->given_up >> r->intent.hint & 1))
		r->intent.hint = EPD_VIA_NONE;
	r->intent.index = r->mode == EPD_PLAN_ENFORCED ? 0 : index;
	for (int b = 1; r->mode == EPD_PLAN_ENFORCED && b < EPD_VIA_COUNT; b++)
		if (r->given_up >> b & 1) {
			out->of[b].schema_version = EPD_PLAN_SCHEMA;
			out->of[b].backend = (uint8_t)b;
			out->of[b].health = EPD_DOWN;
			out->of[b].observed_at_ns = r->intent.now_ns;
			out->of[b].valid_for_ns = UINT64_C(60000000000);
		}
}

/*
 * Where no way is left, one that has failed of late is better than none: what this
 * store saw of it is no more than a while ago, and the peer may be back.
 */
static int
forgive(const struct epd_route *r, struct epd_operations *how)
{
	int n = 0;

	for (int b = 1; b < EPD_VIA_COUNT; b++)
		if (how->of[b].health == EPD_DOWN && !(r->given_up >> b & 1)) {
			how->of[b].health = EPD_DEGRADED;
			n++;
		}
	return n;
}

int
epd_route_decide(void *arg, int32_t index, struct epd_decision *out,
    struct epd_why *why)
{
	struct epd_route *r = arg;
	struct epd_metrics *m = epd_node_here(r->n)->metrics;
	struct epd_decision *other = NULL;
	struct epd_shadow seen = {0};
	struct epd_operations how;
	int rc;

	/* A comparison that there is no room for is not made. */
	if (r->mode == EPD_PLAN_SHADOW)
		other = epd_malloc(sizeof *other);
	if (r->asked)
		ask_credit(r);
	r->asked = 1;
	r->intent.now_ns = epd_clock_boot_ns();
	r->intent.credits = epd_node_facts(r->n)->credits;
	look_at_ways(r, index, &how);
	rc = epd_plan_choose(r->mode, r->planner, &r->legacy, &how,
	    &r->intent, out, other, &seen);
	if (rc == EPD_ENOPLAN && r->mode == EPD_PLAN_ENFORCED &&
	    !r->policy->strict && forgive(r, &how))
		rc = epd_plan_choose(r->mode, r->planner, &r->legacy, &how,
		    &r->intent, out, NULL, &seen);
	epd_free(other);
	epd_count(m, EPD_M_PLANS_COMPARED, seen.compared);
	epd_count(m, EPD_M_PLANS_DIFFER, seen.compared - seen.equal);
	return rc < 0 ? epd_why(why, rc, "%s: %s", epd_node_address(r->n),
	    epd_strerror(rc)) : rc;
}

void
epd_route_now(void *arg, struct epd_generations *out)
{
	struct epd_route *r = arg;

	if (r->refused)
		ask_credit(r);
	r->intent.credits = epd_node_facts(r->n)->credits;
	epd_plan_generations(r->planner, epd_node_operations(r->n), &r->intent,
	    out);
}

void
epd_route_told(void *arg, enum epd_backend b, int rc, uint64_t bytes,
    uint64_t ns)
{
	struct epd_route *r = arg;

	/* That is no fault of the backend's. */
	if (rc == EPD_ECREDIT) {
		r->refused = 1;
		return;
	}
	if (rc < 0)
		r->failed = b;
	epd_node_observe(r->n, b, rc, bytes, ns);
}
