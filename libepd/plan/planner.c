/*
 * planner.c - making a planner: what is configured, checked once and turned into
 * masks.
 *
 * 1. Nothing of it depends on the order in which backends were given.
 * 2. A capability of a major nobody here knows turns no bit on.
 * 3. Rules keep their order: their bits are, from 0, in it.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/work.h"

void
epd_plan_config_default(struct epd_plan_config *out)
{
	*out = (struct epd_plan_config){
		.contract.allows = EPD_MAY_FALLBACK,
		.min_confidence = 0.5, .degraded_factor = 4,
		.staging_chunk = 4u << 20, .staging_slots = 16,
		.max_attempts = 3,
		.policy_generation = 1, .topology_generation = 1,
	};
}

void
epd_plan_baseline_default(struct epd_plan_config *c)
{
	static const struct epd_baseline usual[EPD_VIA_COUNT] = {
		[EPD_VIA_MNNVL] = { 8e3, 100e9 },
		[EPD_VIA_NVLINK] = { 6e3, 100e9 },
		[EPD_VIA_RDMA] = { 10e3, 10e9 },
		[EPD_VIA_SHM] = { 2e3, 10e9 },
		[EPD_VIA_TCP] = { 60e3, 1e9 },
		[EPD_VIA_GDS] = { 100e3, 3e9 },
		[EPD_VIA_TPU] = { 20e3, 10e9 },
		[EPD_VIA_IO_URING] = { 100e3, 1e9 },
		[EPD_VIA_COPY] = { 10e3, 5e9 },
	};

	memcpy(c->baseline, usual, sizeof usual);
}

static int
add_capability(struct epd_planner *p, const struct epd_capability *c,
    const struct epd_plan_config *config, struct epd_why *why)
{
	const uint32_t bit = BIT(c->backend);
	const uint64_t a = c->required_alignment;

	if (c->backend == EPD_VIA_NONE || c->backend >= EPD_VIA_COUNT)
		return epd_why(why, EPD_EUSAGE, "a capability of no backend");
	if ((p->loaded | p->refused) & bit)
		return epd_why(why, EPD_EUSAGE, "%s is given twice",
		    epd_backend_name(c->backend));
	p->cap[c->backend].schema_version = c->schema_version;
	if (EPD_PLAN_MAJOR(c->schema_version) != EPD_PLAN_MAJOR(EPD_PLAN_SCHEMA)) {
		p->refused |= bit;
		p->legacy = config->legacy;
		return 0;
	}
	if (a & (a - 1) && a)
		return epd_why(why, EPD_EUSAGE, "%s: its alignment is no power "
		    "of two", epd_backend_name(c->backend));
	p->loaded |= bit;
	p->cap[c->backend] = *c;
	return 0;
}

static void
index_capability(struct epd_planner *p, const struct epd_capability *c)
{
	const uint32_t bit = BIT(c->backend);
	const uint32_t leg = EPD_CAN_STAGE | EPD_CAN_LOCAL | EPD_CAN_READ |
	    EPD_CAN_WRITE;

	p->local |= c->flags & EPD_CAN_LOCAL ? bit : 0;
	p->remote |= c->flags & EPD_CAN_REMOTE ? bit : 0;
	p->unregistered |= c->registration == EPD_REG_NONE ? bit : 0;
	p->railed |= c->flags & EPD_HAS_RAILS ? bit : 0;
	if (c->completion == EPD_DONE_SENT && c->backend != EPD_VIA_RECOMPUTE)
		p->commits |= bit;
	p->nics |= c->flags & EPD_USES_NIC ? bit : 0;
	p->limited |= c->max_transfer_bytes ? bit : 0;
	p->by_op[EPD_OP_READ] |= c->flags & EPD_CAN_READ ? bit : 0;
	p->by_op[EPD_OP_WRITE] |= c->flags & EPD_CAN_WRITE ? bit : 0;
	for (unsigned i = 0; i < 64; i++)
		p->aligned[i] |= c->required_alignment <= UINT64_C(1) << i ?
		    bit : 0;
	/* Where nothing moves there is no pair. */
	if (c->backend == EPD_VIA_RECOMPUTE)
		return;
	for (unsigned from = EPD_IN_CPU; from < EPD_IN_COUNT; from++) {
		for (unsigned to = EPD_IN_CPU; to < EPD_IN_COUNT; to++) {
			const uint64_t pair = EPD_PAIR(from, to);

			if (!(c->pairs & pair))
				continue;
			p->pair[from][to] |= bit;
			p->bounced[from][to] |= c->bounced & pair ? bit : 0;
			if ((c->flags & leg) == leg)
				p->leg[from][to] |= bit;
		}
	}
}

