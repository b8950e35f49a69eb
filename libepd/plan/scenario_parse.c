/*
 * scenario_parse.c - a scenario's keys.  A key that is in no table is an error with
 * its line, and so is a value that is not what the key takes.
 */
#include <errno.h>
#include <string.h>

#include "plan/inner.h"
#include "plan/scenario_in.h"

/* One backend while it is read. */
struct backend {
	struct epd_capability cap;
	struct epd_operational how;
	struct epd_baseline base;
	uint64_t age;
	uint32_t schema;
};
#define OF(field) offsetof(struct backend, field)
#define FLAG(key, bit) { .name = key, .kind = K_FLAG, .at = OF(cap.flags), .n = bit }

static const struct row backend_rows[] = {
	FLAG("local", EPD_CAN_LOCAL), FLAG("remote", EPD_CAN_REMOTE),
	FLAG("read", EPD_CAN_READ), FLAG("write", EPD_CAN_WRITE),
	FLAG("notify", EPD_CAN_NOTIFY), FLAG("cancel", EPD_CAN_CANCEL),
	FLAG("retry", EPD_CAN_RETRY), FLAG("stage", EPD_CAN_STAGE),
	{ .name = "pairs", .kind = K_PAIRS, .at = OF(cap.pairs) },
	{ .name = "bounced", .kind = K_PAIRS, .at = OF(cap.bounced) },
	{ .name = "alignment", .kind = K_BYTES, .at = OF(cap.required_alignment) },
	{ .name = "max_bytes", .kind = K_BYTES, .at = OF(cap.max_transfer_bytes) },
	{ .name = "completion", .kind = K_ONE, .at = OF(cap.completion),
	    .words = &epd_plan_completions },
	{ .name = "pools", .kind = K_U32, .at = OF(cap.pools), .n = 255 },
	{ .name = "schema", .kind = K_U32, .at = OF(schema), .n = UINT16_MAX },
	{ .name = "generation", .kind = K_U64, .at = OF(cap.generation) },
	{ .name = "health", .kind = K_ONE, .at = OF(how.health), .tells = 1,
	    .words = &epd_plan_healths },
	{ .name = "bandwidth", .kind = K_RATE, .at = OF(how.bandwidth_bps),
	    .tells = 1 },
	{ .name = "latency", .kind = K_NS, .at = OF(how.latency_ns), .tells = 1 },
	{ .name = "age", .kind = K_TIME, .at = OF(age), .tells = 1 },
	{ .name = "valid_for", .kind = K_TIME, .at = OF(how.valid_for_ns),
	    .tells = 1 },
	{ .name = "confidence", .kind = K_RATE, .at = OF(how.confidence), .n = 1,
	    .tells = 1 },
	{ .name = "rails_up", .kind = K_RAILS, .at = OF(how.devices_up),
	    .tells = 1 },
	{ .name = "usual_bandwidth", .kind = K_RATE, .at = OF(base.bandwidth_bps) },
	{ .name = "usual_latency", .kind = K_NS, .at = OF(base.latency_ns) },
	{ .name = NULL },
};
#undef OF

/* What tells anything of it makes it an observation of now, healthy if not said. */
static void
begin_told(struct backend *b, const struct epd_scenario *s,
    const struct yaml_node *map)
{
	for (const struct yaml_node *n = map->child; n; n = n->next)
		for (const struct row *r = backend_rows; r->name; r++)
			if (r->tells && n->key && !strcmp(r->name, n->key) &&
			    !b->how.schema_version)
				b->how = (struct epd_operational){
					.schema_version = EPD_PLAN_SCHEMA,
					.backend = b->cap.backend,
					.generation = 1,
					.health = EPD_HEALTHY,
					.observed_at_ns = s->intent.now_ns,
					.valid_for_ns = UINT64_C(10000000000),
					.confidence = 1,
				};
}

