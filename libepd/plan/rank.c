/*
 * rank.c - steps 9 and 10: whether the contract allows each way, and which goes
 * first.
 */
#include "plan/work.h"

/* What the receiver's credits lack of a charge; 0: nothing. */
static uint64_t
lacking(const struct epd_credits *have, const struct epd_charge *c)
{
	if (c->receiver_bytes > have->bytes)
		return c->receiver_bytes - have->bytes;
	if (c->request_slots > have->slots)
		return c->request_slots - have->slots;
	if (c->consumer_slots > have->staging)
		return c->consumer_slots - have->staging;
	return 0;
}

/* Step 9, what concerns a way alone: caps, credits, and the deadline if strict. */
static unsigned
unaffordable(const struct work *k, struct way *w, uint64_t *number)
{
	const struct epd_contract *c = &k->rule->contract;
	struct epd_charge charge;

	epd_plan_attach(k, w, &charge);
	if (c->max_nic_bytes && charge.nic_bytes > c->max_nic_bytes) {
		*number = c->max_nic_bytes;
		return EPD_REFUSED_NIC_CAP;
	}
	if (c->max_staging_bytes &&
	    charge.host_staging_bytes > c->max_staging_bytes) {
		*number = c->max_staging_bytes;
		return EPD_REFUSED_STAGE_CAP;
	}
	if (k->i->credits_enabled && w->shape != EPD_SHAPE_RECOMPUTE &&
	    !k->course.file) {
		*number = lacking(&k->i->credits, &charge);
		if (*number)
			return EPD_REFUSED_CREDIT;
	}
	if (k->i->deadline_ns && w->is & T_KNOWN) {
		const uint64_t left = k->i->deadline_ns - k->i->now_ns;
		const uint64_t cost = whole(w->cost);

		w->is |= cost > left ? WHY(LATE) : 0;
		*number = cost - left;
		return cost > left && k->strict ? EPD_REFUSED_LATE : 0;
	}
	return 0;
}

/* Keep those that can be paid for. */
static OUTSIDE void
afford(struct work *k)
{
	int n = 0;

	k->known = T_KNOWN;
	for (int i = 0; i < k->nways; i++) {
		struct way *w = &k->way[i];
		uint64_t number = 0;
		const unsigned why = unaffordable(k, w, &number);

		if (why)
			reject(k, w->backend, w->shape, why, number);
		else
			k->way[n++] = *w;
		k->known &= why ? T_KNOWN : w->is;
	}
	k->nways = n;
}

/* Step 9, what concerns a way beside the others: its role, and if it may have it. */
static inline unsigned
unallowed(const struct work *k, const struct way *w, int *first, unsigned *role)
{
	const int leads = *first && k->i->index <= 0;

	*role = EPD_ROLE_DEGRADED;
	if (w->lossy || (w->shape == EPD_SHAPE_RECOMPUTE && !leads))
		return 0;
	*first = 0;
	*role = leads ? EPD_ROLE_PRIMARY : EPD_ROLE_FALLBACK;
	return leads || k->rule->contract.allows & EPD_MAY_FALLBACK ? 0 :
	    EPD_REFUSED_CONTRACT;
}

/* Where b stands in the rule's list, or the target's. */
static unsigned
place_of(const struct work *k, unsigned b)
{
	const struct epd_end *there = &k->i->there;
	unsigned n = 0;

	if (b == EPD_VIA_RECOMPUTE)
		return UINT8_MAX;
	if (k->rule->listed)
		return k->rule->place[b];
	if (k->course.file)
		return b != EPD_VIA_GDS;
	while (n < there->ntags && there->tag[n] != b)
		n++;
	return n;
}

/* Where costs are equal: list, backend, direct or not, template, lossy first. */
static OUTSIDE uint32_t
tie_of(const struct work *k, const struct way *w)
{
	const unsigned kind = w->shape == EPD_SHAPE_RECOMPUTE ? 2 :
	    w->shape != EPD_SHAPE_DIRECT;

	return (uint32_t)place_of(k, w->backend) << 24 |
	    (uint32_t)w->backend << 16 | kind << 12 |
	    (uint32_t)w->shape << 1 | !w->lossy;
}

