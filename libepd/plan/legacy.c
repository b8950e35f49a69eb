/* legacy.c - what the selector of TENT selects. */
#include "plan/legacy.h"

#include <errno.h>
#include <string.h>

#include "plan/inner.h"

static const uint8_t default_order[] = {
	EPD_VIA_MNNVL, EPD_VIA_NVLINK, EPD_VIA_RDMA, EPD_VIA_SUNRISE,
	EPD_VIA_ASCEND, EPD_VIA_SHM, EPD_VIA_TCP, EPD_VIA_GDS, EPD_VIA_MPCOMM,
	EPD_VIA_TPU,
};

/* Those that need both ends on one machine. */
#define NEAR (BIT(EPD_VIA_NVLINK) | BIT(EPD_VIA_SHM) | BIT(EPD_VIA_TPU))

struct list {
	uint8_t b[EPD_PLAN_BACKENDS];
	int n;
};

int
epd_legacy_tags(const struct epd_legacy *l, uint8_t out[EPD_PLAN_BACKENDS])
{
	int n = 0;

	for (size_t i = 0; i < sizeof default_order; i++) {
		const unsigned b = default_order[i];

		if (!(l->loaded & BIT(b)) || (b == EPD_VIA_SHM && !l->shm_path) ||
		    (b == EPD_VIA_GDS && !l->cuda))
			continue;
		out[n++] = (uint8_t)b;
	}
	return n;
}

static int
is_gpu(unsigned m)
{
	return m == EPD_IN_CUDA || m == EPD_IN_ROCM || m == EPD_IN_TPU;
}

/* The six booleans, asked by where the two ends lie. */
static int
capable(const struct epd_legacy *l, unsigned b, unsigned here, unsigned there)
{
	const int file = there == EPD_IN_FILE || here == EPD_IN_FILE;
	const unsigned g = here == EPD_IN_CPU ? there : here;
	const unsigned other = here == EPD_IN_CPU ? here : there;
	const int d2d = here == EPD_IN_CPU && there == EPD_IN_CPU;
	const int d2g = here == EPD_IN_CPU && is_gpu(there);

	if (file != (b == EPD_VIA_GDS || b == EPD_VIA_IO_URING))
		return 0;
	switch (b) {
	case EPD_VIA_TCP: return d2d || !l->cpu;
	case EPD_VIA_RDMA: return d2d || l->gpudirect;
	case EPD_VIA_SHM: return d2d;
	case EPD_VIA_NVLINK: return g == EPD_IN_CUDA &&
	    (other == EPD_IN_CPU || other == EPD_IN_CUDA);
	case EPD_VIA_MNNVL: return (d2g && there == EPD_IN_CUDA) ||
	    (!l->cpu && here == EPD_IN_CUDA && there == EPD_IN_CUDA);
	case EPD_VIA_TPU: return g == EPD_IN_TPU && other == EPD_IN_CPU;
	case EPD_VIA_GDS: return here == EPD_IN_CPU || here == EPD_IN_CUDA;
	case EPD_VIA_IO_URING: return here == EPD_IN_CPU;
	default: return 0;
	}
}

static int
is_local(const struct epd_intent *i)
{
	return i->here.node && i->here.node == i->there.node;
}

/* In selector mode ids are compared as they are: empty equals empty. */
static int
same_machine(const struct epd_legacy *l, const struct epd_intent *i)
{
	if (l->selector)
		return i->here.machine == i->there.machine;
	return is_local(i) ||
	    (i->here.machine && i->here.machine == i->there.machine);
}

static int
available(const struct epd_legacy *l, const struct epd_intent *i, unsigned b)
{
	if (!(l->loaded & BIT(b)))
		return 0;
	if (i->there.medium != EPD_IN_FILE && NEAR & BIT(b) && !same_machine(l, i))
		return 0;
	return capable(l, b, i->here.medium, i->there.medium);
}

