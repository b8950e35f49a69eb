/*
 * shard_group.c - what may go wrong where one flush serves many: who is told
 * what, who sees what, and what is left after a flush that failed, a crash, or
 * somebody who stopped in the middle.
 */
#include <limits.h>
#include <linux/kcmp.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/lock.h"
#include "shard/shard_in.h"
#include "shard/wal_in.h"
#include "tests/unit/shard_gate.h"
#include "tests/unit/shard_hold.h"

enum { MANY = 8 };

/* ---- one flush for all ---- */

TEST(waiters_share_a_flush)
{
	int dir = scratch_open();
	struct task t[MANY];
	struct epd_shard *s;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	gate_shut();
	CHECK_INT(task_begin(&t[0], s, task_create, 1), 0);
	CHECK(gate_await(1));
	for (uint64_t i = 1; i < MANY; i++)
		CHECK_INT(task_begin(&t[i], s, task_create, i + 1), 0);
	CHECK(gate_appended(dir, MANY));
	/* Nobody sees what nobody flushed. */
	CHECK_INT(gate_lsn(dir, 0), 0);
	CHECK_INT(gate_calls(), 1);
	gate_open();
	for (int i = 0; i < MANY; i++)
		CHECK_INT(task_end(&t[i]), 0);
	CHECK_INT(gate_calls(), 2);
	CHECK_INT(gate_lsn(dir, 0), MANY);
	printf("# %d threads of a handle, one flush under way: %d flushes\n",
	    MANY, gate_calls());
	epd_shard_close(s);
	scratch_close(dir);
}

TEST(handles_share_a_flush)
{
	int dir = scratch_open();
	struct epd_shard *s[MANY];
	struct task t[MANY];

	for (int i = 0; i < MANY; i++)
		CHECK_INT(shard_open(&s[i], dir, 0), 0);
	gate_shut();
	CHECK_INT(task_begin(&t[0], s[0], task_create, 1), 0);
	CHECK(gate_await(1));
	for (uint64_t i = 1; i < MANY; i++)
		CHECK_INT(task_begin(&t[i], s[i], task_create, i + 1), 0);
	CHECK(gate_appended(dir, MANY));
	gate_open();
	for (int i = 0; i < MANY; i++)
		CHECK_INT(task_end(&t[i]), 0);
	CHECK_INT(gate_lsn(dir, 0), MANY);
	/* Whoever came late was covered by another's. */
	printf("# %d handles, one flush under way: %d flushes\n", MANY,
	    gate_calls());
	CHECK(gate_calls() < MANY);
	for (int i = 0; i < MANY; i++)
		epd_shard_close(s[i]);
	scratch_close(dir);
}

/* A flush fails: all whose record it was for are told, and nobody else. */
TEST(a_failed_flush_fails_all_its_waiters)
{
	int dir = scratch_open();
	struct task t[MANY];
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 99, 99, &id), 0);
	gate_shut();
	CHECK_INT(task_begin(&t[0], s, task_create, 1), 0);
	CHECK(gate_await(1));
	for (uint64_t i = 1; i < MANY; i++)
		CHECK_INT(task_begin(&t[i], s, task_create, i + 1), 0);
	CHECK(gate_appended(dir, 1 + MANY));
	/* The first goes well, the one for all others does not. */
	gate_pass(1, 0);
	CHECK(gate_await(2));
	CHECK_INT(task_end(&t[0]), 0);
	CHECK_INT(gate_lsn(dir, 0), 2);
	gate_pass(2, EIO);
	for (int i = 1; i < MANY; i++)
		CHECK_INT(task_end(&t[i]), EPD_EUNSURE);
	gate_open();
	CHECK_INT(gate_lsn(dir, 0), 2);
	CHECK_INT(shard_create(s, 98, 98, &id), EPD_EPOISONED);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 99), 1);
	CHECK_INT(gate_count(dir, 1), 1);
	scratch_close(dir);
}

TEST(a_failed_flush_fails_other_handles)
{
	int dir = scratch_open();
	struct epd_shard *s[3];
	struct task t[3];

	for (int i = 0; i < 3; i++)
		CHECK_INT(shard_open(&s[i], dir, 0), 0);
	gate_shut();
	for (int i = 0; i < 3; i++) {
		CHECK_INT(task_begin(&t[i], s[i], task_create, (uint64_t)i + 1),
		    0);
		CHECK(gate_appended(dir, (uint64_t)i + 1));
		CHECK(gate_await(1));
	}
	/* All have waited enough for the first: each is at its own. */
	CHECK(gate_await(3));
	gate_pass(1, EIO);
	CHECK_INT(task_end(&t[0]), EPD_EUNSURE);
	gate_open();
	for (int i = 1; i < 3; i++)
		CHECK_INT(task_end(&t[i]), EPD_EUNSURE);
	for (int i = 0; i < 3; i++)
		epd_shard_close(s[i]);
	CHECK_INT(gate_lsn(dir, 0), 0);
	scratch_close(dir);
}

