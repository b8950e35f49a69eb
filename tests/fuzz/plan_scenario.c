/*
 * plan_scenario.c - a scenario is taken whole or refused with its line, and what is
 * taken can be decided: every plan of it holds together.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct epd_scenario s, before;
	static struct epd_decision d, other;
	struct epd_why why = { "" };
	struct epd_planner *planner;
	struct epd_intent i;
	struct epd_legacy l;
	struct epd_shadow sh = { 0 };
	struct epd_buf b = { 0 };
	int rc;

	memset(&s, 0, sizeof s);
	epd_scenario_default(&s);
	memcpy(&before, &s, sizeof s);
	rc = epd_scenario_parse(&s, epd_span(p, n), "fuzz", &why);
	if (rc) {
		if (rc != EPD_EUSAGE || strncmp(why.text, "fuzz:", 5) ||
		    memcmp(&s, &before, sizeof s))
			abort();
		return 0;
	}
	if (epd_scenario_make(&s, &planner, &i, &l, &why))
		return 0;
	rc = epd_plan_choose(EPD_PLAN_ENFORCED, planner, &l, &s.how, &i, &d,
	    NULL, &sh);
	for (int k = 0; rc > 0 && k < rc; k++)
		if (epd_plan_check(planner, &d.plan[k], &why))
			abort();
	if (rc != EPD_EUSAGE) {
		struct epd_plan_names names = { .planner = planner };

		epd_plan_json(&b, &names, &d, 0);
		epd_plan_text(&b, &names, &d);
	}
	epd_plan_choose(EPD_PLAN_SHADOW, planner, &l, &s.how, &i, &d, &other,
	    &sh);
	epd_buf_free(&b);
	epd_planner_free(planner);
	return 0;
}
