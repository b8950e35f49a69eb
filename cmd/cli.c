/*
 * cli.c - options.  A command's own table and the common options it takes are
 * joined into one for getopt_long.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cut.h"
#include "cmd/cli.h"

enum { OPTIONS = 64 };

struct table {
	struct option longs[OPTIONS + 1];
	char shorts[2 * OPTIONS + 3];
	int n;
};

static void
add(struct table *t, const struct cli_option *o)
{
	size_t at = strlen(t->shorts);

	if (t->n == OPTIONS)
		abort();
	t->longs[t->n].name = o->name;
	t->longs[t->n].has_arg = o->arg ? required_argument : no_argument;
	t->longs[t->n++].val = o->key;
	if (o->key < 256) {
		t->shorts[at++] = (char)o->key;
		if (o->arg)
			t->shorts[at++] = ':';
		t->shorts[at] = '\0';
	}
}

/* In `common` a capital stands for an option that has no letter. */
int
cli_takes(const struct cli_command *cmd, const struct cli_option *o)
{
	switch (o->key) {
	case CLI_STORE:   return strchr(cmd->common, 'S') != NULL;
	case CLI_CONFIG:  return strchr(cmd->common, 'C') != NULL;
	case CLI_TENANT:  return strchr(cmd->common, 'T') != NULL;
	case CLI_ISA:     return strchr(cmd->common, 'I') != NULL;
	case CLI_VERSION:
	case 'h':         return 1;
	default:          return strchr(cmd->common, o->key) != NULL;
	}
}

static void
join(struct table *t, const struct cli_command *cmd, int in_order)
{
	memset(t, 0, sizeof *t);
	strcpy(t->shorts, in_order ? "+:" : ":");
	for (const struct cli_option *o = cmd->options; o && o->name; o++)
		add(t, o);
	for (const struct cli_option *o = cli_common; o->name; o++)
		if (cli_takes(cmd, o))
			add(t, o);
}

static const char *
filled(struct cli *c, const char *option, const char *value)
{
	if (!*value)
		cli_usage(c, "%s: an empty value", option);
	return value;
}

/* 1 if key is a common option, and it has been taken. */
static int
common(struct cli *c, int key, const char *value)
{
	switch (key) {
	case 'm': c->model = filled(c, "-m", value); break;
	case 'w': c->workflow = filled(c, "-w", value); break;
	case 't': c->threads = (int)cli_int(c, "-t", value, 1, 256); break;
	case 'v': c->verbose = 1; break;
	case 'q': c->quiet = 1; break;
	case 'j': c->json = 1; break;
	case CLI_STORE: c->store = filled(c, "--store", value); break;
	case CLI_CONFIG: c->config_path = filled(c, "--config", value); break;
	case CLI_TENANT: c->tenant = value; break;
	case CLI_ISA: c->isa = value; break;
	case 'h':
		cli_help(c->command);
		exit(cli_end(c));
	case CLI_VERSION:
		printf("%s %s\n", c->command->name, EPD_VERSION);
		exit(cli_end(c));
	default:
		return 0;
	}
	return 1;
}

/* The long options that begin like word, or that it begins like. */
static void
kin(const struct table *t, const char *word, struct epd_buf *out)
{
	size_t n = strcspn(word, "=");

	for (int i = 0; i < t->n; i++) {
		const char *name = t->longs[i].name;
		size_t m = strlen(name), least = m < n ? m : n;

		if (least >= 3 && !strncmp(name, word, least))
			epd_buf_fmt(out, "%s--%s", out->n ? ", " : "", name);
	}
}