/* Who stops in the middle keeps nobody, and goes on as if nothing had been. */
TEST(a_frozen_flusher)
{
	int dir = scratch_open();
	struct epd_shard *a, *b;
	struct task t, u;
	uint32_t id;

	CHECK_INT(shard_open(&a, dir, 0), 0);
	CHECK_INT(shard_open(&b, dir, 0), 0);
	gate_shut();
	CHECK_INT(task_begin(&t, a, task_create, 1), 0);
	CHECK(gate_await(1));
	CHECK_INT(task_begin(&u, b, task_create, 2), 0);
	CHECK(gate_await(2));
	gate_pass(2, 0);
	CHECK_INT(task_end(&u), 0);
	CHECK_INT(gate_lsn(dir, 0), 2);
	gate_pass_from(3);
	CHECK_INT(epd_shard_checkpoint(b, NULL), 0);
	CHECK_INT(shard_create(b, 3, 3, &id), 0);
	gate_open();
	/* Its segment is gone, and the tip is far on. */
	CHECK_INT(task_end(&t), 0);
	CHECK_INT(gate_lsn(dir, 0), 3);
	CHECK_INT(shard_create(a, 4, 4, &id), 0);
	epd_shard_close(a);
	epd_shard_close(b);
	CHECK_INT(gate_count(dir, 1), 1);
	scratch_close(dir);
}

/* ---- what is told of a log that was written anew meanwhile ---- */

static int
cut_log(int dir, off_t n)
{
	int fd = openat(dir, "log.00000001", O_RDWR | O_CLOEXEC), rc;

	rc = fd < 0 || ftruncate(fd, n) ? -errno : 0;
	close(fd);
	return rc;
}

static int
leave_marker(int dir)
{
	return shard_put(dir, "unsure", "", 0);
}

/* What can become of the tip while somebody is at a flush. */
static int
keep_tip(int dir)
{
	return dir < 0;
}

static int
remove_tip(int dir)
{
	return unlinkat(dir, "tip", 0);
}

static int
damage_tip(int dir)
{
	static const uint8_t zeros[2 * EPD_TIP_SIZE];
	int fd = openat(dir, "tip", O_RDWR | O_CLOEXEC), rc;

	rc = epd_file_pwrite(fd, zeros, sizeof zeros, 0);
	close(fd);
	return rc;
}

/*
 * Two threads wait for a flush; the disk has nothing of theirs, another
 * process's flush failed and a third one wrote the log anew and went on.  Their
 * numbers are others' now.
 */
static void
written_anew(int (*harm)(int dir), int and_read)
{
	int dir = scratch_open();
	struct epd_shard *s, *other;
	struct task t[3];
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	gate_shut();
	CHECK_INT(task_begin(&t[0], s, task_create, 1), 0);
	CHECK(gate_await(1));
	CHECK_INT(task_begin(&t[1], s, task_create, 2), 0);
	CHECK(gate_appended(dir, 2));
	CHECK_INT(cut_log(dir, EPD_SEGMENT_HEAD), 0);
	CHECK_INT(leave_marker(dir), 0);
	CHECK_INT(harm(dir), 0);
	gate_pass_from(2);
	CHECK_INT(shard_open(&other, dir, 0), 0);
	for (uint64_t i = 11; i < 15; i++)
		CHECK_INT(shard_create(other, i, i, &id), 0);
	CHECK_INT(id, 4);
	/* A third thread of the handle learns of it before they do. */
	if (and_read) {
		CHECK_INT(task_begin(&t[2], s, task_create, 3), 0);
		CHECK(gate_appended(dir, 5));
	}
	gate_open();
	for (int i = 0; i < 2 + and_read; i++)
		CHECK_INT(task_end(&t[i]), EPD_EUNSURE);
	epd_shard_close(s);
	CHECK_INT(shard_create(other, 15, 15, &id), 0);
	epd_shard_close(other);
	for (uint64_t i = 11; i < 16; i++)
		CHECK_INT(gate_count(dir, i), 1);
	scratch_close(dir);
}

TEST(a_waiter_of_a_log_written_anew)
{
	written_anew(keep_tip, 0);
	written_anew(keep_tip, 1);
}

TEST(a_waiter_whose_tip_was_lost_too)
{
	written_anew(remove_tip, 0);
	written_anew(damage_tip, 0);
	written_anew(remove_tip, 1);
	written_anew(damage_tip, 1);
}

/* The same of one that has yet to begin his flush, behind another's. */
TEST(a_waiter_in_line_for_a_log_written_anew)
{
	int dir = scratch_open();
	struct epd_shard *a, *b, *other;
	struct task t[2];
	uint32_t id;

	CHECK_INT(shard_open(&a, dir, 0), 0);
	CHECK_INT(shard_open(&b, dir, 0), 0);
	gate_shut();
	CHECK_INT(task_begin(&t[0], a, task_create, 1), 0);
	CHECK(gate_await(1));
	gate_pass_from(2);
	CHECK_INT(task_begin(&t[1], b, task_create, 2), 0);
	CHECK(gate_appended(dir, 2));
	CHECK_INT(cut_log(dir, EPD_SEGMENT_HEAD), 0);
	CHECK_INT(leave_marker(dir), 0);
	CHECK_INT(shard_open(&other, dir, 0), 0);
	other->o.checkpoint_bytes = 64;		/* flushed without a turn */
	for (uint64_t i = 11; i < 15; i++)
		CHECK_INT(shard_create(other, i, i, &id), 0);
	CHECK(gate_lsn(dir, 0) >= 4);
	CHECK_INT(task_end(&t[1]), EPD_EUNSURE);
	gate_open();
	CHECK_INT(task_end(&t[0]), EPD_EUNSURE);
	epd_shard_close(a);
	epd_shard_close(b);
	epd_shard_close(other);
	CHECK_INT(gate_count(dir, 14), 1);
	CHECK_INT(gate_count(dir, 2), 0);
	scratch_close(dir);
}

