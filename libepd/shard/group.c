/*
 * group.c - the end of a verb: the lock goes, then the thread waits till its
 * record is durable.  One flush does for all that were appended before it, so one
 * thread is at it while others append and then wait for the next.
 *
 * Threads that were served together come back together.  Were the first of them
 * to flush at once, it would take along only itself, and those who come while it
 * is at that would make up the next group: two halves for ever.  So it waits for
 * as many as there were last time, a quarter of a flush at most; one who stays
 * away is not waited for twice.
 */
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/stop.h"
#include "shard/shard_in.h"

enum { SLOW_NS = 20000000 };	/* a flush said to take longer is not believed */

void
epd_group_init(struct epd_group *g)
{
	pthread_condattr_t a;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&g->flushed, NULL);
	pthread_cond_init(&g->gathered, &a);
	pthread_condattr_destroy(&a);
}

void
epd_group_free(struct epd_group *g)
{
	pthread_cond_destroy(&g->flushed);
	pthread_cond_destroy(&g->gathered);
}

/* Till those of the last group are back, or should have been. */
static void
gather(struct epd_shard *s)
{
	struct epd_group *g = &s->group;
	struct timespec until;

	if (g->waiting >= g->company || !g->flush_ns)
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(g->flush_ns / 4);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (g->waiting < g->company)
		if (pthread_cond_timedwait(&g->gathered, &s->mutex, &until))
			break;
}

/* One flush, while the other threads of this handle append. */
static int
flush(struct epd_shard *s, struct epd_why *why)
{
	struct epd_group *g = &s->group;
	struct epd_flush f;
	uint64_t from;
	int rc, has_lock;

	g->flushing = 1;
	gather(s);
	rc = epd_wal_flush_begin(s->wal, &f, why);
	g->begun++;
	g->late = 0;
	if (!rc) {
		pthread_mutex_unlock(&s->mutex);
		from = epd_clock_boot_ns();
		epd_wal_flush_run(&f);
		from = epd_clock_boot_ns() - from;
		pthread_mutex_lock(&s->mutex);
		g->flush_ns = from < SLOW_NS ? from : 0;
		/* In full: the record is there, and is only to be seen. */
		epd_stop_defer(1);
		has_lock = !f.covered && !epd_lock_take(s->lockfd,
		    s->o.lock_timeout_ms, NULL);
		epd_stop_defer(0);
		s->vain += !f.covered && !has_lock;
		rc = epd_wal_flush_end(s->wal, &f, has_lock, why);
		if (has_lock)
			epd_lock_drop(s->lockfd);
	}
	/* Those it was for wait no more, though they have yet to wake up. */
	g->ended = g->begun;
	g->company = g->waiting;
	g->waiting = g->late;
	g->flushing = 0;
	pthread_cond_broadcast(&g->flushed);
	return rc;
}

/* Be one of those that the next flush is for: its number. */
static uint64_t
join(struct epd_group *g)
{
	g->late++;
	if (++g->waiting >= g->company && g->flushing)
		pthread_cond_signal(&g->gathered);
	return g->begun + 1;
}

/*
 * Till all up to lsn is durable, or if shown published: another thread's flush
 * may do it.  Where the log was written anew meanwhile lsn may be another's.
 */
static int
wait_for(struct epd_shard *s, uint64_t lsn, int shown, struct epd_why *why)
{
	const uint32_t again = epd_wal_again(s->wal);
	struct epd_group *g = &s->group;
	uint64_t nth = 0;
	int rc = 0;

	while (!rc && epd_wal_done(s->wal, shown) < lsn) {
		if (nth <= g->ended)
			nth = join(g);
		if (g->flushing)
			pthread_cond_wait(&g->flushed, &s->mutex);
		else
			rc = flush(s, why);
		if (!rc && epd_wal_again(s->wal) != again)
			rc = epd_why(why, EPD_EUNSURE, "the log was written "
			    "anew after a failed flush; open again to learn "
			    "what survived");
	}
	g->waiting -= nth > g->ended;
	g->late -= nth > g->begun;
	return rc;
}

/* Drop the lock and wait so. */
static int
end(struct epd_shard *s, int rc, uint64_t lsn, int shown, struct epd_why *why)
{
	int done;

	epd_lock_drop(s->lockfd);
	done = wait_for(s, lsn, shown, rc < 0 ? NULL : why);
	/* The tables have what the log may have lost. */
	if (done)
		s->stale = 1;
	pthread_mutex_unlock(&s->mutex);
	return done && rc >= 0 ? EPD_EUNSURE : rc;
}

int
epd_shard_end(struct epd_shard *s, int rc, struct epd_why *why)
{
	return end(s, rc, epd_wal_pos(s->wal)->lsn, rc < 0, why);
}

int
epd_shard_end_lazy(struct epd_shard *s, int rc, uint64_t lsn,
    struct epd_why *why)
{
	return end(s, rc, lsn, 1, why);
}
