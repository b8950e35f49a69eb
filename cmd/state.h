/* state.h - the verbs of epd-state, and what they are told. */
#ifndef CMD_STATE_H
#define CMD_STATE_H

#include "cmd/cli.h"

struct state_args {
	struct cli *cli;
	struct epd_store *store;
	char **operand;
	int n;
	int states;		/* operands are these, nothing else */
	int longer, features, names, tokens, text, verify, recursive, reset;
	const char *prefix, *reason, *tool;
	uint64_t ttl_ms;
	int done, quick;
};

void state_ls(struct state_args *a);
void state_show(struct state_args *a);
void state_tree(struct state_args *a);
void state_log(struct state_args *a);
void state_release(struct state_args *a);
void state_wait(struct state_args *a);
void state_abort(struct state_args *a);
void state_check(struct state_args *a);
void state_gc(struct state_args *a);
void state_metrics(struct state_args *a);

/* Call fn with each workflow named, or with each there is; errors are said. */
void state_each(struct state_args *a,
    int (*fn)(void *arg, const char *workflow), void *arg);
/* The parsed operand, or -1 once its error has been said. */
int state_ref(struct state_args *a, const char *text, struct epd_ref *out);
/* Local time, "-" for none. */
const char *state_time(char out[32], uint64_t ms);
void state_rc(struct state_args *a, int rc);	/* of a walk: said if it failed */

#endif
