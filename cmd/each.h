/* each.h - one verb on each of the states that the operands name. */
#ifndef CMD_EACH_H
#define CMD_EACH_H

#include "cmd/cli.h"

/* Both have the command's arg; of one state at a time. */
struct cli_each {
	int (*act)(void *arg, struct epd_store *s, const struct epd_ref *state,
	    struct epd_why *why);
	/* It is done: what goes to standard output, and if c is verbose what is said. */
	void (*print)(void *arg, const char *ref);
	void (*tell)(void *arg, const char *ref);
};

/* As cli_operands; none is wrong use. */
char **cli_states(struct cli *c, int argc, char **argv, int first, int *n);
/* A state that fails is said, and the next one's turn comes.  The store is closed. */
void cli_each(struct cli *c, struct epd_store *s, char **operand, int n,
    const struct cli_each *e, void *arg);

#endif
