/*
 * decide.c - steps 1 to 7 of the RFC's candidate generation, by its numbers; rank.c
 * has the rest.  What "no suitable direct one" means in step 6 is known only once
 * step 7 has looked at the direct ones, so those two meet in serves().
 *
 * 1. Nothing is allocated, formatted or waited for, and no clock is read.
 * 2. Every loop is over bits of a mask, so nothing depends on an order of
 *    registration; there are WAYS ways at most.
 * 3. Each loaded backend leaves step 4 as a direct way or as a rejection, and each
 *    way ends as a plan or as a rejection.
 */
#include "plan/work.h"

#include "plan/legacy.h"

/* Step 1, where a rule was asked for by name: its filters count for nothing. */
static OUTSIDE void
named_policy(struct work *k, uint32_t fit)
{
	const unsigned r = k->i->policy - 1u;

	k->rule = &k->p->rule[EPD_PLAN_RULES + 1];
	if (k->i->policy > k->p->nrules || !(fit & BIT(r)))
		return;
	k->rule = &k->p->rule[r];
	k->matched = k->i->policy;
}

/* Step 1, where there are rules: the first that matches. */
static OUTSIDE void
match(struct work *k)
{
	const struct epd_planner *p = k->p;
	const struct epd_intent *i = k->i;

	if (i->policy) {
		named_policy(k, p->takes_segment[i->there.medium ==
		    EPD_IN_FILE ? EPD_SEGMENT_FILE : EPD_SEGMENT_MEMORY]);
		return;
	}
	for EACH(r, rules_for(p, i, k->course.same)) {
		if (i->bytes < p->rule[r].min_size ||
		    i->bytes > p->rule[r].max_size)
			continue;
		k->rule = &p->rule[r];
		k->matched = (uint16_t)(r + 1);
		return;
	}
}

/* Step 1: what the policy is. */
static inline void
resolve_policy(struct work *k)
{
	const struct epd_intent *i = k->i;

	k->matched = 0;
	k->rule = &k->p->rule[EPD_PLAN_RULES];
	if (k->p->nrules || i->policy)
		match(k);
	k->strict = i->strict || k->rule->contract.strict;
	k->picky = k->strict || k->rule->nowhere;
	k->reasons = k->rule->reasons | (i->credits_enabled ? WHY(CREDIT) : 0);
}

/*
 * Step 3: what is on both sides, and what of it the policy authorises.  What needs no
 * registration is wherever it is loaded.  0: a tag of no backend.
 */
static inline int
resolve_present(struct work *k)
{
	const struct epd_end *there = &k->i->there;
	uint32_t tags = 0, largest = 0;

	for (unsigned n = 0; n < there->ntags; n++) {
		tags |= BIT(there->tag[n] & 31);
		largest |= there->tag[n];
	}
	if (largest > 31 || tags >> EPD_VIA_COUNT)
		return 0;
	k->there = k->p->loaded;
	if (!k->course.file)
		k->there &= tags | k->p->unregistered;
	k->list = k->rule->listed ? k->rule->list : !k->course.file ? tags :
	    BIT(EPD_VIA_GDS) | BIT(EPD_VIA_IO_URING);
	if (k->strict && !k->matched)
		k->list = 0;
	return 1;
}

/* Step 4, what has a number: units and sizes. */
static OUTSIDE uint32_t
filter_sizes(struct work *k, uint32_t m, uint32_t aligned)
{
	const struct epd_capability *cap = k->p->cap;

	for EACH(b, m & ~aligned)
		reject(k, b, EPD_SHAPE_DIRECT, EPD_REFUSED_ALIGNMENT,
		    cap[b].required_alignment);
	m &= aligned;
	for EACH(l, m & k->p->limited) {
		if (k->i->bytes <= cap[l].max_transfer_bytes)
			continue;
		reject(k, l, EPD_SHAPE_DIRECT, EPD_REFUSED_SIZE,
		    cap[l].max_transfer_bytes);
		m &= ~BIT(l);
	}
	return m;
}

