/* shard_unmake.c - an empty workflow is removed, and nobody is told of what goes. */
#include "base/lock.h"
#include "shard/shard_in.h"
#include "tests/unit/shard_gate.h"

static int removed;	/* how often the rest was asked for */

static void
also(void *arg)
{
	removed++;
	CHECK(faccessat(*(int *)arg, "log.00000001", F_OK, 0) < 0);
	CHECK(!faccessat(*(int *)arg, "lock", F_OK, 0));
}

static int
unmake(int dir)
{
	struct epd_why why = { "" };
	int rc;

	removed = 0;
	rc = epd_shard_unmake(dir, also, &dir, &why);
	if (rc && getenv("SHARD_WHY"))
		printf("# %d: %s\n", rc, why.text);
	return rc;
}

static int
held(int dir)
{
	int fd = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 || epd_lock_try(fd) ? -1 : fd;
}

/* Whoever has it open is told, reader and writer, now and later. */
TEST(an_empty_one)
{
	int dir = scratch_open(), fd;
	struct epd_why why = { "" };
	struct epd_state st = shard_traits(1);
	struct epd_shard *s, *again;
	struct shard_made m;
	uint32_t id = 77;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	fd = openat(dir, ".tmp.0123", O_CREAT | O_WRONLY, 0600);
	close(fd);
	CHECK_INT(unmake(dir), 0);
	CHECK_INT(removed, 1);
	CHECK_INT(scratch_count(dir, NULL), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(epd_shard_create(s, &st, shard_make(&m, 1, 0), &id,
		    &why), EPD_ESTALE);
	CHECK_STR(why.text, "the workflow was empty, and was removed meanwhile");
	CHECK_INT(id, 77);
	CHECK_INT(scratch_count(dir, NULL), 0);
	/* Who comes anew begins anew, and shares nothing with who was there. */
	CHECK_INT(shard_open(&again, dir, 0), 0);
	CHECK_INT(shard_create(again, 2, 0, &id), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), EPD_ESTALE);
	CHECK_INT(epd_shard_checkpoint(s, NULL), EPD_ESTALE);
	CHECK_INT(shard_create(again, 3, 0, &id), 0);
	epd_shard_close(s);
	epd_shard_close(again);
	CHECK_INT(gate_count(dir, 2), 1);
	CHECK_INT(gate_count(dir, 1), 0);
	scratch_close(dir);
}

/* Its maker may have got no further than this. */
TEST(one_that_was_hardly_begun)
{
	static const char *const stages[] = { "", "lock", "tip", "log.00000001" };
	struct epd_shard *s;

	for (int i = 0; i < 4; i++) {
		int dir = scratch_open();

		CHECK_INT(shard_open(&s, dir, 0), 0);
		epd_shard_close(s);
		if (i < 3)
			CHECK(!unlinkat(dir, "log.00000001", 0));
		if (i < 2)
			CHECK(!unlinkat(dir, "tip", 0));
		if (i < 1)
			CHECK(!unlinkat(dir, "lock", 0));
		CHECK(!*stages[i] || !faccessat(dir, stages[i], F_OK, 0));
		CHECK_INT(unmake(dir), 0);
		CHECK_INT(scratch_count(dir, NULL), 0);
		scratch_close(dir);
	}
}

/* Who had it open and finds the log gone, of one who died at removing it. */
TEST(half_removed)
{
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK(!unlinkat(dir, "log.00000001", 0));
	CHECK_INT(shard_create(s, 1, 0, &id), EPD_ESTALE);
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(unmake(dir), EPD_ESTATUS);
	/* A log that had records is no empty one for being gone. */
	CHECK(!unlinkat(dir, "log.00000001", 0));
	CHECK_INT(shard_create(s, 2, 0, &id), EPD_ECORRUPT);
	CHECK_INT(unmake(dir), EPD_ECORRUPT);
	epd_shard_close(s);
	scratch_close(dir);
}

TEST(one_with_a_record)
{
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(unmake(dir), EPD_ESTATUS);
	/* Released it has had one still: somebody was told of it. */
	CHECK_INT(epd_shard_release(s, id, "", NULL, NULL, NULL), 0);
	CHECK_INT(unmake(dir), EPD_ESTATUS);
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	CHECK_INT(unmake(dir), EPD_ESTATUS);
	CHECK_INT(shard_create(s, 2, 0, &id), 0);
	CHECK_INT(removed, 0);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 2), 1);
	scratch_close(dir);
}

/* A record that its writer has yet to flush. */
TEST(one_whose_record_is_not_published)
{
	int dir = scratch_open();
	struct epd_shard *s;
	struct task t;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	gate_shut();
	CHECK_INT(task_begin(&t, s, task_create, 1), 0);
	CHECK(gate_await(1));
	CHECK_INT(gate_lsn(dir, 0), 0);
	CHECK_INT(unmake(dir), EPD_ESTATUS);
	gate_open();
	CHECK_INT(task_end(&t), 0);
	epd_shard_close(s);
	CHECK_INT(gate_count(dir, 1), 1);
	scratch_close(dir);
}

/* What a crash left of a first record was never told. */
TEST(one_with_a_torn_record)
{
	int dir = scratch_open(), fd;
	struct epd_shard *s;
	uint64_t size;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	size = epd_wal_pos(s->wal)->offset;
	epd_shard_close(s);
	fd = openat(dir, "log.00000001", O_WRONLY | O_CLOEXEC);
	CHECK(pwrite(fd, "torn", 4, (off_t)size) == 4);
	close(fd);
	CHECK_INT(unmake(dir), 0);
	CHECK_INT(scratch_count(dir, NULL), 0);
	scratch_close(dir);
}

TEST(one_that_somebody_is_at)
{
	int dir = scratch_open(), fd;
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	fd = held(dir);
	CHECK(fd >= 0);
	CHECK_INT(unmake(dir), EPD_ELOCKED);
	close(fd);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

static int
task_open(struct task *t)
{
	return shard_open(&t->s, *(int *)t->arg, 0);
}

/* Who waits to begin a log gets a lock that has no name any more. */
TEST(who_waits_meanwhile)
{
	int dir = scratch_open(), fd = held(dir);
	struct task t = { .arg = &dir };

	CHECK(fd >= 0);
	CHECK_INT(task_begin(&t, NULL, task_open, 0), 0);
	usleep(50000);
	CHECK(!unlinkat(dir, "lock", 0));
	close(fd);
	CHECK_INT(task_end(&t), EPD_ESTALE);
	CHECK_INT(scratch_count(dir, NULL), 0);
	scratch_close(dir);
}

/* Without memory nothing goes. */
TEST(each_allocation_fails)
{
	int dir = scratch_open(), rc = -ENOMEM, n = 0;
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	while (rc == -ENOMEM) {
		scratch_starve(++n, 0);
		rc = unmake(dir);
		scratch_starve(0, 0);
		CHECK(!rc || !faccessat(dir, "log.00000001", F_OK, 0));
	}
	CHECK(n > 1);
	CHECK_INT(rc, 0);
	CHECK_INT(shard_create(s, 1, 0, &id), EPD_ESTALE);
	epd_shard_close(s);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
