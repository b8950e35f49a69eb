/* prospect.c - a peer, a policy and the configuration as one question to plan. */
#include "flow/prospect.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/route.h"
#include "page/page.h"

/* Its data server is on this machine. */
static int
is_near(const char *address)
{
	return strncmp(address, "tcp://", 6) != 0;
}

int
epd_prospect_rules(struct epd_scenario **out, const struct epd_config *c,
    struct epd_why *why)
{
	struct epd_scenario *s;
	int rc;

	*out = NULL;
	if (!*c->transfer_rules)
		return 0;
	if (!(s = epd_malloc(sizeof *s)))
		return epd_why(why, -ENOMEM, "no memory");
	epd_scenario_default(s);
	rc = epd_scenario_read(s, c->transfer_rules, why);
	if (rc < 0)
		epd_free(s);
	else
		*out = s;
	return rc;
}

/* ---- what is there ---- */

/* Backends that lead to an address, be they there or not. */
static uint32_t
leading_to(const struct epd_store *here, const char *address)
{
	if (is_near(address))
		return UINT32_C(1) << EPD_VIA_SHM;
	return UINT32_C(1) << EPD_VIA_TCP | (here->config.rdma_enabled ?
	    UINT32_C(1) << EPD_VIA_RDMA : 0);
}

int
epd_prospect_here(const struct epd_transport *t,
    struct epd_transport_facts *facts, struct epd_capability *inout)
{
	const int rc = t->probe(t, facts, NULL);

	if (rc < 0)
		return rc;
	inout->required_alignment = facts->alignment;
	inout->max_sge = facts->max_sge;
	inout->flags &= ~(uint32_t)EPD_CAN_CANCEL;
	inout->flags |= t->cancel ? EPD_CAN_CANCEL : 0;
	return 0;
}

/* Those of *mask, as this program's transports say they are; it keeps those there. */
static int
capabilities(const struct epd_store *here, uint32_t *mask,
    struct epd_capability out[EPD_VIA_COUNT])
{
	uint32_t there = 0;
	int k = 0;

	for (int b = 1; b < EPD_VIA_COUNT; b++) {
		const struct epd_transport *t = *mask >> b & 1 ?
		    epd_transport_of(here->transports, (enum epd_backend)b) :
		    NULL;
		struct epd_transport_facts facts;

		if (!t || epd_capability_default(out + k,
		    (enum epd_backend)b) < 0 ||
		    epd_prospect_here(t, &facts, out + k) < 0)
			continue;
		there |= UINT32_C(1) << b;
		k++;
	}
	if (epd_capability_default(out + k, EPD_VIA_RECOMPUTE) == 0)
		k++;
	*mask = there;
	return k;
}

/* Those of a mask, as they are supposed to be. */
static int
suppose(const struct epd_scenario *s, uint32_t mask,
    struct epd_capability out[EPD_VIA_COUNT])
{
	int k = 0;

	for (int b = 1; b < EPD_VIA_COUNT; b++)
		if ((mask | UINT32_C(1) << EPD_VIA_RECOMPUTE) & s->loaded &
		    UINT32_C(1) << b)
			out[k++] = s->capability[b];
	return k;
}

int
epd_ways_make(struct epd_ways *out, const struct epd_store *here,
    const char *address, const struct epd_scenario *rules,
    const struct epd_scenario *supposed, struct epd_why *why)
{
	struct epd_capability can[EPD_VIA_COUNT];
	struct epd_ways w = { .mask = leading_to(here, address) };
	uint32_t there = w.mask;
	struct epd_plan_config c;
	int rc;

	epd_plan_config_default(&c);
	/* Nobody said what may be: all that may, and what cannot tells why not. */
	c.contract.allows |= EPD_MAY_RECOMPUTE | EPD_MAY_UNSAID;
	if (rules) {
		c.rule = w.legacy.rule = rules->rule;
		c.nrules = w.legacy.nrules = rules->nrules;
		c.contract = rules->contract;
		w.legacy.selector = 1;
	}
	if (supposed) {
		w.mask &= supposed->loaded;
		memcpy(c.baseline, supposed->baseline, sizeof c.baseline);
	}
	c.capability = can;
	c.ncapabilities = supposed ? suppose(supposed, w.mask, can) :
	    capabilities(here, &there, can);
	/* What is asked for by a socket's path says itself whether it can be. */
	if (!supposed && !is_near(address))
		w.mask = there;
	w.legacy.loaded = w.mask;
	w.legacy.cpu = 1;
	w.legacy.shm_path = is_near(address);
	if ((rc = epd_planner_new(&w.planner, &c, why)) < 0)
		return rc;
	*out = w;
	return 0;
}

/* ---- the question ---- */

/* Tokens a second of prefills so far; 0: none yet. */
static double
prefill_rate(const struct epd_store *s)
{
	const uint64_t n = epd_metrics_get(s->metrics, EPD_M_PREFILL_TOKENS);
	const uint64_t ns = epd_metrics_get(s->metrics, EPD_M_PREFILL_NS);

	return n && ns ? (double)n * 1e9 / (double)ns : 0;
}

