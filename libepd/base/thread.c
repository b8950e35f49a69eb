/* thread.c - a thread is born with the mask of who makes it. */
#include <signal.h>

#include "base/thread.h"

int
epd_thread_begin(pthread_t *out, void *(*fn)(void *), void *arg)
{
	sigset_t most, was;
	int rc;

	sigfillset(&most);
	sigdelset(&most, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &most, &was);
	rc = pthread_create(out, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return -rc;
}