/* A name's place, of which a copy is made; what has no end there is told by nobody. */
static const char *
name_in(const char place[EPD_PLAN_NAME])
{
	return memchr(place, 0, EPD_PLAN_NAME) ? place : "-";
}

static int
add_name(struct epd_planner *p, int i, const char *place, struct epd_why *why)
{
	const char *name = name_in(place);

	if (*name && name == place &&
	    epd_planner_policy(p, name) != EPD_NO_POLICY)
		return epd_why(why, EPD_EUSAGE, "rule %d has the name of "
		    "another", i + 1);
	memcpy(p->name[i], name, strlen(name));
	p->nrules = i + 1;
	return 0;
}

static uint8_t
limited(const struct epd_contract *c)
{
	return c->max_nic_bytes || c->max_staging_bytes;
}

static int
add_rule(struct epd_planner *p, int i, const struct epd_rule *r,
    struct epd_why *why)
{
	struct rule *out = &p->rule[i];

	if (r->nbackends < 0 || r->nbackends > EPD_PLAN_BACKENDS)
		return epd_why(why, EPD_EUSAGE, "rule %d lists too many", i + 1);
	if (r->max_size && r->min_size > r->max_size)
		return epd_why(why, EPD_EUSAGE, "rule %d: sizes from %llu to "
		    "%llu", i + 1, (unsigned long long)r->min_size,
		    (unsigned long long)r->max_size);
	if (r->segment > EPD_SEGMENT_FILE || r->same_machine > EPD_ASKED_NO)
		return epd_why(why, EPD_EUSAGE, "rule %d: a filter nobody "
		    "knows", i + 1);
	*out = (struct rule){
		.listed = r->nbackends > 0, .pool = r->pool,
		.limits = limited(&r->contract),
		.nowhere = r->devices_unknown != 0,
		.devices = r->devices ? r->devices : UINT64_MAX,
		.reasons = r->nbackends > 0 ? WHY(POLICY) : WHY(TAGS),
		.min_size = r->min_size,
		.max_size = r->max_size ? r->max_size : UINT64_MAX,
		.contract = r->contract,
	};
	for (int k = 0; k < r->nbackends; k++) {
		const unsigned b = r->backend[k];

		if (b >= EPD_VIA_COUNT || b == EPD_VIA_NONE ||
		    out->list & BIT(b))
			continue;
		out->list |= BIT(b);
		out->place[b] = (uint8_t)k;
	}
	for (unsigned b = 0; b < EPD_VIA_COUNT; b++)
		out->pooled |= r->pool < p->cap[b].pools ? BIT(b) : 0;
	return add_name(p, i, r->name, why);
}

static void
index_rule(struct epd_planner *p, int i, const struct epd_rule *r)
{
	const uint32_t bit = BIT(i);

	for (unsigned m = 0; m < EPD_IN_COUNT; m++) {
		p->takes_here[m] |= !r->here || r->here & BIT(m) ? bit : 0;
		p->takes_there[m] |= !r->there || r->there & BIT(m) ? bit : 0;
	}
	for (unsigned k = 0; k < 4; k++)
		p->takes_priority[k] |= !r->priorities ||
		    r->priorities & BIT(k) ? bit : 0;
	for (unsigned k = 0; k < EPD_INTENT_COUNT; k++)
		p->takes_intent[k] |= !r->intents || r->intents & BIT(k) ?
		    bit : 0;
	p->takes_machine[0] |= r->same_machine != EPD_ASKED_YES ? bit : 0;
	p->takes_machine[1] |= r->same_machine != EPD_ASKED_NO ? bit : 0;
	p->takes_segment[EPD_SEGMENT_MEMORY] |=
	    r->segment != EPD_SEGMENT_FILE ? bit : 0;
	p->takes_segment[EPD_SEGMENT_FILE] |=
	    r->segment != EPD_SEGMENT_MEMORY ? bit : 0;
}

