/* epd-plan.c - which way bytes would go, and why; nothing is moved or connected to. */
#include <errno.h>
#include <string.h>

#include "cmd/nodes.h"
#include "cmd/plan.h"
#include "transport/transport.h"

enum { FROM = CLI_OWN, TO, BYTES, OP, POLICY, HINT, INDEX, PRIORITY, INTENT,
    STRICT, MODE, WHY_NOT, SCENARIO };

static const struct cli_option options[] = {
	{ FROM, "from", "END", "where the bytes are: host, cuda:0@NODE, file" },
	{ TO, "to", "END", "where they go; of a state: a store, tcp://HOST:PORT "
	    "or unix:///PATH" },
	{ BYTES, "bytes", "N", "how many: 4096, 64K, 1M" },
	{ OP, "op", "OP", "who acts: the one that has them (write) or gets them "
	    "(read)" },
	{ POLICY, "policy", "NAME", "by this policy, whatever it is for" },
	{ HINT, "hint", "BACKEND", "this one first, or none at all" },
	{ INDEX, "index", "N", "after N attempts that failed" },
	{ PRIORITY, "priority", "P", "low, normal or high" },
	{ INTENT, "intent", "I", "what for: any, foreground, background, "
	    "prefetch, offload or handoff" },
	{ STRICT, "strict", NULL, "only by what a policy is for and is known to "
	    "be well" },
	{ MODE, "mode", "MODE", "enforced (the planner), shadow (both, "
	    "compared) or disabled (today's selector)" },
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
	    "can ask what if. Of a state it is what epd-handoff would do with "
	    "its pages, as it is configured. Nothing is moved, and nobody is "
	    "connected to.",
	.options = options,
	.common = "wjqvSCT",
	.set = set,
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
		if (x->nfiles == PLAN_SCENARIOS)
			cli_usage(&x->cli, "more than %d scenarios",
			    PLAN_SCENARIOS);
		x->file[x->nfiles++] = value;
		break;
	}
}

/* ---- what is there ---- */

/*
 * The transports of a table that are to be had here, as what they say they are.  What
 * would reach a device's memory is not built.
 */
static void
add_here(struct epd_scenario *s, const struct epd_transports *all)
{
	const uint64_t reached = EPD_PAIR(EPD_IN_CPU, EPD_IN_CPU) |
	    EPD_PAIR(EPD_IN_CPU, EPD_IN_FILE) |
	    EPD_PAIR(EPD_IN_FILE, EPD_IN_CPU);

	for (int i = 0; all && i < all->n; i++) {
		const struct epd_transport *t = all->t[i];
		struct epd_capability *c = &s->capability[t->backend];
		struct epd_transport_facts f = { 0 };

		if (epd_prospect_here(t, &f, c) < 0)
			continue;
		s->loaded |= UINT32_C(1) << t->backend;
		if (f.ndevices && s->ndevices == 0 &&
		    strlen(f.device) < EPD_PLAN_NAME)
			strcpy(s->device[s->ndevices++], f.device);
	}
	s->loaded |= UINT32_C(1) << EPD_VIA_COPY;
	for (int b = 0; b < EPD_VIA_COUNT; b++)
		s->capability[b].pairs &= reached;
}

/* One of words, of those from least on. */
static uint8_t
choice(struct cli *c, const char *option, const char *text,
    const struct epd_words *words, int least)
{
	struct epd_buf b = { 0 };
	const int v = epd_word_parse(words, text);

	if (v >= least)
		return (uint8_t)v;
	epd_words_put(&b, words, (unsigned)least);
	epd_buf_cstr(&b);
	cli_usage(c, "%s %s: wants %s", option, text, (char *)cli_keep(c, b.p));
}

