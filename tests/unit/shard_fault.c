/* shard_fault.c - calls that fail, memory that fails, and kills at every call. */
#include <sys/mount.h>

#include "tests/unit/shard_fault.h"

/* Each call, each error, once and for ever, with sync and without. */
static void
fail_each(void)
{
	static const int errors[] = { EIO, ENOSPC, EINTR };
	const int stride = SHARD_SLOW ? 4 : 1;

	for (int i = 0; i < 6 && !check_failed; i++) {
		fault_each(errors[i / 2], 0, NULL, stride, i % 2);
		/* A call that is interrupted for ever never ends. */
		if (errors[i / 2] != EINTR)
			fault_each(errors[i / 2], FAULT_ON, NULL, stride,
			    i % 2);
	}
}

TEST(each_call_fails)
{
	fail_each();
}

TEST(no_room_at_each_write)
{
	fault_each(ENOSPC, 0, "pwrite", 1, 1);
	fault_each(ENOSPC, FAULT_ON, "pwrite", 1, 1);
}

TEST(each_flush_fails)
{
	fault_each(EIO, 0, "fdatasync", 1, 1);
	fault_each(EIO, FAULT_ON, "fdatasync", 1, 1);
}

TEST(killed_at_every_call)
{
	int rc = -SIGKILL, n;

	for (n = 1; rc == -SIGKILL && !check_failed; n++)
		rc = fault_kill(n, NULL);
	CHECK_INT(rc, 0);
	CHECK(n > 60);
}

TEST(killed_before_every_flush)
{
	int rc = -SIGKILL, n;

	for (n = 1; rc == -SIGKILL && !check_failed; n++)
		rc = fault_kill(n, "fdatasync");
	CHECK_INT(rc, 0);
	CHECK(n > FAULT_OPS);
}

static void
fail_holds(void)
{
	struct fault_score none = { .rc = { 0 } };
	int rc;

	/* Unharmed they all go well. */
	CHECK(hold_replayed((1u << HOLD_OPS) - 1, &rc));
	CHECK(!hold_explained(&none, 1));
	fail_each();
	fault_each(ENOSPC, 0, "pwrite", 1, 1);
	fault_each(ENOSPC, FAULT_ON, "pwrite", 3, 1);
	fault_each(EIO, 0, "fdatasync", 1, 1);
}

TEST(branches_leases_and_hand_offs_fail)
{
	with_holds(fail_holds);
}

static void
kill_holds(void)
{
	int rc = -SIGKILL, n;

	for (n = 1; rc == -SIGKILL && !check_failed; n++)
		rc = fault_kill(n, NULL);
	CHECK_INT(rc, 0);
	CHECK(n > 100);
}

TEST(branches_leases_and_hand_offs_killed)
{
	with_holds(kill_holds);
}

/* What each of the calls above was told, in all. */
TEST(how_many_failed)
{
	fault_tell_all(SHARD_SLOW ? 500 : 3000);
}

/* A failed flush: this handle stops, and what was not flushed is not trusted. */
TEST(poisoned)
{
	int dir = scratch_open();
	struct epd_why why = { "" };
	struct epd_state st = shard_traits(1);
	struct epd_shard *s, *other, *reader;
	struct shard_made m;
	uint32_t id = 0;

	CHECK_INT(shard_open(&other, dir, 0), 0);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	fault_arm(1, EIO, 0);
	fault.only = "fdatasync";
	CHECK_INT(epd_shard_create(s, &st, shard_make(&m, 2, 0), &id, &why),
	    EPD_EUNSURE);
	fault_calls();
	CHECK_INT(id, 1);
	CHECK(strstr(why.text, "open again"));
	CHECK_INT(faccessat(dir, "unsure", F_OK, 0), 0);
	CHECK_INT(epd_shard_create(s, &st, shard_make(&m, 2, 0), &id, &why),
	    EPD_EPOISONED);
	CHECK_INT(shard_open(&reader, dir, 1), 0);
	CHECK_INT(epd_shard_lsn(reader), 1);
	/* Another handle settles it when it appends, and both go on. */
	CHECK_INT(shard_create(other, 3, 0, &id), 0);
	CHECK(faccessat(dir, "unsure", F_OK, 0));
	CHECK_INT(epd_shard_catch_up(reader, NULL), 0);
	CHECK(shard_hash(reader) == shard_hash(other));
	CHECK_INT(epd_shard_create(s, &st, shard_make(&m, 2, 0), &id, &why),
	    EPD_EPOISONED);
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 4, 0, &id), 0);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	epd_shard_close(other);
	epd_shard_close(reader);
	scratch_close(dir);
}

