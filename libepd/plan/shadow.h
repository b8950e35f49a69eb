/*
 * shadow.h - a planner beside the legacy selector: who is asked, and in what they
 * differ.  Outside this room include plan/plan.h.
 */
#ifndef EPD_PLAN_SHADOW_H
#define EPD_PLAN_SHADOW_H

#include "plan/decide.h"
#include "plan/legacy.h"

/* disabled: the legacy selector alone.  shadow: it decides, and both are compared. */
enum epd_plan_mode { EPD_PLAN_DISABLED, EPD_PLAN_SHADOW, EPD_PLAN_ENFORCED };

/* Bits of what differs; all is compared that both have. */
enum epd_differ {
	EPD_DIFFER_ANY = 1,	/* one has a path, the other none */
	EPD_DIFFER_BACKEND = 2,
	EPD_DIFFER_DEVICES = 4,
	EPD_DIFFER_PATH = 8,	/* direct or staged */
	EPD_DIFFER_ORDER = 16,	/* of what comes after the first */
};

struct epd_shadow {
	uint64_t compared, equal;
	uint64_t any, backend, devices, path, order;	/* that differ so */
};

/*
 * Count what differs between what was planned and what the legacy selector does.
 * The same ends of decisions without a plan are equal.  Bits of enum epd_differ.
 */
unsigned epd_shadow_compare(struct epd_shadow *s,
    const struct epd_decision *planned, const struct epd_decision *legacy);

/*
 * A decision by mode.  other: where it is compared, of the one that does not count;
 * NULL: as if it were disabled, or enforced.  Returns and fails as epd_plan_decide.
 */
int epd_plan_choose(enum epd_plan_mode mode, const struct epd_planner *p,
    const struct epd_legacy *l, const struct epd_operations *how,
    const struct epd_intent *i, struct epd_decision *out,
    struct epd_decision *other, struct epd_shadow *s);

#endif