/* What the line says of it, over what the scenario does. */
static void
take_line(struct plan *x)
{
	struct cli *c = &x->cli;
	struct epd_intent *i = &x->s.intent;

	if (x->bytes && (epd_scenario_bytes(x->bytes, &i->bytes) || !i->bytes))
		cli_usage(c, "--bytes %s: wants a number from 1 on, such as 4096, "
		    "64K or 1M", x->bytes);
	if (x->op)
		i->op = choice(c, "--op", x->op, &epd_ops, EPD_OP_READ);
	if (x->hint)
		i->hint = choice(c, "--hint", x->hint, &epd_backends, 1);
	if (x->index)
		i->index = (int32_t)cli_int(c, "--index", x->index, 0, 255);
	if (x->priority)
		i->priority = choice(c, "--priority", x->priority,
		    &epd_priorities, 0);
	if (x->intent)
		i->intent = choice(c, "--intent", x->intent, &epd_plan_intents,
		    0);
	if (x->mode)
		x->s.mode = choice(c, "--mode", x->mode, &epd_plan_modes, 0);
	i->strict |= x->strict != 0;
	if (x->policy && strlen(x->policy) >= EPD_PLAN_NAME)
		cli_usage(c, "--policy %s: longer than a name, %d bytes",
		    x->policy, EPD_PLAN_NAME - 1);
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
	epd_jw_begin(w, "differs", '[');
	for (unsigned i = 0; i < epd_plan_differs.n; i++)
		if (differ >> i & 1)
			epd_jw_str(w, NULL, epd_word(&epd_plan_differs, i));
	epd_jw_end(w, ']');
}