/* A log cut by nobody knows whom, behind what is durable: there is no hole. */
TEST(cut_behind_a_handle)
{
	int dir = scratch_open(), store = scratch_open();
	struct epd_procs *procs;
	struct epd_shard *s;
	struct stat st;
	uint64_t lease;
	uint32_t id;

	CHECK_INT(epd_procs_open(&procs, store), 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	CHECK_INT(fstatat(dir, "log.00000001", &st, 0), 0);
	CHECK_INT(epd_shard_lease(s, 1, 0, EPD_LEASE_TRANSFER, 60000, &lease,
	    NULL), 0);
	CHECK_INT(cut_log(dir, st.st_size), 0);
	CHECK_INT(shard_create(s, 2, 2, &id), 0);
	CHECK_INT(epd_shard_lsn(s), 2);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 2), 1);
	epd_procs_close(procs);
	scratch_close(store);
	scratch_close(dir);
}

/* The tip is lost and restored: whoever goes on goes on with the new one. */
TEST(a_tip_restored_is_everybodys)
{
	int dir = scratch_open();
	struct epd_shard *s, *other, *reader;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	CHECK_INT(shard_open(&reader, dir, 1), 0);
	CHECK_INT(unlinkat(dir, "tip", 0), 0);
	CHECK_INT(shard_open(&other, dir, 0), 0);
	CHECK_INT(gate_lsn(dir, 0), 1);
	CHECK_INT(shard_create(s, 2, 2, &id), 0);
	CHECK_INT(gate_lsn(dir, 0), 2);
	CHECK_INT(epd_shard_catch_up(reader, NULL), 0);
	CHECK_INT(epd_shard_lsn(reader), 2);
	epd_shard_close(reader);
	epd_shard_close(other);
	epd_shard_close(s);
	scratch_close(dir);
}

/*
 * A file system of whole seconds: the log is written anew within the second in
 * which the folder was looked through, and its time is what it was.
 */
TEST(a_log_written_anew_in_the_same_tick)
{
	const struct timespec old[2] = { { 1700000000, 0 }, { 1700000000, 0 } };
	int dir = scratch_open();
	struct epd_shard *s, *other;
	uint32_t id;
	off_t n;
	struct stat st;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	CHECK_INT(futimens(dir, old), 0);
	CHECK_INT(shard_create(s, 2, 2, &id), 0);
	CHECK_INT(shard_create(s, 3, 3, &id), 0);
	CHECK_INT(fstatat(dir, "log.00000001", &st, 0), 0);
	n = st.st_size;
	CHECK_INT(leave_marker(dir), 0);
	CHECK_INT(shard_open(&other, dir, 0), 0);
	CHECK_INT(shard_create(other, 4, 4, &id), 0);
	CHECK(fstatat(dir, "log.00000001", &st, 0) == 0 && st.st_size > n);
	CHECK_INT(futimens(dir, old), 0);
	CHECK_INT(shard_create(s, 5, 5, &id), 0);
	CHECK_INT(id, 5);
	epd_shard_close(other);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 4), 1);
	CHECK_INT(gate_count(dir, 5), 1);
	scratch_close(dir);
}

/* A next segment in the same tick, of one killed before he moved the tip. */
TEST(a_young_folder_of_whole_seconds_is_looked_through)
{
	struct timespec now[2];
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	clock_gettime(CLOCK_REALTIME, &now[0]);
	usleep((useconds_t)((1100000000 - now[0].tv_nsec) / 1000));
	now[0].tv_nsec = 0;
	now[0].tv_sec++;
	now[1] = now[0];
	CHECK_INT(futimens(dir, now), 0);
	CHECK_INT(shard_create(s, 2, 2, &id), 0);
	CHECK_INT(leave_marker(dir), 0);
	CHECK_INT(futimens(dir, now), 0);
	CHECK_INT(shard_create(s, 3, 3, &id), 0);
	CHECK(faccessat(dir, "unsure", F_OK, 0));
	epd_shard_close(s);
	scratch_close(dir);
}

static int
fail_once(int fd)
{
	(void)fd;
	errno = EIO;
	return -1;
}

/* Who could not settle a failed flush does not forget that there was one. */
TEST(a_marker_not_settled_is_met_again)
{
	const struct timespec old[2] = { { 1700000000, 5 }, { 1700000000, 5 } };
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	CHECK_INT(leave_marker(dir), 0);
	CHECK_INT(futimens(dir, old), 0);
	gate_instead(fail_once);
	CHECK_INT(shard_create(s, 2, 2, &id), -EIO);
	CHECK_INT(futimens(dir, old), 0);
	CHECK_INT(shard_create(s, 3, 3, &id), 0);
	CHECK(faccessat(dir, "unsure", F_OK, 0));
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 3), 1);
	scratch_close(dir);
}

