/* help.c - the common options, --help within 80 columns, and near misses. */
#include <stdio.h>
#include <string.h>

#include "cmd/cli.h"

enum { WIDTH = 79, INDENT = 26 };

const struct cli_option cli_common[] = {
	{ 'm', "model", "DIR", "checkpoint directory (else the state's, "
	    "EPD_MODEL, the shipped one)" },
	{ 'w', "workflow", "NAME", "the workflow: of what is made, and of a "
	    "bare s3" },
	{ 't', "threads", "N", "threads to compute with (EPD_THREADS)" },
	{ 'j', "json", NULL, "write JSON, one object a line" },
	{ 'v', "verbose", NULL, "say more on standard error" },
	{ 'q', "quiet", NULL, "say nothing but errors" },
	{ CLI_STORE, "store", "DIR", "the store (EPD_STORE)" },
	{ CLI_CONFIG, "config", "FILE", "configuration (EPD_CONFIG)" },
	{ CLI_TENANT, "tenant", "NAME", "whose features (EPD_TENANT)" },
	{ CLI_ISA, "isa", "NAME", "instructions: scalar, avx2, avx512 "
	    "(EPD_ISA)" },
	{ 'h', "help", NULL, "show this" },
	{ CLI_VERSION, "version", NULL, "show the version" },
	{ 0, NULL, NULL, NULL },
};

/* Bytes up to the next blank; what stands in brackets is one word. */
static size_t
word(const char *text)
{
	const char *end = *text == '[' ? strchr(text, ']') : NULL;

	return (end ? (size_t)(end - text) : 0) + strcspn(end ? end : text, " ");
}

/* Words of text from column at on, broken before WIDTH and indented. */
static void
wrap(const char *text, int at, int indent)
{
	int begun = 0;

	while (*text) {
		size_t n = word(text);

		if (begun && at + 1 + (int)n > WIDTH) {
			printf("\n%*s", indent, "");
			at = indent;
		} else if (begun) {
			at += printf(" ");
		}
		begun = 1;
		at += printf("%.*s", (int)n, text);
		text += n + strspn(text + n, " ");
	}
	putchar('\n');
}

static void
row(const struct cli_option *o)
{
	int at;

	if (!o->help)
		return;
	at = o->key < 256 ? printf("  -%c, ", o->key) : printf("      ");
	at += printf("--%s%s%s", o->name, o->arg ? " " : "",
	    o->arg ? o->arg : "");
	if (at > INDENT - 2) {
		putchar('\n');
		at = 0;
	}
	printf("%*s", INDENT - at, "");
	wrap(o->help, INDENT, INDENT);
}

void
cli_help(const struct cli_command *cmd)
{
	for (int i = 0; cmd->usage[i]; i++) {
		printf("%s %s", i ? "      " : "usage:", cmd->name);
		if (cmd->usage[i][0])
			putchar(' ');
		wrap(cmd->usage[i], 8 + (int)strlen(cmd->name),
		    8 + (int)strlen(cmd->name));
	}
	putchar('\n');
	wrap(cmd->about, 0, 0);
	printf("\noptions:\n");
	for (const struct cli_option *o = cmd->options; o && o->name; o++)
		row(o);
	for (const struct cli_option *o = cli_common; o->name; o++)
		if (cli_takes(cmd, o))
			row(o);
	if (cmd->more)
		printf("\n%s", cmd->more);
}

/* Edits between two short words (Levenshtein), long ones counted as far. */
static int
distance(const char *a, const char *b)
{
	int edits[32], n = (int)strlen(b);

	if (n >= 32 || strlen(a) >= 32)
		return 32;
	for (int j = 0; j <= n; j++)
		edits[j] = j;
	for (int i = 1; a[i - 1]; i++) {
		int corner = edits[0];

		edits[0] = i;
		for (int j = 1; j <= n; j++) {
			int d = corner + (a[i - 1] != b[j - 1]);

			corner = edits[j];
			if (edits[j] + 1 < d)
				d = edits[j] + 1;
			if (edits[j - 1] + 1 < d)
				d = edits[j - 1] + 1;
			edits[j] = d;
		}
	}
	return edits[n];
}

const char *
cli_nearest(const char *word, const char *const *from)
{
	const char *best = NULL;
	int least = 3;

	for (; *from; from++) {
		int d = distance(word, *from);

		/* Of a short word, half must be right. */
		if (d < least && 2 * d <= (int)strlen(*from)) {
			least = d;
			best = *from;
		}
	}
	return best;
}
