/* stop.h - a child that stands still, from when this returns till it is told to go on. */
#ifndef TESTS_RXE_STOP_H
#define TESTS_RXE_STOP_H

#include <signal.h>
#include <sys/wait.h>

static inline void
stop(pid_t child)
{
	int s;

	if (!kill(child, SIGSTOP))
		waitpid(child, &s, WUNTRACED);
}

static inline void
go_on(pid_t child)
{
	kill(child, SIGCONT);
}

#endif
