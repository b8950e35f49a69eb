/* feature_faults - killed, full, failing and starved commits; many writers; the memo. */
#include "fault.h"

#include "feature.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "tests/check.h"

/* No false hit, nothing orphaned once swept, and a commit then works. */
static int
recovers(struct cache *k, const struct epd_feature *f)
{
	struct epd_feature_swept gone;
	int hit = lookup(k, f, 0, NULL);

	if (hit != 0 && hit != 1)
		return 1;
	if (epd_feature_check(k->c, NULL, NULL))
		return 2;
	if (sweep(k, &gone))
		return 3;
	if (cache_files(k) != (hit ? 3 : 0))
		return 4;
	if (sweep(k, &gone) || gone.orphans || gone.bytes)
		return 5;
	if (commit(k, f) || lookup(k, f, 1, NULL) != 1)
		return 6;
	return epd_feature_remove(k->c, &f->fp) ? 7 : 0;
}

TEST(kind22_kill_at_every_call_of_a_commit)
{
	struct cache k;
	int rc = -SIGKILL, misses = 0, at;

	cache_sync = 1;
	CHECK_INT(cache_open(&k, 0), 0);
	for (at = 1; rc == -SIGKILL; at++) {
		struct epd_feature f = feature(at);
		pid_t pid = fork();

		if (!pid) {
			fault_arm(at, 0, FAULT_KILL);
			_exit(commit(&k, &f) ? 1 : 0);
		}
		rc = scratch_wait(pid);
		CHECK(rc == -SIGKILL || rc == 0);
		misses += lookup(&k, &f, 0, NULL) == 0;
		CHECK_INT(recovers(&k, &f), 0);
	}
	CHECK(at > 20);
	/* Before the last rename all are misses; after it none is. */
	CHECK(misses > 15 && misses < at - 1);
	CHECK_INT(count(&k, EPD_M_CORRUPT_META), 0);
	CHECK_INT(count(&k, EPD_M_CORRUPT_BLOB), 0);
	cache_close(&k);
}

TEST(kind34_kill_at_random_moments)
{
	struct epd_feature_swept gone;
	struct cache k;
	int whole = 0;

	cache_sync = 0;
	CHECK_INT(cache_open(&k, 0), 0);
	srand(7);
	for (int i = 0; i < 60; i++) {
		int pipes[2];
		char c;
		pid_t pid;

		CHECK_INT(pipe(pipes), 0);
		pid = fork();
		if (!pid) {
			if (write(pipes[1], "x", 1) != 1)
				_exit(2);
			for (int n = 0; ; n = (n + 1) % 8) {
				struct epd_feature f = feature(n);

				if (commit(&k, &f))
					_exit(1);
				epd_feature_remove(k.c, &f.fp);
			}
		}
		CHECK(read(pipes[0], &c, 1) == 1);
		close(pipes[0]);
		close(pipes[1]);
		usleep((useconds_t)(rand() % 2000));
		kill(pid, SIGKILL);
		CHECK_INT(scratch_wait(pid), -SIGKILL);
		for (int n = 0; n < 8; n++) {
			struct epd_feature f = feature(n);
			int rc = lookup(&k, &f, 0, NULL);

			CHECK(rc == 0 || rc == 1);
			whole += rc;
		}
		CHECK_INT(epd_feature_check(k.c, NULL, NULL), 0);
	}
	CHECK_INT(sweep(&k, &gone), 0);
	CHECK_INT(sweep(&k, &gone), 0);
	CHECK_INT(gone.orphans, 0);
	CHECK_INT(cache_files(&k) % 3, 0);
	CHECK_INT(count(&k, EPD_M_CORRUPT_META), 0);
	(void)whole;
	cache_close(&k);
}

