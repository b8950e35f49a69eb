/* route.c - how a prospect and the state of links are decided, and decided again. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "flow/route.h"

/* A prospect of n, of no bytes yet. */
static int
look_out(struct epd_prospect *out, struct epd_node *n, enum epd_op op,
    const struct epd_transfer_policy *policy, struct epd_why *why)
{
	struct epd_prospect_ask a = {
		.here = epd_node_here(n), .address = epd_node_address(n),
		.peer = epd_node_facts(n), .policy = policy, .op = op,
	};
	const int rc = epd_node_ways(n, &a.ways, why);

	if (rc == 0)
		epd_prospect_make(out, &a);
	return rc;
}

int
epd_route_open(struct epd_route *out, struct epd_node *n, enum epd_op op,
    uint64_t bytes, uint64_t tokens, const struct epd_transfer_policy *policy,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_prospect way;
	int rc;

	/* To wait for it would be to wait for the deadline. */
	if (op == EPD_OP_WRITE && bytes > epd_node_facts(n)->most)
		return epd_why(why, EPD_ETOOBIG, "%s: %llu bytes have to be "
		    "there at once, and it never grants more than %llu",
		    epd_node_address(n), (unsigned long long)bytes,
		    (unsigned long long)epd_node_facts(n)->most);
	rc = look_out(&way, n, op, policy, why);
	if (rc < 0)
		return rc;
	way.intent.bytes = bytes;
	way.intent.tokens = tokens;
	way.intent.deadline_ns = deadline_ns;
	*out = (struct epd_route){ .n = n, .policy = policy, .way = way };
	return 0;
}

int
epd_route_compress(struct epd_node *n, enum epd_op op,
    struct epd_transfer_policy *inout, struct epd_why *why)
{
	const struct epd_listener *l = &epd_node_here(n)->listener;
	struct epd_why own = {{0}};
	struct epd_prospect way;
	int rc = look_out(&way, n, op, inout, why);

	if (rc == 0)
		rc = epd_prospect_compress(&way, inout, &own);
	else
		return rc;
	if (rc < 0)
		return epd_why(why, rc, "%s", own.text);
	if (!rc && l->fn)
		l->fn(l->arg, own.text);
	return 0;
}

/* What the peer grants by now; if it does not say, it is as it was. */
static void
ask_credit(struct epd_route *r)
{
	if (r->way.intent.credits_enabled)
		(void)epd_node_refresh(r->n, r->way.intent.deadline_ns, NULL);
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
	if (r->way.mode == EPD_PLAN_ENFORCED && !r->policy->strict &&
	    (r->given_up >> r->way.intent.hint & 1))
		r->way.intent.hint = EPD_VIA_NONE;
	r->way.intent.index = r->way.mode == EPD_PLAN_ENFORCED ? 0 : index;
	for (int b = 1; r->way.mode == EPD_PLAN_ENFORCED && b < EPD_VIA_COUNT; b++)
		if (r->given_up >> b & 1) {
			out->of[b].schema_version = EPD_PLAN_SCHEMA;
			out->of[b].backend = (uint8_t)b;
			out->of[b].health = EPD_DOWN;
			out->of[b].observed_at_ns = r->way.intent.now_ns;
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
	struct epd_shadow seen = {0};
	struct epd_operations how;
	int rc;

	if (r->asked)
		ask_credit(r);
	r->asked = 1;
	/* Its candidates have this id and the next. */
	r->way.intent.id = epd_node_plan_id(r->n);
	r->way.intent.now_ns = epd_clock_boot_ns();
	r->way.intent.credits = epd_node_facts(r->n)->credits;
	look_at_ways(r, index, &how);
	rc = epd_plan_choose(r->way.mode, r->way.planner, &r->way.legacy, &how,
	    &r->way.intent, out, &r->other, &seen);
	if (rc == EPD_ENOPLAN && r->way.mode == EPD_PLAN_ENFORCED &&
	    !r->policy->strict && forgive(r, &how))
		rc = epd_plan_choose(r->way.mode, r->way.planner,
		    &r->way.legacy, &how, &r->way.intent, out, NULL, &seen);
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
	r->way.intent.credits = epd_node_facts(r->n)->credits;
	epd_plan_generations(r->way.planner, epd_node_operations(r->n), &r->way.intent,
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
	epd_node_waits(r->n, rc, r->way.intent.deadline_ns);
}