static void
tell_json(struct cli *c, const struct told *t)
{
	struct epd_buf b = { 0 };
	struct epd_jw w;

	cli_object(&w, &b);
	if (t->state) {
		epd_jw_str(&w, "state", t->state);
		epd_jw_uint(&w, "pages", t->size.pages);
		epd_jw_uint(&w, "bytes", t->size.bytes);
		epd_jw_uint(&w, "batches", t->size.batches);
	}
	epd_jw_str(&w, "mode", epd_word(&epd_plan_modes, t->way.mode));
	epd_plan_fields(&w, &t->names, &t->d, 0);
	if (t->way.mode == EPD_PLAN_SHADOW) {
		epd_jw_begin(&w, "planned", '{');
		epd_plan_fields(&w, &t->names, &t->other, 0);
		epd_jw_end(&w, '}');
		put_differ(&w, t->differ);
	}
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

/* What of it differs is told; what does not is not told again. */
static void
tell_planned(struct epd_buf *b, const struct told *t)
{
	const char *sep = " in ";

	if (!t->differ) {
		epd_buf_str(b, "the planner decides the same\n");
		return;
	}
	epd_buf_str(b, "the planner differs");
	for (unsigned i = 0; i < epd_plan_differs.n; i++) {
		if (!(t->differ >> i & 1))
			continue;
		epd_buf_fmt(b, "%s%s", sep, 1u << i == EPD_DIFFER_ORDER ?
		    "what comes next" : 1u << i == EPD_DIFFER_ANY ?
		    "whether there is a way" : epd_word(&epd_plan_differs, i));
		sep = ", ";
	}
	epd_buf_str(b, ": ");
	epd_plan_text(b, &t->names, &t->other);
}

static void
tell_text(struct cli *c, const struct told *t)
{
	struct epd_buf b = { 0 };

	if (t->state)
		epd_buf_fmt(&b, "%s: ", t->state);
	if (t->size.batches > 1)
		epd_buf_fmt(&b, "the first of %llu batches: ",
		    (unsigned long long)t->size.batches);
	epd_plan_text(&b, &t->names, &t->d);
	if (t->way.mode == EPD_PLAN_SHADOW)
		tell_planned(&b, t);
	if (b.failed)
		cli_fail(c, t->state, -ENOMEM, NULL);
	else
		cli_out(c, epd_span(b.p, b.n));
	epd_buf_free(&b);
}

static void
tell_why_not(struct plan *x, const struct told *t)
{
	struct cli *c = &x->cli;
	const int id = (int)epd_backend_parse(x->why_not);
	struct epd_buf b = { 0 }, line = { 0 };
	struct epd_jw w;

	epd_plan_why_not(&b, &t->names, &t->d, (enum epd_backend)id);
	epd_buf_cstr(&b);
	if (b.failed) {
		cli_fail(c, t->state, -ENOMEM, NULL);
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

/* What there is to say of a decision that is none. */
static void
tell_none(struct plan *x, const struct told *t, int rc)
{
	const struct epd_intent *i = &t->way.intent;
	const unsigned ends[] = { x->s.from.medium, x->s.to.medium };
	struct epd_why why = { "" };

	if (rc == EPD_EUSAGE && i->hint &&
	    !epd_planner_capability(t->way.planner, (enum epd_backend)i->hint))
		epd_why(&why, rc, "%s, which the hint asks for, is not loaded "
		    "here", epd_backend_name((enum epd_backend)i->hint));
	else if (rc == EPD_EUSAGE)
		epd_why(&why, rc, "nothing that could be planned");
	else if (rc == EPD_ENOPLAN && t->state)
		epd_why(&why, rc, "%s: the hand-off would leave its pages, "
		    "which are computed there when they are needed",
		    epd_strerror(rc));
	for (int k = 0; k < 2 && rc == EPD_ENOPLAN && !x->nfiles; k++)
		if (ends[k] != EPD_IN_NONE && ends[k] != EPD_IN_CPU &&
		    ends[k] != EPD_IN_FILE)
			epd_why(&why, rc, "%s: nothing is built here that "
			    "reaches %s memory; --scenario may suppose it",
			    epd_strerror(rc),
			    epd_medium_name((enum epd_medium)ends[k]));
	cli_fail(&x->cli, t->state, rc, *why.text ? &why : NULL);
}

/* Whether a policy that was asked for by name is there. */
static int
is_policy(struct plan *x, const struct told *t)
{
	struct epd_why why;

	if (!*x->s.policy || t->way.intent.policy != EPD_NO_POLICY)
		return 1;
	epd_why(&why, EPD_ENOTHING, "no policy is called so");
	cli_fail(&x->cli, x->s.policy, EPD_ENOTHING, &why);
	return 0;
}

void
plan_explain(struct plan *x, struct told *t)
{
	const char *device[EPD_SCENARIO_RAILS];
	struct epd_prospect *p = &t->way;
	struct epd_shadow seen = { 0 };
	int rc;

	if (!is_policy(x, t)) {
		epd_planner_free(p->planner);
		return;
	}
	for (int r = 0; r < x->s.ndevices; r++)
		device[r] = x->s.device[r];
	t->names = (struct epd_plan_names){ p->planner, device, x->s.ndevices };
	rc = epd_plan_choose(p->mode, p->planner, &p->legacy, &x->s.how,
	    &p->intent, &t->d, &t->other, &seen);
	if (p->mode == EPD_PLAN_SHADOW && rc != EPD_EUSAGE)
		t->differ = epd_shadow_compare(&seen, &t->other, &t->d);
	if (rc != EPD_EUSAGE && x->why_not)
		tell_why_not(x, t);
	else if (rc != EPD_EUSAGE && x->cli.json)
		tell_json(&x->cli, t);
	else if (rc != EPD_EUSAGE)
		tell_text(&x->cli, t);
	if (rc < 0)
		tell_none(x, t, rc);
	epd_planner_free(p->planner);
}

static void
plan_transfer(struct plan *x)
{
	static struct told t;
	struct epd_why why = { "" };
	int rc;

	take_ends(x);
	rc = epd_scenario_make(&x->s, &t.way.planner, &t.way.intent,
	    &t.way.legacy, &why);
	if (rc == EPD_EUSAGE)
		cli_usage(&x->cli, "%s", why.text);
	t.way.mode = (enum epd_plan_mode)x->s.mode;
	if (rc)
		cli_fail(&x->cli, NULL, rc, &why);
	else
		plan_explain(x, &t);
}

/* What is there, by what: 0, or it has been said why not. */
static int
begin(struct plan *x, int states)
{
	struct cli *c = &x->cli;
	struct epd_why why = { "" };
	int rc = 0;

	epd_scenario_default(&x->s);
	x->s.mode = EPD_PLAN_ENFORCED;
	if (!x->nfiles)
		add_here(&x->s, c->transports);
	if (states) {
		x->store = cli_look(c);
		rc = plan_configure(x, &why);
	}
	for (int n = 0; n < x->nfiles && !rc; n++)
		rc = epd_scenario_read(&x->s, x->file[n], &why);
	if (rc)
		cli_fail(c, NULL, rc == -ENOENT ? EPD_ENOTHING : rc, &why);
	return rc;
}

int
main(int argc, char **argv)
{
	static struct plan x;
	struct cli *c = &x.cli;
	int first = cli_begin(c, &command, &x, argc, argv);
	const int states = first < argc;

	c->transports = epd_transports();
	if (states && (x.from || x.bytes || x.op || !x.to))
		cli_usage(c, "a state is moved --to somewhere, whole: no --from, "
		    "--bytes or --op");
	if (x.why_not)
		(void)choice(c, "--why-not", x.why_not, &epd_backends, 1);
	if (begin(&x, states) == 0) {
		take_line(&x);
		if (states) {
			x.to = cli_to(c, x.store, x.to);
			plan_states(&x, argc, argv, first);
		}
		else
			plan_transfer(&x);
	}
	epd_store_close(x.store);
	return cli_end(c);
}
