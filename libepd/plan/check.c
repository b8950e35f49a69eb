/*
 * check.c - whether a plan holds together, what it takes, and whether what it rests
 * on has changed.
 *
 * A plan leads from one place to the next and to none twice.  A place is a medium on
 * one of two sides; the one stage that transfers changes the side, or nothing moves at
 * all.
 */
#include <stddef.h>

#include "plan/work.h"

static int
bad(struct epd_why *why, const char *what)
{
	return epd_why(why, EPD_EUSAGE, "plan: %s", what);
}

static int
check_head(const struct epd_plan *p, struct epd_why *why)
{
	if (EPD_PLAN_MAJOR(p->schema_version) != EPD_PLAN_MAJOR(EPD_PLAN_SCHEMA))
		return epd_why(why, EPD_EKIND, "plan: schema %u.%u is not known "
		    "here", p->schema_version >> 16, p->schema_version & 0xffff);
	if (p->path_kind != EPD_PATH_DIRECT && p->path_kind != EPD_PATH_STAGED)
		return bad(why, "a path neither direct nor staged");
	if (p->role < EPD_ROLE_PRIMARY || p->role > EPD_ROLE_DEGRADED)
		return bad(why, "no such role");
	if (p->nstages < 1 || p->nstages > EPD_PLAN_STAGES)
		return bad(why, "no stage, or more than there may be");
	if (p->ndepends > EPD_PLAN_DEPENDS)
		return bad(why, "more dependencies than there may be");
	if (p->lossy > EPD_LOSSY_CUSTOM ||
	    (p->lossy && p->role != EPD_ROLE_DEGRADED))
		return bad(why, "it gives up bytes and is not degraded");
	if (p->attempt < 1 || p->remote > 1)
		return bad(why, "attempts begin with 1");
	if (!p->alignment || p->alignment & (p->alignment - 1))
		return bad(why, "its alignment is no power of two");
	if (p->shape != EPD_SHAPE_DIRECT && p->shape != EPD_SHAPE_RECOMPUTE &&
	    (p->shape < EPD_SHAPE_TEMPLATE ||
	    p->shape >= EPD_SHAPE_TEMPLATE + EPD_PLAN_TEMPLATES))
		return bad(why, "no such template");
	return 0;
}

static int
check_stage(const struct epd_stage *s, struct epd_why *why)
{
	if (s->type < EPD_STAGE_TRANSFER || s->type > EPD_STAGE_RECOMPUTE)
		return bad(why, "no such stage");
	if (s->backend == EPD_VIA_NONE || s->backend >= EPD_VIA_COUNT)
		return bad(why, "a stage of no backend");
	if (s->source == EPD_IN_NONE || s->source >= EPD_IN_COUNT ||
	    s->target == EPD_IN_NONE || s->target >= EPD_IN_COUNT)
		return bad(why, "a stage from or to no memory");
	if (!s->bytes)
		return bad(why, "a stage of no bytes");
	if (s->priority > EPD_PRIO_HIGH)
		return bad(why, "no such priority");
	if (s->devices ? s->device > 63 || !(s->devices >> s->device & 1) :
	    s->device != 0)
		return bad(why, "its device is not among its devices");
	if ((s->type == EPD_STAGE_RECOMPUTE) !=
	    (s->backend == EPD_VIA_RECOMPUTE))
		return bad(why, "only recompute computes again");
	return 0;
}

struct walk {
	uint8_t seen[2];	/* media of a side that were visited */
	unsigned side, transfers, legs, far;
	uint64_t whole;		/* bytes of the legs */
	uint64_t crossing;
};

static int
visit(struct walk *w, unsigned medium, struct epd_why *why)
{
	const uint8_t bit = (uint8_t)(1u << medium);

	if (w->seen[w->side] & bit)
		return bad(why, "it comes back to where it was");
	w->seen[w->side] |= bit;
	return 0;
}