static inline uint32_t
aligned(const struct work *k)
{
	const uint64_t a = k->i->alignment;

	return k->p->aligned[a ? __builtin_ctzll(a) : 0];
}

/* Which of step 4's filters b does not pass, in their order. */
static inline unsigned
filtered(const struct work *k, uint32_t bit)
{
	const struct epd_planner *p = k->p;

	if (!(k->list & bit) && k->strict && !k->matched)
		return EPD_REFUSED_UNNAMED;
	if (!(k->list & bit) && k->rule->listed)
		return EPD_REFUSED_POLICY;
	if (!(k->list & bit) && k->course.file)
		return EPD_REFUSED_FILES;
	if (!(k->list & k->there & bit))
		return EPD_REFUSED_PEER;
	if (k->reach == FAR && !(p->remote & bit))
		return EPD_REFUSED_REMOTE;
	if (k->reach == CLOSE && !(p->local & bit))
		return EPD_REFUSED_LOCAL;
	return p->by_op[k->i->op] & bit ? EPD_REFUSED_PAIR : EPD_REFUSED_OP;
}

/* Step 4: by what backends can do for good, and what the policy authorises. */
static inline uint32_t
filter(struct work *k)
{
	const struct epd_planner *p = k->p;
	const struct course *c = &k->course;
	const uint32_t units = aligned(k), m = k->list & k->there &
	    p->fit[k->reach][k->i->op][c->from][c->to];

	struct epd_rejection *restrict r = &k->out->rejected[k->nrejected];

	/* A backend is here once, so there is room. */
	for EACH(b, p->loaded & ~m & ~BIT(EPD_VIA_RECOMPUTE))
		*r++ = (struct epd_rejection){ .backend = (uint8_t)b,
		    .shape = EPD_SHAPE_DIRECT,
		    .reason = (uint8_t)filtered(k, BIT(b)) };
	k->nrejected = (int)(r - k->out->rejected);
	return m & (p->limited | ~units) ? filter_sizes(k, m, units) : m;
}

/* What is told of a backend, if it is of now and sure; else why it counts for nothing. */
static inline uint64_t
deaf(const struct work *k, const struct epd_operational *o)
{
	const uint64_t now = k->i->now_ns;

	if (EPD_PLAN_MAJOR(o->schema_version) != EPD_PLAN_MAJOR(EPD_PLAN_SCHEMA))
		return WHY(UNTOLD);
	if (o->observed_at_ns > now || now - o->observed_at_ns > o->valid_for_ns)
		return WHY(UNTOLD) | WHY(EXPIRED);
	return o->confidence >= k->p->min_confidence ? 0 :
	    WHY(UNTOLD) | WHY(UNSURE);
}

/* Of rails that the policy names those that are up. */
static OUTSIDE void
rails_up(struct tale *t, uint64_t up)
{
	if (t->rails & ~up && t->rails != UINT64_MAX)
		t->is |= WHY(RAILS);
	t->rails &= up;
	if (!t->rails)
		t->is |= T_DOWN;
}

/* Step 7: what is known of b now; the baseline where nothing is. */
static uint64_t
assess(struct work *k, unsigned b)
{
	const struct epd_operational *o = &k->how->of[b];
	const struct pace *base = &k->p->base[b];
	struct tale *t = &k->tale[b];
	const uint64_t why = deaf(k, o);
	double begin = base->begin, each = base->each;
	uint64_t is = base->is;

	k->assessed |= BIT(b);
	t->rails = k->p->railed & BIT(b) ? k->rule->devices : 0;
	if (why) {
		is |= why;
	} else if (o->health == EPD_DOWN) {
		/* Nothing else of it will be asked. */
		return t->is = is | T_DOWN;
	} else {
		if (o->has_bandwidth && o->bandwidth_bps > 0) {
			each = 1e9 / o->bandwidth_bps;
			is = (is & ~WHY(BASELINE)) | T_KNOWN | T_OBSERVED;
		}
		if (o->has_latency && o->latency_ns >= 0)
			begin = o->latency_ns;
		if (o->health == EPD_HEALTHY) {
			is |= WHY(HEALTHY);
		} else if (o->health == EPD_DEGRADED) {
			begin *= k->p->degraded_factor;
			each *= k->p->degraded_factor;
			is |= WHY(DEGRADED);
		} else {
			is |= WHY(UNTOLD);
		}
	}
	t->begin = begin;
	t->each = each;
	t->is = is;
	if (t->rails && !why && o->devices_up)
		rails_up(t, o->devices_up);
	return t->is;
}

