/*
 * scenario.h - what if: backends, their state, policies and a transfer, written down
 * in YAML.  FORMATS.md has the keys.  Outside this room include plan/plan.h.
 */
#ifndef EPD_PLAN_SCENARIO_H
#define EPD_PLAN_SCENARIO_H

#include "base/span.h"
#include "plan/explain.h"
#include "plan/legacy.h"
#include "plan/shadow.h"

enum { EPD_SCENARIO_NODES = 16, EPD_SCENARIO_RAILS = 64 };

struct epd_scenario {
	struct epd_capability capability[EPD_VIA_COUNT];	/* by backend */
	uint32_t loaded;			/* of them */
	struct epd_baseline baseline[EPD_VIA_COUNT];
	struct epd_rule rule[EPD_PLAN_RULES];
	int nrules;
	struct epd_contract contract;		/* where none matches */
	struct epd_operations how;
	struct epd_end from, to;		/* as bytes go */
	struct epd_intent intent;		/* but for its ends */
	uint8_t has_tags;			/* else all that is loaded */
	uint8_t mode;				/* enum epd_plan_mode */
	char policy[EPD_PLAN_NAME];		/* asked for by name */
	char node[EPD_SCENARIO_NODES][EPD_PLAN_NAME];
	char machine[EPD_SCENARIO_NODES][EPD_PLAN_NAME];
	int nnodes;
	char device[EPD_SCENARIO_RAILS][EPD_PLAN_NAME];
	int ndevices;
};

/* Nothing loaded, the usual costs, a write of normal priority. */
void epd_scenario_default(struct epd_scenario *s);
/*
 * Read text over what s holds; on failure s is as before.  Fails: EPD_EUSAGE with
 * name:line in why, -ENOMEM.
 */
int epd_scenario_parse(struct epd_scenario *s, struct epd_span text,
    const char *name, struct epd_why *why);
int epd_scenario_read(struct epd_scenario *s, const char *path, struct epd_why *why);

/*
 * "MEDIUM[:DEVICE][@NODE]", host being cpu; without a node it is this one.  Fails:
 * EPD_EUSAGE.
 */
int epd_scenario_end(struct epd_scenario *s, const char *text,
    struct epd_end *out, struct epd_why *why);
/* "1M", "64K": bytes, in units of 1024.  "10us", "2s": ns.  Fails: -EINVAL. */
int epd_scenario_bytes(const char *text, uint64_t *out);
int epd_scenario_time(const char *text, uint64_t *out);

/*
 * What it asks, put together: a planner the caller frees, its intent, and the legacy
 * selector's side of it (rules are lent by s).  Fails: EPD_EUSAGE (an end or the
 * length is not said), -ENOMEM.
 */
int epd_scenario_make(const struct epd_scenario *s, struct epd_planner **planner,
    struct epd_intent *intent, struct epd_legacy *legacy, struct epd_why *why);

#endif