/* One stage behind those before it. */
static int
step(struct walk *w, const struct epd_plan *p, int n, struct epd_why *why)
{
	const struct epd_stage *s = &p->stage[n];

	if (n && s->source != s[-1].target)
		return bad(why, "a stage begins where the one before did not end");
	switch (s->type) {
	case EPD_STAGE_COMMIT:
		return n == 0 || n != p->nstages - 1 || s->source != s->target ||
		    s[-1].type == EPD_STAGE_RECOMPUTE ?
		    bad(why, "a commit stands last and moves nothing") : 0;
	case EPD_STAGE_RECOMPUTE:
		return p->nstages != 1 || p->shape != EPD_SHAPE_RECOMPUTE ?
		    bad(why, "what is computed again is not moved too") : 0;
	case EPD_STAGE_TRANSFER:
		w->transfers++;
		w->side = 1;
		w->crossing = s->bytes;
		break;
	default:
		w->legs++;
		w->far += s->type == EPD_STAGE_REMOTE_DELEGATE;
		if (w->whole && s->bytes != w->whole)
			return bad(why, "its copies are of different lengths");
		w->whole = s->bytes;
	}
	return visit(w, s->target, why);
}

static int
walk(struct walk *w, const struct epd_plan *p, struct epd_why *why)
{
	int rc = visit(w, p->stage[0].source, why);

	for (int n = 0; !rc && n < p->nstages; n++) {
		rc = check_stage(&p->stage[n], why);
		if (!rc)
			rc = step(w, p, n, why);
	}
	if (rc)
		return rc;
	if (p->shape == EPD_SHAPE_RECOMPUTE)
		return p->path_kind == EPD_PATH_DIRECT && !w->transfers ? 0 :
		    bad(why, "what is computed again is not moved too");
	if (w->transfers != 1)
		return bad(why, "it transfers once, no less and no more");
	if ((w->legs > 0) != (p->path_kind == EPD_PATH_STAGED) ||
	    (w->legs > 0) != (p->shape >= EPD_SHAPE_TEMPLATE))
		return bad(why, "staged is what is copied on the way");
	if (w->far > 1)
		return bad(why, "the other side copies once at most");
	if (w->legs && (p->lossy ? w->crossing > w->whole :
	    w->crossing != w->whole))
		return bad(why, "what crosses is not what was copied");
	return 0;
}

/* One stage beside what its backend can do. */
static int
check_capable(const struct epd_planner *pl, const struct epd_plan *p,
    const struct epd_stage *s, struct epd_why *why)
{
	const struct epd_capability *c = epd_planner_capability(pl, s->backend);
	const char *name = epd_backend_name(s->backend);
	const int file = s->source == EPD_IN_FILE || s->target == EPD_IN_FILE;

	if (!c)
		return epd_why(why, EPD_EUSAGE, "plan: %s is not loaded", name);
	if (s->type == EPD_STAGE_COMMIT || s->type == EPD_STAGE_RECOMPUTE)
		return 0;
	if (!(c->pairs & EPD_PAIR(s->source, s->target)))
		return epd_why(why, EPD_EUSAGE, "plan: %s does not lead from %s "
		    "to %s", name, epd_medium_name(s->source),
		    epd_medium_name(s->target));
	if (s->type != EPD_STAGE_TRANSFER)
		return c->flags & EPD_CAN_STAGE ? 0 : epd_why(why, EPD_EUSAGE,
		    "plan: %s is no leg of a staged path", name);
	if (!file && !(c->flags & (p->remote ? EPD_CAN_REMOTE : EPD_CAN_LOCAL)))
		return epd_why(why, EPD_EUSAGE, "plan: %s does not reach so far",
		    name);
	if (c->required_alignment > p->alignment)
		return epd_why(why, EPD_EUSAGE, "plan: %s wants units of %llu",
		    name, (unsigned long long)c->required_alignment);
	if (c->max_transfer_bytes && s->bytes > c->max_transfer_bytes)
		return epd_why(why, EPD_EUSAGE, "plan: %s moves %llu bytes at "
		    "most", name, (unsigned long long)c->max_transfer_bytes);
	return 0;
}

void
epd_plan_charge(const struct epd_planner *pl, const struct epd_plan *p,
    struct epd_charge *out)
{
	const struct epd_stage *cross = NULL;
	struct epd_capability c = { 0 };
	unsigned legs = 0, far = 0;

	for (int n = 0; n < p->nstages && n < EPD_PLAN_STAGES; n++) {
		const unsigned t = p->stage[n].type;

		if (t == EPD_STAGE_TRANSFER)
			cross = &p->stage[n];
		legs += t == EPD_STAGE_LOCAL_COPY;
		far += t == EPD_STAGE_REMOTE_DELEGATE;
	}
	if (!cross) {
		*out = (struct epd_charge){ .request_slots = 1 };
		return;
	}
	if (pl && cross->backend < EPD_VIA_COUNT)
		c = pl->cap[cross->backend];
	else
		(void)epd_capability_default(&c, cross->backend);
	take(out, c.flags, p->remote, cross->target == EPD_IN_FILE, cross->bytes,
	    legs + far, far, pl ? pl->staging_chunk : 4u << 20,
	    pl ? pl->staging_slots : 16);
}