/* ---- failures that not everybody is told of ---- */

/*
 * The kernel tells each open file once.  A thread's flush has failed and it has
 * yet to say so, when another thread of the handle appends, and rotates.
 */
static struct {
	int fd, dir;
	atomic_int asked;
	struct epd_shard *s;
	struct task t;
} told;

static int
told_before(int fd)
{
	/* The same open file: the news is gone. */
	int same = !syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE,
	    (long)told.fd, (long)fd);

	told.asked = 1;
	errno = EIO;
	return same ? 0 : -1;
}

static int
fail_and_rotate(int fd)
{
	told.fd = fd;
	gate_instead(told_before);
	if (!task_begin(&told.t, told.s, task_create, 2))
		for (int ms = 0; !told.asked && ms < GATE_PATIENCE; ms++)
			usleep(1000);
	/* Time enough for the other to be done. */
	usleep(20000);
	errno = EIO;
	return -1;
}

TEST(a_rotation_beside_a_failed_flush)
{
	int dir = scratch_open();
	struct epd_shard_options o = shard_plain;
	struct task t;

	o.checkpoint_bytes = 64;
	o.log_keep = -1;
	CHECK_INT(epd_shard_open(&told.s, dir, &o, NULL), 0);
	told.s->o.checkpoint_bytes = 1 << 20;
	gate_shut();
	CHECK_INT(task_begin(&t, told.s, task_create, 1), 0);
	CHECK(gate_await(1));
	told.s->o.checkpoint_bytes = 64;
	gate_instead(fail_and_rotate);
	gate_open();
	CHECK_INT(task_end(&t), EPD_EUNSURE);
	CHECK_INT(task_end(&told.t), EPD_EUNSURE);
	CHECK(told.asked);
	epd_shard_close(told.s);
	scratch_close(dir);
}

/* The marker is there before who made it waits for anything. */
TEST(the_marker_comes_first)
{
	int dir = scratch_open(), lock, ms;
	struct epd_shard *s;
	struct task t;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	gate_shut();
	CHECK_INT(task_begin(&t, s, task_create, 1), 0);
	CHECK(gate_await(1));
	lock = openat(dir, "lock", O_RDWR | O_CLOEXEC);
	CHECK_INT(epd_lock_try(lock), 0);
	gate_pass(1, EIO);
	for (ms = 0; ms < 2000 && faccessat(dir, "unsure", F_OK, 0); ms++)
		usleep(1000);
	CHECK(ms < 2000);
	close(lock);
	CHECK_INT(task_end(&t), EPD_EUNSURE);
	gate_open();
	epd_shard_close(s);
	scratch_close(dir);
}

/* The lock is not to be had: durable it is, and the handle goes on. */
TEST(durable_but_not_to_be_seen)
{
	int dir = scratch_open(), lock;
	struct epd_shard *s;
	struct task t;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	s->o.lock_timeout_ms = 50;
	gate_shut();
	CHECK_INT(task_begin(&t, s, task_create, 1), 0);
	CHECK(gate_await(1));
	lock = openat(dir, "lock", O_RDWR | O_CLOEXEC);
	CHECK_INT(epd_lock_try(lock), 0);
	gate_open();
	CHECK_INT(task_end(&t), EPD_EUNSURE);
	CHECK_INT(gate_lsn(dir, 0), 0);
	close(lock);
	CHECK_INT(shard_create(s, 2, 2, &id), 0);
	CHECK_INT(id, 2);
	CHECK_INT(gate_lsn(dir, 0), 2);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 1), 1);
	scratch_close(dir);
}

/* However short a verb waits for the lock: what it wrote is waited for in full. */
TEST(seen_though_the_verb_was_in_a_hurry)
{
	int dir = scratch_open(), lock;
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	struct task t;
	uint64_t from;
	uint32_t id;

	o.vain = UINT_MAX;
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	CHECK_INT(shard_create(s, 9, 9, &id), 0);
	epd_shard_close(s);
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	lock = openat(dir, "lock", O_RDWR | O_CLOEXEC);
	CHECK_INT(epd_lock_try(lock), 0);
	from = epd_clock_boot_ns();
	CHECK_INT(shard_create(s, 1, 1, &id), EPD_ELOCKED);
	CHECK(epd_clock_boot_ns() - from < o.lock_timeout_ms * 1000000 / 4);
	epd_lock_drop(lock);
	gate_shut();
	CHECK_INT(task_begin(&t, s, task_create, 1), 0);
	CHECK(gate_await(1));
	CHECK_INT(epd_lock_try(lock), 0);
	gate_open();
	usleep(50000);
	CHECK_INT(gate_lsn(dir, 0), 1);
	close(lock);
	CHECK_INT(task_end(&t), 0);
	CHECK_INT(gate_lsn(dir, 0), 2);
	epd_shard_close(s);
	scratch_close(dir);
}