static _Noreturn void
unknown(struct cli *c, const struct table *t, char **argv)
{
	const char *names[OPTIONS + 1], *word = argv[optind - 1], *near = NULL;
	struct epd_buf alike = {0};

	for (int i = 0; i <= t->n; i++)
		names[i] = t->longs[i].name;
	if (optopt)
		for (int i = 0; i < t->n; i++)
			if (t->longs[i].val == optopt)
				cli_usage(c, "%s: takes no value", word);
	if (optopt)
		cli_usage(c, "-%c: no such option", optopt);
	if (!strncmp(word, "--", 2))
		kin(t, word + 2, &alike);
	if (!strncmp(word, "--", 2))
		near = cli_nearest(word + 2, names);
	if (alike.n)
		cli_usage(c, "%s: no such option, did you mean %s?", word,
		    epd_buf_cstr(&alike));
	if (near)
		cli_usage(c, "%s: no such option, did you mean --%s?", word,
		    near);
	cli_usage(c, "%s: no such option", word);
}

/* A command's own letter goes before a common one: -t of epd-offload is a tier. */
static int
is_own(const struct cli_command *cmd, int key)
{
	for (const struct cli_option *o = cmd->options; o && o->name; o++)
		if (o->key == key)
			return 1;
	return 0;
}

static int
parse(struct cli *c, const struct cli_command *cmd, void *arg, int argc,
    char **argv, int in_order)
{
	struct table t;
	int key;

	join(&t, cmd, in_order);
	c->command = cmd;
	opterr = 0;
	optind = 0;
	while ((key = getopt_long(argc, argv, t.shorts, t.longs, NULL)) != -1) {
		if (key == ':')
			cli_usage(c, "%s: a value is missing",
			    argv[optind - 1]);
		if (key == '?')
			unknown(c, &t, argv);
		if (is_own(cmd, key) || !common(c, key, optarg))
			cmd->set(arg, key, optarg);
	}
	return optind;
}

static void
debug(void *arg, const char *line)
{
	struct cli *c = arg;

	cli_say(c, "%.*s: %s", (int)strcspn(c->command->name, " "),
	    c->command->name, line);
}

static const char *
env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

/*
 * A closed descriptor would be taken by the next file opened, and then be
 * printed into.  What stands in fails reads and writes as a closed one does.
 */
static void
occupy(void)
{
	static const int how[] = { O_WRONLY, O_RDONLY, O_RDWR };

	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)!open("/dev/null", how[fd]);
}

static void
prepare(struct cli *c, const struct cli_command *cmd)
{
	const char *log = env("EPD_LOG"), *threads = env("EPD_THREADS");

	memset(c, 0, sizeof *c);
	c->command = cmd;
	occupy();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);	/* EFBIG says it in words */
	epd_cut_catch();
	c->store = env("EPD_STORE");
	c->tenant = env("EPD_TENANT");
	c->isa = env("EPD_ISA");
	c->config_path = env("EPD_CONFIG");
	if (threads)
		c->threads = (int)cli_int(c, "EPD_THREADS", threads, 1, 256);
	if (log && strcmp(log, "debug"))
		cli_usage(c, "EPD_LOG: %s: it is debug or empty", log);
	if (log)
		c->log = (struct epd_log){ debug, c };
}

int
cli_begin(struct cli *c, const struct cli_command *cmd, void *arg, int argc,
    char **argv)
{
	prepare(c, cmd);
	return parse(c, cmd, arg, argc, argv, 0);
}

int
cli_verb(struct cli *c, const struct cli_command *cmd, int argc, char **argv)
{
	prepare(c, cmd);
	return parse(c, cmd, NULL, argc, argv, 1);
}

int
cli_options(struct cli *c, const struct cli_command *cmd, void *arg, int argc,
    char **argv, int first)
{
	return first + parse(c, cmd, arg, argc - first, argv + first, 0);
}

void *
cli_keep(struct cli *c, void *p)
{
	void **kept = p ? realloc(c->kept, ((size_t)c->nkept + 1) *
	    sizeof *kept) : NULL;

	if (!kept) {
		free(p);
		cli_fail(c, NULL, -ENOMEM, NULL);
		exit(cli_end(c));
	}
	c->kept = kept;
	return c->kept[c->nkept++] = p;
}

int
cli_end(struct cli *c)
{
	cli_progress_end(c);
	cli_flush(c);
	while (c->nkept)
		free(c->kept[--c->nkept]);
	free(c->kept);
	c->kept = NULL;
	return c->status;
}