static uint64_t
number_of(const uint8_t id[16])
{
	uint64_t v;

	memcpy(&v, id, sizeof v);
	return v ? v : 1;
}

static void
describe(struct epd_intent *i, const struct epd_prospect_ask *a, uint32_t mask)
{
	const uint64_t node = number_of(a->here->uuid);
	uint8_t boot[16] = {0};

	(void)epd_clock_boot_id(boot);
	*i = (struct epd_intent){
		.op = (uint8_t)a->op, .bytes = a->bytes,
		.here = { .medium = EPD_IN_CPU, .node = node,
		    .machine = number_of(boot) },
		/* Who was not reached is somebody else, that is all. */
		.there = { .medium = EPD_IN_CPU,
		    .node = a->peer ? number_of(a->peer->uuid) : ~node },
		.priority = (uint8_t)a->policy->priority,
		.intent = a->policy->intent,
		.hint = (uint8_t)a->policy->transport,
		.strict = a->policy->strict != 0,
		.credits_enabled = a->peer && a->op == EPD_OP_WRITE,
		.deadline_ns = a->deadline_ns,
		.tokens = a->tokens, .tokens_per_s = prefill_rate(a->here),
	};
	if (a->peer)
		i->credits = a->peer->credits;
	if (is_near(a->address))
		i->there.machine = i->here.machine;
	for (uint8_t b = 1; b < EPD_VIA_COUNT; b++)
		if (mask >> b & 1) {
			i->here.tag[i->here.ntags++] = b;
			i->there.tag[i->there.ntags++] = b;
		}
}

void
epd_prospect_make(struct epd_prospect *out, const struct epd_prospect_ask *a)
{
	const int mode = epd_word_parse(&epd_plan_modes,
	    a->here->config.transfer_mode);
	struct epd_prospect p = {
		.mode = mode < 0 ? EPD_PLAN_DISABLED : (enum epd_plan_mode)mode,
		.planner = a->ways->planner, .legacy = a->ways->legacy,
	};

	describe(&p.intent, a, a->ways->mask);
	/* A hint of what is not there is none, unless it is all that may be. */
	if (p.intent.hint && !a->policy->strict &&
	    !epd_planner_capability(p.planner, a->policy->transport))
		p.intent.hint = EPD_VIA_NONE;
	if (*a->policy->rule)
		p.intent.policy = epd_planner_policy(p.planner,
		    a->policy->rule);
	*out = p;
}

static uint32_t
lossy_bit_of(const char *codec)
{
	return !strcmp(codec, "fp8") ? EPD_MAY_FP8 : !strcmp(codec, "int8") ?
	    EPD_MAY_INT8 : EPD_MAY_CUSTOM;
}

int
epd_prospect_compress(const struct epd_prospect *p,
    struct epd_transfer_policy *inout, struct epd_why *why)
{
	char *codec = inout->compression;

	if (!*codec || !strcmp(codec, "none"))
		return 1;
	if (inout->strict)
		return epd_why(why, EPD_ESTRICT, "transfer.compression is %s, "
		    "which loses something, and transfer.strict gives nothing "
		    "up", codec);
	if (epd_planner_gives_up(p->planner, &p->intent) & lossy_bit_of(codec))
		return 1;
	(void)epd_why(why, 0, "the contract does not allow %s: pages go as "
	    "they are", codec);
	strcpy(codec, "none");
	return 0;
}

/* ---- how much ---- */

int
epd_prospect_size(struct epd_prospect_size *out, const struct epd_store *here,
    const struct epd_sight *v, const struct epd_transfer_policy *policy,
    struct epd_why *why)
{
	const struct epd_codec *codec = epd_codec_of(here->codecs,
	    policy->compression);
	const uint64_t pages = v->line.pages - v->line.missing;
	const struct epd_pages_ask a = { .n = (uint32_t)pages,
	    .shape.bytes = v->state->page_bytes };
	uint64_t each = v->state->page_bytes;
	uint32_t first;

	if (!codec && *policy->compression &&
	    strcmp(policy->compression, "none"))
		return epd_why(why, EPD_EUNSUPPORTED, "%.15s: no such codec "
		    "here", policy->compression);
	if (policy->prefetch == EPD_PREFETCH_NONE)
		return epd_why(why, EPD_ENOPLAN, "transfer.prefetch is none, so "
		    "its pages are not moved but computed there");
	if (!pages)
		return epd_why(why, EPD_ENOPLAN, "none of its %llu pages are in "
		    "memory, so there is nothing to move",
		    (unsigned long long)v->line.pages);
	if (codec)
		each = codec->bound(v->state->kv_type, each /
		    (v->state->kv_type ? 2 : 4));
	first = epd_pages_batch(&a, 0, UINT64_MAX);
	*out = (struct epd_prospect_size){ .pages = pages,
	    .bytes = pages * each, .first = first * each,
	    .batches = (pages + first - 1) / first };
	return 0;
}
