/*
 * shard_gate.h - for tests of flushes shared: a gate in front of fdatasync.
 *
 *	gate_shut();		who comes to flush waits there, and is counted
 *	gate_await(2);		till so many have come
 *	gate_pass(1, EIO);	the first to come goes on, and fails so (0: not)
 *	gate_pass_from(2);	all but the first go on
 *	gate_open();		all do, and nobody waits from now on
 *
 * A task is a verb on a thread of its own; what it was told is its rc.
 */
#ifndef TESTS_SHARD_GATE_H
#define TESTS_SHARD_GATE_H

#include <pthread.h>
#include <sys/syscall.h>

#include "shard/segment.h"
#include "tests/unit/shard.h"

enum { GATE_MOST = 64, GATE_PATIENCE = 10000 };	/* ms */

static struct {
	pthread_mutex_t m;
	pthread_cond_t c;
	int shut, calls, later;		/* from which on they pass */
	int nap_us;			/* what a flush takes at the least */
	struct { int go, err; } who[GATE_MOST];
	int (*instead)(int fd);		/* of the next flush to go on */
} gate = { .m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER };

int
fdatasync(int fd)
{
	int (*instead)(int);
	int err, n, nap, seq;

	pthread_mutex_lock(&gate.m);
	seq = ++gate.calls;
	n = seq % GATE_MOST;
	pthread_cond_broadcast(&gate.c);
	while (gate.shut && !gate.who[n].go && seq < gate.later)
		pthread_cond_wait(&gate.c, &gate.m);
	err = gate.who[n].err;
	nap = gate.nap_us;
	instead = gate.instead;
	gate.instead = NULL;
	pthread_mutex_unlock(&gate.m);
	if (instead)
		return instead(fd);
	if (nap)
		usleep((useconds_t)nap);
	if (!err)
		return (int)syscall(SYS_fdatasync, fd);
	errno = err;
	return -1;
}

static inline void
gate_shut(void)
{
	pthread_mutex_lock(&gate.m);
	memset(gate.who, 0, sizeof gate.who);
	gate.shut = 1;
	gate.calls = 0;
	gate.later = GATE_MOST;
	pthread_mutex_unlock(&gate.m);
}

/* How many flushes were asked for since. */
static inline int
gate_calls(void)
{
	int n;

	pthread_mutex_lock(&gate.m);
	n = gate.calls;
	pthread_mutex_unlock(&gate.m);
	return n;
}

/* 1 once n have come; 0 if they do not. */
static inline int
gate_await(int n)
{
	for (int ms = 0; ms < GATE_PATIENCE && gate_calls() < n; ms++)
		usleep(1000);
	return gate_calls() >= n;
}

static inline void
gate_pass(int n, int err)
{
	pthread_mutex_lock(&gate.m);
	gate.who[n % GATE_MOST].go = 1;
	gate.who[n % GATE_MOST].err = err;
	pthread_cond_broadcast(&gate.c);
	pthread_mutex_unlock(&gate.m);
}

/* All from the nth on. */
static inline void
gate_pass_from(int n)
{
	pthread_mutex_lock(&gate.m);
	gate.later = n;
	pthread_mutex_unlock(&gate.m);
}

static inline void
gate_open(void)
{
	pthread_mutex_lock(&gate.m);
	gate.shut = 0;
	pthread_cond_broadcast(&gate.c);
	pthread_mutex_unlock(&gate.m);
}

/* The next flush is this call instead. */
static inline void
gate_instead(int (*call)(int fd))
{
	pthread_mutex_lock(&gate.m);
	gate.instead = call;
	pthread_mutex_unlock(&gate.m);
}

/* The tip's place i: 0 the tip, 1 the mark; its lsn, or 0. */
static inline uint64_t
gate_lsn(int dir, int i)
{
	int fd = openat(dir, "tip", O_RDONLY | O_CLOEXEC);
	uint8_t b[EPD_TIP_SIZE];
	struct epd_tip tip = { .lsn = 0 };

	if (epd_file_pread(fd, b, sizeof b, (uint64_t)i * sizeof b) !=
	    sizeof b || epd_tip_unpack(epd_span(b, sizeof b), &tip))
		tip.lsn = 0;
	close(fd);
	return tip.lsn;
}

/* 1 once the log was appended to as far as that. */
static inline int
gate_appended(int dir, uint64_t lsn)
{
	for (int ms = 0; ms < GATE_PATIENCE; ms++) {
		if (gate_lsn(dir, 1) >= lsn)
			return 1;
		usleep(1000);
	}
	return 0;
}

/* A verb on a thread of its own. */
struct task {
	pthread_t thread;
	struct epd_shard *s;
	int (*verb)(struct task *t);
	uint64_t seed;
	int rc;
	uint32_t id;
	void *arg;
};

static inline void *
task_main(void *arg)
{
	struct task *t = arg;

	t->rc = t->verb(t);
	return NULL;
}

static inline int
task_create(struct task *t)
{
	return shard_create(t->s, t->seed, t->seed, &t->id);
}

static inline int
task_begin(struct task *t, struct epd_shard *s, int (*verb)(struct task *),
    uint64_t seed)
{
	t->s = s;
	t->verb = verb;
	t->seed = seed;
	t->rc = 1;
	return pthread_create(&t->thread, NULL, task_main, t);
}

static inline int
task_end(struct task *t)
{
	pthread_join(t->thread, NULL);
	return t->rc;
}

/* How often the state made from that seed is there; a run goes with it. */
static inline int
gate_count(int dir, uint64_t seed)
{
	struct epd_shard *s;
	struct epd_version v;
	struct epd_state st;
	int n = 0;

	if (shard_open(&s, dir, 0))
		return -1;
	for (uint32_t id = 0; !epd_shard_next(s, id, &st); id = st.id)
		n += !epd_shard_version(s, st.id, 1, &v) &&
		    v.sampling.salt == seed;
	if (epd_shard_check(s, shard_fault_print, NULL, NULL))
		n = -2;
	epd_shard_close(s);
	return n;
}

#endif
