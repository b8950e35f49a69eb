/* epd-plan.c - which way bytes would go, and why; nothing is moved or connected to. */
#include <errno.h>
#include <string.h>

#include "cmd/cli.h"
#include "plan/plan.h"
#include "transport/transport.h"

enum { FROM = CLI_OWN, TO, BYTES, OP, POLICY, HINT, INDEX, PRIORITY, INTENT,
    STRICT, MODE, WHY_NOT, SCENARIO, SCENARIOS = 16 };

static const struct cli_option options[] = {
	{ FROM, "from", "END", "where the bytes are: host, cuda:0@NODE, file" },
	{ TO, "to", "END", "where they go; of a state: a store, tcp://HOST:PORT "
	    "or unix:///PATH" },
	{ BYTES, "bytes", "N", "how many: 4096, 64K, 1M" },
	{ OP, "op", "OP", "who acts: the one that has them (write) or gets them "
	    "(read)" },
	{ POLICY, "policy", "NAME", "by this policy of the scenario" },
	{ HINT, "hint", "BACKEND", "this one first, or none at all" },
	{ INDEX, "index", "N", "after N attempts that failed" },
	{ PRIORITY, "priority", "P", "low, normal or high" },
	{ INTENT, "intent", "I", "what for: foreground, background, ..." },
	{ STRICT, "strict", NULL, "only by what is fresh and authorised" },
	{ MODE, "mode", "MODE", "enforced (the planner), shadow (both, "
	    "compared), disabled" },
	{ WHY_NOT, "why-not", "BACKEND", "only why this one is not first" },
	{ SCENARIO, "scenario", "FILE", "what is there and how it does; may be "
	    "repeated, each read over the ones before" },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"[-jqv] [--mode MODE] [--why-not BACKEND] [--scenario FILE] "
	    "[--from END] [--to END] [--bytes N] [--op OP] [--policy NAME] "
	    "[--hint BACKEND] [--index N] [--priority P] [--intent I] [--strict]",
	"[-jqv] [-w NAME] --to NODE STATE ... | -",
	NULL
};

static void set(void *arg, int key, const char *value);

static const struct cli_command command = {
	.name = "epd-plan",
	.usage = usage,
	.about = "Tell which way bytes would go from one memory to another, what "
	    "that takes, what else there is, and why the rest is not. What is "
	    "there is this program's transports, or what a scenario says; so one "
	    "can ask what if. Of a state it is the move of its pages to another "
	    "store. Nothing is moved, and nobody is connected to.",
	.options = options,
	.common = "wjqvSCT",
	.set = set,
};

struct plan {
	struct cli cli;
	struct epd_scenario s;
	const char *from, *to, *why_not;
	const char *file[SCENARIOS];
	int nfiles;
	/* Of the line, which counts more than a scenario's. */
	const char *bytes, *op, *policy, *hint, *index, *priority, *intent, *mode;
	int strict;
};

static void
set(void *arg, int key, const char *value)
{
	struct plan *x = arg;

	switch (key) {
	case FROM: x->from = value; break;
	case TO: x->to = value; break;
	case BYTES: x->bytes = value; break;
	case OP: x->op = value; break;
	case POLICY: x->policy = value; break;
	case HINT: x->hint = value; break;
	case INDEX: x->index = value; break;
	case PRIORITY: x->priority = value; break;
	case INTENT: x->intent = value; break;
	case STRICT: x->strict = 1; break;
	case MODE: x->mode = value; break;
	case WHY_NOT: x->why_not = value; break;
	case SCENARIO:
		if (x->nfiles == SCENARIOS)
			cli_usage(&x->cli, "more than %d scenarios", SCENARIOS);
		x->file[x->nfiles++] = value;
		break;
	}
}

/* ---- what is there ---- */

/* The transports of a table that are to be had here, as what they say they are. */
static void
add_here(struct epd_scenario *s, const struct epd_transports *all)
{
	for (int i = 0; all && i < all->n; i++) {
		const struct epd_transport *t = all->t[i];
		struct epd_capability *c = &s->capability[t->backend];
		struct epd_transport_facts f = { 0 };

		if (t->probe(t, &f, NULL) < 0)
			continue;
		s->loaded |= UINT32_C(1) << t->backend;
		c->required_alignment = f.alignment;
		c->max_sge = f.max_sge;
		c->flags &= ~(uint32_t)EPD_CAN_CANCEL;
		c->flags |= t->cancel ? EPD_CAN_CANCEL : 0;
		if (f.ndevices && s->ndevices == 0 &&
		    strlen(f.device) < EPD_PLAN_NAME)
			strcpy(s->device[s->ndevices++], f.device);
	}
	s->loaded |= UINT32_C(1) << EPD_VIA_COPY;
}

