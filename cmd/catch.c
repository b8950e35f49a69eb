/* catch.c - SIGINT and SIGTERM ask once; asked again, they end the process. */
#include <string.h>

#include "cmd/cli.h"

static volatile sig_atomic_t caught;

static void
on_signal(int sig)
{
	caught = sig;
}

volatile sig_atomic_t *
cli_catch(void)
{
	struct sigaction a, was;

	memset(&a, 0, sizeof a);
	sigemptyset(&a.sa_mask);
	a.sa_handler = on_signal;
	a.sa_flags = (int)SA_RESETHAND;
	sigaction(SIGTERM, &a, NULL);
	/* A shell's background job is born deaf to SIGINT and stays so. */
	if (sigaction(SIGINT, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
		sigaction(SIGINT, &a, NULL);
	return &caught;
}
