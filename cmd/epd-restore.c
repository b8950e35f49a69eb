/* epd-restore.c - states that rest, or some of their pages, back into memory. */
#include <stdlib.h>
#include <string.h>

#include "cmd/each.h"
#include "cmd/nodes.h"

enum { PAGES = CLI_OWN, REASON, PARTS = 256 };

static const struct cli_option options[] = {
	{ PAGES, "pages", "LIST", "only these: 0,3,8-11 (what lies in one run with "
	    "them comes along)" },
	{ REASON, "reason", "TEXT", "why, for the log (resume)" },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"[-jqv] [-w NAME] [--pages LIST] [--reason TEXT] STATE ... | -",
	NULL
};

static void set(void *arg, int key, const char *value);

static const struct cli_command command = {
	.name = "epd-restore",
	.usage = usage,
	.about = "Bring a state's pages back into memory from whatever tier has "
	    "them, and print its name once it is ACTIVE. What no tier has is "
	    "computed again when it is needed. Nobody has to: a state that "
	    "rests comes back when it is gone on with. With - states are read "
	    "from standard input, one a line.",
	.options = options,
	.common = "wjqvSCT",
	.set = set,
};

struct restore {
	struct cli cli;
	struct epd_restore ask;
	struct epd_restored done;
	struct epd_page_span part[PARTS];
};

/* One page, or the first and the last of several; what follows it, or NULL. */
static const char *
span(const char *p, struct epd_page_span *out)
{
	unsigned long v[2];
	char *end;

	for (int i = 0; i < 2; i++) {
		if (*p < '0' || *p > '9')
			return NULL;
		v[i] = strtoul(p, &end, 10);
		if (v[i] >= UINT32_MAX)
			return NULL;
		p = end;
		if (i == 0 && *p != '-') {
			v[1] = v[0];
			break;
		}
		p += i == 0;
	}
	*out = (struct epd_page_span){ (uint32_t)v[0], (uint32_t)v[1] + 1 };
	return v[1] < v[0] ? NULL : p;
}

static void
pages(struct restore *x, const char *list)
{
	const char *p = list;

	for (x->ask.n = 0; ; p++) {
		if (x->ask.n == PARTS)
			cli_usage(&x->cli, "--pages: more than %d parts", PARTS);
		p = span(p, &x->part[x->ask.n++]);
		if (!p || (*p && *p != ','))
			cli_usage(&x->cli, "--pages: %s: wants page numbers, as "
			    "in 0,3,8-11", list);
		if (!*p)
			break;
	}
	x->ask.part = x->part;
}

static void
set(void *arg, int key, const char *value)
{
	struct restore *x = arg;

	if (key == PAGES)
		pages(x, value);
	else if (key == REASON)
		x->ask.reason = value;
}

static int
act(void *arg, struct epd_store *s, const struct epd_ref *state,
    struct epd_why *why)
{
	struct restore *x = arg;

	x->ask.state = *state;
	return epd_flow_restore(s, &x->ask, &x->done, why);
}

static void
print(void *arg, const char *ref)
{
	struct restore *x = arg;
	struct cli *c = &x->cli;
	const struct epd_restored *d = &x->done;
	struct epd_buf b = {0};
	struct epd_jw w;

	if (!c->json) {
		cli_line(c, ref);
		return;
	}
	cli_object(&w, &b);
	epd_jw_str(&w, "state", ref);
	epd_jw_uint(&w, "version", d->version);
	epd_jw_bool(&w, "rested", d->rested);
	epd_jw_uint(&w, "pages", d->pages);
	epd_jw_uint(&w, "pages_pinned", d->pinned);
	epd_jw_uint(&w, "pages_restored", d->came);
	epd_jw_uint(&w, "pages_missing", d->missing);
	epd_jw_uint(&w, "bytes", d->bytes);
	epd_jw_begin(&w, "tiers", '[');
	for (enum epd_tier t = EPD_TIER_NONE; t < EPD_TIER_COUNT; t++)
		if (d->tiers >> t & 1)
			epd_jw_str(&w, NULL, epd_tier_name(t));
	epd_jw_end(&w, ']');
	epd_jw_real(&w, "ms", (double)d->ns / 1e6);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static void
tell(void *arg, const char *ref)
{
	struct restore *x = arg;
	struct cli *c = &x->cli;
	const struct epd_restored *d = &x->done;
	char came[24], a[CLI_COUNT], n[CLI_COUNT], m[CLI_COUNT];

	cli_say(c, "%s: %s page%s: %s in memory already, %s restored (%s), "
	    "%.2f ms", ref, cli_count(a, d->pages), d->pages == 1 ? "" : "s",
	    cli_count(n, d->pinned), cli_count(m, d->came),
	    cli_bytes(came, d->bytes), (double)d->ns / 1e6);
	if (d->missing)
		cli_say(c, "%s: no tier has %s of them: they will be computed "
		    "again", ref, cli_count(n, d->missing));
}

static const struct cli_each each = { act, print, tell };

int
main(int argc, char **argv)
{
	static struct restore x;
	struct cli *c = &x.cli;
	struct epd_store *s;
	char **operand;
	int first, n;

	x.ask.reason = "resume";
	first = cli_begin(c, &command, &x, argc, argv);
	operand = cli_states(c, argc, argv, first, &n);
	cli_nodes(c);
	s = cli_store(c, 0);
	cli_each(c, s, operand, n, &each, &x);
	return cli_end(c);
}
