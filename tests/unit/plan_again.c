/* plan_again.c - restored or computed again: by what was measured, and without. */
#include "plan/plan.h"
#include "tests/check.h"

static struct epd_again
decide(struct epd_again_measured m, uint64_t bytes, uint64_t tokens)
{
	struct epd_again out;

	epd_again_decide(&m, 1, bytes, tokens, &out);
	return out;
}

TEST(without_measures_large_runs_are_restored)
{
	const struct epd_again_measured none = { 0 };

	CHECK_INT(decide(none, 12 << 20, 1024).restore, 1);
	CHECK_INT(decide(none, 0, 0).restore, 0);
	CHECK_INT(decide(none, 4096, 1).restore, 0);
}

TEST(a_slow_tier_or_a_fast_model_turns_it)
{
	struct epd_again_measured m = { .restored_runs = 10,
		.restored_bytes = 10 << 20, .restored_ns = 20000000,
		.computed_tokens = 1000, .computed_ns = 1000000000 };

	/* 2 ms a MiB; 1 ms a token. */
	CHECK_INT(decide(m, 1 << 20, 64).restore, 1);
	m.restored_ns = UINT64_C(2000000000);
	CHECK_INT(decide(m, 1 << 20, 64).restore, 0);
	m.computed_ns = UINT64_C(100000000000);
	CHECK_INT(decide(m, 1 << 20, 64).restore, 1);
}

/* What was measured is what is foretold of the same again. */
TEST(the_same_again_takes_as_long)
{
	const struct epd_again_measured m = { .restored_runs = 100,
		.restored_bytes = UINT64_C(100) << 20, .restored_ns = 300000000,
		.computed_tokens = 10, .computed_ns = 5000 };
	const struct epd_again a = decide(m, 1 << 20, 10);

	CHECK(a.restore_ns > 2.9e6 && a.restore_ns < 3.1e6);
	CHECK(a.recompute_ns > 4999 && a.recompute_ns < 5001);
}

/* Nothing overflows, and nothing is not a number. */
TEST(any_measures_give_a_choice)
{
	const uint64_t v[] = { 0, 1, UINT64_MAX };

	for (int i = 0; i < 243; i++) {
		const struct epd_again_measured m = { v[i % 3], v[i / 3 % 3],
			v[i / 9 % 3], v[i / 27 % 3], v[i / 81 % 3] };
		const struct epd_again a = decide(m, v[i % 3], v[i / 9 % 3]);

		CHECK(a.restore_ns >= 0 && a.recompute_ns >= 0);
		CHECK_INT(a.restore, a.restore_ns <= a.recompute_ns);
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
