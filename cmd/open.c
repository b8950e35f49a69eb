/* open.c - where things are: store, configuration, model's folder, operands. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli.h"

enum { OPERANDS = 1000000, LINE = 4096 };

static const char *
env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

/* A directory of the XDG kind, which counts only if absolute. */
static int
home(struct epd_buf *out, const char *name, const char *under)
{
	const char *dir = env(name), *h = env("HOME");

	if (dir && *dir == '/')
		epd_buf_fmt(out, "%s/epd", dir);
	else if (h)
		epd_buf_fmt(out, "%s/%s/epd", h, under);
	else
		return -1;
	return 0;
}

void
cli_store_path(struct cli *c, struct epd_buf *out)
{
	if (c->store)
		epd_buf_str(out, c->store);
	else if (home(out, "XDG_STATE_HOME", ".local/state") < 0)
		cli_usage(c, "no store: none of --store, EPD_STORE and HOME "
		    "is set");
	epd_buf_cstr(out);
	if (out->failed)
		cli_keep(c, NULL);
}

void
cli_config(struct cli *c)
{
	struct epd_why why = {0};
	struct epd_buf path = {0};
	const char *file = c->config_path;
	int rc;

	epd_config_default(&c->config);
	if (!file) {
		if (home(&path, "XDG_CONFIG_HOME", ".config") < 0)
			return;
		epd_buf_str(&path, "/config.yaml");
		file = epd_buf_cstr(&path);
		if (access(file, F_OK) < 0) {
			epd_buf_free(&path);
			return;
		}
	}
	rc = epd_config_read(&c->config, file, &why);
	if (rc < 0) {
		cli_fail(c, file, rc, &why);
		exit(cli_end(c));
	}
	epd_buf_free(&path);
}

/* Nothing would come into a new store, so none is made. */
static _Noreturn void
no_model(struct cli *c, const char *model)
{
	struct epd_why why = {0};

	epd_why(&why, EPD_EUSAGE, CLI_NO_MODEL);
	if (model)
		cli_fail(c, model, -ENOENT, NULL);
	else
		cli_fail(c, NULL, EPD_EUSAGE, &why);
	exit(cli_end(c));
}

static void
hear(void *arg, const char *text)
{
	cli_say(arg, "%s", text);
}

void
cli_store_options(struct cli *c, struct epd_store_options *out)
{
	struct epd_buf path = {0};
	struct epd_store *s;

	if (c->tenant && strlen(c->tenant) >= sizeof s->tenant)
		cli_usage(c, "--tenant: longer than %zu bytes",
		    sizeof s->tenant - 1);
	cli_config(c);
	cli_store_path(c, &path);
	*out = (struct epd_store_options){
		.path = cli_keep(c, (void *)(uintptr_t)epd_buf_cstr(&path)),
		.config = &c->config,
		.tenant = c->tenant ? c->tenant : "",
		.log = c->log,
		.transports = c->transports,
	};
	/* A person who looks on is told what is waited for. */
	if (!c->quiet && (c->verbose || isatty(STDERR_FILENO)))
		out->listener = (struct epd_listener){ hear, c };
}

static struct epd_store *
open_store(struct cli *c, int create, int look)
{
	const char *model = create ? cli_model(c) : NULL;
	struct epd_store_options o;
	struct epd_why why = {0};
	struct epd_store *s = NULL;
	int rc;

	cli_store_options(c, &o);
	/* In one that is there states may have models of their own. */
	o.create = create && model && access(model, F_OK) == 0;
	o.look = look;
	rc = epd_store_open(&s, &o, &why);
	if (rc == EPD_ENOTHING && create && !o.create)
		no_model(c, model);
	if (rc < 0) {
		cli_fail(c, o.path, rc, &why);
		exit(cli_end(c));
	}
	return s;
}

struct epd_store *
cli_store(struct cli *c, int create)
{
	return open_store(c, create, 0);
}

struct epd_store *
cli_look(struct cli *c)
{
	return open_store(c, 0, 1);
}