TEST(kind33_every_call_fails_once_and_for_ever)
{
	static const int err[] = { ENOSPC, EIO, EDQUOT };
	struct cache k;
	int failed = 0;

	cache_sync = 1;
	CHECK_INT(cache_open(&k, 0), 0);
	for (int how = 0; how <= FAULT_ON; how++)
		for (int e = 0; e < 3; e++)
			for (int at = 1, hit = 1; hit; at++) {
				struct epd_feature f = feature(at);
				int rc, n;

				fault_arm(at, err[e], how);
				rc = commit(&k, &f);
				hit = fault_calls() >= at;
				CHECK(rc <= 0);
				failed += rc != 0;
				n = lookup(&k, &f, 0, NULL);
				/* What can be taken back is taken back. */
				if (n != (rc == 0) && !(how && n == 1))
					CHECK_FAIL("%d: call %d: %d, then %d",
					    err[e], at, rc, n);
				/* Where unlink works, nothing at all is left. */
				if (rc && !how)
					CHECK(cache_files(&k) <= 1);
				CHECK_INT(recovers(&k, &f), 0);
			}
	CHECK(failed > 60);
	CHECK_INT(count(&k, EPD_M_CORRUPT_META), 0);
	CHECK_INT(count(&k, EPD_M_CORRUPT_BLOB), 0);
	cache_close(&k);
}

TEST(kind20_reads_that_fail_are_no_hits)
{
	struct epd_feature f;
	struct cache k;

	cache_sync = 0;
	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	CHECK_INT(commit(&k, &f), 0);
	for (int at = 1, hit = 1; hit; at++) {
		int rc;

		fault_arm(at, EIO, 0);
		rc = lookup(&k, &f, 0, NULL);
		hit = fault_calls() >= at;
		CHECK(rc == (hit ? -EIO : 1));
		/* An error deletes nothing. */
		CHECK_INT(cache_files(&k), 3);
	}
	cache_close(&k);
}

TEST(kind16_every_allocation_fails)
{
	struct epd_feature_swept gone;
	struct epd_feature f;
	struct cache k;
	int failed = 0;

	cache_sync = 0;
	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	for (int on = 0; on < 2; on++)
		for (int step = 0; step < 5; step++)
			for (int at = 1, hit = 1; hit; at++) {
				struct epd_feature_meta m;
				uint8_t *rgb = NULL;
				long h, w;
				int rc = 0;

				if (step)
					CHECK_INT(commit(&k, &f), 0);
				else
					epd_feature_remove(k.c, &f.fp);
				scratch_starve(at, on);
				if (step == 0)
					rc = commit(&k, &f);
				if (step == 1)
					rc = lookup(&k, &f, 0, NULL) - 1;
				if (step == 2)
					rc = epd_feature_pixels(k.c, &f.fp,
					    &rgb, &h, &w);
				if (step == 3)
					rc = epd_feature_meta(k.c, &f.fp, &m);
				if (step == 4)
					rc = sweep(&k, &gone);
				hit = scratch_mem.count >= at;
				scratch_starve(0, 0);
				epd_free(rgb);
				if (rc && rc != (step == 1 ? -ENOMEM - 1 :
				    -ENOMEM))
					CHECK_FAIL("step %d, %d: %d", step, at,
					    rc);
				failed += rc != 0;
				if (step == 0 && rc)
					CHECK_INT(cache_files(&k), 0);
				if (step)
					CHECK_INT(cache_files(&k), 3);
			}
	CHECK(failed > 20);
	CHECK_INT(count(&k, EPD_M_CORRUPT_META), 0);
	CHECK_INT(count(&k, EPD_M_CORRUPT_BLOB), 0);
	cache_close(&k);
}

TEST(many_writers_of_one_fp)
{
	struct epd_feature f;
	struct cache k;
	pid_t pid[8];

	cache_sync = 0;
	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	for (int i = 0; i < 8; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			int bad = 0;

			for (int n = 0; n < 40; n++)
				bad |= commit(&k, &f) != 0 ||
				    lookup(&k, &f, 1, NULL) != 1;
			_exit(bad);
		}
	}
	for (int i = 0; i < 8; i++)
		CHECK_INT(scratch_wait(pid[i]), 0);
	CHECK_INT(lookup(&k, &f, 0, NULL), 1);
	CHECK_INT(cache_files(&k), 3);
	CHECK_INT(count(&k, EPD_M_CORRUPT_META) +
	    count(&k, EPD_M_CORRUPT_BLOB), 0);
	cache_close(&k);
}