/* A marker that appears while the lock's holder flushes. */
static int
marker_meanwhile(int fd)
{
	(void)fd;
	return leave_marker(told.dir);
}

TEST(a_flush_with_the_lock_looks_for_the_marker)
{
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t id;

	told.dir = dir;
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	s->o.checkpoint_bytes = 64;
	gate_instead(marker_meanwhile);
	CHECK_INT(shard_create(s, 2, 2, &id), EPD_EUNSURE);
	CHECK_INT(faccessat(dir, "unsure", F_OK, 0), 0);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 1), 1);
	scratch_close(dir);
}

/*
 * No file can be opened, so that no marker can be made.  Those who wait for what
 * is taken away are told; what others made durable meanwhile is not taken.
 */
static struct rlimit files;

static int
fail_without_files(int fd)
{
	const struct rlimit none = { 3, files.rlim_max };

	(void)fd;
	setrlimit(RLIMIT_NOFILE, &none);
	errno = EIO;
	return -1;
}

TEST(without_a_marker_nobody_elses_is_cut)
{
	int dir = scratch_open();
	struct epd_shard *a, *b;
	struct task t, u;

	getrlimit(RLIMIT_NOFILE, &files);
	CHECK_INT(shard_open(&a, dir, 0), 0);
	CHECK_INT(shard_open(&b, dir, 0), 0);
	gate_shut();
	CHECK_INT(task_begin(&t, a, task_create, 1), 0);
	CHECK(gate_await(1));
	CHECK_INT(task_begin(&u, b, task_create, 2), 0);
	CHECK(gate_await(2));
	gate_pass(2, 0);
	CHECK_INT(task_end(&u), 0);
	gate_instead(fail_without_files);
	gate_pass(1, 0);
	CHECK_INT(task_end(&t), EPD_EUNSURE);
	setrlimit(RLIMIT_NOFILE, &files);
	gate_open();
	epd_shard_close(a);
	epd_shard_close(b);
	CHECK_INT(gate_count(dir, 2), 1);
	scratch_close(dir);
}

TEST(without_a_marker_waiters_are_told)
{
	int dir = scratch_open();
	struct epd_shard *a, *b, *c;
	struct task t, u;
	uint32_t id;

	getrlimit(RLIMIT_NOFILE, &files);
	CHECK_INT(shard_open(&a, dir, 0), 0);
	CHECK_INT(shard_open(&b, dir, 0), 0);
	CHECK_INT(shard_open(&c, dir, 0), 0);
	CHECK_INT(shard_create(c, 9, 9, &id), 0);
	gate_shut();
	CHECK_INT(task_begin(&t, a, task_create, 1), 0);
	CHECK(gate_await(1));
	CHECK_INT(task_begin(&u, b, task_create, 2), 0);
	CHECK(gate_await(2));
	gate_instead(fail_without_files);
	gate_pass(1, 0);
	CHECK_INT(task_end(&t), EPD_EUNSURE);
	setrlimit(RLIMIT_NOFILE, &files);
	gate_pass(2, 0);
	CHECK_INT(task_end(&u), EPD_EUNSURE);
	gate_open();
	CHECK_INT(shard_create(c, 3, 3, &id), 0);
	CHECK_INT(id, 2);
	epd_shard_close(a);
	epd_shard_close(b);
	epd_shard_close(c);
	CHECK_INT(gate_count(dir, 9), 1);
	CHECK_INT(gate_count(dir, 3), 1);
	scratch_close(dir);
}

static int
count_records(void *arg, const struct epd_rec *r, struct epd_why *why)
{
	(void)r;
	(void)why;
	++*(int *)arg;
	return 0;
}

/* Who has read what was cut away begins again, and leaves no hole. */
TEST(what_was_read_and_cut_is_read_anew)
{
	int dir = scratch_open(), n = 0;
	struct epd_why why = { "" };
	struct epd_tip tip;
	struct epd_shard *s;
	struct epd_wal *w;
	struct task t;
	uint8_t b[EPD_TIP_SIZE];
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	gate_shut();
	CHECK_INT(task_begin(&t, s, task_create, 2), 0);
	CHECK(gate_await(1));
	CHECK_INT(epd_wal_open(&w, dir, 0, NULL), 0);
	CHECK_INT(epd_wal_seek(w, 1, 0, &why), 0);
	CHECK_INT(epd_wal_adopt(w, count_records, &n, &why), 0);
	CHECK_INT(n, 2);
	gate_open();
	CHECK_INT(task_end(&t), 0);
	/* As if that flush had failed, and no marker could be made. */
	CHECK_INT(epd_wal_read_tip(w, 0, NULL), 0);
	tip = w->tip;
	tip.again++;
	tip.lsn = tip.flushed = 1;
	tip.offset = EPD_SEGMENT_HEAD + (w->pos.offset - EPD_SEGMENT_HEAD) / 2;
	epd_tip_pack(b, &tip);
	CHECK_INT(epd_file_pwrite(w->tipfd, b, sizeof b, 0), 0);
	CHECK_INT(cut_log(dir, (off_t)tip.offset), 0);
	CHECK_INT(epd_wal_read(w, count_records, &n, &why), -ESTALE);
	CHECK_INT(epd_wal_adopt(w, count_records, &n, &why), -ESTALE);
	epd_wal_close(w);
	epd_shard_close(s);
	scratch_close(dir);
}