/* What counts before cost: a hint, and without costs that one is degraded. */
static OUTSIDE unsigned
front_of(const struct work *k, const struct way *w)
{
	return (k->i->hint && w->backend != k->i->hint ? 2u : 0) |
	    (!k->costed && w->is & WHY(DEGRADED) ? 1u : 0);
}

/* Whether x goes before y. */
static inline int
before(const struct work *k, const struct way *x, const struct way *y)
{
	if (!k->plain) {
		const unsigned a = front_of(k, x), b = front_of(k, y);

		if (a != b)
			return a < b;
	}
	if (x->cost != y->cost)
		return x->cost < y->cost;
	return tie_of(k, x) < tie_of(k, y);
}

/* Put w to where it belongs among those before it, which are in order. */
static OUTSIDE void
insert(const struct work *k, struct way *w)
{
	const struct way this = *w;

	do {
		*w = w[-1];
		w--;
	} while (w > k->way && before(k, &this, w - 1));
	*w = this;
}

/* Where not every way has a cost it counts for none. */
static OUTSIDE void
uncost(struct work *k)
{
	for (int i = 0; i < k->nways; i++) {
		k->way[i].cost = 0;
		k->way[i].is &= ~WHY(BASELINE);
	}
}

/* Whether what was asked for by hint has a way. */
static OUTSIDE int
hint(struct work *k)
{
	int n = 0;

	for (int i = 0; i < k->nways; i++) {
		if (k->way[i].backend != k->i->hint)
			continue;
		k->way[i].is |= WHY(HINT);
		n++;
	}
	return n > 0;
}

/*
 * Step 10: by score, and where that is the same by the order that is documented.
 * Whether the hint, if there is one, has a way.
 */
static inline int
rank(struct work *k)
{
	const int hinted = !k->i->hint || hint(k);

	k->costed = (k->known & T_KNOWN) != 0;
	k->plain = k->costed && !k->i->hint;
	if (!k->costed)
		uncost(k);
	for (struct way *w = k->way + 1; w < k->way + k->nways; w++)
		if (before(k, w, w - 1))
			insert(k, w);
	return hinted;
}

/* Why the ways that come first are left out; 0: they are not. */
static OUTSIDE unsigned
passed_by(const struct work *k, int hinted, int at)
{
	const int passed = k->i->index > 0 ? k->i->index : 0;

	if (!hinted)
		return EPD_REFUSED_HINT;
	return k->i->index < 0 || at < passed ||
	    (unsigned)passed > k->p->max_attempts ? EPD_REFUSED_INDEX : 0;
}

int
epd_plan_rank(struct work *k)
{
	struct epd_decision *d = k->out;
	int first = 1, n = 0, hinted;

	if (k->nways == 0)
		return EPD_ENOPLAN;
	if (k->i->lossy && !(k->rule->contract.allows & lossy_bit(k->i->lossy)))
		reject(k, EPD_VIA_NONE, EPD_SHAPE_DIRECT, EPD_REFUSED_CONTRACT,
		    0);
	if (k->rule->limits || k->i->credits_enabled || k->i->deadline_ns)
		afford(k);
	hinted = rank(k);
	for (int at = 0; at < k->nways; at++) {
		const struct way *w = &k->way[at];
		unsigned role, why = k->i->index || !hinted ?
		    passed_by(k, hinted, at) : 0;

		if (!why)
			why = unallowed(k, w, &first, &role);
		if (!why && n == EPD_PLAN_CANDIDATES)
			why = EPD_REFUSED_ROOM;
		if (why)
			reject(k, w->backend, w->shape, why,
			    (uint64_t)k->i->index);
		else
			epd_plan_write(k, w, &d->plan[n], n, role);
		n += !why;
		d->passed = (uint16_t)(d->passed + (why == EPD_REFUSED_INDEX));
	}
	d->n = n;
	return n ? n : EPD_ENOPLAN;
}