static void
to_front(struct list *c, unsigned b)
{
	int at = 0;

	while (at < c->n && c->b[at] != b)
		at++;
	if (at == c->n)
		return;
	memmove(c->b + 1, c->b, (size_t)at);
	c->b[0] = (uint8_t)b;
}

static int
holds(const struct list *c, unsigned b)
{
	return memchr(c->b, (int)b, (size_t)c->n) != NULL;
}

/* What a file is reached by, or the target's tags. */
static void
by_segment(const struct epd_intent *i, struct list *c)
{
	if (i->there.medium == EPD_IN_FILE) {
		*c = (struct list){ { EPD_VIA_GDS, EPD_VIA_IO_URING }, 2 };
		return;
	}
	c->n = i->there.ntags;
	memcpy(c->b, i->there.tag, sizeof c->b);
}

static int
matches(const struct epd_legacy *l, const struct epd_rule *r,
    const struct epd_intent *i)
{
	const int same = same_machine(l, i);

	if (r->same_machine && (r->same_machine == EPD_ASKED_YES) != same)
		return 0;
	if ((r->here && !(r->here & BIT(i->here.medium))) ||
	    (r->there && !(r->there & BIT(i->there.medium))))
		return 0;
	if ((r->priorities && !(r->priorities & BIT(i->priority))) ||
	    (r->intents && !(r->intents & BIT(i->intent))))
		return 0;
	return i->bytes >= r->min_size &&
	    (!r->max_size || i->bytes <= r->max_size);
}

/* The rule's number; 0: a default one; -1: none has the name asked for. */
static int
rule_of(const struct epd_legacy *l, const struct epd_intent *i)
{
	const unsigned segment = i->there.medium == EPD_IN_FILE ?
	    EPD_SEGMENT_FILE : EPD_SEGMENT_MEMORY;

	for (int n = 0; n < l->nrules; n++) {
		const struct epd_rule *r = &l->rule[n];

		if (r->segment && r->segment != segment)
			continue;
		if (i->policy ? i->policy == n + 1 : matches(l, r, i))
			return n + 1;
	}
	return i->policy ? -1 : 0;
}

/* A list made of nothing but names nobody knows is as good as none. */
static void
listed(const struct epd_rule *r, struct list *c)
{
	struct list known = { 0 };

	for (int n = 0; n < r->nbackends; n++)
		if (r->backend[n] && r->backend[n] < EPD_VIA_COUNT)
			known.b[known.n++] = r->backend[n];
	if (known.n)
		*c = known;
}

/* Whether there is anything to choose from; the candidates, those without use too. */
static int
by_policy(const struct epd_legacy *l, const struct epd_intent *i,
    struct list *c, struct epd_legacy_choice *out)
{
	const int rule = rule_of(l, i);

	if (rule < 0)
		return 0;
	by_segment(i, c);
	if (rule > 0) {
		const struct epd_rule *r = &l->rule[rule - 1];

		listed(r, c);
		out->rule = (uint16_t)rule;
		out->pool = r->pool;
		if (r->devices && !r->devices_unknown)
			out->devices = r->devices;
	}
	if (!i->hint)
		return 1;
	if (!holds(c, i->hint) || !available(l, i, i->hint))
		return 0;
	to_front(c, i->hint);
	return 1;
}

static void
keep_available(const struct epd_legacy *l, const struct epd_intent *i,
    struct list *c)
{
	int n = 0;

	for (int k = 0; k < c->n; k++)
		if (available(l, i, c->b[k]))
			c->b[n++] = c->b[k];
	c->n = n;
}