/*
 * Somebody is ended within a flush that fails: the disk has nothing of his, the
 * kernel told him, and nobody is left who knows.  Who opens next finds his record
 * in the page cache.  disk is what a crash of the machine leaves of the log.
 */
static struct disk {
	size_t n, dirty[2];
	int on, log;
	uint8_t b[1 << 16];
} *disk;

ssize_t
pwrite(int fd, const void *p, size_t n, off_t off)
{
	struct stat at, log;

	if (disk && disk->on && !fstat(fd, &at) && !fstat(disk->log, &log) &&
	    at.st_ino == log.st_ino) {
		if ((size_t)off < disk->dirty[0])
			disk->dirty[0] = (size_t)off;
		if ((size_t)off + n > disk->dirty[1])
			disk->dirty[1] = (size_t)off + n;
	}
	return syscall(SYS_pwrite64, fd, p, n, off);
}

static int
disk_clean(int keep)
{
	if (keep && disk->dirty[1] > disk->dirty[0]) {
		if (epd_file_pread(disk->log, disk->b + disk->dirty[0],
		    disk->dirty[1] - disk->dirty[0], disk->dirty[0]) < 0)
			return -1;
		if (disk->dirty[1] > disk->n)
			disk->n = disk->dirty[1];
	}
	disk->dirty[0] = sizeof disk->b;
	disk->dirty[1] = 0;
	return 0;
}

static int
disk_takes(int fd)
{
	(void)fd;
	return disk_clean(1);
}

static int
disk_fails(int fd)
{
	(void)fd;
	disk_clean(0);
	_exit(3);
}

TEST(ended_within_a_flush_that_fails)
{
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t id;
	pid_t pid;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	epd_shard_close(s);
	disk = mmap(NULL, sizeof *disk, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(disk != MAP_FAILED);
	disk->log = openat(dir, "log.00000001", O_RDONLY | O_CLOEXEC);
	disk->n = (size_t)epd_file_pread(disk->log, disk->b, sizeof disk->b, 0);
	disk_clean(0);
	disk->on = 1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (shard_open(&s, dir, 0))
			_exit(1);
		gate_instead(disk_fails);
		_exit(shard_create(s, 2, 2, &id) ? 1 : 0);
	}
	CHECK_INT(scratch_wait(pid), 3);
	gate_instead(disk_takes);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	gate_instead(disk_takes);
	CHECK_INT(shard_create(s, 3, 3, &id), 0);
	epd_shard_close(s);
	disk->on = 0;
	/* Power goes. */
	CHECK_INT(shard_put(dir, "log.00000001", disk->b, disk->n), 0);
	close(disk->log);
	munmap(disk, sizeof *disk);
	disk = NULL;
	CHECK_INT(gate_count(dir, 1), 1);
	CHECK_INT(gate_count(dir, 3), 1);
	scratch_close(dir);
}

/* ---- who sees what ---- */

static int
task_lease(struct task *t)
{
	uint64_t id;

	return epd_shard_lease(t->s, 1, 0, EPD_LEASE_TRANSFER, 60000, &id,
	    NULL);
}

/* Of the version that a flush is under way for: refused, but it has read it. */
static int
task_refused(struct task *t)
{
	return shard_advance(t->s, 1, 7, 0, 3, 3, &t->id);
}

static int
task_advance(struct task *t)
{
	return shard_advance(t->s, 1, 1, 0, t->seed, t->seed, &t->id);
}

/* What a verb's end lets its caller see, any reader sees. */
static void
sees_published(int (*verb)(struct task *t), int rc, int own)
{
	int dir = scratch_open(), store = scratch_open();
	struct epd_shard *a, *b, *reader;
	struct epd_procs *procs;
	struct task t, u;
	uint32_t id;

	CHECK_INT(epd_procs_open(&procs, store), 0);
	CHECK_INT(shard_open(&a, dir, 0), 0);
	CHECK_INT(shard_create(a, 1, 1, &id), 0);
	CHECK_INT(hold_open(&b, dir, procs), 0);
	CHECK_INT(shard_open(&reader, dir, 1), 0);
	gate_shut();
	CHECK_INT(task_begin(&t, a, task_advance, 2), 0);
	CHECK(gate_await(1));
	gate_pass_from(2);
	CHECK_INT(task_begin(&u, b, verb, 0), 0);
	CHECK_INT(task_end(&u), rc);
	CHECK_INT(epd_shard_lsn(b), 2 + own);
	CHECK_INT(epd_shard_catch_up(reader, NULL), 0);
	CHECK(epd_shard_lsn(reader) >= 2);
	gate_open();
	CHECK_INT(task_end(&t), 0);
	epd_shard_close(reader);
	epd_shard_close(b);
	epd_shard_close(a);
	epd_procs_close(procs);
	scratch_close(store);
	scratch_close(dir);
}

TEST(what_a_verb_lets_see_is_published)
{
	sees_published(task_lease, 0, 1);
	sees_published(task_refused, EPD_EVERSION, 0);
}

