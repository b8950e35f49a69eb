/* tier_nvme_faults - what fails under a put or a get, and what a put that dies leaves. */
#include "fault.h"

#include <sched.h>
#include <sys/mount.h>
#include <time.h>

#include "tests/check.h"
#include "tier_lots.h"
#include "tier_ring.h"

/* One large enough that several moves are under way, of a size no one move has. */
static const struct epd_run_shape wide = { EPD_OBJECT_KV_PAGE, LOTS_BF16, 16,
    196608 };
enum { WIDE = 37 };

static void
goes(const char *tmp, enum epd_packing packing)
{
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open_in(&d, tmp, packing, UINT64_MAX), 0);
	lots_make(&k, &wide, "w1", 1, 0, WIDE, 5, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(disk_get(&d, &k), WIDE);
	CHECK_INT(disk_counted(&d, EPD_M_TIER_ERRORS), 0);
	lots_free(&k);
	disk_close(&d);
}

TEST(without_io_uring_it_goes_one_after_another)
{
	ring.no_uring = 1;
	goes(NULL, EPD_PACKING_NONE);
	goes("/var/tmp", EPD_PACKING_ZSTD);
	ring.no_uring = 0;
}

TEST(without_o_direct_it_goes_by_the_cache)
{
	ring.no_direct = 1;
	goes("/var/tmp", EPD_PACKING_NONE);
	goes(NULL, EPD_PACKING_ZSTD);
	ring.no_uring = 1;
	goes("/var/tmp", EPD_PACKING_AUTO);
	ring.no_uring = ring.no_direct = 0;
}

/* The ring refuses the nth move: the others of it are waited for, and it goes on. */
TEST(a_ring_that_takes_no_more_is_gone_on_without)
{
	struct lots k;
	struct disk d;

	if (!RING_HAS)
		SKIP("built without io_uring");
	for (int at = 1; at <= 8; at++) {
		CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
		lots_make(&k, &wide, "w1", 1, 0, WIDE, 16, 0);
		fault.only = "submit";
		fault_arm(at, ENOMEM, 0);
		CHECK_INT(disk_put(&d, &k), 0);
		CHECK_INT(fault_calls(), at);
		CHECK_INT(disk_get(&d, &k), WIDE);
		fault.only = "submit";
		fault_arm(at, EBUSY, 0);
		CHECK_INT(disk_get(&d, &k), WIDE);
		(void)fault_calls();
		lots_free(&k);
		disk_close(&d);
	}
}

TEST(kind16_memory_that_is_wanting_anywhere_is_no_hit)
{
	struct lots k;
	struct disk d;
	int rc, gone = 0;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &lots_small, "w1", 1, 0, 9, 16, 0);
	for (int on = 0; on < 2; on++) {
		for (int at = 1; at < 40; at++) {
			scratch_starve(at, on);
			rc = disk_put(&d, &k);
			gone = scratch_mem.count < at;
			scratch_starve(0, 0);
			CHECK(rc == 0 || rc == -ENOMEM);
			CHECK(rc || disk_get(&d, &k) == 9);
			CHECK(!rc || disk_get(&d, &k) == 0);
			CHECK_INT(disk_drop(&d, &k), 0);
			CHECK_INT(disk_files(&d), 0);
			CHECK_INT(disk_reopen(&d, EPD_PACKING_NONE, UINT64_MAX), 0);
			if (gone)
				break;
		}
		CHECK(gone);
		CHECK_INT(disk_put(&d, &k), 0);
		for (int at = 1; at < 40; at++) {
			long n;

			CHECK_INT(disk_reopen(&d, EPD_PACKING_NONE, UINT64_MAX), 0);
			scratch_starve(at, on);
			n = disk_get(&d, &k);
			gone = scratch_mem.count < at;
			scratch_starve(0, 0);
			CHECK(n == 9 || n == 0 || n == -ENOMEM);
			if (gone)
				break;
		}
		CHECK(gone);
		CHECK_INT(disk_get(&d, &k), 9);
		scratch_starve(1, 1);
		CHECK_INT(disk_has(&d, &k), -ENOMEM);
		scratch_starve(0, 0);
		CHECK_INT(disk_drop(&d, &k), 0);
	}
	CHECK_INT(disk_counted(&d, EPD_M_TIER_CORRUPT), 0);
	lots_free(&k);
	disk_close(&d);
}