static int
read_backend(struct in *in, const struct yaml_node *n)
{
	struct epd_scenario *s = in->s;
	const unsigned id = epd_backend_parse(n->key);
	struct backend b;
	int rc;

	if (!id)
		return epd_in_no_backend(in, n, n->key);
	b = (struct backend){ .cap = s->capability[id], .how = s->how.of[id],
	    .base = s->baseline[id],
	    .age = s->intent.now_ns - s->how.of[id].observed_at_ns,
	    .schema = EPD_PLAN_MAJOR(s->capability[id].schema_version) };
	begin_told(&b, s, n);
	if (!s->how.of[id].schema_version)
		b.age = 0;
	rc = epd_in_map(in, n, backend_rows, &b);
	if (rc)
		return rc;
	if (b.age > s->intent.now_ns)
		return epd_in_fault(in, n, "an age of less than an hour");
	b.how.observed_at_ns = b.how.schema_version ? s->intent.now_ns - b.age : 0;
	b.how.has_bandwidth = b.how.bandwidth_bps > 0;
	b.how.has_latency = b.how.latency_ns > 0;
	b.cap.schema_version = b.schema << 16;
	s->loaded |= BIT(id);
	s->capability[id] = b.cap;
	s->how.of[id] = b.how;
	s->baseline[id] = b.base;
	return 0;
}

static int
read_backends(struct in *in, const struct yaml_node *n, void *to)
{
	int rc = 0;

	(void)to;
	if (n->type != YAML_MAP)
		return epd_in_fault(in, n, "backends by name");
	for (const struct yaml_node *c = n->child; c && !rc; c = c->next)
		rc = read_backend(in, c);
	return rc;
}

#define OF(field) offsetof(struct epd_contract, field)
static const struct row contract_rows[] = {
	{ .name = "allow", .kind = K_BITS, .at = OF(allows),
	    .words = &epd_plan_allows },
	{ .name = "strict", .kind = K_BOOL, .at = OF(strict) },
	{ .name = "max_nic_bytes", .kind = K_BYTES, .at = OF(max_nic_bytes) },
	{ .name = "max_staging_bytes", .kind = K_BYTES,
	    .at = OF(max_staging_bytes) },
	{ .name = NULL },
};
#undef OF

static int
read_contract(struct in *in, const struct yaml_node *n, void *to)
{
	return epd_in_map(in, n, contract_rows, to);
}

#define OF(field) offsetof(struct epd_rule, field)
static const struct row rule_rows[] = {
	{ .name = "name", .kind = K_NAME, .at = OF(name) },
	{ .name = "segment", .kind = K_ONE, .at = OF(segment),
	    .words = &epd_plan_segments },
	{ .name = "same_machine", .kind = K_ONE, .at = OF(same_machine),
	    .words = &epd_plan_asked },
	{ .name = "here", .kind = K_PATTERN, .at = OF(here) },
	{ .name = "there", .kind = K_PATTERN, .at = OF(there) },
	{ .name = "priority", .kind = K_ONE_BIT, .at = OF(priorities),
	    .words = &epd_priorities },
	{ .name = "intent", .kind = K_ONE_BIT, .at = OF(intents),
	    .words = &epd_plan_intents },
	{ .name = "min_size", .kind = K_BYTES, .at = OF(min_size) },
	{ .name = "max_size", .kind = K_BYTES, .at = OF(max_size) },
	{ .name = "backends", .kind = K_LIST, .at = OF(backend),
	    .n = OF(nbackends) },
	{ .name = "rails", .kind = K_RAILS, .at = OF(devices) },
	{ .name = "pool", .kind = K_U8, .at = OF(pool) },
	{ .name = "contract", .kind = K_FN, .at = OF(contract),
	    .fn = read_contract },
	{ .name = NULL },
};
#undef OF

static int
read_policies(struct in *in, const struct yaml_node *n, void *to)
{
	struct epd_scenario *s = in->s;
	int rc = 0;

	(void)to;
	if (n->type != YAML_LIST)
		return epd_in_fault(in, n, "a list of policies");
	s->nrules = 0;
	for (const struct yaml_node *c = n->child; c && !rc; c = c->next) {
		if (s->nrules == EPD_PLAN_RULES)
			return epd_in_fault(in, n, "32 policies at most");
		s->rule[s->nrules] = (struct epd_rule){
			.contract.allows = EPD_MAY_FALLBACK |
			    EPD_MAY_UNSAID };
		rc = epd_in_map(in, c, rule_rows, &s->rule[s->nrules++]);
	}
	return rc;
}