/* Why a way may not go by b, where that is not as plain as that it is down. */
static OUTSIDE unsigned
unfit(const struct work *k, unsigned b)
{
	const struct tale *t = &k->tale[b];

	if (k->p->railed & BIT(b) && (!t->rails || k->rule->nowhere))
		return EPD_REFUSED_RAIL;
	if (t->is & T_DOWN)
		return EPD_REFUSED_DOWN;
	if (!k->strict)
		return 0;
	if (t->is & WHY(UNTOLD))
		return EPD_REFUSED_HEALTH;
	return t->is & T_OBSERVED ? 0 : EPD_REFUSED_ESTIMATE;
}

/* Step 7: whether b serves now; else it is rejected for this shape. */
static inline int
serves(struct work *k, unsigned b, unsigned shape)
{
	unsigned why;

	if (!(k->tale[b].is & T_DOWN) && !k->picky)
		return 1;
	why = unfit(k, b);
	if (why)
		reject(k, b, shape, why, 0);
	return !why;
}

static void
assess_once(struct work *k, unsigned b)
{
	if (!(k->assessed & BIT(b)))
		assess(k, b);
}

/* Room for a way, or NULL; ways stand in the order in which they were made. */
static inline struct way *
another(struct work *k, unsigned b, unsigned shape)
{
	if (k->nways == WAYS) {
		reject(k, b, shape, EPD_REFUSED_ROOM, 0);
		return NULL;
	}
	return &k->way[k->nways++];
}

/* Where it was asked for and is allowed, the way that gives up some of the bytes. */
static OUTSIDE void
twin(struct work *k, const struct way *of)
{
	struct way *w;

	if (!(k->rule->contract.allows & lossy_bit(k->i->lossy)))
		return;
	w = another(k, of->backend, of->shape);
	if (!w)
		return;
	*w = *of;
	w->bytes = k->i->lossy_bytes;
	w->lossy = k->i->lossy;
	w->is |= WHY(LOSSY);
	w->cost -= k->tale[w->backend].each *
	    (double)(k->i->bytes - k->i->lossy_bytes);
}

/* Step 5: one way a backend; the mask of those that serve. */
static inline uint32_t
direct(struct work *k, uint32_t mask)
{
	uint32_t served = 0;

	for EACH(b, mask) {
		struct way *restrict w;
		const struct tale *t = &k->tale[b];

		const uint64_t is = assess(k, b);

		if ((is & T_DOWN || k->picky) && !serves(k, b, EPD_SHAPE_DIRECT))
			continue;
		w = another(k, b, EPD_SHAPE_DIRECT);
		if (!w)
			continue;
		served |= BIT(b);
		k->known &= is;
		*w = (struct way){
			.backend = (uint8_t)b, .shape = EPD_SHAPE_DIRECT,
			.bytes = k->i->bytes, .is = is | k->reasons,
			.rails = t->rails,
			.cost = t->begin + t->each * (double)k->i->bytes,
		};
		if (k->i->lossy)
			twin(k, w);
	}
	return served;
}

/*
 * What copies from one medium to the other here, of those that serve the first; none:
 * each was rejected.
 */
