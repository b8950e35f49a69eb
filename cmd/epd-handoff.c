/* epd-handoff.c - a state from one workflow to another, whole or by phases. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "cmd/cli.h"
#include "cmd/nodes.h"
#include "transport/transport.h"

enum { TO = CLI_OWN, FROM, AT, TIMEOUT, PREPARE, COMMIT, ABORT, STATUS, ADOPT, REASON };

static const struct cli_option options[] = {
	{ TO, "to", "DIR", "the target's store, or a peer's address: "
	    "tcp://HOST:PORT, unix:///PATH (default: this one)" },
	{ FROM, "from", "ADDRESS", "fetch STATE from the peer there, to a "
	    "workflow here" },
	{ AT, "at", "ADDRESS", "of the hand-offs that the peer there has with this "
	    "store, with --status, --commit, --abort" },
	{ TIMEOUT, "timeout", "TIME", "roll back what is not committed by then" },
	{ PREPARE, "prepare", NULL, "only pin the state; prints the hand-off's "
	    "ID" },
	{ COMMIT, "commit", NULL, "go on with ID to its end" },
	{ ABORT, "abort", NULL, "roll ID back: the source keeps the state" },
	{ ADOPT, "adopt", NULL, "have the target's half of ID though its source "
	    "is gone for good" },
	{ STATUS, "status", NULL, "show hand-offs, or ID" },
	{ REASON, "reason", "TEXT", "why, for the log, of --abort and --adopt" },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"[-jqv] [-w NAME] [--to DIR] [--timeout TIME] STATE | - [WORKFLOW]",
	"--from ADDRESS [--timeout TIME] STATE | - [WORKFLOW]",
	"--prepare [--to DIR] [--timeout TIME] STATE | - [WORKFLOW]",
	"--commit [--at ADDRESS] ID ... | -",
	"--abort [--at ADDRESS] [--reason TEXT] ID ... | -",
	"--adopt [--reason TEXT] ID ... | -",
	"--status [--at ADDRESS] [ID ... | -]",
	NULL
};

static void set(void *arg, int key, const char *value);

static const struct cli_command command = {
	.name = "epd-handoff",
	.usage = usage,
	.about = "Hand a state over to another workflow, a new one if none is "
	    "named, and print its name there. Until the source's log says "
	    "committed the state is the source's; then it is the target's, and "
	    "nobody else's. Its pages are linked, not copied. A crash leaves "
	    "what --status shows and --commit or --abort ends. With - states, "
	    "or IDs, are read from standard input, one a line.",
	.options = options,
	.common = "wjqvSCT",
	.set = set,
};

struct handoff {
	struct cli cli;
	struct epd_offer offer;
	int phase;			/* 0: the whole */
	const char *reason, *to, *from, *at;
	const uint8_t *shown;		/* the id that is asked for */
	volatile sig_atomic_t *caught;	/* a signal that ends it */
	struct epd_store *s;
};

static void
set(void *arg, int key, const char *value)
{
	struct handoff *x = arg;
	struct cli *c = &x->cli;

	switch (key) {
	case TO: x->to = x->offer.store = value; break;
	case FROM: x->from = x->offer.store = value; break;
	case AT: x->at = value; break;
	case TIMEOUT:
		x->offer.timeout_ms = cli_duration(c, "--timeout", value);
		break;
	case REASON: x->reason = value; break;
	default:
		if (x->phase && x->phase != key)
			cli_usage(c, "one of --prepare, --commit, --abort, "
			    "--adopt and --status at a time");
		x->phase = key;
		break;
	}
}

/* ---- telling ---- */

static const char *
phase_name(const struct epd_handed *h, int target)
{
	const unsigned phase = target ? h->target : h->source;

	return phase ? epd_phase_name(phase) : "-";
}

