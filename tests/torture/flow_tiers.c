/*
 * flow_tiers.c - a thousand states through a disk tier a tenth of their size, and a
 * memory tier of a tenth too: nothing that was acknowledged is lost, and every page is
 * accounted for.
 */
#include "tests/unit/flow_rest.h"

static int
states(void)
{
	const char *n = getenv("STATES");

	return n ? atoi(n) : 1000;
}

static uint64_t
used(struct epd_memory *m)
{
	uint64_t n = 0;

	return epd_memory_used(m, &n) ? UINT64_MAX : n - epd_index_bytes(m);
}

TEST(a_thousand_states_through_a_tier_a_tenth_of_their_size)
{
	const int n = states();
	uint64_t *was = calloc((size_t)n, sizeof *was), all, pages = 0;
	uint32_t *state = calloc((size_t)n, sizeof *state);
	struct epd_prefilled p;
	struct epd_offloaded off;
	struct kit k;
	int same = 0, rest = 0;

	CHECK(was && state);
	rest_begin(&k);
	kit_open(&k);
	for (int i = 0; i < n; i++) {
		char text[160];

		snprintf(text, sizeof text, "State %d of many, %d words and "
		    "some more, so that there are a few pages of it.", i,
		    i * 7919 % 1000);
		if (kit_say(&k, 0, text, NULL, &p) < 0)
			golden_die("state", k.why.text);
		state[i] = p.state;
		was[i] = rest_hash(&k, p.state);
	}
	all = used(k.s->memory);
	k.config.tier_nvme_cap = (int64_t)(all / 10);
	k.config.memory_cap = (int64_t)(all / 10);
	kit_reopen(&k);
	for (int i = 0; i < n; i++) {
		CHECK_INT(rest_offload(&k, state[i], EPD_TIER_NVME, &off), 0);
		pages += off.pages;
		rest += rest_status(&k, state[i]) == EPD_OFFLOADED;
		CHECK(used(k.s->disk) <= all / 10);
	}
	CHECK_INT(rest, n);
	printf("# %d states, %llu pages, %llu bytes; tiers of %llu\n", n,
	    (unsigned long long)pages, (unsigned long long)all,
	    (unsigned long long)(all / 10));
	/* Each goes on, from the tier (the last ones) or computed again. */
	for (int i = n - 1; i >= 0; i--) {
		CHECK_INT(rest_draw(&k, state[i], 0), 0);
		same += rest_hash(&k, state[i]) == was[i];
		CHECK(used(k.s->memory) <= all / 10);
	}
	CHECK_INT(same, n);
	printf("# %llu pages from the tier, %llu computed again, %llu runs "
	    "evicted, %llu damaged\n",
	    (unsigned long long)kit_count(&k, EPD_M_TIER_HITS),
	    (unsigned long long)kit_count(&k, EPD_M_PAGES_RECOMPUTED),
	    (unsigned long long)kit_count(&k, EPD_M_EVICT_RUNS),
	    (unsigned long long)kit_count(&k, EPD_M_TIER_CORRUPT));
	CHECK(kit_count(&k, EPD_M_TIER_HITS));
	CHECK(kit_count(&k, EPD_M_TIER_HITS) +
	    kit_count(&k, EPD_M_PAGES_RECOMPUTED) >= pages);
	CHECK_INT(kit_count(&k, EPD_M_TIER_CORRUPT), 0);
	CHECK_INT(kit_check(&k), 0);
	free(was);
	free(state);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