static int
add_shapes(struct epd_planner *p, const struct epd_plan_config *c,
    struct epd_why *why)
{
	int n = c->ntemplates, rc;
	const struct epd_path_template *t = c->templates ? c->templates :
	    epd_plan_templates(&n);

	if (n < 0 || n > EPD_PLAN_TEMPLATES)
		return epd_why(why, EPD_EUSAGE, "more than %d templates",
		    EPD_PLAN_TEMPLATES);
	for (int i = 0; i < n; i++) {
		rc = epd_plan_shape(&p->shape[i], &t[i], why);
		if (rc)
			return rc;
		memcpy(p->shape_name[i], name_in(t[i].name),
		    strlen(name_in(t[i].name)));
	}
	p->nshapes = n;
	return 0;
}

/* Whether a place may stand for an end of this medium. */
static int
stands_for(unsigned place, unsigned medium)
{
	uint8_t at[8];

	if (place == EPD_FROM_DEVICE || place == EPD_TO_DEVICE)
		return medium != EPD_IN_CPU && medium != EPD_IN_FILE;
	media_of(at, medium, medium);
	return at[place] == medium;
}

static void
index_shapes(struct epd_planner *p)
{
	for (int i = 0; i < p->nshapes; i++) {
		const struct shape *s = &p->shape[i];

		for (unsigned from = EPD_IN_CPU; from < EPD_IN_COUNT; from++)
			for (unsigned to = EPD_IN_CPU; to < EPD_IN_COUNT; to++)
				if (stands_for(s->place[0], from) &&
				    stands_for(s->place[s->nstages], to))
					p->shapes[from][to] |= BIT(i);
	}
}

static int
compile(struct epd_planner *p, const struct epd_plan_config *c,
    struct epd_why *why)
{
	int rc;

	/* Beyond these no sum of them would hold. */
	if (c->staging_chunk > UINT64_C(1) << 40 || c->staging_slots > 1 << 16)
		return epd_why(why, EPD_EUSAGE, "staging of more than 65,536 "
		    "slots, or of more than 1 TiB");
	if (c->nrules < 0 || c->nrules > EPD_PLAN_RULES)
		return epd_why(why, EPD_EUSAGE, "more than %d rules",
		    EPD_PLAN_RULES);
	for (int i = 0; i < c->ncapabilities; i++) {
		rc = add_capability(p, &c->capability[i], c, why);
		if (rc)
			return rc;
	}
	for (uint32_t b = 1; b < EPD_VIA_COUNT; b++)
		if (p->loaded & BIT(b))
			index_capability(p, &p->cap[b]);
	for (int i = 0; i < c->nrules; i++) {
		rc = add_rule(p, i, &c->rule[i], why);
		if (rc)
			return rc;
		index_rule(p, i, &c->rule[i]);
	}
	p->rule[EPD_PLAN_RULES] = (struct rule){
		.limits = limited(&c->contract), .devices = UINT64_MAX,
		.reasons = WHY(TAGS), .contract = c->contract,
	};
	p->rule[EPD_PLAN_RULES + 1] = (struct rule){ .listed = 1,
	    .devices = UINT64_MAX };
	rc = add_shapes(p, c, why);
	if (rc)
		return rc;
	index_shapes(p);
	return 0;
}

/* What a backend takes where nothing fresh is told of it. */
static void
set_pace(struct epd_planner *p, const struct epd_plan_config *c)
{
	for (int b = 0; b < EPD_VIA_COUNT; b++) {
		const struct epd_baseline *l = &c->baseline[b];

		if (l->bandwidth_bps > 0)
			p->base[b] = (struct pace){ .is = T_KNOWN | WHY(BASELINE),
			    .each = 1e9 / l->bandwidth_bps,
			    .bps = whole(l->bandwidth_bps),
			    .begin = l->latency_ns > 0 ? l->latency_ns : 0 };
	}
}

/* Step 4's static filters, put together. */
static void
set_fit(struct epd_planner *p)
{
	const uint32_t reach[] = { [FAR] = p->remote, [CLOSE] = p->local,
	    [ANY] = UINT32_MAX };
	const uint32_t moving = ~BIT(EPD_VIA_RECOMPUTE);

	for (int r = FAR; r <= ANY; r++)
		for (int op = 0; op < 4; op++)
			for (int from = 0; from < MEDIA; from++)
				for (int to = 0; to < MEDIA; to++)
					p->fit[r][op][from][to] = moving &
					    reach[r] & p->by_op[op] &
					    p->pair[from][to];
}

