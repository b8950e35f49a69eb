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
	CHECK_INT(epd_shard_rollback_at(s, h.id, 0, "test", &why), 0);
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why), 100);
	CHECK_INT(freed, 170);
	CHECK_INT(epd_shard_check(s, NULL, NULL, &why), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

/* More than a frame of them; those that expired go whoever else is named. */
TEST(who_is_suspect_is_given_up)
{
	static struct epd_clock_fake now = { 1000000, 5000000000 };
	const uint64_t n = 150;
	struct shard_made m;
	struct epd_why why = { "" };
	struct epd_state st;
	struct epd_shard *s;
	int dir = scratch_open();
	uint32_t id;

	epd_clock_fake(&now);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	for (uint64_t i = 1; i <= n; i++) {
		st = shard_traits(i);
		st.ttl_deadline_ms = i > 4 ? 0 : now.wall_ms + 50;
		CHECK_INT(epd_shard_create(s, &st, shard_make(&m, i, i), &id,
		    &why), 0);
		if (i != 4 && i != 9)
			CHECK_INT(epd_shard_suspect(s, id, "away", &why), 0);
	}
	CHECK_INT(epd_shard_release(s, 7, "", NULL, NULL, &why), EPD_ESTATUS);
	CHECK_INT(epd_shard_give_up(s, 7, 0, "test", &why), 0);
	CHECK_INT(epd_shard_state(s, 7, &st), 0);
	CHECK_INT(st.status, EPD_ABORTED);
	CHECK_INT(epd_shard_state(s, 8, &st), 0);
	CHECK_INT(st.status, EPD_SUSPECT);
	CHECK_INT(epd_shard_state(s, 1, &st), 0);
	CHECK_INT(st.status, EPD_SUSPECT);
	now.wall_ms += 60;
	CHECK_INT(epd_shard_give_up(s, 0, 0, "expired", &why), 0);
	freed = 0;
	CHECK_INT(epd_shard_expire(s, count, NULL, &why), 4);
	CHECK_INT(freed, 4);
	CHECK_INT(epd_shard_state(s, 8, &st), 0);
	CHECK_INT(st.status, EPD_SUSPECT);
	CHECK_INT(epd_shard_give_up(s, 0, 1, "test", &why), 0);
	for (id = 5; id <= n; id++) {
		CHECK_INT(epd_shard_state(s, id, &st), 0);
		CHECK_INT(st.status, id == 9 ? EPD_ACTIVE : EPD_ABORTED);
	}
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why),
	    (int)n - 4);
	CHECK_INT(freed, (int)n);
	CHECK_INT(epd_shard_check(s, NULL, NULL, &why), 0);
	epd_shard_close(s);
	epd_clock_fake(NULL);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
