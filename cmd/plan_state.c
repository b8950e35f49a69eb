/*
 * plan_state.c - epd-plan of a state: what a hand-off of it would be decided by, asked
 * as the hand-off asks (flow/prospect.h), with nobody reached.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cmd/plan.h"

/* Into a folder this program links the pages itself, whatever is configured. */
int
plan_configure(struct plan *x, struct epd_why *why)
{
	struct epd_scenario *s = &x->s, *rules = NULL;
	struct epd_config plain;
	const struct epd_config *c = &x->cli.config;
	int rc;

	if (!epd_node_is_address(x->to)) {
		epd_config_default(&plain);
		strcpy(plain.transfer_mode, "enforced");
		c = &plain;
	}
	epd_transfer_policy_default(&x->how, c);
	s->intent.priority = (uint8_t)x->how.priority;
	s->intent.strict = x->how.strict != 0;
	s->intent.intent = EPD_INTENT_HANDOFF;
	s->mode = (uint8_t)epd_word_parse(&epd_plan_modes, c->transfer_mode);
	/* A hand-off knows what it has seen of links, and no usual costs. */
	memset(s->baseline, 0, sizeof s->baseline);
	rc = epd_prospect_rules(&rules, c, why);
	if (rules) {
		memcpy(s->rule, rules->rule, sizeof s->rule);
		s->nrules = rules->nrules;
		s->contract = rules->contract;
		x->ruled = 1;
	}
	epd_free(rules);
	return rc;
}

static int
is_something(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return 1;
}

/* An empty folder, or none, is where a hand-off makes a store. */
static int
may_be_made(const char *path, struct epd_why *why)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int rc = fd < 0 ? (errno == ENOENT ? 0 : -errno) :
	    epd_dir_each(fd, is_something, NULL);

	if (fd >= 0)
		close(fd);
	return rc > 0 ? epd_why(why, EPD_EFORMAT, "holds other files and is "
	    "not a store") : rc;
}

static int
look_at_target(struct plan *x, int *unmade, struct epd_why *why)
{
	const struct epd_store_options o = {
		.path = x->to, .config = &x->cli.config,
		.tenant = x->cli.tenant ? x->cli.tenant : "",
		.log = x->cli.log, .look = 1,
	};
	struct epd_store *there = NULL;
	int rc;

	*unmade = 0;
	if (epd_node_is_address(x->to))
		return 0;
	if (strstr(x->to, "://"))
		return epd_why(why, EPD_EUSAGE, "a peer is tcp://HOST:PORT or "
		    "unix:///PATH");
	rc = epd_store_open(&there, &o, why);
	epd_store_close(there);
	if (rc != EPD_ENOTHING)
		return rc;
	*unmade = 1;
	why->text[0] = '\0';
	return may_be_made(x->to, why);
}

struct look {
	struct plan *x;
	struct told *t;
	uint64_t missing, tokens;
	struct epd_why why;
};

static int
see(void *arg, const struct epd_sight *v)
{
	struct look *o = arg;

	o->missing = v->line.missing;
	o->tokens = v->line.tokens;
	return epd_prospect_size(&o->t->size, o->x->store, v, &o->x->how,
	    &o->why);
}

/* As a hand-off would ask, with what the line or a scenario says in its stead. */
static int
make_prospect(struct plan *x, uint64_t bytes, struct epd_prospect *out,
    struct epd_why *why)
{
	const struct epd_intent *said = &x->s.intent;
	struct epd_intent *i = &out->intent;
	struct epd_ways ways;
	const struct epd_prospect_ask a = {
		.here = x->store, .address = x->to, .policy = &x->how,
		.ways = &ways, .op = EPD_OP_WRITE, .bytes = bytes,
	};
	const int rc = epd_ways_make(&ways, x->store, x->to,
	    x->ruled || x->nfiles ? &x->s : NULL, x->nfiles ? &x->s : NULL,
	    why);

	if (rc)
		return rc;
	epd_prospect_make(out, &a);
	/* The same question has the same answer, whenever it is asked. */
	i->id = 1;
	i->now_ns = said->now_ns;
	i->deadline_ns = said->deadline_ns ? said->deadline_ns :
	    i->now_ns + x->how.timeout_ms * UINT64_C(1000000);
	i->index = said->index;
	i->credits_enabled = said->credits_enabled;
	i->credits = said->credits;
	/* What is configured is a wish, what is said is not. */
	if (said->hint)
		i->hint = said->hint;
	out->mode = (enum epd_plan_mode)x->s.mode;
	return 0;
}

/* The policy as it was configured and said, and as the contract has it. */
static int
settle(struct plan *x, struct epd_why *why)
{
	const struct epd_intent *said = &x->s.intent;
	struct epd_why not = { "" };
	struct epd_prospect p;
	int rc;

	x->how.priority = (enum epd_priority)said->priority;
	x->how.strict = said->strict;
	x->how.intent = said->intent;
	memcpy(x->how.rule, x->s.policy, sizeof x->how.rule);
	if ((rc = make_prospect(x, 0, &p, why)) < 0)
		return rc;
	rc = epd_prospect_compress(&p, &x->how, &not);
	epd_planner_free(p.planner);
	if (rc == 0 && x->cli.verbose)
		cli_say(&x->cli, "%s", not.text);
	return rc < 0 ? epd_why(why, rc, "%s", not.text) : 0;
}

static void
plan_state(struct plan *x, const char *operand, int unmade)
{
	static struct told t;
	static const struct told none;
	struct cli *c = &x->cli;
	struct look o = { .x = x, .t = &t };
	struct epd_ref ref;
	char size[24];
	int rc;

	t = none;
	t.state = operand;
	rc = cli_state(c, x->store, operand, &ref, &o.why);
	if (!rc)
		rc = epd_view_state(x->store, &ref, see, &o, &o.why);
	if (!rc)
		rc = make_prospect(x, t.size.first, &t.way, &o.why);
	if (rc < 0) {
		cli_fail(c, operand, rc, &o.why);
		return;
	}
	if (unmade && !c->quiet)
		cli_say(c, "%s: no store is in %s yet; the hand-off would make "
		    "one", operand, x->to);
	if (c->verbose)
		cli_say(c, "%s: %llu page%s, %s, %llu to be computed, %llu "
		    "tokens", operand, (unsigned long long)t.size.pages,
		    t.size.pages == 1 ? "" : "s", cli_bytes(size, t.size.bytes),
		    (unsigned long long)o.missing, (unsigned long long)o.tokens);
	plan_explain(x, &t);
}

void
plan_states(struct plan *x, int argc, char **argv, int first)
{
	struct cli *c = &x->cli;
	struct epd_why why = { "" };
	char **operand;
	int n, unmade, rc;

	operand = cli_operands(c, argc, argv, first, &n);
	rc = look_at_target(x, &unmade, &why);
	if (rc == 0)
		rc = settle(x, &why);
	if (rc < 0)
		cli_fail(c, x->to, rc, &why);
	for (int i = 0; i < n && rc == 0 && !c->out_failed; i++)
		plan_state(x, operand[i], unmade);
}