/* What is the same in each plan of a backend that goes all the way alone. */
static void
set_direct(struct epd_planner *p)
{
	for (int b = 0; b < EPD_VIA_COUNT; b++) {
		const int again = b == EPD_VIA_RECOMPUTE;
		const struct epd_capability *c = &p->cap[b];
		const uint32_t qp = (c->flags & EPD_USES_QP) != 0;

		p->direct[b] = (struct epd_plan){
			.schema_version = EPD_PLAN_SCHEMA,
			.path_kind = EPD_PATH_DIRECT,
			.shape = again ? EPD_SHAPE_RECOMPUTE : EPD_SHAPE_DIRECT,
			.nstages = 1, .ndepends = 6,
			.charge = { .request_slots = 1, .qp_slots = qp,
			    .cq_slots = qp },
			.stage[0] = { .backend = (uint8_t)b, .type = again ?
			    EPD_STAGE_RECOMPUTE : EPD_STAGE_TRANSFER },
			.depends = {
				{ .kind = EPD_DEP_SOURCE },
				{ .kind = EPD_DEP_TARGET },
				{ EPD_DEP_POLICY, 0, p->policy_generation },
				{ EPD_DEP_TOPOLOGY, 0, p->topology_generation },
				{ EPD_DEP_CAPABILITY, (uint8_t)b, c->generation },
				{ EPD_DEP_HEALTH, (uint8_t)b, 0 },
			},
		};
		p->base[b].is |= again ? 0 : WHY(CAPABLE) |
		    (c->flags & EPD_CAN_RETRY ? 0 : WHY(UNSAFE));
	}
}

int
epd_planner_new(struct epd_planner **out, const struct epd_plan_config *c,
    struct epd_why *why)
{
	struct epd_planner *p = epd_calloc(1, sizeof *p);
	int rc;

	if (!p)
		return -ENOMEM;
	p->min_confidence = c->min_confidence > 0 ? c->min_confidence : 0.5;
	p->degraded_factor = c->degraded_factor >= 1 ? c->degraded_factor : 4;
	p->staging_chunk = c->staging_chunk ? c->staging_chunk : 4u << 20;
	p->staging_slots = c->staging_slots ? c->staging_slots : 16;
	p->max_attempts = c->max_attempts ? c->max_attempts : 3;
	p->policy_generation = c->policy_generation;
	p->topology_generation = c->topology_generation;
	set_pace(p, c);
	rc = compile(p, c, why);
	if (rc) {
		epd_planner_free(p);
		return rc;
	}
	set_direct(p);
	set_fit(p);
	*out = p;
	return 0;
}

void
epd_planner_free(struct epd_planner *p)
{
	epd_free(p);
}

uint16_t
epd_planner_policy(const struct epd_planner *p, const char *name)
{
	for (int i = 0; *name && i < p->nrules; i++)
		if (!strcmp(p->name[i], name))
			return (uint16_t)(i + 1);
	return EPD_NO_POLICY;
}

const struct epd_capability *
epd_planner_capability(const struct epd_planner *p, enum epd_backend b)
{
	return (unsigned)b < EPD_VIA_COUNT && p->loaded & BIT(b) ?
	    &p->cap[b] : NULL;
}

static uint32_t
given_up(const struct epd_contract *c)
{
	const uint32_t all = EPD_MAY_FP8 | EPD_MAY_INT8 | EPD_MAY_CUSTOM;

	return c->allows & EPD_MAY_UNSAID && !c->strict ? all : c->allows & all;
}

uint32_t
epd_planner_gives_up(const struct epd_planner *p, const struct epd_intent *i)
{
	uint32_t may = UINT32_MAX;
	struct course c;

	if (i->strict || (i->policy && i->policy > p->nrules))
		return 0;
	if (i->policy)
		return given_up(&p->rule[i->policy - 1].contract);
	course_of(&c, i);
	for EACH(r, rules_for(p, i, c.same)) {
		may &= given_up(&p->rule[r].contract);
		if (!p->rule[r].min_size && p->rule[r].max_size == UINT64_MAX)
			return may;
	}
	return may & given_up(&p->rule[EPD_PLAN_RULES].contract);
}