/* A whole frame behind the tip is flushed before anybody may rely on it. */
TEST(adopted_is_flushed_first)
{
	int dir = scratch_open();
	struct shard_image one;
	struct shard_file *tip;
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(shard_grab(&one, dir), 0);
	CHECK_INT(shard_create(s, 2, 0, &id), 0);
	epd_shard_close(s);
	tip = shard_file(&one, "tip");
	CHECK_INT(shard_put(dir, "tip", tip->data.p, tip->data.n), 0);
	fault_arm(1, EIO, 0);
	fault.only = "fdatasync";
	CHECK_INT(shard_open(&s, dir, 0), EPD_EUNSURE);
	CHECK_INT(fault_calls(), 1);
	CHECK_INT(faccessat(dir, "unsure", F_OK, 0), 0);
	CHECK_INT(shard_open(&s, dir, 1), 0);
	CHECK_INT(epd_shard_lsn(s), 1);
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_lsn(s), 2);
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 1), 0);
	CHECK_INT(epd_shard_lsn(s), 2);
	epd_shard_close(s);
	shard_image_free(&one);
	scratch_close(dir);
}

/* Appends until the disk is full, and on when it is not. */
static void
fill_up(int dir)
{
	struct epd_state st = shard_traits(1);
	uint32_t id = 0, last = 0;
	struct epd_shard *s, *r;
	struct shard_made m;
	int rc = 0, fd;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	fd = openat(dir, "ballast", O_WRONLY | O_CREAT, 0600);
	CHECK_INT(posix_fallocate(fd, 0, 40960), 0);
	close(fd);
	while (!rc && last < 500) {
		rc = epd_shard_create(s, &st, shard_make(&m, last, last + 1),
		    &id, NULL);
		last = rc ? last : id;
	}
	CHECK_INT(rc, -ENOSPC);
	CHECK(last > 3);
	CHECK_INT(shard_open(&r, dir, 1), 0);
	CHECK_INT(epd_shard_lsn(r), last);
	unlinkat(dir, "ballast", 0);
	CHECK_INT(shard_create(s, 7, 900, &id), 0);
	CHECK_INT(id, last + 1);
	CHECK_INT(epd_shard_catch_up(r, NULL), 0);
	CHECK_INT(epd_shard_lsn(r), last + 1);
	CHECK_INT(epd_shard_check(r, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(r);
	epd_shard_close(s);
}

/* Kind 33: a fragment left by a full disk must not hide what comes after it. */
TEST(full_disk_leaves_no_fragment)
{
	int top = scratch_open(), dir;

	if (mount("tmpfs", scratch_path, "tmpfs", 0, "size=64k")) {
		scratch_close(top);
		SKIP("skip: mounting a small tmpfs needs root");
	}
	dir = open(scratch_path, O_RDONLY | O_DIRECTORY);
	fill_up(dir);
	close(dir);
	umount2(scratch_path, MNT_DETACH);
	scratch_close(top);
}

/* The nth allocation fails, in everything that allocates; how many there were. */
static int
starve(int n, int on)
{
	struct epd_shard_options o = fault_options(1);
	int dir = scratch_open(), rc, calls, made = 0, released = 0;
	struct epd_shard *s = NULL, *after;
	uint32_t id, version = 0;

	scratch_starve(n, on);
	rc = epd_shard_open(&s, dir, &o, NULL);
	for (int k = 0; k < 4 && !rc; k++) {
		struct epd_state st;

		rc = shard_create(s, (uint64_t)k + 1, (uint64_t)k + 1, &id);
		made += !rc;
		if (!rc)
			rc = shard_advance(s, id, 1, 0, 3, 0, &version);
		if (!rc && !shard_hash(s))
			rc = -ENOMEM;
		if (!rc)
			rc = epd_shard_state(s, id, &st);
	}
	if (!rc)
		rc = epd_shard_release(s, 2, "", NULL, NULL, NULL);
	released = !rc;
	if (!rc)
		rc = epd_shard_checkpoint(s, NULL);
	if (!rc)
		rc = epd_shard_check(s, shard_fault_print, NULL, NULL);
	calls = scratch_mem.count;
	scratch_starve(0, 0);
	epd_shard_close(s);
	if (rc && rc != -ENOMEM)
		printf("# allocation %d: %d\n", n, rc);
	if (shard_open(&after, dir, 0))
		return -1;
	for (int k = 0; k < made; k++)
		if (fault_count(after, (uint64_t)k + 1) != (k != 1 || !released))
			rc = -1;
	if (epd_shard_check(after, shard_fault_print, NULL, NULL))
		rc = -1;
	epd_shard_close(after);
	scratch_close(dir);
	return rc && rc != -ENOMEM ? -1 : calls;
}

/* Allocations of a run, and how often one failed. */
static struct { unsigned points, runs; } starved;

static void
starve_tell(void)
{
	printf("# row 5: %s runs, each of %s allocations failed, once and with "
	    "all after it\n", row_n(starved.runs), row_n(starved.points));
}

TEST(each_allocation_fails)
{
	int calls = starve(1 << 30, 0);

	CHECK(calls > 60);
	for (int n = 1; n <= calls; n++)
		if (starve(n, 0) < 0)
			CHECK_FAIL("allocation %d", n);
	for (int n = 1; n < calls; n++)
		if (starve(n, 1) < 0)
			CHECK_FAIL("allocations from %d on", n);
	starved.points += (unsigned)calls;
	starved.runs += 2 * (unsigned)calls;
}

/* The nth allocation fails in what forks, leases and hands over. */
static int
starve_holds(int n, int on)
{
	int dir = scratch_open(), calls;
	struct epd_shard_options o = hold_options(1);
	struct fault_score score;
	struct epd_shard *s = NULL;

	scratch_starve(n, on);
	hold_work(&score, dir, 1);
	/* And in reading what came of it. */
	if (!epd_shard_open(&s, dir, &o, NULL)) {
		(void)hold_hash(s);
		(void)epd_shard_checkpoint(s, NULL);
		(void)epd_shard_check(s, shard_fault_print, NULL, NULL);
	}
	calls = scratch_mem.count;
	scratch_starve(0, 0);
	epd_shard_close(s);
	for (int k = 0; k < HOLD_OPS && !score.opened; k++)
		/* What rests on one that failed may be refused. */
		if (score.rc[k] && score.rc[k] != -ENOMEM &&
		    score.rc[k] != EPD_ENOSTATE &&
		    score.rc[k] != EPD_ENOTHING &&
		    score.rc[k] != EPD_EVERSION &&
		    score.rc[k] != EPD_ESTATUS && score.rc[k] != EPD_ELEASE &&
		    score.rc[k] != EPD_EABORTED && score.rc[k] != EPD_ELOCKED) {
			printf("# operation %d: %d\n", k, score.rc[k]);
			check_failed = 1;
		}
	if (score.opened && score.opened != -ENOMEM)
		check_failed = 1;
	if (!check_failed)
		hold_verify(&score, dir);
	scratch_close(dir);
	return calls;
}

static void
starve_them(void)
{
	int calls = starve_holds(1 << 30, 0);

	CHECK(calls > 100);
	for (int n = 1; n <= calls && !check_failed; n++) {
		starve_holds(n, 0);
		if (check_failed)
			printf("# allocation %d\n", n);
	}
	for (int n = 1; n <= calls && !check_failed; n += SHARD_SLOW ? 3 : 1) {
		starve_holds(n, 1);
		if (check_failed)
			printf("# allocations from %d on\n", n);
	}
	starved.points += (unsigned)calls;
	starved.runs += (SHARD_SLOW ? 4u : 6u) * (unsigned)calls / 3;
	starve_tell();
}

TEST(branches_leases_and_hand_offs_starved)
{
	with_holds(starve_them);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
