/*
 * explain.h - a decision told to people, and as JSON that is read back.  Outside this
 * room include plan/plan.h.
 *
 * What comes out is made of the names in the tables here, of numbers that plans hold,
 * and of two kinds of names from outside, rules' and devices': those stand only if
 * they look like names (EPD_PLAN_NAME bytes at most, letters, digits, . _ and -, no
 * long run of hexadecimal digits) and are "redacted" else.
 */
#ifndef EPD_PLAN_EXPLAIN_H
#define EPD_PLAN_EXPLAIN_H

#include "base/json.h"
#include "plan/decide.h"
#include "plan/words.h"

/* Where a plan's numbers have their names from; all may be absent. */
struct epd_plan_names {
	const struct epd_planner *planner;	/* rules and templates */
	const char *const *device;		/* of rails; NULL entries: none */
	int ndevices;
};

/* s, or "redacted". */
const char *epd_plan_clean(const char *s);

/* The backend a plan is known by: of the stage that crosses. */
enum epd_backend epd_plan_backend(const struct epd_plan *p);
/* "rdma is healthy"; why a way was refused. */
void epd_plan_reason(struct epd_buf *out, const struct epd_plan *p, unsigned reason);
void epd_plan_refusal(struct epd_buf *out, const struct epd_rejection *r);
const char *epd_plan_shape_name(const struct epd_plan_names *n, unsigned shape);
/* "default", a rule's name, or "rule 3". */
void epd_plan_policy_name(struct epd_buf *out, const struct epd_plan_names *n,
    unsigned rule);
void epd_plan_device_name(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_stage *s);

/* Lines for people: the first plan whole, then the others and what was refused. */
void epd_plan_text(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_decision *d);
/* Why b is not what comes first, a line for each of its ways. */
void epd_plan_why_not(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_decision *d, enum epd_backend b);

/*
 * The nth plan of a decision as fields of an object that has begun, with what was
 * refused and the plans behind it; without plans (n 0) only what was refused.
 */
void epd_plan_fields(struct epd_jw *w, const struct epd_plan_names *n,
    const struct epd_decision *d, int nth);
/* The same as a line of its own, with schema_version. */
void epd_plan_json(struct epd_buf *out, const struct epd_plan_names *n,
    const struct epd_decision *d, int nth);
/*
 * A plan back from that.  What is not a plan that epd_plan_check lets pass is refused.
 * Fails: EPD_EFORMAT, EPD_EKIND (schema), -ENOMEM.
 */
int epd_plan_parse(struct epd_plan *out, const struct epd_plan_names *n,
    struct epd_span text, struct epd_why *why);

#endif