/* Every call of a put fails in turn: nothing is there, or all; then it goes. */
static void
put_fails(int err, enum epd_packing packing)
{
	struct lots k;
	struct disk d;
	int rc, calls;

	CHECK_INT(disk_open(&d, packing), 0);
	lots_make(&k, &wide, "w1", 1, 0, WIDE, 16, 0);
	for (int at = 1; ; at++) {
		fault_arm(at, err, 0);
		rc = disk_put(&d, &k);
		calls = fault_calls();
		CHECK(rc == 0 || rc == -err || (rc == -ENOSPC && err == EDQUOT));
		if (rc && disk_has(&d, &k)) {
			/* The flush of the name: the pack is there and whole. */
			CHECK_INT(disk_get(&d, &k), WIDE);
			CHECK_INT(disk_drop(&d, &k), 0);
		}
		CHECK_INT(disk_get(&d, &k), rc ? 0 : WIDE);
		CHECK_INT(disk_drop(&d, &k), 0);
		CHECK_INT(scratch_count(d.dir, "store"), 0);
		if (calls < at)
			break;
	}
	lots_free(&k);
	disk_close(&d);
}

TEST(kind19_kind20_each_call_of_a_put_fails)
{
	ring.no_uring = 1;
	put_fails(EIO, EPD_PACKING_NONE);
	put_fails(ENOSPC, EPD_PACKING_NONE);
	put_fails(EDQUOT, EPD_PACKING_ZSTD);
	ring.no_uring = 0;
	put_fails(EIO, EPD_PACKING_ZSTD);
}

TEST(room_that_cannot_be_had_beforehand_is_had_as_it_goes)
{
	struct lots k;
	struct disk d;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &wide, "w1", 1, 0, WIDE, 16, 0);
	fault.only = "fallocate";
	fault_arm(1, EOPNOTSUPP, 0);
	CHECK_INT(disk_put(&d, &k), 0);
	CHECK_INT(fault_calls(), 1);
	CHECK_INT(disk_get(&d, &k), WIDE);
	lots_free(&k);
	disk_close(&d);
}

/* The nth read fails: those pages are missing and counted, the rest is there. */
static void
get_fails(int uring)
{
	uint64_t errors = 0;
	struct lots k;
	struct disk d;
	long n = 0;

	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &wide, "w1", 1, 0, WIDE, 16, 0);
	for (int at = 1; n < WIDE; at++) {
		CHECK_INT(disk_put(&d, &k), 0);
		fault.only = "pread";
		if (uring)
			ring_spoil(at);
		else
			fault_arm(at, EIO, 0);
		n = disk_get(&d, &k);
		(void)fault_calls();
		ring_spoil(0);
		CHECK(n >= 0);
		CHECK(n == WIDE || n >= WIDE - 6 || (!uring && at == 1 && !n));
		errors += !uring && !n ? 1 : (uint64_t)(WIDE - n);
		CHECK_INT(disk_counted(&d, EPD_M_TIER_ERRORS), errors);
		/* A put makes anew what could not be read, though it says it is there. */
		CHECK_INT(disk_put(&d, &k), 0);
		CHECK_INT(disk_get(&d, &k), WIDE);
	}
	CHECK(errors >= WIDE);
	CHECK_INT(disk_counted(&d, EPD_M_TIER_CORRUPT), 0);
	lots_free(&k);
	disk_close(&d);
}

TEST(kind20_what_cannot_be_read_is_a_miss_and_counted)
{
	ring.no_uring = 1;
	get_fails(0);
	ring.no_uring = 0;
	if (RING_HAS)
		get_fails(1);
}

TEST(kind20_a_write_that_fails_under_way_leaves_nothing)
{
	struct lots k;
	struct disk d;
	int rc = -EIO;

	if (!RING_HAS)
		SKIP("built without io_uring");
	CHECK_INT(disk_open(&d, EPD_PACKING_NONE), 0);
	lots_make(&k, &wide, "w1", 1, 0, WIDE, 16, 0);
	for (int at = 1; rc; at++) {
		ring_spoil(at);
		rc = disk_put(&d, &k);
		ring_spoil(0);
		CHECK(rc == 0 || rc == -EIO);
		CHECK_INT(disk_get(&d, &k), rc ? 0 : WIDE);
		CHECK(!rc || !disk_files(&d));
		CHECK(at < 30);
	}
	lots_free(&k);
	disk_close(&d);
}

/* Temporaries are old enough to be swept. */
static int
age(const struct disk *d)
{
	const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
	int w = openat(d->dir, LOTS_FOLDER "/w/w1", O_RDONLY | O_DIRECTORY), n = 0;
	DIR *l = w < 0 ? NULL : fdopendir(w);
	struct dirent *e;

	while (l && (e = readdir(l)))
		if (epd_is_temp(e->d_name))
			n += !utimensat(w, e->d_name, old, 0);
	if (l)
		closedir(l);
	return n;
}

