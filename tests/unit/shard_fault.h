/*
 * shard_fault.h - the operations of shard_score.h while system calls fail or
 * kill, within this process or a child of fork.
 */
#ifndef TESTS_SHARD_FAULT_H
#define TESTS_SHARD_FAULT_H

#include <sys/mman.h>

#include "tests/unit/fault.h"
#include "tests/unit/shard_score_hold.h"

/* The operations of shard_score_hold.h instead of the plain ones. */
static int fault_holds;

static inline void
fault_do(struct fault_score *score, int dir, int sync)
{
	if (fault_holds)
		hold_work(score, dir, sync);
	else
		fault_work(score, dir, sync);
}

static inline void
fault_judge(const struct fault_score *score, int dir)
{
	if (fault_holds)
		hold_verify(score, dir);
	else
		fault_verify(score, dir);
}

/* The same with what forks, leases and hands over. */
static inline void
with_holds(void (*run)(void))
{
	int store = scratch_open();

	fault_holds = 1;
	if (epd_procs_open(&hold_procs, store))
		check_failed = 1;
	else
		run();
	epd_procs_close(hold_procs);
	hold_procs = NULL;
	fault_holds = 0;
	epd_clock_fake(NULL);
	scratch_close(store);
}

/* Calls that failed, in all; and those of each error. */
static struct { unsigned long long all, eio, full, again; } fault_told;

static inline void
fault_tell(int err)
{
	fault_told.all++;
	fault_told.eio += err == EIO;
	fault_told.full += err == ENOSPC;
	fault_told.again += err == EINTR;
}

static inline void
fault_tell_all(unsigned long long least)
{
	printf("# row 4: %s calls failed, once and for ever, nothing false "
	    "acknowledged: EIO %s, ENOSPC %s, EINTR %s\n",
	    row_n(fault_told.all), row_n(fault_told.eio),
	    row_n(fault_told.full), row_n(fault_told.again));
	CHECK(fault_told.all >= least);
}

/* Call n fails with err, once or ever; returns how many calls there were. */
static inline int
fault_one(int n, int err, int how, const char *only, int sync)
{
	struct fault_score score;
	int dir = scratch_open(), calls;

	fault_arm(n, err, how);
	fault.only = only;
	fault_do(&score, dir, sync);
	calls = fault_calls();
	if (calls >= n)
		fault_tell(err);
	fault_judge(&score, dir);
	if (check_failed)
		printf("# call %d (%s) failing with %d, how %d\n", n,
		    only ? only : "any", err, how);
	scratch_close(dir);
	return calls;
}

/* Every call in turn, from 1 to the last. */
static inline void
fault_each(int err, int how, const char *only, int stride, int sync)
{
	int total = fault_one(1 << 30, err, 0, only, sync), n = 0;
	if (getenv("SHARD_WHY")) printf("# %d calls of %s\n", total, only ? only : "all");

	CHECK(total > 0);
	for (n = 1; n <= total && !check_failed; n += stride)
		fault_one(n, err, how, only, sync);
}

/*
 * What a reader sees of the operations: how many states.  -1: it is refused,
 * which it may be where a kill, as fault.h has it, left half a tip.
 */
static inline int
fault_seen(int dir)
{
	struct epd_shard *s;
	struct epd_state st;
	int n = shard_open(&s, dir, 1);

	if (n)
		return n == EPD_ECORRUPT ? -1 : 0;
	for (uint32_t id = 0; !epd_shard_next(s, id, &st); id = st.id)
		n++;
	epd_shard_close(s);
	return n;
}

/*
 * A child is killed at its nth call, or its nth of one kind.  Killed before a
 * flush it has published no more than it was told is durable.
 */
static inline int
fault_kill(int n, const char *only)
{
	struct fault_score *score = mmap(NULL, sizeof *score,
	    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int dir = scratch_open(), rc, acked = 0, seen;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		fault_arm(n, 0, FAULT_KILL);
		fault.only = only;
		/* Else it may die in the checkpoint after what it published. */
		if (only)
			fault_checkpoint = 1 << 20;
		fault_do(score, dir, 1);
		_exit(0);
	}
	rc = scratch_wait(pid);
	for (int k = 0; k < FAULT_OPS; k++)
		acked += pid > 0 && rc && score->rc[k] == 0;
	seen = fault_holds ? -1 : fault_seen(dir);
	/* Its score is all zero if it died before it had one. */
	if (rc == -SIGKILL && acked < FAULT_OPS && seen >= 0 && (seen < acked ||
	    seen > acked + !(only && !strcmp(only, "fdatasync")))) {
		printf("# %d acknowledged, a reader sees %d\n", acked, seen);
		check_failed = 1;
	}
	if (rc == -SIGKILL || !rc)
		fault_judge(score, dir);
	if (check_failed)
		printf("# killed at call %d of %s\n", n, only ? only : "any");
	scratch_close(dir);
	munmap(score, sizeof *score);
	return rc;
}

#endif
