/* shadow.c - what two decisions have in common, and who decides. */
#include "plan/shadow.h"

/* The stage that transfers; the first where none does. */
static const struct epd_stage *
crossing(const struct epd_plan *p)
{
	for (int n = 0; n < p->nstages; n++)
		if (p->stage[n].type == EPD_STAGE_TRANSFER)
			return &p->stage[n];
	return &p->stage[0];
}

static unsigned
differ(const struct epd_plan *x, const struct epd_plan *y)
{
	const struct epd_stage *a = crossing(x), *b = crossing(y);
	unsigned bits = 0;

	if (a->backend != b->backend)
		bits |= EPD_DIFFER_BACKEND;
	else if (a->devices != b->devices)
		bits |= EPD_DIFFER_DEVICES;
	if (x->path_kind != y->path_kind)
		bits |= EPD_DIFFER_PATH;
	return bits;
}

/* How many of a decision are to be tried, one after the other, at most. */
static int
tried(const struct epd_decision *d)
{
	const int left = d->n ? EPD_LEGACY_ATTEMPTS + 2 -
	    (int)d->plan[0].attempt : 0;

	return d->n < left ? d->n : left < 0 ? 0 : left;
}

unsigned
epd_shadow_compare(struct epd_shadow *s, const struct epd_decision *planned,
    const struct epd_decision *legacy)
{
	const int n = tried(planned), m = tried(legacy);
	unsigned bits = 0;

	if ((n > 0) != (m > 0)) {
		bits = EPD_DIFFER_ANY;
	} else if (n) {
		bits = differ(&planned->plan[0], &legacy->plan[0]);
		if (n != m)
			bits |= EPD_DIFFER_ORDER;
		for (int i = 1; i < n && i < m; i++)
			if (differ(&planned->plan[i], &legacy->plan[i]))
				bits |= EPD_DIFFER_ORDER;
	}
	s->compared++;
	s->equal += !bits;
	s->any += bits & EPD_DIFFER_ANY ? 1 : 0;
	s->backend += bits & EPD_DIFFER_BACKEND ? 1 : 0;
	s->devices += bits & EPD_DIFFER_DEVICES ? 1 : 0;
	s->path += bits & EPD_DIFFER_PATH ? 1 : 0;
	s->order += bits & EPD_DIFFER_ORDER ? 1 : 0;
	return bits;
}

int
epd_plan_choose(enum epd_plan_mode mode, const struct epd_planner *p,
    const struct epd_legacy *l, const struct epd_operations *how,
    const struct epd_intent *i, struct epd_decision *out,
    struct epd_decision *other, struct epd_shadow *s)
{
	int rc;

	if (mode == EPD_PLAN_ENFORCED)
		return epd_plan_decide(p, how, i, out);
	rc = epd_legacy_decide(l, p, i, out);
	if (mode != EPD_PLAN_SHADOW || !other)
		return rc;
	other->n = 0;
	if (rc != EPD_EUSAGE && epd_plan_decide(p, how, i, other) != EPD_EUSAGE)
		(void)epd_shadow_compare(s, other, out);
	return rc;
}
