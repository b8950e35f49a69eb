/* crew.c - a list of what waits, and threads that take the first that may be done. */
#include "fs/crew.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "epd.h"

enum { HANDS = 8 };

struct errand {
	struct errand *next;
	char workflow[EPD_WORKFLOW];
	void (*fn)(void *arg, int late);
	void *arg;
	int begun;
};

struct epd_fs_crew {
	pthread_mutex_t lock;		/* of all below */
	pthread_cond_t more;
	pthread_t hand[HANDS];
	int hands;
	struct errand *first, **last;	/* not yet done, the oldest first */
	int closing;
};

/* The first that waits for no other; under the lock. */
static struct errand *
pick(struct epd_fs_crew *c)
{
	for (struct errand *e = c->first, *old; e; e = e->next) {
		if (e->begun)
			continue;
		for (old = c->first; old != e; old = old->next)
			if (*e->workflow &&
			    !strcmp(old->workflow, e->workflow))
				break;
		if (old == e)
			return e;
	}
	return NULL;
}

/* Under the lock. */
static void
take_off(struct epd_fs_crew *c, struct errand *e)
{
	struct errand **at = &c->first;

	while (*at != e)
		at = &(*at)->next;
	if (!(*at = e->next))
		c->last = at;
	epd_free(e);
}

static void *
work(void *arg)
{
	struct epd_fs_crew *c = arg;
	struct errand *e;
	int late;

	pthread_mutex_lock(&c->lock);
	while ((e = pick(c)) || !c->closing) {
		if (!e) {
			pthread_cond_wait(&c->more, &c->lock);
			continue;
		}
		e->begun = 1;
		late = c->closing;
		pthread_mutex_unlock(&c->lock);
		e->fn(e->arg, late);
		pthread_mutex_lock(&c->lock);
		take_off(c, e);
		/* One that waited for it may be done now. */
		pthread_cond_broadcast(&c->more);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

void
epd_fs_crew_do(struct epd_fs_crew *c, const char *workflow,
    void (*fn)(void *arg, int late), void *arg)
{
	struct errand *e = epd_calloc(1, sizeof *e);

	if (!e) {
		fn(arg, 0);
		return;
	}
	snprintf(e->workflow, sizeof e->workflow, "%s", workflow);
	e->fn = fn;
	e->arg = arg;
	pthread_mutex_lock(&c->lock);
	*c->last = e;
	c->last = &e->next;
	pthread_cond_signal(&c->more);
	pthread_mutex_unlock(&c->lock);
}

int
epd_fs_crew_open(struct epd_fs_crew **out)
{
	struct epd_fs_crew *c = epd_calloc(1, sizeof *c);
	sigset_t all, was;
	int rc = 0;

	if (!c)
		return -ENOMEM;
	c->last = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->more, NULL);
	/* Signals are for the thread that serves. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	while (rc == 0 && c->hands < HANDS)
		if ((rc = -pthread_create(c->hand + c->hands, NULL, work,
		    c)) == 0)
			c->hands++;
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (c->hands) {
		*out = c;
		return 0;
	}
	epd_fs_crew_close(c);
	return rc;
}

void
epd_fs_crew_close(struct epd_fs_crew *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->closing = 1;
	pthread_cond_broadcast(&c->more);
	pthread_mutex_unlock(&c->lock);
	for (int i = 0; i < c->hands; i++)
		pthread_join(c->hand[i], NULL);
	pthread_cond_destroy(&c->more);
	pthread_mutex_destroy(&c->lock);
	epd_free(c);
}
