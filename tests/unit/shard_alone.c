/*
 * shard_alone.c - branches that share nothing: made in one go with the end of
 * their parent, from what is so under the lock, or not at all.
 */
#include "shard/shard_in.h"
#include "tests/unit/fault.h"
#include "tests/unit/shard_hold.h"

enum { MANY = 200 };		/* more than a frame has */

static struct epd_fork_ask
asking(uint32_t branches)
{
	return (struct epd_fork_ask){
		.state = 1, .version = 1, .branches = branches, .reason = "test",
	};
}

static int
alone(struct epd_shard *s, const struct epd_fork_ask *f, uint32_t *first,
    struct epd_why *why)
{
	struct epd_state traits = shard_traits(1);
	struct shard_made m;

	return epd_shard_fork_alone(s, f, &traits, shard_make(&m, 1, 0), first,
	    why);
}

static int
states(struct epd_shard *s)
{
	struct epd_state st = { .id = 0 };
	int n = 0;

	while (!epd_shard_next(s, st.id, &st))
		n++;
	return n;
}

/* Those that anybody sees who opens it now. */
static int
seen(int dir)
{
	struct epd_shard *s;
	int n;

	if (shard_open(&s, dir, 0))
		return -1;
	n = epd_shard_check(s, shard_fault_print, NULL, NULL) ? -2 : states(s);
	epd_shard_close(s);
	return n;
}

struct frames {
	uint64_t creates, releases;
};

static int
count(void *arg, const struct epd_record *r)
{
	struct frames *f = arg;

	f->creates += !strcmp(r->kind, "create");
	f->releases += !strcmp(r->kind, "release");
	return 0;
}

