/*
 * cli.h - what the commands share; open.h has where things are.  Errors are one line,
 * `program: operand: sentence`; a run over several operands goes on and exits by the
 * gravest.
 */
#ifndef CMD_CLI_H
#define CMD_CLI_H

#include <signal.h>

#include "cmd/open.h"
#include "epd.h"

/* Keys of the common options that have no letter; a command's own begin later. */
enum { CLI_STORE = 256, CLI_CONFIG, CLI_TENANT, CLI_ISA, CLI_VERSION, CLI_OWN };

struct cli_option {
	int key;		/* its letter, or a number from CLI_OWN on */
	const char *name;	/* long form; NULL ends a table */
	const char *arg;	/* what it takes; NULL: nothing */
	const char *help;	/* NULL: works, but is not listed */
};

struct cli_command {
	const char *name;		/* "epd-encode" */
	const char *const *usage;	/* synopses without the name, NULL last */
	const char *about;
	const struct cli_option *options;	/* NULL: only common ones */
	const char *common;	/* of "mwtvqj", and S C T I for the long ones */
	const char *more;	/* lines after the options, or NULL */
	void (*set)(void *arg, int key, const char *value);
};

struct cli {
	const struct cli_command *command;
	const char *model, *store, *workflow, *tenant, *isa, *config_path;
	int threads, verbose, quiet, json;
	int status;		/* the gravest exit status so far */
	int out_failed;		/* standard output has been given up */
	int progress;		/* a progress line is on the terminal */
	int nkept;
	void **kept;		/* freed by cli_end */
	struct epd_config config;
	struct epd_log log;
	const struct epd_transports *transports;	/* of commands that reach peers */
};

/*
 * Environment and options; ends the process on --help, --version and wrong use.
 * The index in argv of the first operand.  A command with verbs calls cli_verb,
 * which stops at the verb, then cli_options from there.
 */
int cli_begin(struct cli *c, const struct cli_command *cmd, void *arg,
    int argc, char **argv);
int cli_verb(struct cli *c, const struct cli_command *cmd, int argc, char **argv);
int cli_options(struct cli *c, const struct cli_command *cmd, void *arg,
    int argc, char **argv, int first);
int cli_end(struct cli *c);	/* flush standard output; the exit status */
/* p, which cli_end frees.  Without memory (p NULL) the process ends. */
void *cli_keep(struct cli *c, void *p);
extern const struct cli_option cli_common[];
int cli_takes(const struct cli_command *cmd, const struct cli_option *common);
void cli_help(const struct cli_command *cmd);
const char *cli_nearest(const char *word, const char *const *from); /* or NULL */

/* One line and a pointer to --help; exit 2. */
_Noreturn void cli_usage(struct cli *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* An operand (or NULL) failed: say so and remember the status. */
void cli_fail(struct cli *c, const char *operand, int rc, const struct epd_why *why);
void cli_status(struct cli *c, int status);	/* remember the gravest */
/* What would drive a terminal or break a line becomes ?. */
void cli_tidy(char *s, size_t n);
/* A line for people, if they want it, behind what was written to standard output. */
void cli_say(struct cli *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void cli_progress(struct cli *c, const char *what, uint64_t done, uint64_t total);
void cli_progress_end(struct cli *c);

/* Standard output.  What cannot be written is said once; -1 from then on. */
int cli_out(struct cli *c, struct epd_span text);
int cli_line(struct cli *c, const char *line);
int cli_flush(struct cli *c);
/* A model's text: on a terminal, control characters but \n and \t show as ?. */
int cli_text(struct cli *c, struct epd_span text);
/* An object with its schema_version; at its end it is written as a line. */
void cli_object(struct epd_jw *w, struct epd_buf *b);
int cli_object_end(struct cli *c, struct epd_jw *w);
/* A JSON object for people: "key: value" lines, indented. */
void cli_show(struct epd_buf *out, const struct epd_json *j);

/* Numbers of options; a wrong one ends the process. */
int64_t cli_int(struct cli *c, const char *option, const char *text,
    int64_t least, int64_t most);
double cli_real(struct cli *c, const char *option, const char *text,
    double least, double most);
uint64_t cli_duration(struct cli *c, const char *option, const char *text);
enum { CLI_COUNT = 28 };
const char *cli_bytes(char out[24], uint64_t n);	/* "3.2 MiB" */
const char *cli_count(char out[CLI_COUNT], uint64_t n);	/* "1,232" */

/* Catch SIGINT and SIGTERM once; the flag holds the signal's number. */
volatile sig_atomic_t *cli_catch(void);

#endif