static void
killed(enum epd_packing packing)
{
	struct lots k;
	struct disk d;
	int status = -SIGKILL, whole = 0, none = 0, swept = 0;
	uint64_t used;

	CHECK_INT(disk_open(&d, packing), 0);
	lots_make(&k, &wide, "w1", 1, 0, WIDE, 16, 0);
	for (int at = 1; status == -SIGKILL; at++) {
		pid_t pid = fork();
		long n;

		if (!pid) {
			fault_arm(at, 0, FAULT_KILL);
			_exit(disk_put(&d, &k) != 0);
		}
		status = scratch_wait(pid);
		CHECK(status == -SIGKILL || status == 0);
		n = disk_get(&d, &k);
		CHECK(n == 0 || n == WIDE);
		CHECK_INT(disk_counted(&d, EPD_M_TIER_CORRUPT), 0);
		whole += n == WIDE;
		none += n == 0;
		swept += age(&d);
		/* A dead process's ring lets go of the file when it gets to it. */
		for (int wait = 0; wait < 1000 && age(&d); wait++) {
			CHECK_INT(epd_memory_sweep(d.mem, NULL, NULL), 0);
			usleep(wait ? 1000 : 0);
		}
		CHECK_INT(age(&d), 0);
		CHECK_INT(disk_put(&d, &k), 0);
		CHECK_INT(disk_get(&d, &k), WIDE);
		CHECK_INT(epd_memory_used(d.m, &used), 0);
		CHECK_INT(used, disk_files(&d));
		CHECK_INT(disk_drop(&d, &k), 0);
		CHECK_INT(disk_files(&d), 0);
	}
	CHECK(none > 10 && whole > 1 && swept > 5);
	lots_free(&k);
	disk_close(&d);
}

TEST(kind22_kind33_killed_at_every_call_of_a_put)
{
	killed(EPD_PACKING_NONE);
	killed(EPD_PACKING_ZSTD);
	ring.no_uring = 1;
	killed(EPD_PACKING_NONE);
	ring.no_uring = 0;
}

TEST(kind22_the_same_as_anybody)
{
	pid_t pid;

	if (geteuid())
		SKIP("already so");
	pid = fork();
	if (!pid) {
		check_failed = 0;
		if (setgid(65534) || setuid(65534))
			_exit(2);
		killed(EPD_PACKING_NONE);
		_exit(check_failed);
	}
	CHECK_INT(scratch_wait(pid), 0);
}

/* In a child with mounts of its own: a disk of 2 MiB, and lots of 0.5 or more. */
static int
small_disk(void)
{
	enum { LOTS = 12 };
	struct lots k[LOTS];
	struct disk d;
	int all = 0;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE,
	    NULL) || mount("tmpfs", scratch_path, "tmpfs", 0, "size=2m"))
		return 77;
	if (disk_open_in(&d, scratch_path, EPD_PACKING_NONE, UINT64_MAX))
		return 1;
	for (unsigned i = 0; i < LOTS; i++) {
		lots_make(&k[i], &lots_small, "w1", i + 1, 1000 * i, 128, 16, 0);
		usleep(1000);
		if (disk_put(&d, &k[i])) {
			if (i < 2)
				return 2;
			break;
		}
		all++;
	}
	/* It is full below its cap: no more goes in, and what is there stays. */
	if (all == LOTS || disk_put(&d, &k[all]) != -ENOSPC ||
	    disk_get(&d, &k[all]))
		return 3;
	if (disk_counted(&d, EPD_M_EVICT_RUNS))
		return 4;
	for (int i = 0; i < all; i++)
		if (disk_get(&d, &k[i]) != 128)
			return 5;
	/* Clean, and nothing half there; with room again it goes on. */
	if (scratch_count(d.dir, "store") != all)
		return 6;
	if (epd_lower_ops(d.l)->drop(d.l, &k[0].lot, UINT64_MAX, NULL) ||
	    disk_put(&d, &k[all]) || disk_get(&d, &k[all]) != 128)
		return 7;
	return 0;
}

TEST(kind19_a_small_disk)
{
	const int dir = scratch_open();
	const pid_t pid = fork();
	int rc;

	if (!pid)
		_exit(small_disk());
	rc = scratch_wait(pid);
	scratch_close(dir);
	if (rc == 77)
		SKIP("mounting a small tmpfs takes root");
	CHECK_INT(rc, 0);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
