/*
 * shard_forks.h - many processes that fork, advance and release the branches of
 * one state.  Each run has a number of its own; shared memory counts how often
 * it was begun and how often told as freed.
 */
#ifndef TESTS_SHARD_FORKS_H
#define TESTS_SHARD_FORKS_H

#include <stdatomic.h>
#include <sys/mman.h>

#include "tests/unit/shard_hold.h"

enum { FORKS_RUNS = 1 << 20 };	/* runs of all processes */

struct forks {
	atomic_uint ready, ops, forks, advances, releases, late;
	atomic_uchar begun[FORKS_RUNS], freed[FORKS_RUNS];
};

static inline void
forks_freed(void *arg, uint64_t run)
{
	struct forks *f = arg;

	if (run < FORKS_RUNS)
		atomic_fetch_add(&f->freed[run], 1);
}

/* A live state at or behind a random one; 0: none. */
static inline uint32_t
forks_pick(struct epd_shard *s, uint64_t *r, struct epd_state *st)
{
	uint32_t last = 0, n = 0;

	for (uint32_t id = 0; !epd_shard_next(s, id, st); id = st->id) {
		last = st->id;
		n++;
	}
	if (!n || epd_shard_next(s, (uint32_t)(shard_mix(++*r) % last), st))
		return 0;
	return n;
}

static inline int
forks_op(struct epd_shard *s, struct forks *f, uint64_t run, uint64_t *r)
{
	struct epd_state st;
	uint32_t n = forks_pick(s, r, &st), to, first;
	uint64_t what = shard_mix(++*r) % 8;
	struct epd_fork_ask ask = {
		.state = st.id, .branches = 1 + (uint32_t)(*r % 3),
		.replace = what == 7 && n > 20, .reason = "agent_branch",
	};
	int rc;

	if (n < 40 || what < 2 || what == 7) {
		ask.version = (uint32_t)(shard_mix(++*r) % (st.versions + 1));
		rc = n < 200 ? epd_shard_fork(s, &ask, &first, NULL) : 0;
		atomic_fetch_add(&f->forks, !rc);
	} else if (what < 4) {
		atomic_store(&f->begun[run], 1);
		rc = shard_advance(s, st.id, st.versions, 0, run, run, &to);
		if (rc)
			atomic_store(&f->begun[run], 0);
		atomic_fetch_add(&f->advances, !rc);
	} else {
		rc = epd_shard_release(s, st.id, "", forks_freed, f, NULL);
		atomic_fetch_add(&f->releases, !rc);
	}
	if (rc == EPD_ENOSTATE || rc == EPD_EVERSION || rc == EPD_ENOTHING) {
		/* Another was first. */
		atomic_fetch_add(&f->late, 1);
		rc = 0;
	}
	atomic_fetch_add(&f->ops, 1);
	return rc;
}

static inline int
forks_work(struct forks *f, int dir, int who, int processes, int ops,
    uint64_t checkpoint)
{
	struct epd_shard_options o = shard_plain;
	uint64_t r = (uint64_t)who << 32;
	struct epd_why why = { "" };
	struct epd_shard *s;
	int rc;

	o.checkpoint_bytes = checkpoint;
	o.lock_timeout_ms = 120000;
	rc = epd_shard_open(&s, dir, &o, &why);
	for (f->ready++; f->ready < (unsigned)processes; )
		usleep(500);
	for (int i = 0; !rc && i < ops; i++)
		rc = forks_op(s, f, 1 + (uint64_t)(who * ops + i), &r);
	if (rc) {
		printf("# process %d: %d %s\n", who, rc, why.text);
		return 1;
	}
	epd_shard_tell(s, forks_freed, f);
	epd_shard_close(s);
	return 0;
}

/* Release what is left; then each run that was begun was freed once. */
static inline void
forks_verify(struct forks *f, int dir)
{
	struct epd_shard *s;
	struct epd_state st;
	int lost = 0, twice = 0, never = 0;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	while (!epd_shard_next(s, 0, &st))
		CHECK_INT(epd_shard_release(s, st.id, "", forks_freed, f,
		    NULL), 0);
	CHECK_INT(hold_nodes(s), 0);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	for (int i = 0; i < FORKS_RUNS; i++) {
		lost += f->begun[i] && !f->freed[i];
		twice += f->freed[i] > 1;
		never += !f->begun[i] && f->freed[i];
	}
	CHECK_INT(lost, 0);
	CHECK_INT(twice, 0);
	CHECK_INT(never, 0);
	epd_shard_close(s);
}

static inline void
forks_run(int processes, int ops, uint64_t checkpoint)
{
	struct forks *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int dir = scratch_open(), bad = 0;
	pid_t pid[64];
	struct epd_shard *s;
	uint32_t id;

	CHECK(f != MAP_FAILED && processes <= 64 &&
	    processes * ops < FORKS_RUNS);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	epd_shard_close(s);
	fflush(stdout);
	for (int i = 0; i < processes; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			setvbuf(stdout, NULL, _IOLBF, 0);
			_exit(forks_work(f, dir, i, processes, ops,
			    checkpoint));
		}
	}
	for (int i = 0; i < processes; i++)
		bad |= scratch_wait(pid[i]);
	CHECK_INT(bad, 0);
	CHECK_INT(f->ops, processes * ops);
	CHECK(f->forks > f->ops / 16 && f->releases > f->ops / 16);
	forks_verify(f, dir);
	printf("# row 8: %d processes, %s ops (%u forks, %u advances, %u "
	    "releases): counts are what mark and sweep gives, each run freed "
	    "once\n", processes, row_n(f->ops), f->forks, f->advances,
	    f->releases);
	munmap(f, sizeof *f);
	scratch_close(dir);
}

#endif
