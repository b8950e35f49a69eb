/* epd-state.c - looking at a store and keeping house, by verbs. */
#include <stdio.h>
#include <string.h>

#include "base/said.h"
#include "cmd/state.h"
#include "transport/transport.h"

enum {
	NAMES = CLI_OWN, TOKENS, TEXT, VERIFY, REASON, RESET, TOOL, TTL, DONE,
	QUICK
};

static void set(void *arg, int key, const char *value);

static const char *const usage[] = { "VERB [OPTION ...] [OPERAND ...]", NULL };

static const struct cli_command command = {
	.name = "epd-state",
	.usage = usage,
	.about = "Look at what a store holds, and keep house in it. "
	    "epd-state VERB --help tells a verb's options.",
	.common = "wjvqSCT",
	.more =
	    "verbs:\n"
	    "  ls [-l] [W ...]         states, or with -f features\n"
	    "  show REF ...            a state in short (-j: all of it), a feature, workflow\n"
	    "  tree [W ...]            branches of workflows\n"
	    "  log [--verify] [W ...]  the record of all changes\n"
	    "  release, rm REF ...     let go of states\n"
	    "  wait --tool T STATE ... it waits for a tool's result\n"
	    "  abort STATE ...         give states up; they stay until released\n"
	    "  check [W ...]           prove that the books balance\n"
	    "  gc                      reclaim what nobody needs\n"
	    "  metrics [--reset]       counters and gauges\n",
};

#define VERB_OF(id, common_, text, usage_, about_, ...) \
	static const char *const id##_usage[] = { usage_, NULL }; \
	static const struct cli_option id##_options[] = { \
		__VA_ARGS__ { 0, NULL, NULL, NULL } }; \
	static const struct cli_command id##_command = { \
		.name = "epd-state " text, .usage = id##_usage, \
		.about = about_, .options = id##_options, \
		.common = common_, .set = set }
#define VERB(id, ...) VERB_OF(id, "wjvqSCT", __VA_ARGS__)
/* What is of the whole store knows no -w. */
#define VERB_OF_ALL(id, ...) VERB_OF(id, "jvqSCT", __VA_ARGS__)

VERB(ls, "ls", "[-lfj] [WORKFLOW ... | REF ... | -]",
    "List states, one a line: of the workflows named, or of all.",
    { 'l', "long", NULL, "version, status, size and time too" },
    { 'f', "features", NULL, "list features instead" },
    { NAMES, "names", "PREFIX", NULL },);
VERB(show, "show", "[-j] [--tokens | --text] REF ... | -",
    "Show states (w1/s3, w1/s3@2) in short, or with -j all that is known of them, "
    "features (f:HEX) and workflows (w1).",
    { TOKENS, "tokens", NULL, "a state's token ids, one a line, instead" },
    { TEXT, "text", NULL, "a state's text instead, each picture as one pad" },
    );
VERB(tree, "tree", "[-j] [WORKFLOW ... | -]",
    "Draw the branches of workflows.",);
VERB(log, "log", "[-jv] [--verify] [WORKFLOW ... | -]",
    "Show the record of all changes, oldest first.",
    { VERIFY, "verify", NULL, "replay it, and say where it contradicts "
	"itself" },);
VERB(release, "release", "[-r] [--reason TEXT] REF ... | -",
    "Let go of states; what no other state needs is freed. Releasing twice is "
    "no error. A feature (f:HEX) is removed from the cache.",
    { 'r', "recursive", NULL, "all states of a workflow (w1)" },
    { REASON, "reason", "TEXT", "kept in the log" },);
VERB(abort, "abort", "[-v] --reason TEXT STATE ... | -",
    "Give states up: they become ABORTED, nothing can go on from them, and "
    "they stay to be looked at until they are released, which is the only way "
    "out.",
    { REASON, "reason", "TEXT", "why, kept in the log; must be given" },);
VERB(wait, "wait", "[-jv] [--reason TEXT] [--tool NAME [--ttl TIME] | --done] STATE ... | -",
    "Say that states wait for a tool's result, so that they may be offloaded "
    "before others. The result coming back (epd-prefill --role tool) ends that.",
    { TOOL, "tool", "NAME", "whose result" },
    { TTL, "ttl", "TIME", "how long that may take, as far as is known: 90s, 15m" },
    { DONE, "done", NULL, "they wait no more" },
    { REASON, "reason", "TEXT", "kept in the log" },);
VERB(check, "check", "[-jqv] [--quick] [WORKFLOW ... | -]",
    "Prove every invariant that can be proven, of the workflows named or of "
    "the whole store: every page in memory and in nvme is read. Exit 5 if "
    "something is wrong.",
    { QUICK, "quick", NULL, "of what lies in nvme look at what it says it is, and "
	"read no pages" },);