static inline unsigned
leg_of(struct work *k, unsigned shape, uint32_t legs)
{
	for EACH(b, legs) {
		if (!(k->assessed & BIT(b)))
			assess(k, b);
		if (!(k->tale[b].is & T_DOWN) && !k->picky)
			return b;
		if (serves(k, b, shape))
			return b;
	}
	if (!legs)
		reject(k, EPD_VIA_NONE, shape, EPD_REFUSED_LEG, 0);
	return EPD_VIA_NONE;
}

/*
 * A staged way but for what crosses; 0: a leg is wanting.  What is known of all
 * together is what is known of the least known.
 */
static inline int
legs_of(struct work *k, unsigned shape, const struct shape *s, struct way *w)
{
	const struct course *c = &k->course;
	const double bytes = (double)k->i->bytes;
	uint64_t is = T_KNOWN | T_OBSERVED | WHY(HEALTHY);
	double cost = 0;
	unsigned at = 0;

	for (unsigned n = 0; n < s->nstages; n++) {
		unsigned b;

		if (n == s->cross)
			continue;
		b = leg_of(k, shape, k->p->leg[c->at[s->place[n]]]
		    [c->at[s->place[n + 1]]]);
		if (b == EPD_VIA_NONE)
			return 0;
		w->leg[at++] = (uint8_t)b;
		is = together(is, k->tale[b].is);
		cost += k->tale[b].begin + k->tale[b].each * bytes;
	}
	w->is = is;
	w->cost = cost;
	return 1;
}

/* Step 6 by one template, over each of the backends in over. */
static OUTSIDE void
stage_over(struct work *k, unsigned shape, const struct shape *s, uint32_t over)
{
	struct way legs = { .shape = (uint8_t)shape, .nlegs = s->legs,
	    .bytes = k->i->bytes };

	if (k->course.own && !k->course.file) {
		reject(k, EPD_VIA_NONE, shape, EPD_REFUSED_OWN, 0);
		return;
	}
	if (!legs_of(k, shape, s, &legs))
		return;
	for EACH(b, over) {
		const uint64_t most = k->p->cap[b].max_transfer_bytes;
		const struct tale *t = &k->tale[b];
		struct way *w;

		if (most && k->i->bytes > most) {
			reject(k, b, shape, EPD_REFUSED_SIZE, most);
			continue;
		}
		assess_once(k, b);
		if (!serves(k, b, shape) || !(w = another(k, b, shape)))
			continue;
		*w = legs;
		w->rails = t->rails;
		w->backend = (uint8_t)b;
		w->is = together(legs.is, t->is) | WHY(STAGED) | k->reasons;
		k->known &= w->is;
		w->cost += t->begin + t->each * (double)w->bytes;
		if (k->i->lossy)
			twin(k, w);
	}
}

/*
 * Step 6: by each template that fits, over each backend that leads from host to host
 * or file, and does not lead all the way itself.
 */
static OUTSIDE void
staged(struct work *k)
{
	const struct epd_planner *p = k->p;
	const struct course *c = &k->course;
	uint32_t over = k->there & k->list & p->by_op[k->i->op] & aligned(k) &
	    ~p->pair[c->from][c->to];

	media_of(k->course.at, c->from, c->to);
	if (k->reach != ANY)
		over &= k->reach == CLOSE ? p->local : p->remote;
	for EACH(n, p->shapes[c->from][c->to]) {
		const struct shape *s = &p->shape[n];

		stage_over(k, EPD_SHAPE_TEMPLATE + n, s, over &
		    p->pair[c->at[s->place[s->cross]]]
		    [c->at[s->place[s->cross + 1]]]);
	}
}

