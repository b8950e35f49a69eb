/*
 * write.c - step 8, and a way as a whole plan.  What a plan has no use for, stages
 * and dependencies beyond its counts, is not written.
 */
#include "plan/work.h"

/* The leg on the target's side is its to copy. */
static inline unsigned
far_legs(const struct work *k, const struct way *w)
{
	const struct shape *s;

	if (!w->nlegs || k->course.file)
		return 0;
	s = &k->p->shape[w->shape - EPD_SHAPE_TEMPLATE];
	return (unsigned)(k->course.from_here ? s->legs - s->cross : s->cross);
}

/* Step 8: the whole of what it takes. */
void
epd_plan_attach(const struct work *k, const struct way *w, struct epd_charge *out)
{
	const struct epd_planner *p = k->p;

	if (w->shape == EPD_SHAPE_RECOMPUTE)
		*out = (struct epd_charge){ .request_slots = 1 };
	else
		take(out, p->cap[w->backend].flags, !k->course.together,
		    k->course.to == EPD_IN_FILE, w->bytes, w->nlegs,
		    far_legs(k, w), p->staging_chunk, p->staging_slots);
}

/* Step 8, of one stage: its rails, and its place among the others' transfers. */
static inline void
write_stage(const struct work *k, struct epd_stage *restrict s, unsigned type,
    unsigned b, unsigned from, unsigned to, uint64_t bytes)
{
	const uint64_t rails = k->p->railed & BIT(b) ? k->tale[b].rails : 0;

	*s = (struct epd_stage){
		.type = (uint8_t)type, .backend = (uint8_t)b,
		.source = (uint8_t)from, .target = (uint8_t)to,
		.priority = k->i->priority,
		.pool = k->rule->pooled & BIT(b) ? k->rule->pool : 0,
		.device = (uint16_t)(rails ? __builtin_ctzll(rails) : 0),
		.devices = rails, .bytes = bytes,
	};
}

/* What only some have: a commit, what legs depend on, and what the receiver granted. */
static OUTSIDE void
write_more(const struct work *k, const struct way *w, struct epd_plan *p)
{
	struct epd_depends *d = p->depends;
	unsigned n = p->ndepends;

	/* Sent is not yet there: somebody has to say that it is. */
	if (k->p->commits & BIT(w->backend) && k->course.from_here)
		write_stage(k, &p->stage[p->nstages++], EPD_STAGE_COMMIT,
		    w->backend, k->course.to, k->course.to, w->bytes);
	for (unsigned l = 0; l < w->nlegs; l++) {
		const unsigned b = w->leg[l];

		if (b == w->backend || (l && b == w->leg[l - 1]))
			continue;
		d[n] = k->p->direct[b].depends[4];
		d[n + 1] = k->p->direct[b].depends[5];
		d[n + 1].generation = k->how->of[b].generation;
		n += 2;
	}
	if (k->i->credits_enabled && w->shape != EPD_SHAPE_RECOMPUTE)
		d[n++] = (struct epd_depends){ .kind = EPD_DEP_CREDIT,
		    .generation = k->i->credits.generation };
	p->ndepends = (uint8_t)n;
}

/* The stages of a template. */
static OUTSIDE void
write_staged(const struct work *k, const struct way *w, struct epd_plan *p)
{
	const struct shape *s = &k->p->shape[w->shape - EPD_SHAPE_TEMPLATE];
	const struct course *c = &k->course;
	unsigned leg = 0;

	for (unsigned n = 0; n < s->nstages; n++) {
		const unsigned from = c->at[s->place[n]];
		const unsigned to = c->at[s->place[n + 1]];
		/* The leg before the crossing is on the side that has the bytes. */
		const int far = !c->file && (n < s->cross) != c->from_here;

		if (n == s->cross)
			write_stage(k, &p->stage[n], EPD_STAGE_TRANSFER,
			    w->backend, from, to, w->bytes);
		else
			write_stage(k, &p->stage[n], far ?
			    EPD_STAGE_REMOTE_DELEGATE : EPD_STAGE_LOCAL_COPY,
			    w->leg[leg++], from, to, k->i->bytes);
	}
	p->path_kind = EPD_PATH_STAGED;
	p->nstages = s->nstages;
}

