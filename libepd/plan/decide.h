/*
 * decide.h - from what is to be moved to the ways it may go, best first.  Outside
 * this room include plan/plan.h.  A planner never changes once it is made, and any
 * number of threads may decide by it.
 *
 * Rank, in this order: what was hinted; cost_ns; place in the rule's list (or the
 * target's); enum epd_backend; direct before staged before recompute; template.
 * Where not every path has a cost, cost counts for none (cost_ns is 0) and the list
 * decides: the legacy order.  A degraded backend costs degraded_factor times as much,
 * and where cost does not count stands behind all that are not.  What confidence
 * below min_confidence is told with counts as not told.
 */
#ifndef EPD_PLAN_DECIDE_H
#define EPD_PLAN_DECIDE_H

#include <stdint.h>

#include "base/err.h"
#include "plan/intent.h"
#include "plan/policy.h"
#include "plan/reasons.h"

struct epd_legacy;

struct epd_baseline {		/* of a backend nothing fresh is known of; 0: none */
	double latency_ns, bandwidth_bps;	/* bytes a second */
};

struct epd_plan_config {
	const struct epd_capability *capability;	/* what is loaded; order does not count */
	int ncapabilities;
	const struct epd_rule *rule;
	int nrules;
	const struct epd_path_template *templates;	/* NULL: epd_plan_templates */
	int ntemplates;
	struct epd_contract contract;		/* of what matches no rule */
	struct epd_baseline baseline[EPD_VIA_COUNT];
	double min_confidence, degraded_factor;	/* 0: 0.5, 4 */
	uint64_t staging_chunk;			/* bytes of a slot; 0: 4 MiB */
	uint32_t staging_slots;			/* a side at most; 0: 16 */
	uint32_t max_attempts;			/* 0: 3 after the first */
	uint64_t policy_generation, topology_generation;
	/*
	 * Whom to ask where a capability is of a major nobody here knows; NULL: that
	 * backend is refused.  It outlives the planner.
	 */
	const struct epd_legacy *legacy;
};

/* What is configured where nothing is said: no rule, fallback allowed. */
void epd_plan_config_default(struct epd_plan_config *out);
/* What each costs on a usual machine, lest cost count only where all was measured. */
void epd_plan_baseline_default(struct epd_plan_config *c);

struct epd_planner;
/*
 * Fails: EPD_EUSAGE (a rule, a template that turns back on itself or has more than
 * EPD_PLAN_STAGES stages, a backend twice), -ENOMEM.  Owns: the caller frees.
 */
int epd_planner_new(struct epd_planner **out, const struct epd_plan_config *c,
    struct epd_why *why);
void epd_planner_free(struct epd_planner *p);
/* What a rule of that name is to an intent: its number from 1, or EPD_NO_POLICY. */
uint16_t epd_planner_policy(const struct epd_planner *p, const char *name);
/* NULL: not loaded, or refused. */
const struct epd_capability *epd_planner_capability(const struct epd_planner *p,
    enum epd_backend b);
enum { EPD_NO_POLICY = 0xffff };
/* What each contract lets go of the bytes of such an intent, whatever its size: EPD_MAY_FP8.. */
uint32_t epd_planner_gives_up(const struct epd_planner *p,
    const struct epd_intent *i);

struct epd_decision {
	int n, nrejected;
	uint16_t rule;			/* that matched, from 1; 0: none */
	uint16_t passed;		/* ways that index skipped */
	struct epd_plan plan[EPD_PLAN_CANDIDATES];	/* n, best first */
	struct epd_rejection rejected[EPD_PLAN_REJECTED];
};

/*
 * Whose roles: the first that gives nothing up is PRIMARY (FALLBACK, past index 0);
 * what is lossy, and a recompute that is not the first, is DEGRADED; the rest are
 * FALLBACK.  Only what the contract allows is there.  Nothing of out beyond its
 * counts is written; every loaded backend is in a plan or rejected.
 *
 * The number of candidates.  Fails: EPD_ENOPLAN (none: rejected tells why),
 * EPD_ETIMEOUT (the deadline has passed), EPD_EUSAGE (no such operation, an end
 * without a medium, a hint of what is not loaded): only then out is not told.
 */
int epd_plan_decide(const struct epd_planner *p, const struct epd_operations *how,
    const struct epd_intent *intent, struct epd_decision *out);

/*
 * Whether a plan, made by whomever, holds together: schema, stages that lead on and
 * never back, bytes, and the whole charge; with a planner also each backend's
 * capability.  Fails: EPD_EKIND (schema), EPD_EUSAGE.
 */
int epd_plan_check(const struct epd_planner *p, const struct epd_plan *plan,
    struct epd_why *why);
/* What its stages take of everything, at least.  p NULL: by the default capabilities. */
void epd_plan_charge(const struct epd_planner *p, const struct epd_plan *plan,
    struct epd_charge *out);

/* What a plan may depend on, as it is now. */
struct epd_generations {
	uint64_t source, target, policy, topology, credit;
	uint64_t capability[EPD_VIA_COUNT], health[EPD_VIA_COUNT];
};
/* Before it is dispatched: the first dependency that changed, or NULL. */
const struct epd_depends *epd_plan_stale(const struct epd_plan *plan,
    const struct epd_generations *now);
/* Of what was decided: all that its plans depend on. */
void epd_plan_generations(const struct epd_planner *p,
    const struct epd_operations *how, const struct epd_intent *intent,
    struct epd_generations *out);

#endif