/* As those that share, but for what they share. */
TEST(what_they_are)
{
	int dir = scratch_open(), other = scratch_open();
	struct epd_fork_ask f = asking(3);
	struct epd_shard *s, *twin;
	struct epd_version v, w;
	struct epd_state st;
	uint32_t first, same, id;

	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_open(&twin, other, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(shard_create(twin, 1, 0, &id), 0);
	for (int seeded = 0; seeded < 2; seeded++) {
		f.has_seed = seeded;
		f.seed = 5;
		CHECK_INT(alone(s, &f, &first, NULL), 0);
		CHECK_INT(epd_shard_fork(twin, &f, &same, NULL), 0);
		CHECK_INT(first, same);
		for (uint32_t i = 0; i < f.branches; i++) {
			CHECK_INT(epd_shard_state(s, first + i, &st), 0);
			CHECK(st.parent_state == 1 && st.parent_version == 1);
			CHECK_INT(epd_shard_version(s, first + i, 1, &v), 0);
			CHECK_INT(epd_shard_version(twin, first + i, 1, &w), 0);
			CHECK(v.sampling.salt == w.sampling.salt);
			CHECK(!v.parent);
		}
	}
	f.ttl_ms = 600000;
	CHECK_INT(alone(s, &f, &first, NULL), 0);
	CHECK_INT(epd_shard_state(s, first, &st), 0);
	CHECK(st.ttl_deadline_ms > epd_clock_wall_ms());
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	epd_shard_close(twin);
	scratch_close(other);
	scratch_close(dir);
}

/* The parent goes in the frame of the last of them. */
TEST(instead_of_their_parent)
{
	uint8_t told[256] = { 0 };

	for (uint32_t n = 1; n <= MANY; n += MANY - 1) {
		int dir = scratch_open();
		struct frames got = { 0, 0 };
		struct epd_fork_ask f = asking(n);
		struct epd_state st;
		struct epd_shard *s;
		uint32_t first, id;
		uint64_t lsn;

		CHECK_INT(shard_open(&s, dir, 0), 0);
		CHECK_INT(shard_create(s, 1, 9, &id), 0);
		lsn = epd_shard_lsn(s);
		f.replace = 1;
		f.expect = 1;
		CHECK_INT(alone(s, &f, &first, NULL), 0);
		CHECK_INT(first, 2);
		CHECK_INT(epd_shard_lsn(s), lsn + n + 1);
		CHECK_INT(states(s), n);
		CHECK_INT(epd_shard_state(s, 1, &st), EPD_ENOSTATE);
		CHECK_INT(epd_shard_walk(s, count, &got, NULL), 0);
		CHECK(got.creates == n + 1 && got.releases == 1);
		epd_shard_tell(s, hold_freed, told);
		CHECK_INT(told[9], 1);
		told[9] = 0;
		CHECK(hold_same(s, dir));
		epd_shard_close(s);
		CHECK_INT(seen(dir), n);
		scratch_close(dir);
	}
}

static void
decode(int said, int go, void *arg)
{
	const int *dirs = arg;
	struct epd_procs *procs;
	struct epd_shard *s;
	uint64_t id;
	int rc = epd_procs_open(&procs, dirs[1]);

	if (!rc)
		rc = hold_open(&s, dirs[0], procs);
	if (!rc)
		rc = epd_shard_lease(s, 1, 0, EPD_LEASE_DECODE, 600000, &id,
		    NULL);
	hold_say(said, rc);
	hold_hear(go);
}

/* By what others have done since this handle looked. */
TEST(what_is_so_under_the_lock_counts)
{
	int dir = scratch_open(), store = scratch_open(), rc;
	int dirs[2] = { dir, store };
	struct epd_handoff half = { .id = { 1 }, .state = 1, .version = 2 };
	struct epd_fork_ask f = asking(2);
	struct epd_why why = { "" };
	struct hold_child child;
	struct epd_procs *procs;
	struct epd_shard *s, *by;
	uint32_t id, version, first = 77;
	struct epd_state st;

	CHECK_INT(epd_procs_open(&procs, store), 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(hold_open(&by, dir, procs), 0);
	f.replace = 1;
	f.expect = 1;
	CHECK_INT(shard_advance(by, 1, 1, 0, 2, 0, &version), 0);
	CHECK_INT(epd_shard_state(s, 1, &st), 0);
	CHECK_INT(st.versions, 1);
	CHECK_INT(alone(s, &f, &first, &why), EPD_EVERSION);
	CHECK_STR(why.text, "s1: it is at @2, not @1");
	f.expect = 2;
	f.version = 3;
	CHECK_INT(alone(s, &f, &first, &why), EPD_ENOTHING);
	f.version = 2;
	for (int replace = 0; replace < 2; replace++) {
		f.replace = replace;
		hold_fork(&child, &rc, decode, dirs);
		CHECK_INT(rc, 0);
		CHECK_INT(alone(s, &f, &first, &why), EPD_ELOCKED);
		CHECK_INT(hold_end(&child, SIGKILL), -SIGKILL);
		half.id[0]++;
		CHECK_INT(epd_shard_prepare(by, &half, NULL), 0);
		CHECK_INT(alone(s, &f, &first, &why), EPD_ESTATUS);
		CHECK_STR(why.text, "s1: mid-hand-off, until that is decided");
		CHECK_INT(epd_shard_rollback_at(by, half.id, 0, "", NULL), 0);
		CHECK_INT(epd_shard_suspect(by, 1, "", NULL), 0);
		CHECK_INT(alone(s, &f, &first, &why), EPD_ESTATUS);
		CHECK_INT(epd_shard_clear(by, 1, "", NULL), 0);
	}
	f.branches = 0;
	CHECK_INT(alone(s, &f, &first, &why), -EINVAL);
	f.branches = EPD_FORK_MAX + 1;
	CHECK_INT(alone(s, &f, &first, &why), -EINVAL);
	f.branches = 2;
	CHECK_INT(states(s), 1);
	CHECK_INT(first, 77);
	CHECK_INT(alone(s, &f, &first, &why), 0);
	CHECK_INT(first, 2);
	CHECK_INT(alone(s, &f, &first, &why), EPD_ENOSTATE);
	CHECK(hold_same(s, dir));
	epd_shard_close(by);
	epd_shard_close(s);
	epd_procs_close(procs);
	scratch_close(store);
	scratch_close(dir);
}

enum { STARVE, EIOS, NOSPACE, NOSPACE_ON, WAYS };

static void
strike(int way, int n)
{
	if (way == STARVE)
		scratch_starve(n, 0);
	else
		fault_arm(n, way == EIOS ? EIO : ENOSPC,
		    way == NOSPACE_ON ? FAULT_ON : 0);
}

/* How many calls there were. */
static int
stop(int way)
{
	int n = way == STARVE ? scratch_mem.count : fault_calls();

	scratch_starve(0, 0);
	return n;
}

/*
 * Whatever fails: what was not made is not there; where that is unsure the
 * sentence has the numbers, and of the parent and them one is there.
 */
static void
each_failure(uint32_t branches, int replace)
{
	int failed = 0, unsure = 0;

	for (int way = 0; way < WAYS; way++)
		for (int n = 1, struck = 1; struck; n++) {
			int dir = scratch_open(), rc, now;
			struct epd_fork_ask f = asking(branches);
			struct epd_why why = { "" };
			struct epd_shard *s;
			uint32_t first, id;

			f.replace = replace;
			CHECK_INT(shard_open(&s, dir, 0), 0);
			CHECK_INT(shard_create(s, 1, 0, &id), 0);
			strike(way, n);
			rc = alone(s, &f, &first, &why);
			struck = stop(way) >= n;
			epd_shard_close(s);
			now = seen(dir);
			failed += rc < 0;
			unsure += rc == EPD_EUNSURE;
			if (rc == 0)
				CHECK_INT(now, (int)branches + !replace);
			else if (rc != EPD_EUNSURE)
				CHECK_INT(now, 1);
			else
				CHECK(strstr(why.text, "any of s2 to s") &&
				    now >= 1);
			scratch_close(dir);
		}
	printf("# %u branches: %d failed, %d of them unsure\n", branches,
	    failed, unsure);
	CHECK(failed > 10 && unsure > 0);
}

TEST(each_call_fails)
{
	each_failure(3, 0);
	each_failure(3, 1);
}

TEST(each_call_fails_in_several_frames) { each_failure(MANY, 1); }

/* Killed in a frame of all of them it is all or none. */
TEST(killed_at_each_call)
{
	int died = 1, died_at = 0;

	for (int n = 1; died; n++) {
		int dir = scratch_open(), now;
		struct epd_fork_ask f = asking(3);
		struct epd_shard *s;
		uint32_t first, id;
		pid_t pid;

		f.replace = 1;
		CHECK_INT(shard_open(&s, dir, 0), 0);
		CHECK_INT(shard_create(s, 1, 0, &id), 0);
		epd_shard_close(s);
		fflush(stdout);
		if ((pid = fork()) == 0) {
			if (shard_open(&s, dir, 0))
				_exit(2);
			fault_arm(n, 0, FAULT_KILL);
			_exit(alone(s, &f, &first, NULL) != 0);
		}
		died = scratch_wait(pid) != 0;
		died_at += died;
		now = seen(dir);
		CHECK(now == 3 || (died && now == 1));
		scratch_close(dir);
	}
	CHECK(died_at > 3);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