/* Names of machines by node. */
static int
read_nodes(struct in *in, const struct yaml_node *n, void *to)
{
	struct epd_scenario *s = in->s;

	(void)to;
	if (n->type != YAML_MAP)
		return epd_in_fault(in, n, "nodes by name, each with its machine");
	for (const struct yaml_node *c = n->child; c; c = c->next) {
		int i = 0;

		if (c->type != YAML_VALUE || !*c->text || !*c->key ||
		    strlen(c->text) >= EPD_PLAN_NAME ||
		    strlen(c->key) >= EPD_PLAN_NAME)
			return epd_in_fault(in, c, "a machine's name");
		while (i < s->nnodes && strcmp(s->node[i], c->key))
			i++;
		if (i == EPD_SCENARIO_NODES)
			return epd_in_fault(in, n, "16 nodes at most");
		strcpy(s->node[i], c->key);
		strcpy(s->machine[i], c->text);
		s->nnodes += i == s->nnodes;
	}
	return 0;
}

static int
read_devices(struct in *in, const struct yaml_node *n, void *to)
{
	struct epd_scenario *s = in->s;

	(void)to;
	if (n->type != YAML_LIST)
		return epd_in_fault(in, n, "a list of rails' names");
	s->ndevices = 0;
	for (const struct yaml_node *c = n->child; c; c = c->next) {
		if (c->type != YAML_VALUE || strlen(c->text) >= EPD_PLAN_NAME ||
		    s->ndevices == EPD_SCENARIO_RAILS)
			return epd_in_fault(in, n, "64 names of at most 31 bytes");
		strcpy(s->device[s->ndevices++], c->text);
	}
	return 0;
}

static int
read_end(struct in *in, const struct yaml_node *n, void *to)
{
	struct epd_why why = { "" };
	struct epd_end *e = to;

	if (n->type != YAML_VALUE)
		return epd_in_fault(in, n, "a single value");
	return epd_scenario_end(in->s, n->text, e, &why) ?
	    epd_why(in->why, EPD_EUSAGE, "%s:%d: %.200s", in->name, n->line,
	    why.text) : 0;
}

static int
read_loaded(struct in *in, const struct yaml_node *n, void *to)
{
	static const struct row row = { .kind = K_BITS, .words = &epd_backends,
	    .n = 1 };

	return epd_in_set(in, n, &row, to);
}

struct tags {
	uint8_t tag[EPD_PLAN_BACKENDS];
	int n;
};

static int
read_tags(struct in *in, const struct yaml_node *n, void *to)
{
	static const struct row row = { .kind = K_LIST,
	    .n = offsetof(struct tags, n) };
	struct epd_end *e = to;
	struct tags t = { 0 };
	const int rc = epd_in_set(in, n, &row, &t);

	if (rc)
		return rc;
	memcpy(e->tag, t.tag, sizeof e->tag);
	e->ntags = (uint8_t)t.n;
	in->s->has_tags = 1;
	return 0;
}

#define OF(field) offsetof(struct epd_intent, field)
static const struct row credit_rows[] = {
	{ .name = "bytes", .kind = K_BYTES, .at = OF(credits.bytes) },
	{ .name = "slots", .kind = K_U32, .at = OF(credits.slots) },
	{ .name = "staging", .kind = K_U32, .at = OF(credits.staging) },
	{ .name = "generation", .kind = K_U64, .at = OF(credits.generation) },
	{ .name = NULL },
};

static int
read_credits(struct in *in, const struct yaml_node *n, void *to)
{
	struct epd_intent *i = to;

	i->credits_enabled = 1;
	return epd_in_map(in, n, credit_rows, i);
}

static int
read_deadline(struct in *in, const struct yaml_node *n, void *to)
{
	static const struct row row = { .kind = K_TIME };
	struct epd_intent *i = to;
	uint64_t ns = 0;
	const int rc = epd_in_set(in, n, &row, &ns);

	i->deadline_ns = rc ? 0 : ns < INT64_MAX ? i->now_ns + ns : UINT64_MAX;
	return rc;
}

static int
read_strict(struct in *in, const struct yaml_node *n, void *to)
{
	static const struct row row = { .kind = K_BOOL };
	int yes = 0;
	const int rc = epd_in_set(in, n, &row, &yes);

	*(uint8_t *)to = (uint8_t)yes;
	return rc;
}