static struct cache *shared;
static int hooked;

/* Another writer commits and is told so; then this one's disk is full. */
static void
overtake(void)
{
	struct epd_feature f = feature(1);

	hooked = epd_feature_commit(shared->c, &f, rows, NULL, 0, 0) == 0 &&
	    lookup(shared, &f, 1, NULL) == 1;
	fault.only = "renameat";
	fault_arm(1, ENOSPC, FAULT_ON);
}

TEST(what_another_writer_committed_is_not_taken_back)
{
	struct epd_feature f;
	struct cache k;
	int failed = 0;

	cache_sync = 1;
	CHECK_INT(cache_open(&k, 0), 0);
	shared = &k;
	fault.hook = overtake;
	for (int at = 1; ; at++) {
		int rc;

		f = feature(1);
		hooked = 0;
		fault_arm(at, 0, FAULT_HOOK);
		rc = commit(&k, &f);
		fault_calls();
		if (!hooked)
			break;
		failed += rc == -ENOSPC;
		if (lookup(&k, &f, 0, NULL) != 1)
			CHECK_FAIL("lost when overtaken at call %d", at);
		CHECK_INT(epd_feature_remove(k.c, &f.fp), 0);
	}
	CHECK(failed > 5);
	cache_close(&k);
}

/* Another process replaces the pair: same fp, other rows. */
static void
replace(void)
{
	struct epd_feature f = feature(1);

	epd_feature_remove(shared->c, &f.fp);
	rows[0] = 99;
	hooked = epd_feature_commit(shared->c, &f, rows, NULL, 0, 0) == 0;
}

TEST(kind09_a_pair_replaced_under_a_reader)
{
	struct epd_feature f;
	struct cache k;

	cache_sync = 0;
	CHECK_INT(cache_open(&k, 0), 0);
	shared = &k;
	fault.hook = replace;
	f = feature(1);
	CHECK_INT(commit(&k, &f), 0);
	hooked = 0;
	/* Meta is open, the old one; the blob will be the new one. */
	fault.only = "read";
	fault_arm(1, 0, FAULT_HOOK);
	CHECK_INT(lookup(&k, &f, 0, NULL), 1);
	fault_calls();
	CHECK(hooked);
	CHECK_INT(count(&k, EPD_M_CORRUPT_BLOB), 0);
	CHECK_INT(lookup(&k, &f, 0, NULL), 1);
	cache_close(&k);
}

/* Writers, deleters and readers together: no wrong rows, and calm afterwards. */
TEST(kind09_writers_and_deleters_together)
{
	struct epd_feature_swept gone;
	struct cache k;
	pid_t pid[6];

	cache_sync = 0;
	CHECK_INT(cache_open(&k, 0), 0);
	for (int i = 0; i < 6; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			int bad = 0;

			for (int n = 0; n < 120; n++) {
				struct epd_feature f = feature((n + i) % 3);

				if (i < 3)
					bad |= commit(&k, &f) != 0;
				else if (i < 5)
					bad |= lookup(&k, &f, 0, NULL) < 0;
				else
					bad |= epd_feature_remove(k.c, &f.fp)
					    != 0;
			}
			_exit(bad);
		}
	}
	for (int i = 0; i < 6; i++)
		CHECK_INT(scratch_wait(pid[i]), 0);
	for (int i = 0; i < 3; i++) {
		struct epd_feature f = feature(i);

		if (lookup(&k, &f, 0, NULL) != 1)
			CHECK_INT(commit(&k, &f), 0);
		CHECK_INT(lookup(&k, &f, 0, NULL), 1);
	}
	CHECK_INT(sweep(&k, &gone), 0);
	CHECK_INT(cache_files(&k), 9);
	cache_close(&k);
}