/* Step 8 where one backend does it all: the planner has laid most of it out. */
static inline void
write_direct(const struct work *k, const struct way *w,
    const struct epd_plan *restrict d, struct epd_plan *restrict p)
{
	struct epd_stage *restrict s = &p->stage[0];
	const unsigned b = w->backend;
	const int again = b == EPD_VIA_RECOMPUTE;

	p->stage[0] = d->stage[0];
	s->source = again ? k->course.to : k->course.from;
	s->target = k->course.to;
	s->priority = k->i->priority;
	s->bytes = w->bytes;
	if (w->rails) {
		s->devices = w->rails;
		s->device = (uint16_t)__builtin_ctzll(w->rails);
	}
	if (k->rule->pooled & BIT(b))
		s->pool = k->rule->pool;
	p->charge = d->charge;
	if (again)
		return;
	p->charge.receiver_bytes = k->course.to == EPD_IN_FILE ? 0 : w->bytes;
	if (!k->course.together && k->p->nics & BIT(b))
		p->charge.nic_bytes = w->bytes;
}

static inline void
write_estimate(const struct work *k, const struct way *w,
    struct epd_estimate *restrict e)
{
	const struct tale *t = &k->tale[w->backend];
	const struct epd_operational *o = &k->how->of[w->backend];

	e->observed_at_ns = 0;
	e->valid_for_ns = 0;
	e->ignored = (w->is & WHY(EXPIRED)) != 0;
	if (w->shape == EPD_SHAPE_RECOMPUTE) {
		e->latency_ns = whole(w->cost);
		e->bandwidth_bps = 0;
		e->confidence = 1;
		e->source = EPD_COST_MEASURED;
		return;
	}
	e->latency_ns = whole(t->begin);
	if (t->is & T_OBSERVED) {
		e->bandwidth_bps = whole(o->bandwidth_bps);
		e->observed_at_ns = o->observed_at_ns;
		e->valid_for_ns = o->valid_for_ns;
		e->confidence = o->confidence;
		e->source = EPD_COST_OBSERVED;
		return;
	}
	e->bandwidth_bps = k->p->base[w->backend].bps;
	e->confidence = 0;
	e->source = t->is & T_KNOWN ? EPD_COST_BASELINE : EPD_COST_NONE;
}

void
epd_plan_write(const struct work *k, const struct way *w,
    struct epd_plan *restrict p, int n, unsigned role)
{
	const struct epd_plan *const d = &k->p->direct[w->backend];
	const struct epd_intent *i = k->i;
	uint64_t why = w->is & T_REASONS;

	memcpy(p, &k->head, HEAD);
	memcpy(p->depends, d->depends, 6 * sizeof *d->depends);
	p->depends[0].generation = k->course.from_generation;
	p->depends[1].generation = k->course.to_generation;
	p->depends[5].generation = k->how->of[w->backend].generation;
	why |= n ? WHY(AFTER) : k->costed ? WHY(COST) : WHY(ORDER);
	why |= role == EPD_ROLE_FALLBACK ? WHY(FALLBACK) : 0;
	p->role = (uint8_t)role;
	p->lossy = w->lossy;
	p->attempt = (uint32_t)(i->index + n + 1);
	p->id = i->id + (uint64_t)n;
	p->parent = i->parent;
	p->alignment = i->alignment + !i->alignment;
	p->reasons = why;
	p->cost_ns = whole(w->cost);
	write_estimate(k, w, &p->estimate);
	p->shape = w->shape;
	if (w->nlegs) {
		write_staged(k, w, p);
		epd_plan_attach(k, w, &p->charge);
	} else {
		write_direct(k, w, d, p);
	}
	if (w->nlegs || k->more)
		write_more(k, w, p);
}