static int
read_index(struct in *in, const struct yaml_node *n, void *to)
{
	static const struct row row = { .kind = K_U32, .n = 255 };
	uint32_t v = 0;
	const int rc = epd_in_set(in, n, &row, &v);

	*(int32_t *)to = (int32_t)v;
	return rc;
}
#undef OF

/* Without usual costs what is not measured goes in the order of its list. */
static int
read_ranked(struct in *in, const struct yaml_node *n, void *to)
{
	(void)to;
	if (n->type != YAML_VALUE || (strcmp(n->text, "cost") &&
	    strcmp(n->text, "order")))
		return epd_in_fault(in, n, "cost or order");
	if (!strcmp(n->text, "order"))
		memset(in->s->baseline, 0, sizeof in->s->baseline);
	return 0;
}

#define OF(field) offsetof(struct epd_scenario, field)
static const struct row rows[] = {
	{ .name = "ranked_by", .kind = K_FN, .fn = read_ranked },
	{ .name = "backends", .kind = K_FN, .fn = read_backends },
	{ .name = "loaded", .kind = K_FN, .at = OF(loaded), .fn = read_loaded },
	{ .name = "policies", .kind = K_FN, .fn = read_policies },
	{ .name = "contract", .kind = K_FN, .at = OF(contract),
	    .fn = read_contract },
	{ .name = "nodes", .kind = K_FN, .fn = read_nodes },
	{ .name = "devices", .kind = K_FN, .fn = read_devices },
	{ .name = "from", .kind = K_FN, .at = OF(from), .fn = read_end },
	{ .name = "to", .kind = K_FN, .at = OF(to), .fn = read_end },
	{ .name = "tags", .kind = K_FN, .at = OF(intent.there),
	    .fn = read_tags },
	{ .name = "bytes", .kind = K_BYTES, .at = OF(intent.bytes) },
	{ .name = "alignment", .kind = K_BYTES, .at = OF(intent.alignment) },
	{ .name = "op", .kind = K_ONE, .at = OF(intent.op), .words = &epd_ops },
	{ .name = "hint", .kind = K_ONE, .at = OF(intent.hint),
	    .words = &epd_backends, .n = 1 },
	{ .name = "policy", .kind = K_NAME, .at = OF(policy) },
	{ .name = "priority", .kind = K_ONE, .at = OF(intent.priority),
	    .words = &epd_priorities },
	{ .name = "intent", .kind = K_ONE, .at = OF(intent.intent),
	    .words = &epd_plan_intents },
	{ .name = "index", .kind = K_FN, .at = OF(intent.index),
	    .fn = read_index },
	{ .name = "strict", .kind = K_FN, .at = OF(intent.strict),
	    .fn = read_strict },
	{ .name = "deadline", .kind = K_FN, .at = OF(intent),
	    .fn = read_deadline },
	{ .name = "compression", .kind = K_ONE, .at = OF(intent.lossy),
	    .words = &epd_plan_lossy },
	{ .name = "compressed_bytes", .kind = K_BYTES,
	    .at = OF(intent.lossy_bytes) },
	{ .name = "credits", .kind = K_FN, .at = OF(intent), .fn = read_credits },
	{ .name = "tokens", .kind = K_U64, .at = OF(intent.tokens) },
	{ .name = "tokens_per_s", .kind = K_RATE, .at = OF(intent.tokens_per_s) },
	{ .name = "mode", .kind = K_ONE, .at = OF(mode),
	    .words = &epd_plan_modes },
	{ .name = NULL },
};
#undef OF

int
epd_scenario_parse(struct epd_scenario *s, struct epd_span text,
    const char *name, struct epd_why *why)
{
	struct epd_scenario was = *s;
	struct in in = { s, name, why };
	struct yaml_doc doc;
	int rc = epd_plan_yaml(&doc, text, name, why);

	if (rc)
		return rc;
	if (doc.root)
		rc = epd_in_map(&in, doc.root, rows, s);
	if (!rc && s->intent.alignment & (s->intent.alignment - 1))
		rc = epd_why(why, EPD_EUSAGE, "%s: alignment wants a power of "
		    "two", name);
	epd_plan_yaml_free(&doc);
	if (rc)
		*s = was;
	return rc;
}
