/*
 * legacy_plan.c - what the legacy selector chose, as plans, so that both can be laid
 * beside one another.
 */
#include "plan/legacy.h"

#include "plan/work.h"

static void
depend(struct epd_plan *p, unsigned kind, unsigned backend, uint64_t generation)
{
	p->depends[p->ndepends++] = (struct epd_depends){ (uint8_t)kind,
	    (uint8_t)backend, generation };
}

static void
add_stage(const struct epd_planner *pl, const struct epd_intent *i,
    const struct epd_legacy_choice *c, struct epd_plan *p, unsigned type,
    unsigned b, unsigned from, unsigned to)
{
	const uint64_t rails = pl->railed & BIT(b) ? c->devices : 0;

	p->stage[p->nstages++] = (struct epd_stage){
		.type = (uint8_t)type, .backend = (uint8_t)b,
		.source = (uint8_t)from, .target = (uint8_t)to,
		.priority = i->priority,
		.pool = c->pool < pl->cap[b].pools ? c->pool : 0,
		.device = (uint16_t)(rails ? __builtin_ctzll(rails) : 0),
		.devices = rails, .bytes = i->bytes,
	};
	for (unsigned n = 0; n < p->ndepends; n++)
		if (p->depends[n].kind == EPD_DEP_CAPABILITY &&
		    p->depends[n].backend == b)
			return;
	depend(p, EPD_DEP_CAPABILITY, b, pl->cap[b].generation);
}

static unsigned
leg_type(int here)
{
	return here ? EPD_STAGE_LOCAL_COPY : EPD_STAGE_REMOTE_DELEGATE;
}

static void
add_stages(const struct epd_planner *pl, const struct epd_intent *i,
    const struct course *c, const struct epd_legacy_choice *l,
    struct epd_plan *p)
{
	const unsigned host = EPD_IN_CPU;
	const unsigned from = c->from != host && l->staged ? host : c->from;
	const unsigned to = c->to != host && l->staged ? host : c->to;

	if (from != c->from)
		add_stage(pl, i, l, p, leg_type(c->from_here), l->leg, c->from,
		    from);
	add_stage(pl, i, l, p, EPD_STAGE_TRANSFER, l->staged ? l->cross :
	    l->backend, from, to);
	if (to != c->to)
		add_stage(pl, i, l, p, leg_type(!c->from_here), l->leg, to, c->to);
}

/* Which template a staged one is by; DIRECT where it is none. */
static unsigned
shape_of(const struct epd_planner *pl, const struct course *c, unsigned nstages)
{
	for EACH(n, pl->shapes[c->from][c->to])
		if (pl->shape[n].nstages == nstages)
			return EPD_SHAPE_TEMPLATE + n;
	return EPD_SHAPE_TEMPLATE;
}

static void
adapt(const struct epd_planner *pl, const struct epd_intent *i,
    const struct epd_legacy_choice *l, int attempt, struct epd_plan *out)
{
	struct epd_plan p = {
		.schema_version = EPD_PLAN_SCHEMA, .policy = l->rule,
		.path_kind = l->staged ? EPD_PATH_STAGED : EPD_PATH_DIRECT,
		.role = attempt ? EPD_ROLE_FALLBACK : EPD_ROLE_PRIMARY,
		.attempt = (uint32_t)attempt + 1,
		.id = i->id + (uint64_t)attempt, .parent = i->parent,
		.alignment = i->alignment ? i->alignment : 1,
		.reasons = WHY(LEGACY) | (l->rule ? WHY(POLICY) : WHY(TAGS)),
	};
	struct course c;

	course_of(&c, i);
	p.remote = !c.together;
	depend(&p, EPD_DEP_SOURCE, 0, c.from_generation);
	depend(&p, EPD_DEP_TARGET, 0, c.to_generation);
	depend(&p, EPD_DEP_POLICY, 0, pl->policy_generation);
	add_stages(pl, i, &c, l, &p);
	p.shape = (uint8_t)(l->staged ? shape_of(pl, &c, p.nstages) :
	    EPD_SHAPE_DIRECT);
	epd_plan_charge(pl, &p, &p.charge);
	*out = p;
}

int
epd_legacy_decide(const struct epd_legacy *l, const struct epd_planner *pl,
    const struct epd_intent *i, struct epd_decision *out)
{
	struct epd_legacy_choice c;
	struct epd_legacy_failure f = { .failures = i->index };
	uint32_t idle = l->loaded;
	int n = 0, rc = epd_legacy_select(l, i, &c);

	if (rc)
		return rc;
	out->n = out->nrejected = 0;
	out->rule = c.rule;
	out->passed = 0;
	while (c.backend && i->index <= EPD_LEGACY_ATTEMPTS) {
		adapt(pl, i, &c, i->index + n, &out->plan[n]);
		n++;
		idle &= ~BIT(c.staged ? c.cross : c.backend);
		f.failures++;
		f.staged = c.staged;
		f.unstaged |= c.staged;
		if (epd_legacy_retry(l, i, &f, &c))
			break;
	}
	for EACH(b, idle)
		out->rejected[out->nrejected++] = (struct epd_rejection){
			.backend = (uint8_t)b, .shape = EPD_SHAPE_DIRECT,
			.reason = EPD_REFUSED_LEGACY };
	out->n = n;
	return n ? n : EPD_ENOPLAN;
}