char *
cli_beside(const char *built, const char *installed)
{
	const char *const way[] = { built, installed };
	char exe[PATH_MAX], path[2 * PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

	if (n <= 0)
		return NULL;
	exe[n] = '\0';
	if (!(slash = strrchr(exe, '/')))
		return NULL;
	*slash = '\0';
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", exe, way[i]);
		if (access(path, R_OK) == 0)
			return realpath(path, NULL);
	}
	return NULL;
}

char *
cli_model(struct cli *c)
{
	const char *m = c->model ? c->model : env("EPD_MODEL");
	char *found;

	if (m)
		return cli_keep(c, strdup(m));
	found = cli_beside("../../examples/tiny-vlm/model",
	    "../share/epd/examples/tiny-vlm/model");
	return found ? cli_keep(c, found) : NULL;
}

/* One line of standard input without its newline; 0 at the end. */
static int
read_line(struct cli *c, char line[LINE])
{
	size_t n = 0;
	int ch;

	while ((ch = getc(stdin)) != EOF && ch != '\n') {
		if (ch == '\0')
			cli_usage(c, "-: standard input is not text");
		if (n == LINE - 1)
			cli_usage(c, "-: a line of standard input is longer "
			    "than %d bytes", LINE - 1);
		line[n++] = (char)ch;
	}
	if (ferror(stdin)) {
		cli_fail(c, "-", -errno, NULL);
		exit(cli_end(c));
	}
	line[n] = '\0';
	return n > 0 || ch != EOF;
}

struct list {
	char **v;
	int n, cap;
};

static void
put(struct cli *c, struct list *l, const char *text)
{
	if (l->n == OPERANDS)
		cli_usage(c, "more than %d operands", OPERANDS);
	if (l->n == l->cap) {
		int cap = l->cap ? 2 * l->cap : 16;
		void *v = realloc(l->v, (size_t)cap * sizeof *l->v);

		if (!v)
			cli_keep(c, NULL);
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = cli_keep(c, strdup(text));
}

char **
cli_operands(struct cli *c, int argc, char **argv, int first, int *n)
{
	struct list l = {0};
	char line[LINE];
	int had = 0;

	for (int i = first; i < argc; i++) {
		int before = l.n;

		if (strcmp(argv[i], "-") != 0) {
			put(c, &l, argv[i]);
			continue;
		}
		if (had++)
			cli_usage(c, "- may be given once");
		while (read_line(c, line))
			if (line[strspn(line, " \t\r")])
				put(c, &l, line);
		/* So that a pipe whose first half failed does not go on. */
		if (l.n == before)
			cli_usage(c, "-: nothing came from standard input");
	}
	*n = l.n;
	return l.n ? cli_keep(c, l.v) : NULL;
}

int
cli_ref(struct cli *c, struct epd_store *s, const char *text,
    struct epd_ref *out, struct epd_why *why)
{
	char full[EPD_REF_TEXT];
	size_t n = strspn(text + (*text == 's'), "0123456789");
	struct epd_ref ref;
	int rc;

	if (!c->workflow || *text != 's' || n == 0 ||
	    (text[1 + n] && text[1 + n] != '@') || strlen(text) > 32) {
		rc = epd_ref_parse(&ref, s, text, why);
		if (rc < 0)
			return rc;
		if (c->workflow && ref.kind != EPD_REF_FEATURE &&
		    strcmp(ref.workflow, c->workflow) != 0)
			return epd_why(why, EPD_EUSAGE, "not of the workflow "
			    "that -w names");
		*out = ref;
		return rc;
	}
	if (!epd_workflow_name_ok(c->workflow))
		return epd_why(why, EPD_EUSAGE, "%.80s: not a workflow's name",
		    c->workflow);
	snprintf(full, sizeof full, "%s/%s", c->workflow, text);
	return epd_ref_parse(out, s, full, why);
}

int
cli_state(struct cli *c, struct epd_store *s, const char *text,
    struct epd_ref *out, struct epd_why *why)
{
	struct epd_ref ref = { .kind = EPD_REF_FEATURE };
	/* Whether there is such a feature does not matter. */
	int rc = !strncmp(text, "f:", 2) ? 0 : cli_ref(c, s, text, &ref, why);

	if (rc == 0 && ref.kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	if (rc == 0)
		*out = ref;
	return rc;
}