/* Nothing moves: what was computed is computed again, if the contract allows it. */
static inline void
recompute(struct work *k)
{
	const struct epd_intent *i = k->i;
	const unsigned b = EPD_VIA_RECOMPUTE, shape = EPD_SHAPE_RECOMPUTE;
	struct way *restrict w;

	if (!(k->p->loaded & BIT(b)))
		return;
	if (!(k->rule->contract.allows & EPD_MAY_RECOMPUTE)) {
		reject(k, b, shape, EPD_REFUSED_CONTRACT, 0);
		return;
	}
	if (k->strict && !k->matched) {
		reject(k, b, shape, EPD_REFUSED_UNNAMED, 0);
		return;
	}
	if (!i->tokens || !(i->tokens_per_s > 0)) {
		reject(k, b, shape, EPD_REFUSED_RATE, 0);
		return;
	}
	if (k->how->of[b].health == EPD_DOWN && !deaf(k, &k->how->of[b])) {
		reject(k, b, shape, EPD_REFUSED_DOWN, 0);
		return;
	}
	w = another(k, b, shape);
	if (w)
		*w = (struct way){
			.backend = (uint8_t)b, .shape = (uint8_t)shape,
			.bytes = i->bytes, .is = T_KNOWN | WHY(RECOMPUTE),
			.cost = (double)i->tokens * 1e9 / i->tokens_per_s,
		};
}

/* Whether an intent is one at all. */
static inline int
sane(const struct epd_planner *p, const struct epd_intent *i)
{
	const unsigned bad = (i->op - 1u > 1) |
	    (i->here.medium - 1u >= EPD_IN_COUNT - 1) |
	    (i->there.medium - 1u >= EPD_IN_COUNT - 1) |
	    (i->priority > EPD_PRIO_HIGH) | (i->intent >= EPD_INTENT_COUNT) |
	    (i->there.ntags > EPD_PLAN_BACKENDS) |
	    (i->lossy > EPD_LOSSY_CUSTOM) | (i->bytes == 0) |
	    ((i->alignment & (i->alignment - 1)) != 0);

	if (bad)
		return 0;
	if (i->lossy && (!i->lossy_bytes || i->lossy_bytes > i->bytes))
		return 0;
	return !i->hint || (i->hint < EPD_VIA_COUNT && p->loaded & BIT(i->hint));
}

/* Steps 5 to 7: the ways there are. */
static inline void
generate(struct work *k)
{
	const struct course *c = &k->course;
	const uint32_t shapes = k->p->shapes[c->from][c->to];
	const uint32_t served = direct(k, filter(k));

	if (!(served & ~k->p->bounced[c->from][c->to])) {
		staged(k);
	} else {
		for EACH(n, shapes)
			reject(k, EPD_VIA_NONE, EPD_SHAPE_TEMPLATE + n,
			    EPD_REFUSED_DIRECT, 0);
	}
	recompute(k);
}

int
epd_plan_decide(const struct epd_planner *p, const struct epd_operations *how,
    const struct epd_intent *i, struct epd_decision *out)
{
	struct work k;
	int rc;

	if (!sane(p, i))
		return EPD_EUSAGE;
	out->n = out->nrejected = 0;
	out->rule = out->passed = 0;
	if (i->deadline_ns && i->deadline_ns <= i->now_ns)
		return EPD_ETIMEOUT;
	if (p->legacy)
		return epd_legacy_decide(p->legacy, p, i, out);
	k.p = p;
	k.how = how;
	k.i = i;
	k.out = out;
	k.assessed = 0;
	k.nways = k.nrejected = 0;
	k.known = T_KNOWN;
	course_of(&k.course, i);	/* step 2 */
	k.reach = k.course.file ? ANY : k.course.same ? CLOSE : FAR;
	k.more = i->credits_enabled || (p->commits && k.course.from_here);
	resolve_policy(&k);
	if (!resolve_present(&k))
		return EPD_EUSAGE;
	for EACH(b, p->refused)
		reject(&k, b, EPD_SHAPE_DIRECT, EPD_REFUSED_SCHEMA,
		    p->cap[b].schema_version);
	memcpy(&k.head, &p->direct[EPD_VIA_NONE], HEAD);
	k.head.remote = !k.course.together;
	k.head.policy = k.matched;
	generate(&k);
	rc = epd_plan_rank(&k);
	out->rule = k.matched;
	out->nrejected = k.nrejected;
	return rc;
}
