/* epd-fork.c - branches of states: prints their refs, one a line. */
#include <stdlib.h>
#include <string.h>

#include "cmd/each.h"
#include "cmd/nodes.h"
#include "transport/transport.h"

#define REASON_OF "agent_branch"
enum { REPLACE = CLI_OWN, REASON, TTL, EXPECT, FROM };

static const struct cli_option options[] = {
	{ 'n', "branches", "N", "how many (default 1)" },
	{ REPLACE, "replace", NULL, "the state itself ends: it becomes them" },
	{ 's', "seed", "N", "the same seed gives the same branches; else each "
	    "is unlike all others" },
	{ TTL, "ttl", "TIME", "the branches expire after TIME: 90s, 15m, 2h" },
	{ EXPECT, "expect", "V", "fail unless the state's newest version is V" },
	{ FROM, "from", "NODE", "the state is a peer's, by its name or address: "
	    "the branch begins here, in a workflow of its own or -w" },
	{ REASON, "reason", "TEXT", "why, for the log (agent_branch)" },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"[-jqv] [-w NAME] [-n N] [--replace] [-s SEED] [--ttl TIME] [--expect V] "
	    "[--reason TEXT] STATE[@V] ... | -",
	"--from NODE [-jqv] [-w NAME] STATE[@V] ... | -",
	NULL
};

static void set(void *arg, int key, const char *value);

static const struct cli_command command = {
	.name = "epd-fork",
	.usage = usage,
	.about = "Make N branches of a state, from its newest version or from "
	    "version @V, and print them, one a line. They share all that it "
	    "has; nothing is copied, however long it is. Going back to an "
	    "earlier version is a branch of it. With - states are read from "
	    "standard input, one a line.",
	.options = options,
	.common = "wjqvSCT",
	.set = set,
};

struct fork {
	struct cli cli;
	const char *from;
	struct epd_fork_request ask;
	struct epd_forked done;
};

static void
set(void *arg, int key, const char *value)
{
	struct fork *x = arg;
	struct epd_fork_request *f = &x->ask;
	struct cli *c = &x->cli;

	switch (key) {
	case 'n':
		f->branches = (uint32_t)cli_int(c, "-n", value, 1, 65536);
		break;
	case REPLACE: f->replace = 1; break;
	case 's':
		f->has_seed = 1;
		f->seed = (uint64_t)cli_int(c, "-s", value, 0, INT64_MAX);
		break;
	case TTL: f->ttl_ms = cli_duration(c, "--ttl", value); break;
	case EXPECT:
		f->expect = (uint32_t)cli_int(c, "--expect", value, 1,
		    UINT32_MAX);
		break;
	case REASON: f->reason = value; break;
	case FROM: x->from = value; break;
	}
}

static int
act(void *arg, struct epd_store *s, const struct epd_ref *state,
    struct epd_why *why)
{
	struct fork *x = arg;

	x->ask.from = *state;
	return epd_flow_fork(s, &x->ask, &x->done, why);
}

