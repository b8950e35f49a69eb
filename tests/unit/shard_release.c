/*
 * shard_release.c - all states at once: few frames, one flush, what it says of
 * those that may not go, and where it was cut short.
 */
#include "tests/unit/fault.h"
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

static int
hold(struct epd_shard *s, uint32_t id)
{
	struct epd_handoff h = { .id = { (uint8_t)id }, .store = "",
	    .workflow = "w2", .state = id, .version = 1, .deadline_ms = 1 };

	return epd_shard_prepare(s, &h, NULL);
}

/* They are named, all others have gone, and what went is told. */
TEST(those_that_may_not_go)
{
	static const uint32_t held[] = {
		100, 3, 170, 169, 42, 41, 40, 1, 64, 65
	};
	const int n = sizeof held / sizeof *held;
	int dir = scratch_open();
	struct epd_why why = { "" };
	struct epd_state st;
	struct epd_shard *s;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	for (uint64_t i = 1; i <= 170; i++)
		CHECK_INT(shard_create(s, i, i, &id), 0);
	CHECK_INT(hold(s, held[0]), 0);
	freed = 0;
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why),
	    EPD_ESTATUS);
	CHECK_STR(why.text, "169 of 170 states released; s100: mid-hand-off, "
	    "until that is decided");
	CHECK_INT(freed, 169);
	CHECK_INT(epd_shard_next(s, 0, &st), 0);
	CHECK_INT(st.id, 100);
	CHECK_INT(epd_shard_next(s, 100, &st), EPD_ENOSTATE);
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why),
	    EPD_ESTATUS);
	CHECK_STR(why.text, "s100: mid-hand-off, until that is decided");
	CHECK_INT(freed, 169);
	epd_shard_close(s);
	scratch_close(dir);

	dir = scratch_open();
	CHECK_INT(shard_open(&s, dir, 0), 0);
	for (uint64_t i = 1; i <= 170; i++)
		CHECK_INT(shard_create(s, i, i, &id), 0);
	for (int i = 0; i < n; i++)
		CHECK_INT(hold(s, held[i]), 0);
	freed = 0;
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why),
	    EPD_ESTATUS);
	CHECK_STR(why.text, "160 of 170 states released; s40, s41, s42, s64, "
	    "s65, s100, s169, s170 and 2 more: mid-hand-off, until that is "
	    "decided");
	CHECK_INT(freed, 160);
	for (int i = 0; i < n; i++)
		CHECK_INT(epd_shard_state(s, held[i], &st), 0);
	for (int i = 0; i < n; i++)
		CHECK_INT(epd_shard_rollback_at(s,
		    (uint8_t[16]){ (uint8_t)held[i] }, 0, "test", &why), 0);
	CHECK_INT(epd_shard_release_all(s, "test", count, NULL, &why), n);
	CHECK_INT(freed, 170);
	CHECK_INT(epd_shard_check(s, NULL, NULL, &why), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

static int
how_many(int dir)
{
	struct epd_shard *s;
	struct epd_state st;
	int n = 0;

	if (shard_open(&s, dir, 0))
		return -1;
	for (uint32_t id = 0; !epd_shard_next(s, id, &st); id = st.id)
		n++;
	epd_shard_close(s);
	return n;
}

/* The disk is full at any write: some have gone, it says how many, and no more. */
TEST(a_full_disk)
{
	enum { MANY = 200 };
	struct shard_image im;
	struct epd_why why;
	struct epd_shard *s;
	int dir = scratch_open(), at = 0, some = 0, hit = 1;
	uint32_t id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	for (uint64_t i = 1; i <= MANY; i++)
		CHECK_INT(shard_create(s, i, i, &id), 0);
	epd_shard_close(s);
	CHECK_INT(shard_grab(&im, dir), 0);
	while (hit) {
		int rc, left, said = 0, all = MANY;

		CHECK_INT(shard_lay(&im, dir), 0);
		CHECK_INT(shard_open(&s, dir, 0), 0);
		why.text[0] = '\0';
		fault_arm(++at, ENOSPC, FAULT_ON);
		fault.only = "pwrite";
		rc = epd_shard_release_all(s, "test", NULL, NULL, &why);
		hit = fault_calls() >= at;
		epd_shard_close(s);
		left = how_many(dir);
		if (strstr(why.text, ", then: "))
			CHECK_INT(sscanf(why.text, "%d of %d states released, "
			    "then: ", &said, &all), 2);
		CHECK_INT(all, MANY);
		if (rc >= 0)
			CHECK_INT(left, 0);
		else if (rc == -ENOSPC)
			CHECK_INT(left, MANY - said);
		else
			CHECK(rc == EPD_EUNSURE && left <= MANY - said);
		some += rc == -ENOSPC && said > 0;
		if (check_failed || getenv("SHARD_WHY"))
			printf("# write %d: %d: %s, %d left\n", at, rc,
			    why.text, left);
		CHECK_INT(shard_open(&s, dir, 0), 0);
		CHECK_INT(epd_shard_release_all(s, "test", NULL, NULL, &why),
		    left);
		CHECK_INT(epd_shard_check(s, NULL, NULL, &why), 0);
		epd_shard_close(s);
	}
	printf("# %d writes, %d times some had gone\n", at - 1, some);
	CHECK(some >= 2);
	shard_image_free(&im);
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