static int
choice(struct cli *c, const char *option, const char *text, int value)
{
	if (value < 0)
		cli_usage(c, "%s: there is no %s", option, text);
	return value;
}

static int
backend(struct cli *c, const char *option, const char *text)
{
	const int b = (int)epd_backend_parse(text);

	return choice(c, option, text, b ? b : -1);
}

static int
op_of(const char *text)
{
	return !strcmp(text, "read") ? EPD_OP_READ :
	    !strcmp(text, "write") ? EPD_OP_WRITE : -1;
}

/* What the line says of it, over what the scenario does. */
static void
take_line(struct plan *x)
{
	struct cli *c = &x->cli;
	struct epd_intent *i = &x->s.intent;

	if (x->bytes && epd_scenario_bytes(x->bytes, &i->bytes))
		cli_usage(c, "--bytes: %s is no number of bytes", x->bytes);
	if (x->op)
		i->op = (uint8_t)choice(c, "--op", x->op, op_of(x->op));
	if (x->hint)
		i->hint = (uint8_t)backend(c, "--hint", x->hint);
	if (x->index)
		i->index = (int32_t)cli_int(c, "--index", x->index, 0, 255);
	if (x->priority)
		i->priority = (uint8_t)choice(c, "--priority", x->priority,
		    epd_priority_parse(x->priority));
	if (x->intent)
		i->intent = (uint8_t)choice(c, "--intent", x->intent,
		    epd_intent_parse(x->intent));
	if (x->mode)
		x->s.mode = (uint8_t)choice(c, "--mode", x->mode,
		    epd_plan_mode_parse(x->mode));
	i->strict |= x->strict != 0;
	if (x->policy && strlen(x->policy) >= EPD_PLAN_NAME)
		cli_usage(c, "--policy: longer than a name");
	if (x->policy)
		strcpy(x->s.policy, x->policy);
}

static void
take_ends(struct plan *x)
{
	struct epd_why why = { "" };

	if ((x->from && epd_scenario_end(&x->s, x->from, &x->s.from, &why)) ||
	    (x->to && epd_scenario_end(&x->s, x->to, &x->s.to, &why)))
		cli_usage(&x->cli, "%s", why.text);
}

/* ---- telling ---- */

static void
put_differ(struct epd_jw *w, unsigned differ)
{
	static const char *const names[] = { "any", "backend", "devices",
	    "path_kind", "order" };

	epd_jw_begin(w, "differs", '[');
	for (unsigned i = 0; i < 5; i++)
		if (differ >> i & 1)
			epd_jw_str(w, NULL, names[i]);
	epd_jw_end(w, ']');
}

/* What was decided, and beside it what was not followed; other: NULL, or that. */
struct told {
	struct epd_plan_names names;
	struct epd_decision d, other;
	unsigned differ;
	enum epd_plan_mode mode;
};

