/*
 * flow_leases.c - a decode lease is kept while what was lost is computed, however
 * long that takes, for all states of the batch.
 */
#include "base/clock.h"
#include "tests/check.h"
#include "tests/unit/fault.h"
#include "tests/unit/reuse.h"

enum { STATES = 5 };

static struct epd_clock_fake now;
static struct kit *at_hook;
static int calls, taken, refused;
static uint64_t step_ns;

/* Time goes by where a page is made; another tries to have a state. */
static void
time_goes_by(void)
{
	struct epd_workflow w;
	uint64_t id;

	calls++;
	now.boot_ns += step_ns;
	if (epd_workflow_open(&w, at_hook->s, "w1", 0, NULL) == 0) {
		const int rc = epd_shard_lease(w.shard, 1, 0,
		    EPD_LEASE_DECODE, 1000, &id, NULL);

		taken += rc == 0;
		refused += rc == EPD_ELOCKED;
		epd_workflow_close(&w);
	}
	fault_arm(1, 0, FAULT_HOOK);
}

/* The time it is. */
static uint64_t
let_it_go_by(struct kit *k, uint64_t ns)
{
	now.wall_ms = epd_clock_wall_ms();
	now.boot_ns = epd_clock_boot_ns();
	epd_clock_fake(&now);
	at_hook = k;
	step_ns = ns;
	calls = taken = refused = 0;
	fault.hook = time_goes_by;
	fault.only = "posix_fallocate";
	fault_arm(1, 0, FAULT_HOOK);
	return now.boot_ns;
}

static void
stop_it(void)
{
	fault_calls();
	epd_clock_fake(NULL);
}

/* n states are lost; nobody has the first of them before it is decoded. */
static int
kept(int n, uint64_t ns)
{
	uint32_t state[STATES];
	struct kit_said said[STATES];
	struct kit k;
	uint64_t began;
	int rc, ok;

	kit_begin(&k, QWEN2);
	k.config.lease_ms = 1000;
	k.config.chunk = 16;
	kit_open(&k);
	for (int i = 0; i < n; i++) {
		struct epd_prefilled p;

		alone(&k, words(60, i, 9), NULL, &p);
		state[i] = p.state;
	}
	kit_lose(&k, 0);
	began = let_it_go_by(&k, ns);
	rc = kit_decode(&k, state, n, 3, said);
	began = now.boot_ns - began;
	stop_it();
	ok = rc == 0 && taken == 0 && refused == calls && calls > 4 &&
	    began > 1800000000u && kit_check(&k) == 0;
	for (int i = 0; i < n; i++)
		ok &= said[i].end.rc == 0 && said[i].end.lost > 0;
	if (!ok)
		printf("# rc %d, taken %d, refused %d of %d\n", rc, taken,
		    refused, calls);
	kit_end(&k);
	return ok;
}

TEST(kept_while_its_pages_are_computed) { CHECK(kept(1, 400000000)); }
TEST(kept_while_others_are) { CHECK(kept(STATES, 150000000)); }

/* One that went all the same ends its own lane, when it has to be said. */
TEST(one_that_is_lost_ends_its_lane_alone)
{
	uint32_t state[STATES];
	struct kit_said said[STATES];
	struct kit k;
	int rc;

	kit_begin(&k, QWEN2);
	k.config.lease_ms = 1000;
	k.config.chunk = 16;
	kit_open(&k);
	for (int i = 0; i < STATES; i++) {
		struct epd_prefilled p;

		alone(&k, words(60, i, 9), NULL, &p);
		state[i] = p.state;
	}
	kit_lose(&k, 0);
	/* More at once than a lease lasts. */
	let_it_go_by(&k, 1100000000);
	rc = kit_decode(&k, state, STATES, 3, said);
	stop_it();
	CHECK(rc < 0);
	CHECK(taken > 0);
	CHECK_INT(said[0].end.rc, EPD_ELEASE);
	CHECK(*said[0].end.why.text);
	for (int i = 1; i < STATES; i++)
		CHECK_INT(said[i].end.rc, 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
