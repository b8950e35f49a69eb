/* epd-offload.c - states to a tier: their pages leave memory, and the states rest. */
#include <stdlib.h>

#include "cmd/each.h"

enum { REASON = CLI_OWN };

static const struct cli_option options[] = {
	{ 't', "tier", "TIER", "where to: cpu, nvme or mooncake_store (default: "
	    "tier.evict_to, nvme)" },
	{ REASON, "reason", "TEXT", "why, for the log (memory_pressure)" },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"[-jqv] [-w NAME] [-t TIER] [--reason TEXT] STATE ... | -",
	NULL
};

static void set(void *arg, int key, const char *value);

static const struct cli_command command = {
	.name = "epd-offload",
	.usage = usage,
	.about = "Copy a state's pages to a tier below memory and give their "
	    "memory back. The state rests there until it is gone on with: then "
	    "it comes back by itself, with the same bytes. Its name is printed "
	    "once it rests. With - states are read from standard input, one a "
	    "line.",
	.options = options,
	.common = "wjqvSCT",
	.set = set,
};

struct offload {
	struct cli cli;
	struct epd_offload ask;
	struct epd_offloaded done;
	const char *tier;
};

static void
set(void *arg, int key, const char *value)
{
	struct offload *x = arg;

	if (key == 't')
		x->tier = value;
	else if (key == REASON)
		x->ask.reason = value;
}

static int
act(void *arg, struct epd_store *s, const struct epd_ref *state,
    struct epd_why *why)
{
	struct offload *x = arg;

	x->ask.state = *state;
	return epd_flow_offload(s, &x->ask, &x->done, why);
}

static void
print(void *arg, const char *ref)
{
	struct offload *x = arg;
	struct cli *c = &x->cli;
	const struct epd_offloaded *d = &x->done;
	struct epd_buf b = {0};
	struct epd_jw w;

	if (!c->json) {
		cli_line(c, ref);
		return;
	}
	cli_object(&w, &b);
	epd_jw_str(&w, "state", ref);
	epd_jw_uint(&w, "version", d->version);
	epd_jw_str(&w, "tier", epd_tier_name(x->ask.tier));
	epd_jw_bool(&w, "before", d->before);
	epd_jw_uint(&w, "pages", d->pages);
	epd_jw_uint(&w, "pages_had", d->had);
	epd_jw_uint(&w, "pages_missing", d->missing);
	epd_jw_uint(&w, "pages_shared", d->shared);
	epd_jw_uint(&w, "bytes", d->bytes);
	epd_jw_uint(&w, "freed_bytes", d->freed);
	epd_jw_real(&w, "ms", (double)d->ns / 1e6);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static void
tell(void *arg, const char *ref)
{
	struct offload *x = arg;
	struct cli *c = &x->cli;
	const struct epd_offloaded *d = &x->done;
	char moved[24], freed[24], n[CLI_COUNT];

	if (d->before && !d->freed) {
		cli_say(c, "%s: in %s already", ref, epd_tier_name(x->ask.tier));
		return;
	}
	cli_say(c, "%s: to %s: %s page%s, %s moved, %s of memory given back, "
	    "%.2f ms", ref, epd_tier_name(x->ask.tier), cli_count(n, d->pages),
	    d->pages == 1 ? "" : "s", cli_bytes(moved, d->bytes),
	    cli_bytes(freed, d->freed), (double)d->ns / 1e6);
	if (d->shared)
		cli_say(c, "%s: %s of them stay in memory too: others stand on "
		    "them", ref, cli_count(n, d->shared));
	if (d->missing)
		cli_say(c, "%s: %s of them were not to be had, and will be "
		    "computed again", ref, cli_count(n, d->missing));
}

static const struct cli_each each = { act, print, tell };

int
main(int argc, char **argv)
{
	static struct offload x;
	struct cli *c = &x.cli;
	struct epd_store *s;
	char **operand;
	int first, n;

	x.ask.reason = "memory_pressure";
	first = cli_begin(c, &command, &x, argc, argv);
	operand = cli_states(c, argc, argv, first, &n);
	s = cli_store(c, 0);
	if (!x.tier)
		x.tier = c->config.tier_evict_to;
	x.ask.tier = epd_tier_parse(x.tier);
	if (x.ask.tier == EPD_TIER_NONE)
		cli_usage(c, "%s: no such tier; cpu, nvme or mooncake_store",
		    x.tier);
	cli_each(c, s, operand, n, &each, &x);
	return cli_end(c);
}