/* Without sync what was made is seen at once, behind another's flush too. */
TEST(relaxed_beside_synced)
{
	int dir = scratch_open();
	struct epd_shard_options o = shard_plain;
	struct epd_shard *a, *b, *reader;
	struct task t;
	uint32_t id;

	o.sync = 0;
	CHECK_INT(shard_open(&a, dir, 0), 0);
	CHECK_INT(epd_shard_open(&b, dir, &o, NULL), 0);
	CHECK_INT(shard_open(&reader, dir, 1), 0);
	CHECK_INT(shard_create(b, 1, 1, &id), 0);
	CHECK_INT(epd_shard_catch_up(reader, NULL), 0);
	CHECK_INT(epd_shard_lsn(reader), 1);
	gate_shut();
	CHECK_INT(task_begin(&t, a, task_create, 2), 0);
	CHECK(gate_await(1));
	gate_pass_from(2);
	CHECK_INT(shard_create(b, 3, 3, &id), 0);
	CHECK_INT(epd_shard_catch_up(reader, NULL), 0);
	CHECK_INT(epd_shard_lsn(reader), 3);
	gate_open();
	CHECK_INT(task_end(&t), 0);
	epd_shard_close(reader);
	epd_shard_close(b);
	epd_shard_close(a);
	scratch_close(dir);
}

/* What somebody who syncs left unflushed is flushed before it is shown. */
TEST(relaxed_settles_by_a_flush)
{
	int dir = scratch_open();
	struct epd_shard_options o = shard_plain;
	struct shard_image im;
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	CHECK_INT(shard_grab(&im, dir), 0);
	CHECK_INT(shard_create(s, 2, 2, &id), 0);
	epd_shard_close(s);
	CHECK_INT(shard_put(dir, "tip", shard_file(&im, "tip")->data.p, 64), 0);
	o.sync = 0;
	gate_shut();
	gate_open();
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	CHECK_INT(gate_calls(), 1);
	CHECK_INT(gate_lsn(dir, 0), 2);
	epd_shard_close(s);
	shard_image_free(&im);
	scratch_close(dir);
}

/* Runs are told as free once what freed them is durable. */
static int
task_release(struct task *t)
{
	return epd_shard_release(t->s, 1, "", hold_freed, t->arg, NULL);
}

TEST(nothing_is_freed_before_it_is_durable)
{
	static uint8_t here[256], there[256];
	int dir = scratch_open();
	struct epd_shard *s;
	struct task t;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 5, &id), 0);
	CHECK_INT(shard_create(s, 2, 6, &id), 0);
	gate_shut();
	t.arg = there;
	CHECK_INT(task_begin(&t, s, task_release, 0), 0);
	CHECK(gate_await(1));
	epd_shard_tell(s, hold_freed, here);
	CHECK(!here[5]);
	gate_open();
	CHECK_INT(task_end(&t), 0);
	CHECK(there[5] == 1 && !here[5]);
	/* One whose flush failed frees nothing. */
	gate_instead(fail_once);
	CHECK_INT(epd_shard_release(s, 2, "", hold_freed, here, NULL),
	    EPD_EUNSURE);
	epd_shard_tell(s, hold_freed, here);
	CHECK(!here[6]);
	epd_shard_close(s);
	scratch_close(dir);
}

TEST(a_drop_that_frees_is_flushed)
{
	int dir = scratch_open(), store = scratch_open();
	uint8_t told_of[256] = { 0 };
	struct epd_procs *procs;
	struct epd_shard *s;
	uint64_t lease, kept;
	uint32_t id;

	CHECK_INT(epd_procs_open(&procs, store), 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	CHECK_INT(shard_create(s, 1, 5, &id), 0);
	CHECK_INT(epd_shard_lease(s, 1, 0, EPD_LEASE_TRANSFER, 60000, &kept,
	    NULL), 0);
	CHECK_INT(epd_shard_lease(s, 1, 0, EPD_LEASE_TRANSFER, 60000, &lease,
	    NULL), 0);
	CHECK_INT(epd_shard_release(s, 1, "", hold_freed, told_of, NULL), 0);
	gate_shut();
	gate_open();
	CHECK_INT(epd_shard_drop(s, lease, "", NULL), 0);
	CHECK_INT(gate_calls(), 0);
	CHECK_INT(epd_shard_drop(s, kept, "", NULL), 0);
	CHECK_INT(gate_calls(), 1);
	epd_shard_tell(s, hold_freed, told_of);
	CHECK_INT(told_of[5], 1);
	epd_shard_close(s);
	epd_procs_close(procs);
	scratch_close(store);
	scratch_close(dir);
}

/* ---- after a crash of the machine ---- */

/* The log as after k records, the tip and the mark each as at its own time. */
static int
crash(int dir, const struct shard_image *log, const struct shard_image *tip,
    const struct shard_image *mark)
{
	uint8_t b[2 * EPD_TIP_SIZE];
	int rc = shard_lay(log, dir);

	memcpy(b, shard_file((void *)(uintptr_t)tip, "tip")->data.p,
	    EPD_TIP_SIZE);
	memcpy(b + EPD_TIP_SIZE, shard_file((void *)(uintptr_t)mark,
	    "tip")->data.p + EPD_TIP_SIZE, EPD_TIP_SIZE);
	return rc ? rc : shard_put(dir, "tip", b, sizeof b);
}

/* A mark that came to the disk before what it speaks of did. */
TEST(a_mark_beyond_the_log)
{
	int dir = scratch_open(), store = scratch_open();
	struct shard_image early, late;
	struct epd_procs *procs;
	struct epd_shard *s;
	uint64_t lease;
	uint32_t id, version = 0;

	CHECK_INT(epd_procs_open(&procs, store), 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	CHECK_INT(shard_advance(s, 1, 1, 77, 2, 2, &version), 0);
	CHECK_INT(epd_shard_lease(s, 1, 0, EPD_LEASE_TRANSFER, 60000, &lease,
	    NULL), 0);
	CHECK_INT(shard_grab(&early, dir), 0);
	for (uint64_t i = 3; i < 6; i++)
		CHECK_INT(shard_create(s, i, i, &id), 0);
	CHECK_INT(shard_grab(&late, dir), 0);
	epd_shard_close(s);
	CHECK_INT(crash(dir, &early, &early, &late), 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	/* Done before: nothing is appended, but a flush there is. */
	CHECK_INT(shard_advance(s, 1, 1, 77, 2, 2, &version), 0);
	CHECK_INT(version, 2);
	CHECK(gate_lsn(dir, 0) <= 3);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 2), 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	CHECK_INT(shard_create(s, 6, 6, &id), 0);
	CHECK_INT(id, 2);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 6), 1);
	shard_image_free(&early);
	shard_image_free(&late);
	epd_procs_close(procs);
	scratch_close(store);
	scratch_close(dir);
}

