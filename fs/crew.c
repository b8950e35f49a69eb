/*
 * crew.c - a list of what is to be done, and threads that take the first that may
 * be.  There are as many as were needed at once.
 */
#include "fs/crew.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/stop.h"
#include "base/thread.h"
#include "fs/thread.h"

enum { MOST = 64, PATIENCE = 2 };

struct epd_fs_crew {
	pthread_mutex_t lock;		/* of all below */
	pthread_cond_t more;
	pthread_t hand[MOST];
	int hands, idle;
	struct epd_fs_errand *first, **last;	/* not yet done, the oldest first */
	int closing;
};

static int
is_over(void *arg)
{
	const struct epd_fs_errand *e = arg;

	return __atomic_load_n(&e->crew->closing, __ATOMIC_ACQUIRE) ||
	    (__atomic_load_n(&e->asked, __ATOMIC_ACQUIRE) &&
	    epd_fs_thread_is_dying(e->who));
}

/* The first that waits for no other, or for nothing; under the lock. */
static struct epd_fs_errand *
pick(struct epd_fs_crew *c)
{
	for (struct epd_fs_errand *e = c->first, *old; e; e = e->next) {
		if (e->begun)
			continue;
		for (old = c->first; old != e; old = old->next)
			if (*e->workflow && !e->dying &&
			    !strcmp(old->workflow, e->workflow))
				break;
		if (old == e)
			return e;
	}
	return NULL;
}

static void
run(struct epd_fs_errand *e)
{
	epd_stop_heed(is_over, e);
	e->fn(e, is_over(e));
	epd_stop_heed(NULL, NULL);
}

static void *work(void *arg);

/*
 * One more, if there is something to do and none is idle; under the lock.  Signals
 * are for who serves.
 */
static void
hire(struct epd_fs_crew *c)
{
	if (c->closing || c->idle || c->hands == MOST || !pick(c))
		return;
	if (epd_thread_begin(c->hand + c->hands, work, c) == 0)
		c->hands++;
}

/* Under the lock, but for the doing. */
static void
do_one(struct epd_fs_crew *c, struct epd_fs_errand *e)
{
	struct epd_fs_errand **at = &c->first;

	e->begun = 1;
	hire(c);
	pthread_mutex_unlock(&c->lock);
	run(e);
	pthread_mutex_lock(&c->lock);
	while (*at != e)
		at = &(*at)->next;
	if (!(*at = e->next))
		c->last = at;
	epd_free(e);
	/* One that waited for it may be done now. */
	pthread_cond_broadcast(&c->more);
}

static void *
work(void *arg)
{
	struct epd_fs_crew *c = arg;
	struct epd_fs_errand *e;

	pthread_mutex_lock(&c->lock);
	while ((e = pick(c)) || !c->closing) {
		if (e) {
			do_one(c, e);
			continue;
		}
		c->idle++;
		pthread_cond_wait(&c->more, &c->lock);
		c->idle--;
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

void
epd_fs_crew_do(struct epd_fs_crew *c, struct epd_fs_errand *e)
{
	e->crew = c;
	pthread_mutex_lock(&c->lock);
	*c->last = e;
	c->last = &e->next;
	hire(c);
	if (!c->hands)
		do_one(c, e);
	else
		pthread_cond_broadcast(&c->more);
	pthread_mutex_unlock(&c->lock);
}

void
epd_fs_crew_ask(struct epd_fs_errand *e)
{
	const int dying = epd_fs_thread_is_dying(e->who);

	__atomic_store_n(&e->asked, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&e->crew->lock);
	e->dying = dying;
	pthread_cond_broadcast(&e->crew->more);
	pthread_mutex_unlock(&e->crew->lock);
}

int
epd_fs_crew_open(struct epd_fs_crew **out)
{
	struct epd_fs_crew *c = epd_calloc(1, sizeof *c);
	pthread_condattr_t clock;

	if (!c)
		return -ENOMEM;
	c->last = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&c->more, &clock);
	pthread_condattr_destroy(&clock);
	*out = c;
	return 0;
}

void
epd_fs_crew_end(struct epd_fs_crew *c)
{
	struct timespec until;

	if (!c)
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE;
	pthread_mutex_lock(&c->lock);
	__atomic_store_n(&c->closing, 1, __ATOMIC_RELEASE);
	pthread_cond_broadcast(&c->more);
	while (c->first && pthread_cond_timedwait(&c->more, &c->lock,
	    &until) == 0)
		;
	pthread_mutex_unlock(&c->lock);
}

void
epd_fs_crew_close(struct epd_fs_crew *c)
{
	int hands;

	if (!c)
		return;
	epd_fs_crew_end(c);
	pthread_mutex_lock(&c->lock);
	hands = c->hands;
	pthread_mutex_unlock(&c->lock);
	for (int i = 0; i < hands; i++)
		pthread_join(c->hand[i], NULL);
	pthread_cond_destroy(&c->more);
	pthread_mutex_destroy(&c->lock);
	epd_free(c);
}