/* Staging is looked at where TCP was chosen, and nowhere else. */
static void
stage(const struct epd_legacy *l, const struct epd_intent *i,
    struct epd_legacy_choice *out)
{
	const unsigned here = i->here.medium, there = i->there.medium;
	const uint32_t gpu_legs = BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_NVLINK);

	if (out->backend != EPD_VIA_TCP || is_local(i) ||
	    here == EPD_IN_ROCM || there == EPD_IN_ROCM)
		return;
	if ((here == EPD_IN_CUDA || there == EPD_IN_CUDA) &&
	    (l->loaded & gpu_legs) == gpu_legs &&
	    !capable(l, EPD_VIA_RDMA, here, there)) {
		out->staged = 1;
		out->cross = EPD_VIA_RDMA;
		out->leg = EPD_VIA_NVLINK;
	} else if ((here == EPD_IN_TPU || there == EPD_IN_TPU) &&
	    l->loaded & BIT(EPD_VIA_TPU)) {
		out->staged = 1;
		out->cross = l->loaded & BIT(EPD_VIA_RDMA) ? EPD_VIA_RDMA :
		    EPD_VIA_TCP;
		out->leg = EPD_VIA_TPU;
	}
}

/* staging 0: not any more. */
static int
choose(const struct epd_legacy *l, const struct epd_intent *i, int64_t index,
    int staging, struct epd_legacy_choice *out)
{
	struct epd_legacy_choice c = { .devices = UINT64_MAX };
	struct list list = { 0 };

	if (i->hint && (i->hint >= EPD_VIA_COUNT || !(l->loaded & BIT(i->hint))))
		return EPD_EUSAGE;
	if (l->selector) {
		if (!by_policy(l, i, &list, &c))
			list.n = 0;
		keep_available(l, i, &list);
	} else {
		by_segment(i, &list);
		keep_available(l, i, &list);
		if (i->hint)
			to_front(&list, i->hint);
	}
	if (index >= 0 && index < list.n)
		c.backend = list.b[index];
	if (staging)
		stage(l, i, &c);
	*out = c;
	return 0;
}

int
epd_legacy_select(const struct epd_legacy *l, const struct epd_intent *i,
    struct epd_legacy_choice *out)
{
	return choose(l, i, i->index, 1, out);
}

int
epd_legacy_retry(const struct epd_legacy *l, const struct epd_intent *i,
    const struct epd_legacy_failure *f, struct epd_legacy_choice *out)
{
	struct epd_legacy_choice c;
	int rc;

	if (f->at_submit || f->cancelled || f->failures > EPD_LEGACY_ATTEMPTS)
		return EPD_ENOPLAN;
	rc = choose(l, i, f->staged ? 0 : f->failures, !f->staged && !f->unstaged,
	    &c);
	if (rc)
		return rc;
	if (!c.backend)
		return EPD_ENOPLAN;
	*out = c;
	return 0;
}

/* As epd_capability.pairs; what is said of dram_to_x holds of bytes that go so. */
static uint64_t
pairs_of(const struct epd_legacy *l, unsigned b)
{
	uint64_t pairs = 0;

	for (unsigned x = EPD_IN_CPU; x < EPD_IN_COUNT; x++) {
		for (unsigned y = EPD_IN_CPU; y < EPD_IN_COUNT; y++) {
			if (!capable(l, b, x, y))
				continue;
			pairs |= EPD_PAIR(x, y);
			if (y == EPD_IN_FILE)
				pairs |= EPD_PAIR(y, x);
		}
	}
	return pairs;
}

int
epd_legacy_capability(const struct epd_legacy *l, enum epd_backend b,
    struct epd_capability *out)
{
	struct epd_capability c;

	if (epd_capability_default(&c, b))
		c = (struct epd_capability){
			.schema_version = EPD_PLAN_SCHEMA, .backend = (uint8_t)b,
			.generation = 1, .registration = EPD_REG_LASTING,
		};
	c.flags |= EPD_CAN_READ | EPD_CAN_WRITE | EPD_CAN_LOCAL;
	c.flags |= NEAR & BIT(b) ? 0 : EPD_CAN_REMOTE;
	c.required_alignment = 0;
	c.pairs = pairs_of(l, b);
	if (b == EPD_VIA_TCP)
		c.bounced = c.pairs & ~EPD_PAIR(EPD_IN_CPU, EPD_IN_CPU);
	*out = c;
	return 0;
}
