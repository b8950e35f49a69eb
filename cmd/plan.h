/* plan.h - epd-plan's two questions: a transfer, and a state's move. */
#ifndef CMD_PLAN_H
#define CMD_PLAN_H

#include "cmd/cli.h"
#include "plan/plan.h"

enum { PLAN_SCENARIOS = 16 };

struct plan {
	struct cli cli;
	struct epd_scenario s;
	struct epd_store *store;	/* of states */
	struct epd_transfer_policy how;	/* as it is configured, of states */
	int ruled;			/* by rules that the configuration names */
	const char *from, *to, *why_not;
	const char *file[PLAN_SCENARIOS];
	int nfiles;
	/* Of the line, which counts more than a scenario's. */
	const char *bytes, *op, *policy, *hint, *index, *priority, *intent, *mode;
	int strict;
};

/* What was decided, and beside it what was not followed; other: NULL, or that. */
struct told {
	const char *state;			/* or NULL */
	struct epd_prospect_size size;		/* of a state */
	struct epd_prospect way;
	struct epd_plan_names names;
	struct epd_decision d, other;
	unsigned differ;
};

/* Decide and tell; the planner is freed. */
void plan_explain(struct plan *x, struct told *t);
/*
 * What the configuration says of hand-offs, for scenarios and the line to be put over
 * it.  Fails as epd_prospect_rules.
 */
int plan_configure(struct plan *x, struct epd_why *why);
/* Of operands that are states. */
void plan_states(struct plan *x, int argc, char **argv, int first);

#endif