static void
json(struct cli *c, const struct epd_handed *h)
{
	char from[EPD_REF_TEXT], to[EPD_REF_TEXT];
	struct epd_buf b = {0};
	struct epd_jw w;

	cli_object(&w, &b);
	epd_jw_hex(&w, "handoff", h->id, 16);
	epd_jw_str(&w, "from", epd_ref_format(from, h->from, h->state,
	    h->version));
	epd_jw_str(&w, "from_store", h->from_store);
	epd_jw_str(&w, "source", h->source ? epd_phase_name(h->source) : NULL);
	epd_jw_str(&w, "to", h->to_state ? epd_ref_format(to, h->to,
	    h->to_state, 0) : h->to);
	epd_jw_str(&w, "to_store", h->to_store);
	epd_jw_str(&w, "target", h->target ? epd_phase_name(h->target) : NULL);
	epd_jw_bool(&w, "unreachable", h->unreachable);
	epd_jw_bool(&w, "expired", h->expired);
	epd_jw_uint(&w, "pages_linked", h->linked);
	epd_jw_uint(&w, "pages_copied", h->copied);
	epd_jw_uint(&w, "pages_missing", h->missing);
	epd_jw_uint(&w, "bytes_copied", h->bytes);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static void
tell_pages(struct cli *c, const struct epd_handed *h)
{
	char bytes[24];

	if (c->verbose && (h->linked || h->copied || h->missing))
		cli_say(c, "%llu pages linked, %llu copied (%s), %llu to be "
		    "computed", (unsigned long long)h->linked,
		    (unsigned long long)h->copied, cli_bytes(bytes, h->bytes),
		    (unsigned long long)h->missing);
}

static void
print_target(struct handoff *x, const struct epd_handed *h)
{
	char ref[EPD_REF_TEXT];

	tell_pages(&x->cli, h);
	if (x->cli.json)
		json(&x->cli, h);
	else
		cli_line(&x->cli, epd_ref_format(ref, h->to, h->to_state, 0));
}

/* The address of the half that is a peer's, "" for none. */
static const char *
peer_of(const struct epd_handed *h)
{
	return epd_node_is_address(h->to_store) ? h->to_store :
	    epd_node_is_address(h->from_store) ? h->from_store : "";
}

static int
print_status(void *arg, const struct epd_handed *h)
{
	struct handoff *x = arg;
	char hex[33], from[EPD_REF_TEXT], to[EPD_REF_TEXT];
	char line[2 * EPD_REF_TEXT + EPD_NODE_ADDRESS + 160], peer[EPD_NODE_ADDRESS];

	if (x->cli.json) {
		json(&x->cli, h);
		return 0;
	}
	epd_hex_format(hex, h->id, 16);
	snprintf(peer, sizeof peer, "%.255s", peer_of(h));
	epd_ref_format(from, h->from, h->state, h->version);
	snprintf(to, sizeof to, "%s", h->to);
	if (h->to_state)
		epd_ref_format(to, h->to, h->to_state, 0);
	snprintf(line, sizeof line, "%s %s %s -> %s %s%s%s%s%s", hex, from,
	    phase_name(h, 0), to, phase_name(h, 1), *peer ? ", with " : "",
	    peer, h->unreachable ? ", unreachable" : "",
	    h->expired ? ", expired" : "");
	cli_line(&x->cli, line);
	return 0;
}

static int
print_one(void *arg, const struct epd_handed *h)
{
	const struct handoff *x = arg;

	return memcmp(h->id, x->shown, 16) ? 0 : print_status(arg, h);
}

/* ---- doing ---- */

static void
by_id(struct handoff *x, const char *hex)
{
	struct epd_handed h = {0};
	struct epd_why why = {{0}};
	char ref[EPD_REF_TEXT];
	uint8_t id[16];
	int rc = epd_flow_handoff_find_at(x->s, x->at, hex, id, &why);

	if (rc == 0 && x->phase == COMMIT)
		rc = x->at ? epd_flow_handoff_commit_at(x->s, x->at, id, &h,
		    &why) : epd_flow_handoff_commit(x->s, id, &h, &why);
	else if (rc == 0 && x->at)
		rc = epd_flow_handoff_abort_at(x->s, x->at, id, x->reason, &h,
		    &why);
	else if (rc == 0 && x->phase == ADOPT)
		rc = epd_flow_handoff_adopt(x->s, id, x->reason, &h, &why);
	else if (rc == 0)
		rc = epd_flow_handoff_abort(x->s, id, x->reason, &h, &why);
	if (rc < 0)
		cli_fail(&x->cli, hex, rc, &why);
	else if (x->phase != ABORT)
		print_target(x, &h);
	else if (x->cli.json)
		json(&x->cli, &h);
	else
		cli_line(&x->cli, epd_ref_format(ref, h.from, h.state, 0));
}

/* One that neither ended nor was rolled back: it stands. */
static void
tell_standing(struct handoff *x, const struct epd_handed *h)
{
	char hex[33];

	epd_hex_format(hex, h->id, 16);
	if (!x->cli.quiet)
		cli_say(&x->cli, "hand-off %s stands: --commit or --abort "
		    "ends it%s%s", hex, x->from ? ", with --at " : "",
		    x->from ? x->from : "");
}

static void
begin(struct handoff *x, const char *operand)
{
	struct epd_handed h = {0};
	struct epd_why why = {{0}};
	char hex[33];
	int rc = cli_state(&x->cli, x->s, operand, &x->offer.state, &why);

	if (rc == 0)
		rc = x->phase == PREPARE ?
		    epd_flow_handoff_prepare(x->s, &x->offer, &h, &why) :
		    x->from ? epd_flow_handoff_take(x->s, &x->offer, &h, &why) :
		    epd_flow_handoff_whole(x->s, &x->offer, &h, &why);
	if (rc < 0) {
		cli_fail(&x->cli, operand, rc, &why);
		if (h.source || h.target)
			tell_standing(x, &h);
		return;
	}
	if (x->phase != PREPARE) {
		print_target(x, &h);
		return;
	}
	epd_hex_format(hex, h.id, 16);
	if (x->cli.json)
		json(&x->cli, &h);
	else
		cli_line(&x->cli, hex);
}

static void
status(struct handoff *x, int n, char **operand)
{
	struct epd_why why = {{0}};
	struct epd_handed h;
	uint8_t id[16];
	int rc;

	if (n == 0) {
		rc = x->at ? epd_flow_handoff_each_at(x->s, x->at,
		    print_status, x, &why) :
		    epd_flow_handoff_each(x->s, print_status, x, &why);
		if (rc < 0)
			cli_fail(&x->cli, NULL, rc, &why);
	}
	for (int i = 0; i < n; i++) {
		x->shown = id;
		rc = epd_flow_handoff_find_at(x->s, x->at, operand[i], id,
		    &why);
		if (rc == 0 && x->at)
			rc = epd_flow_handoff_each_at(x->s, x->at, print_one,
			    x, &why);
		else if (rc == 0 &&
		    (rc = epd_flow_handoff_show(x->s, id, &h, &why)) == 0)
			print_status(x, &h);
		if (rc < 0)
			cli_fail(&x->cli, operand[i], rc, &why);
	}
}

/* What goes with what; n operands. */
static void
check_use(struct handoff *x, int n)
{
	struct cli *c = &x->cli;
	const int new = !x->phase || x->phase == PREPARE;

	if (x->from && (x->to || x->phase))
		cli_usage(c, "--from fetches the whole: no --to, no phases");
	if (x->at && (new || x->phase == ADOPT))
		cli_usage(c, "--at goes with --status, --commit and --abort");
	if (!new && (x->offer.store || x->offer.timeout_ms))
		cli_usage(c, "--to and --timeout are said when a hand-off "
		    "begins");
	if (x->reason && x->phase != ABORT && x->phase != ADOPT)
		cli_usage(c, "--reason goes with --abort and --adopt");
	if (n == 0 && x->phase != STATUS)
		cli_usage(c, new ? "no state" : "no ID");
	if (new && n > 2)
		cli_usage(c, "a state and a workflow, no more");
	if (!x->reason)
		x->reason = "by command";
}

/* Waits for a peer end then, and what stands is told of as after any failure. */
static int
is_over(void *arg)
{
	const struct handoff *x = arg;

	return *x->caught;
}

/* What is fetched may be the first that is in it. */
static struct epd_store *
make_store(struct cli *c)
{
	struct epd_store_options o;
	struct epd_why why = {{0}};
	struct epd_store *s;
	int rc;

	cli_store_options(c, &o);
	o.create = 1;
	rc = epd_store_open(&s, &o, &why);
	if (rc < 0) {
		cli_fail(c, o.path, rc, &why);
		exit(cli_end(c));
	}
	return s;
}

/* A peer may be said by its address, or by its name as a node of the directory. */
static void
peers(struct handoff *x)
{
	if (x->from)
		x->from = x->offer.store = cli_peer(&x->cli, x->s, "--from",
		    x->from);
	if (x->at)
		x->at = cli_peer(&x->cli, x->s, "--at", x->at);
	if (x->to)
		x->to = x->offer.store = cli_to(&x->cli, x->s, x->to);
}

int
main(int argc, char **argv)
{
	static struct handoff x;
	struct cli *c = &x.cli;
	char **operand;
	int first, n, new;

	x.offer.workflow = "";
	first = cli_begin(c, &command, &x, argc, argv);
	c->transports = epd_transports();
	check_use(&x, argc - first);
	new = !x.phase || x.phase == PREPARE;
	if (new && argc - first == 2 &&
	    !epd_workflow_name_ok(x.offer.workflow = argv[--argc]))
		cli_usage(c, "%s: no name of a workflow", x.offer.workflow);
	operand = cli_operands(c, argc, argv, first, &n);
	x.s = x.phase == STATUS ? cli_look(c) : x.from ? make_store(c) :
	    cli_store(c, 0);
	peers(&x);
	if (x.phase == STATUS)
		status(&x, n, operand);
	x.caught = cli_catch();
	epd_stop_heed(is_over, &x);
	for (int i = 0; x.phase != STATUS && i < n && !c->out_failed &&
	    !*x.caught; i++) {
		if (new)
			begin(&x, operand[i]);
		else
			by_id(&x, operand[i]);
		cli_flush(c);
	}
	epd_store_close(x.s);
	return cli_end(c);
}