static void
tell_json(struct cli *c, const struct told *t, const char *state)
{
	struct epd_buf b = { 0 };
	struct epd_jw w;

	cli_object(&w, &b);
	if (state)
		epd_jw_str(&w, "state", state);
	epd_jw_str(&w, "mode", epd_plan_mode_name(t->mode));
	epd_plan_fields(&w, &t->names, &t->d, 0);
	if (t->mode == EPD_PLAN_SHADOW) {
		epd_jw_begin(&w, "planned", '{');
		epd_plan_fields(&w, &t->names, &t->other, 0);
		epd_jw_end(&w, '}');
		put_differ(&w, t->differ);
	}
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static void
tell_text(struct cli *c, const struct told *t, const char *state)
{
	struct epd_buf b = { 0 };

	if (state)
		epd_buf_fmt(&b, "%s: ", state);
	epd_plan_text(&b, &t->names, &t->d);
	if (t->mode == EPD_PLAN_SHADOW) {
		epd_buf_fmt(&b, "the planner %s: ", t->differ ?
		    "decides otherwise" : "decides so too");
		epd_plan_text(&b, &t->names, &t->other);
	}
	if (b.failed)
		cli_fail(c, state, -ENOMEM, NULL);
	else
		cli_out(c, epd_span(b.p, b.n));
	epd_buf_free(&b);
}

static void
tell_why_not(struct plan *x, const struct told *t, const char *state)
{
	struct cli *c = &x->cli;
	const int id = backend(c, "--why-not", x->why_not);
	struct epd_buf b = { 0 }, line = { 0 };
	struct epd_jw w;

	epd_plan_why_not(&b, &t->names, &t->d, (enum epd_backend)id);
	epd_buf_cstr(&b);
	if (b.failed) {
		cli_fail(c, state, -ENOMEM, NULL);
	} else if (!c->json) {
		cli_out(c, epd_span(b.p, b.n));
	} else {
		cli_object(&w, &line);
		epd_jw_str(&w, "backend", x->why_not);
		epd_jw_begin(&w, "why", '[');
		for (char *at = (char *)b.p, *end; (end = strchr(at, '\n'));
		    at = end + 1)
			epd_jw_bytes(&w, NULL, epd_span(at, (size_t)(end - at)));
		epd_jw_end(&w, ']');
		cli_object_end(c, &w);
	}
	epd_buf_free(&line);
	epd_buf_free(&b);
}

static const char *
wrong(const struct epd_intent *i, uint32_t loaded)
{
	return i->hint && !(loaded >> i->hint & 1) ?
	    "what the hint asks for is not loaded here" :
	    "nothing that could be planned";
}

/* Decide and tell. */
static void
explain(struct plan *x, const char *state)
{
	static struct told t;
	static struct epd_plan_names none;
	struct cli *c = &x->cli;
	const char *device[EPD_SCENARIO_RAILS];
	struct epd_why why = { "" };
	struct epd_planner *p;
	struct epd_intent i;
	struct epd_legacy l;
	struct epd_shadow seen = { 0 };
	int rc = epd_scenario_make(&x->s, &p, &i, &l, &why);

	if (rc == EPD_EUSAGE)
		cli_usage(c, "%s", why.text);
	if (rc) {
		cli_fail(c, state, rc, &why);
		return;
	}
	if (*x->s.policy && i.policy == EPD_NO_POLICY) {
		cli_fail(c, x->s.policy, EPD_ENOTHING, NULL);
		epd_planner_free(p);
		return;
	}
	for (int r = 0; r < x->s.ndevices; r++)
		device[r] = x->s.device[r];
	t = (struct told){ .mode = (enum epd_plan_mode)x->s.mode,
	    .names = { p, device, x->s.ndevices } };
	rc = epd_plan_choose(t.mode, p, &l, &x->s.how, &i, &t.d, &t.other, &seen);
	if (t.mode == EPD_PLAN_SHADOW && rc != EPD_EUSAGE)
		t.differ = epd_shadow_compare(&seen, &t.other, &t.d);
	if (rc == EPD_EUSAGE) {
		epd_why(&why, rc, "%s", wrong(&i, x->s.loaded));
		cli_fail(c, state, rc, &why);
	} else if (x->why_not) {
		tell_why_not(x, &t, state);
	} else if (c->json) {
		tell_json(c, &t, state);
	} else {
		tell_text(c, &t, state);
	}
	if (rc < 0 && rc != EPD_EUSAGE)
		cli_fail(c, state, rc, NULL);
	t.names = none;
	epd_planner_free(p);
}

/* ---- a state's move ---- */

/* Which backends lead to NODE, and whether it is on this machine. */
static uint32_t
reach(const struct cli *c, const char *to, int *near)
{
	static const char *const loop[] = { "tcp://127.", "tcp://localhost:",
	    "tcp://[::1]:" };
	const uint32_t tcp = UINT32_C(1) << EPD_VIA_TCP;

	*near = strncmp(to, "tcp://", 6) != 0;
	for (int i = 0; i < 3; i++)
		*near |= !strncmp(to, loop[i], strlen(loop[i]));
	if (strncmp(to, "tcp://", 6))
		return UINT32_C(1) << EPD_VIA_SHM;
	return tcp | (c->config.rdma_enabled ? UINT32_C(1) << EPD_VIA_RDMA : 0);
}

struct sight {
	uint64_t bytes, pages, missing, tokens;
};

static int
see(void *arg, const struct epd_sight *v)
{
	struct sight *o = arg;

	*o = (struct sight){ (v->line.pages - v->line.missing) *
	    v->state->page_bytes, v->line.pages, v->line.missing,
	    v->line.tokens };
	return 0;
}

/* Bytes that pages of it are moved as; what is missing is not there to be moved. */
static void
plan_state(struct plan *x, struct epd_store *s, const char *operand)
{
	struct cli *c = &x->cli;
	struct epd_intent *i = &x->s.intent;
	const uint64_t n = epd_metrics_get(s->metrics, EPD_M_PREFILL_TOKENS);
	const uint64_t ns = epd_metrics_get(s->metrics, EPD_M_PREFILL_NS);
	struct epd_why why = { "" };
	struct sight o;
	struct epd_ref ref;
	char size[24];
	int rc = cli_state(c, s, operand, &ref, &why);

	if (!rc)
		rc = epd_view_state(s, &ref, see, &o, &why);
	if (!rc && !o.bytes)
		rc = epd_why(&why, EPD_ENOPLAN, "none of its %llu pages are in "
		    "memory, so there is nothing to move",
		    (unsigned long long)o.pages);
	if (rc < 0) {
		cli_fail(c, operand, rc, &why);
		return;
	}
	i->bytes = o.bytes;
	i->tokens = o.tokens;
	i->tokens_per_s = n && ns ? (double)n * 1e9 / (double)ns : 0;
	if (c->verbose)
		cli_say(c, "%s: %llu pages, %s, %llu to be computed, %llu tokens",
		    operand, (unsigned long long)o.pages, cli_bytes(size, o.bytes),
		    (unsigned long long)o.missing, (unsigned long long)o.tokens);
	explain(x, operand);
}

static void
plan_states(struct plan *x, int argc, char **argv, int first)
{
	struct cli *c = &x->cli;
	struct epd_scenario *s = &x->s;
	struct epd_why why = { "" };
	struct epd_store *store;
	char **operand;
	int n, near;
	uint32_t by;

	if (x->from || x->bytes || x->op || !x->to)
		cli_usage(c, "a state is moved --to somewhere, whole");
	operand = cli_operands(c, argc, argv, first, &n);
	store = cli_look(c);
	by = reach(c, x->to, &near);
	if (epd_scenario_end(s, "host", &s->from, &why) ||
	    epd_scenario_end(s, "host@there", &s->to, &why))
		cli_usage(c, "%s", why.text);
	if (near)
		for (int i = 0; i < s->nnodes; i++)
			strcpy(s->machine[i], "this");
	s->has_tags = 1;
	s->intent.there.ntags = 0;
	for (unsigned b = 1; b < EPD_VIA_COUNT; b++)
		if (by >> b & 1)
			s->intent.there.tag[s->intent.there.ntags++] = (uint8_t)b;
	s->loaded |= UINT32_C(1) << EPD_VIA_RECOMPUTE;
	s->contract.allows |= EPD_MAY_RECOMPUTE;
	for (int i = 0; i < n && !c->out_failed; i++)
		plan_state(x, store, operand[i]);
	epd_store_close(store);
}

int
main(int argc, char **argv)
{
	static struct plan x;
	struct cli *c = &x.cli;
	struct epd_why why = { "" };
	int first = cli_begin(c, &command, &x, argc, argv);

	epd_scenario_default(&x.s);
	x.s.mode = EPD_PLAN_ENFORCED;
	if (!x.nfiles)
		add_here(&x.s, epd_transports());
	for (int n = 0; n < x.nfiles; n++) {
		const int rc = epd_scenario_read(&x.s, x.file[n], &why);

		if (rc) {
			cli_fail(c, NULL, rc == -ENOENT ? EPD_ENOTHING : rc, &why);
			return cli_end(c);
		}
	}
	take_line(&x);
	if (x.why_not)
		(void)backend(c, "--why-not", x.why_not);
	if (first < argc) {
		plan_states(&x, argc, argv, first);
	} else {
		take_ends(&x);
		explain(&x, NULL);
	}
	return cli_end(c);
}