/* Whether all that the stages need is in the charge: granted whole or not at all. */
static int
check_charge(const struct epd_planner *pl, const struct epd_plan *p,
    struct epd_why *why)
{
	const struct epd_charge *c = &p->charge;
	struct epd_charge need;

	epd_plan_charge(pl, p, &need);
	if (c->nic_bytes < need.nic_bytes || c->qp_slots < need.qp_slots ||
	    c->cq_slots < need.cq_slots)
		return bad(why, "its charge leaves out the network");
	if (c->receiver_bytes < need.receiver_bytes ||
	    c->request_slots < need.request_slots ||
	    c->consumer_slots < need.consumer_slots)
		return bad(why, "its charge leaves out the receiver");
	if (c->staging_slots < need.staging_slots ||
	    c->host_staging_bytes < need.host_staging_bytes)
		return bad(why, "its charge leaves out the staging");
	return 0;
}

static int
depends_on(const struct epd_plan *p, unsigned kind, unsigned backend)
{
	for (int i = 0; i < p->ndepends; i++)
		if (p->depends[i].kind == kind &&
		    p->depends[i].backend == backend)
			return 1;
	return 0;
}

static int
check_depends(const struct epd_plan *p, struct epd_why *why)
{
	for (int i = 0; i < p->ndepends; i++) {
		const struct epd_depends *d = &p->depends[i];
		const int of = d->kind == EPD_DEP_CAPABILITY ||
		    d->kind == EPD_DEP_HEALTH;

		if (d->kind < EPD_DEP_SOURCE || d->kind > EPD_DEP_CREDIT ||
		    d->backend >= EPD_VIA_COUNT || (d->backend != 0) != of)
			return bad(why, "no such dependency");
	}
	if (!depends_on(p, EPD_DEP_SOURCE, 0) ||
	    !depends_on(p, EPD_DEP_TARGET, 0) ||
	    !depends_on(p, EPD_DEP_POLICY, 0))
		return bad(why, "a dependency is left out");
	for (int n = 0; n < p->nstages; n++)
		if (!depends_on(p, EPD_DEP_CAPABILITY, p->stage[n].backend))
			return bad(why, "a stage's backend is no dependency");
	return 0;
}

int
epd_plan_check(const struct epd_planner *pl, const struct epd_plan *p,
    struct epd_why *why)
{
	struct walk w = { 0 };
	int rc = check_head(p, why);

	if (!rc)
		rc = walk(&w, p, why);
	for (int n = 0; !rc && pl && n < p->nstages; n++)
		rc = check_capable(pl, p, &p->stage[n], why);
	if (!rc)
		rc = check_charge(pl, p, why);
	return rc ? rc : check_depends(p, why);
}

static uint64_t
now_of(const struct epd_generations *g, const struct epd_depends *d)
{
	switch (d->kind) {
	case EPD_DEP_SOURCE: return g->source;
	case EPD_DEP_TARGET: return g->target;
	case EPD_DEP_CAPABILITY: return g->capability[d->backend];
	case EPD_DEP_POLICY: return g->policy;
	case EPD_DEP_TOPOLOGY: return g->topology;
	case EPD_DEP_HEALTH: return g->health[d->backend];
	default: return g->credit;
	}
}

const struct epd_depends *
epd_plan_stale(const struct epd_plan *p, const struct epd_generations *now)
{
	for (int i = 0; i < p->ndepends && i < EPD_PLAN_DEPENDS; i++) {
		const struct epd_depends *d = &p->depends[i];

		if (d->backend >= EPD_VIA_COUNT ||
		    now_of(now, d) != d->generation)
			return d;
	}
	return NULL;
}

void
epd_plan_generations(const struct epd_planner *p,
    const struct epd_operations *how, const struct epd_intent *intent,
    struct epd_generations *out)
{
	struct course c;

	course_of(&c, intent);
	*out = (struct epd_generations){
		.source = c.from_generation, .target = c.to_generation,
		.policy = p->policy_generation,
		.topology = p->topology_generation,
		.credit = intent->credits.generation,
	};
	for (int b = 0; b < EPD_VIA_COUNT; b++) {
		out->capability[b] = p->cap[b].generation;
		out->health[b] = how->of[b].generation;
	}
}