VERB_OF_ALL(gc, "gc", "[-jv]",
    "Reclaim what nobody needs: expired states and features, orphaned pages, "
    "leftovers of processes that died, memory folders whose store is gone.",);
VERB_OF_ALL(metrics, "metrics", "[-j] [--reset]",
    "Show counters and gauges as Prometheus text.",
    { RESET, "reset", NULL, "set the counters to zero instead" },);

static const struct verb {
	const char *name;
	const struct cli_command *command;
	void (*run)(struct state_args *a);
	int operands;		/* 0: none, 1: any, 2: at least one */
	int looks;		/* changes nothing */
} verbs[] = {
	{ "ls", &ls_command, state_ls, 1, 1 },
	{ "show", &show_command, state_show, 2, 1 },
	{ "tree", &tree_command, state_tree, 1, 1 },
	{ "log", &log_command, state_log, 1, 1 },
	{ "release", &release_command, state_release, 2, 0 },
	{ "rm", &release_command, state_release, 2, 0 },
	{ "wait", &wait_command, state_wait, 2, 0 },
	{ "abort", &abort_command, state_abort, 2, 0 },
	{ "check", &check_command, state_check, 1, 1 },
	{ "gc", &gc_command, state_gc, 0, 0 },
	{ "metrics", &metrics_command, state_metrics, 0, 1 },
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void
set(void *arg, int key, const char *value)
{
	struct state_args *a = arg;

	switch (key) {
	case 'l': a->longer = 1; break;
	case 'f': a->features = 1; break;
	case NAMES:
		a->names = 1;
		a->prefix = value;
		break;
	case TOKENS: a->tokens = 1; break;
	case TEXT: a->text = 1; break;
	case VERIFY: a->verify = 1; break;
	case 'r': a->recursive = 1; break;
	case REASON: a->reason = value; break;
	case RESET: a->reset = 1; break;
	case TOOL: a->tool = value; break;
	case TTL: a->ttl_ms = cli_duration(a->cli, "--ttl", value); break;
	case DONE: a->done = 1; break;
	case QUICK: a->quick = 1; break;
	}
}

static const struct verb *
verb_named(struct cli *c, const char *name)
{
	const char *names[VERBS + 1], *near;

	for (int i = 0; i < VERBS; i++) {
		if (!strcmp(verbs[i].name, name))
			return &verbs[i];
		names[i] = verbs[i].name;
	}
	names[VERBS] = NULL;
	near = cli_nearest(name, names);
	if (near)
		cli_usage(c, "%s: no such verb, did you mean %s?", name, near);
	cli_usage(c, "%s: no such verb", name);
}

int
main(int argc, char **argv)
{
	struct cli c;
	struct state_args a = { .cli = &c, .reason = "" };
	int first = cli_verb(&c, &command, argc, argv);
	const struct verb *v;

	if (first == argc) {
		cli_help(&command);
		c.status = 2;
		return cli_end(&c);
	}
	v = verb_named(&c, argv[first]);
	first = cli_options(&c, v->command, &a, argc, argv, first);
	a.operand = cli_operands(&c, argc, argv, first, &a.n);
	if (c.workflow && !strchr(v->command->common, 'w'))
		cli_usage(&c, "-w: %s is of the whole store", v->name);
	if (a.n && v->operands == 0)
		cli_usage(&c, "%s: an operand too many", a.operand[0]);
	if (!a.n && v->operands == 2)
		cli_usage(&c, "no operand");
	if (v->run == state_abort && !*a.reason)
		cli_usage(&c, "--reason: say why it is given up");
	if (v->run == state_wait && !a.done == !a.tool)
		cli_usage(&c, a.done ? "--done: with --tool it says both" :
		    "--tool: say whose result it waits for, or --done");
	if (a.tool && (!*a.tool || !epd_all_shown(a.tool)))
		cli_usage(&c, "--tool: %s", *a.tool ? "characters that cannot "
		    "be shown" : "wants a name");
	if (a.done && a.ttl_ms)
		cli_usage(&c, "--ttl: of a wait that begins");
	a.states = v->run == state_abort || v->run == state_wait;
	/* What was begun with a peer is settled with it. */
	if (v->run == state_gc)
		c.transports = epd_transports_control();
	a.store = v->looks && !a.reset ? cli_look(&c) : cli_store(&c, 0);
	v->run(&a);
	epd_store_close(a.store);
	return cli_end(&c);
}
