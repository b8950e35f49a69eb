/*
 * plan_explain.c - what is read as a plan is one, and is told again as it was.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct epd_decision d;
	struct epd_buf a = { 0 }, b = { 0 };
	struct epd_why why = { "" };
	struct epd_plan again;
	const int rc = epd_plan_parse(&d.plan[0], NULL, epd_span(p, n), &why);

	if (rc) {
		if (rc != EPD_EFORMAT && rc != EPD_EKIND)
			abort();
		return 0;
	}
	d.n = 1;
	if (epd_plan_check(NULL, &d.plan[0], NULL))
		abort();
	epd_plan_json(&a, NULL, &d, 0);
	epd_plan_text(&b, NULL, &d);
	epd_buf_free(&b);
	if (epd_plan_parse(&again, NULL, epd_span(a.p, a.n), NULL))
		abort();
	d.plan[0] = again;
	epd_plan_json(&b, NULL, &d, 0);
	if (a.n != b.n || memcmp(a.p, b.p, a.n))
		abort();
	epd_buf_free(&a);
	epd_buf_free(&b);
	return 0;
}