/* In a child with mounts of its own: commits until the tmpfs is full. */
static int
fill_cache(void)
{
	static uint8_t noise[200 * 200 * 3];
	struct epd_features_options o = { .sync = 1 };
	struct epd_features *c;
	struct statfs before, after;
	int dir, n = 0, rc = 0;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL,
	    MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", scratch_path, "tmpfs", 0, "size=1024k"))
		return 77;
	dir = open(scratch_path, O_RDONLY | O_DIRECTORY);
	if (epd_features_open(&c, dir, &o))
		return 2;
	srand(1);
	for (size_t i = 0; i < sizeof noise; i++)
		noise[i] = (uint8_t)rand();
	while (!rc && n < 100) {
		struct epd_feature f = feature(n++);

		if (statfs(scratch_path, &before))
			return 3;
		/* The folder of the fan may be new. */
		rc = epd_feature_commit(c, &f, rows, noise, 200, 200);
	}
	if (rc != -ENOSPC || n < 3)
		return 4;
	if (statfs(scratch_path, &after) || before.f_bfree != after.f_bfree)
		return 5;
	/* Nothing that was acknowledged is lost. */
	for (int i = 0; i < n - 1; i++) {
		struct epd_feature f = feature(i);
		uint8_t got[ROW_BYTES], *rgb;
		long h, w;

		if (epd_feature_lookup(c, &f, 0, got, sizeof got, NULL) != 1 ||
		    memcmp(got, rows, sizeof got) ||
		    epd_feature_pixels(c, &f.fp, &rgb, &h, &w))
			return 6;
		epd_free(rgb);
	}
	if (epd_feature_check(c, NULL, NULL))
		return 7;
	epd_features_close(c);
	return 0;
}

TEST(kind19_full_tmpfs)
{
	int dir = scratch_open(), rc;
	pid_t pid = fork();

	if (!pid)
		_exit(fill_cache());
	rc = scratch_wait(pid);
	scratch_close(dir);
	if (rc == 77)
		SKIP("cannot mount a tmpfs");
	CHECK_INT(rc, 0);
}

/* ---- the memo ---- */

static struct epd_memo_key
key(uint64_t i)
{
	return (struct epd_memo_key){ .dev = 1, .ino = i, .size = 100,
	    .mtime_ns = 1000000000, .ctime_ns = 2000000000 };
}

TEST(memo_remembers_by_every_part)
{
	struct epd_name model = { { 1 } }, other = { { 2 } };
	struct epd_memo m = { { { 7, 8, 9 } }, { 1, 2, 3 } }, got;
	struct epd_memo_key a = key(1), b;
	struct cache k;

	CHECK_INT(cache_open(&k, 0), 0);
	CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 0);
	CHECK_INT(epd_memo_put(k.c, &a, &model, &m), 0);
	CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 1);
	CHECK(epd_name_equal(&got.fp, &m.fp));
	CHECK(!memcmp(got.grid, m.grid, sizeof m.grid));
	CHECK_INT(count(&k, EPD_M_MM_MEMO_HIT), 1);
	CHECK_INT(epd_memo_get(k.c, &a, &other, &got), 0);
	for (int i = 0; i < 5; i++) {
		b = a;
		if (i == 0) b.dev++;
		if (i == 1) b.ino++;
		if (i == 2) b.size++;
		if (i == 3) b.mtime_ns++;
		if (i == 4) b.ctime_ns++;
		CHECK_INT(epd_memo_get(k.c, &b, &model, &got), 0);
	}
	/* Said again, otherwise: the last counts. */
	m.grid[0] = 5;
	CHECK_INT(epd_memo_put(k.c, &a, &model, &m), 0);
	CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 1);
	CHECK_INT(got.grid[0], 5);
	cache_close(&k);
}

TEST(memo_does_not_note_young_files)
{
	struct epd_clock_fake now = { 1000000, 1 };
	struct epd_name model = { { 1 } };
	struct epd_memo m = { { { 7 } }, { 1, 2, 3 } }, got;
	struct epd_memo_key a = key(1);
	struct cache k;

	CHECK_INT(cache_open(&k, 0), 0);
	epd_clock_fake(&now);
	a.mtime_ns = 998001 * 1000000ll;
	CHECK_INT(epd_memo_put(k.c, &a, &model, &m), 0);
	CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 0);
	a.ctime_ns = a.mtime_ns;
	a.mtime_ns = 0;
	CHECK_INT(epd_memo_put(k.c, &a, &model, &m), 0);
	CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 0);
	a.ctime_ns = INT64_MAX;
	CHECK_INT(epd_memo_put(k.c, &a, &model, &m), 0);
	CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 0);
	a.ctime_ns = 998000 * 1000000ll;
	CHECK_INT(epd_memo_put(k.c, &a, &model, &m), 0);
	CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 1);
	epd_clock_fake(NULL);
	cache_close(&k);
}

