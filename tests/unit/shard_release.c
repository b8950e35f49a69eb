/* shard_release.c - all states at once: few frames, one flush, what it says of one that may not go. */
#include "tests/unit/shard.h"

enum { STATES = 1000 };

static int freed;

static void
count(void *arg, uint64_t run)
{
	(void)arg;
	freed += run != 0;
}

static uint64_t
flushes(struct epd_metrics *m)
{
	return epd_metrics_get(m, EPD_M_LOG_FLUSHES);
}

TEST(many_go_with_few_flushes)
{
	int dir = scratch_open();
	struct epd_shard_options o = shard_plain;
	struct epd_metrics *m;
	struct epd_why why = { "" };
	struct epd_state st;
	struct epd_shard *s;
	uint64_t before;
	uint32_t id;

	CHECK_INT(epd_metrics_open(&m, dir), 0);
	o.metrics = m;
	o.sync = 0;
	CHECK_INT(epd_shard_open(&s, dir, &o, &why), 0);
	for (uint64_t i = 1; i <= STATES; i++)
		CHECK_INT(shard_create(s, i, i, &id), 0);
	epd_shard_close(s);
	o.sync = 1;
	CHECK_INT(epd_shard_open(&s, dir, &o, &why), 0);
	before = flushes(m);
	freed = 0;
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why), STATES);
	CHECK_INT(freed, STATES);
	printf("# %d flushes\n", (int)(flushes(m) - before));
	CHECK(flushes(m) - before >= 1 && flushes(m) - before < 8);
	CHECK_INT(epd_shard_next(s, 0, &st), EPD_ENOSTATE);
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why), 0);
	CHECK_INT(epd_shard_check(s, NULL, NULL, &why), 0);
	epd_shard_close(s);
	CHECK_INT(shard_open(&s, dir, 1), 0);
	CHECK_INT(epd_shard_next(s, 0, &st), EPD_ENOSTATE);
	epd_shard_close(s);
	epd_metrics_close(m);
	scratch_close(dir);
}

/* It is named, those that are newer have gone, and what went is told. */
TEST(one_that_may_not_go)
{
	int dir = scratch_open();
	struct epd_handoff h = { .id = { 7 }, .store = "", .workflow = "w2",
	    .state = 100, .version = 1, .deadline_ms = 1 };
	struct epd_why why = { "" };
	struct epd_state st;
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	for (uint64_t i = 1; i <= 170; i++)
		CHECK_INT(shard_create(s, i, i, &id), 0);
	CHECK_INT(epd_shard_prepare(s, &h, &why), 0);
	freed = 0;
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why),
	    EPD_ESTATUS);
	CHECK(strstr(why.text, "s100: mid-hand-off"));
	CHECK_INT(freed, 70);
	CHECK_INT(epd_shard_next(s, 99, &st), 0);
	CHECK_INT(st.id, 100);
	CHECK_INT(epd_shard_next(s, 100, &st), EPD_ENOSTATE);
	CHECK_INT(epd_shard_rollback(s, h.id, "test", &why), 0);
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why), 100);
	CHECK_INT(freed, 170);
	CHECK_INT(epd_shard_check(s, NULL, NULL, &why), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