static void
print_one(struct fork *x, uint32_t state)
{
	char ref[EPD_REF_TEXT], parent[EPD_REF_TEXT];
	const struct epd_fork_request *f = &x->ask;
	struct cli *c = &x->cli;
	struct epd_buf b = {0};
	struct epd_jw w;

	epd_ref_format(ref, f->from.workflow, state, 0);
	if (!c->json) {
		cli_line(c, ref);
		return;
	}
	epd_ref_format(parent, f->from.workflow, f->from.state,
	    x->done.version);
	cli_object(&w, &b);
	epd_jw_str(&w, "state", ref);
	epd_jw_uint(&w, "version", 1);
	epd_jw_str(&w, "parent", parent);
	epd_jw_bool(&w, "replaced", f->replace);
	epd_jw_real(&w, "ms", (double)x->done.ns / 1e6);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static void
print(void *arg, const char *ref)
{
	struct fork *x = arg;

	(void)ref;
	for (uint32_t i = 0; i < x->ask.branches; i++)
		print_one(x, x->ask.ids[i]);
}

static void
tell(void *arg, const char *ref)
{
	struct fork *x = arg;
	const struct epd_forked *d = &x->done;

	cli_say(&x->cli, "%s: %u branch%s from @%u%s%s, %.2f ms", ref,
	    x->ask.branches, x->ask.branches == 1 ? "" : "es", d->version,
	    x->ask.replace ? ", itself released" : "",
	    d->alone ? ", each to be prefilled by itself" : "",
	    (double)d->ns / 1e6);
}

static const struct cli_each each = { act, print, tell };

static void
print_cloned(struct cli *c, const char *ref, const char *from,
    const struct epd_ref *parent, const struct epd_cloned *d)
{
	char name[EPD_REF_TEXT];
	struct epd_buf b = {0};
	struct epd_jw w;

	if (!c->json) {
		cli_line(c, ref);
		return;
	}
	cli_object(&w, &b);
	epd_jw_str(&w, "state", ref);
	epd_jw_uint(&w, "version", 1);
	epd_jw_str(&w, "parent", epd_ref_format(name, parent->workflow,
	    parent->state, d->version));
	epd_jw_str(&w, "node", from);
	epd_jw_uint(&w, "pages_linked", d->linked);
	epd_jw_uint(&w, "pages_copied", d->copied);
	epd_jw_uint(&w, "pages_missing", d->missing);
	epd_jw_uint(&w, "bytes", d->bytes);
	epd_jw_real(&w, "ms", (double)d->ns / 1e6);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

/* Begun here, from a state of another node's. */
static void
branch_here(struct fork *x, struct epd_store *s, const char *address,
    const char *operand)
{
	struct cli *c = &x->cli;
	struct epd_clone_ask ask = { .address = address,
		.workflow = c->workflow };
	struct epd_why why = {0};
	struct epd_cloned d;
	char ref[EPD_REF_TEXT];
	int rc = epd_ref_parse(&ask.from, s, operand, &why);

	if (rc == 0)
		rc = epd_flow_clone(s, &ask, &d, &why);
	if (rc < 0) {
		cli_fail(c, operand, rc, &why);
		return;
	}
	epd_ref_format(ref, d.workflow, d.state, 0);
	print_cloned(c, ref, x->from, &ask.from, &d);
	cli_flush(c);
	if (c->verbose)
		cli_say(c, "%s: from %s of %s@%u: %llu pages linked, %llu "
		    "copied, %llu to be computed or found, %.2f ms", ref,
		    x->from, operand, d.version, (unsigned long long)d.linked,
		    (unsigned long long)d.copied, (unsigned long long)d.missing,
		    (double)d.ns / 1e6);
}

/* A peer's state is copied; what says how a branch here is made goes with none. */
static void
from_peer(struct fork *x, char **operand, int n)
{
	struct cli *c = &x->cli;
	const struct epd_fork_request *f = &x->ask;
	struct epd_store_options o;
	struct epd_why why = {0};
	struct epd_store *s;
	const char *address;
	int rc;

	if (f->branches > 1 || f->replace || f->has_seed || f->ttl_ms ||
	    f->expect || strcmp(f->reason, REASON_OF))
		cli_usage(c, "--from: one branch each, and with -w alone");
	cli_config(c);
	c->transports = epd_transports();
	cli_store_options(c, &o);
	o.create = 1;
	if ((rc = epd_store_open(&s, &o, &why)) < 0) {
		cli_fail(c, o.path, rc, &why);
		return;
	}
	address = cli_peer(c, s, "--from", x->from);
	for (int i = 0; i < n && !c->out_failed; i++)
		branch_here(x, s, address, operand[i]);
	epd_store_close(s);
}

int
main(int argc, char **argv)
{
	static struct fork x;
	struct cli *c = &x.cli;
	struct epd_store *s;
	char **operand;
	int first, n;

	x.ask = (struct epd_fork_request){
		.branches = 1, .reason = REASON_OF,
	};
	first = cli_begin(c, &command, &x, argc, argv);
	operand = cli_states(c, argc, argv, first, &n);
	if (x.from) {
		from_peer(&x, operand, n);
		return cli_end(c);
	}
	x.ask.ids = cli_keep(c, calloc(x.ask.branches, sizeof *x.ask.ids));
	cli_nodes(c);
	s = cli_store(c, 0);
	cli_each(c, s, operand, n, &each, &x);
	return cli_end(c);
}