/*
 * Leases were published and not flushed, and the crash took them: who appends in
 * their place is not seen before he is durable, though the tip spoke of as many.
 */
TEST(a_tip_beyond_the_log)
{
	int dir = scratch_open(), store = scratch_open();
	struct shard_image early, late;
	struct epd_fork_ask f = { .state = 1, .branches = 1 };
	struct epd_procs *procs;
	struct epd_shard *s, *reader;
	uint64_t lease;
	uint32_t id, first;
	struct task t;

	CHECK_INT(epd_procs_open(&procs, store), 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	CHECK_INT(shard_grab(&early, dir), 0);
	for (int i = 0; i < 3; i++)
		CHECK_INT(epd_shard_lease(s, 1, 0, EPD_LEASE_TRANSFER, 60000,
		    &lease, NULL), 0);
	CHECK_INT(shard_grab(&late, dir), 0);
	epd_shard_close(s);
	CHECK_INT(crash(dir, &early, &late, &late), 0);
	CHECK_INT(shard_open(&reader, dir, 1), 0);
	CHECK_INT(epd_shard_lsn(reader), 1);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	gate_shut();
	CHECK_INT(task_begin(&t, s, task_create, 2), 0);
	CHECK(gate_await(1));
	CHECK_INT(epd_shard_catch_up(reader, NULL), 0);
	CHECK_INT(epd_shard_lsn(reader), 1);
	gate_open();
	CHECK_INT(task_end(&t), 0);
	CHECK_INT(epd_shard_fork(s, &f, &first, NULL), 0);
	CHECK_INT(epd_shard_catch_up(reader, NULL), 0);
	CHECK_INT(epd_shard_lsn(reader), 3);
	epd_shard_close(reader);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 2), 1);
	shard_image_free(&early);
	shard_image_free(&late);
	epd_procs_close(procs);
	scratch_close(store);
	scratch_close(dir);
}

/* Many may have appended behind the last flush: much may be torn. */
TEST(more_is_torn_than_one_can_have_left)
{
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t id;
	struct stat st;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	epd_shard_close(s);
	CHECK_INT(fstatat(dir, "log.00000001", &st, 0), 0);
	CHECK_INT(cut_log(dir, st.st_size + EPD_FRAME_MAX + 4096), 0);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 2, 2, &id), 0);
	CHECK_INT(id, 2);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 2), 1);
	scratch_close(dir);
}

/* ---- a child of fork ---- */

TEST(a_child_opens_its_own)
{
	int dir = scratch_open();
	struct epd_shard *s, *mine;
	struct epd_why why = { "" };
	struct epd_state st = shard_traits(1);
	struct shard_made m;
	uint32_t id;
	pid_t pid;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (epd_shard_create(s, &st, shard_make(&m, 2, 2), &id,
		    &why) != -EPERM || !strstr(why.text, "opens it again"))
			_exit(1);
		if (epd_shard_catch_up(s, NULL) || epd_shard_state(s, 1, &st))
			_exit(2);
		epd_shard_close(s);
		if (shard_open(&mine, dir, 0) || shard_create(mine, 3, 3, &id))
			_exit(3);
		_exit(0);
	}
	CHECK_INT(scratch_wait(pid), 0);
	CHECK_INT(shard_create(s, 4, 4, &id), 0);
	CHECK_INT(id, 3);
	epd_shard_close(s);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