TEST(memo_damage_and_size)
{
	struct epd_name model = { { 1 } };
	struct epd_memo m = { { { 7 } }, { 1, 2, 3 } }, got;
	struct epd_memo_key a = key(1);
	struct cache k;
	struct stat st;
	int fd, seen = 0;
	long at = -1;

	CHECK_INT(cache_open(&k, 0), 0);
	CHECK_INT(epd_memo_put(k.c, &a, &model, &m), 0);
	fd = epd_file_open(k.c->dirfd, "memo", O_RDWR, 0);
	CHECK(fd >= 0 && !fstat(fd, &st));
	CHECK_INT(st.st_mode & 0777, 0600);
	/* Its slot is the only one that is not zero. */
	for (long i = 0; i < st.st_size && at < 0; i += 80) {
		uint8_t b[80] = { 0 };

		if (i % 4096 > 4000)
			i += 16;
		CHECK(pread(fd, b, sizeof b, i) > 0);
		for (int n = 0; n < 80; n++)
			if (b[n])
				at = i;
	}
	CHECK(at >= 0);
	for (long i = at; i < at + 80; i++) {
		uint8_t c, x;

		CHECK(pread(fd, &c, 1, i) == 1);
		x = c ^ (uint8_t)(1 << i % 8);
		CHECK(pwrite(fd, &x, 1, i) == 1);
		CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 0);
		CHECK(pwrite(fd, &c, 1, i) == 1);
	}
	CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 1);
	CHECK_INT(ftruncate(fd, at + 79), 0);
	CHECK_INT(epd_memo_get(k.c, &a, &model, &got), 0);
	/* However much is noted, it stays one size and knows the newest. */
	for (uint64_t i = 0; i < 30000; i++) {
		a = key(i);
		m.grid[1] = (uint32_t)i;
		CHECK_INT(epd_memo_put(k.c, &a, &model, &m), 0);
	}
	CHECK(!fstat(fd, &st) && st.st_size <= 1 << 20);
	for (uint64_t i = 0; i < 30000; i++) {
		a = key(i);
		if (epd_memo_get(k.c, &a, &model, &got) == 1) {
			CHECK_INT(got.grid[1], i);
			seen++;
		}
	}
	CHECK(seen > 10000 && seen <= 256 * 51);
	close(fd);
	CHECK_INT(unlinkat(k.c->dirfd, "memo", 0), 0);
	CHECK_INT(mkdirat(k.c->dirfd, "memo", 0700), 0);
	CHECK(epd_memo_get(k.c, &a, &model, &got) < 0);
	CHECK(epd_memo_put(k.c, &a, &model, &m) < 0);
	cache_close(&k);
}

TEST(memo_several_writers)
{
	struct epd_name model = { { 1 } };
	struct cache k;
	pid_t pid[4];

	CHECK_INT(cache_open(&k, 0), 0);
	for (int p = 0; p < 4; p++) {
		pid[p] = fork();
		if (!pid[p]) {
			int bad = 0;

			for (uint64_t i = 0; i < 3000; i++) {
				struct epd_memo_key a = key(i % 700);
				struct epd_memo m = { { { 7 } }, { 1, 2, 3 } },
				    got;

				m.grid[2] = (uint32_t)(i % 700);
				bad |= epd_memo_put(k.c, &a, &model, &m) != 0;
				a = key((i * 31) % 700);
				if (epd_memo_get(k.c, &a, &model, &got) == 1)
					bad |= got.grid[2] != (i * 31) % 700;
			}
			_exit(bad);
		}
	}
	for (int p = 0; p < 4; p++)
		CHECK_INT(scratch_wait(pid[p]), 0);
	cache_close(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
