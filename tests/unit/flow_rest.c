/* flow_rest.c - states that rest: offloaded, restored, gone on with. */
#include "flow/tiers.h"
#include "tests/unit/flow_rest.h"

static const char text[] = "A state that is to rest for a while, with some pages to "
    "be moved out and back again.";

static uint64_t
counted(const struct kit *k, enum epd_metric id)
{
	return epd_metrics_get(k->s->metrics, id);
}

/* A state of two versions. */
static uint32_t
begin(struct kit *k)
{
	struct epd_prefilled p;

	rest_begin(k);
	kit_open(k);
	if (kit_say(k, 0, text, NULL, &p) < 0 ||
	    rest_draw(k, p.state, REST_DRAWN) < 0)
		golden_die("state", k->why.text);
	return p.state;
}

static uint64_t
memory(const struct kit *k)
{
	uint64_t used = 0;

	if (epd_memory_used(k->s->memory, &used))
		return UINT64_MAX;
	return used - epd_index_bytes(k->s->memory);
}

TEST(out_and_back_with_the_same_bits)
{
	struct epd_offloaded off;
	struct epd_restored back;
	struct kit k;
	uint64_t was, bytes;
	uint32_t s = begin(&k);

	was = rest_hash(&k, s);
	bytes = memory(&k);
	CHECK(was && bytes);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(off.before, 0);
	CHECK(off.pages && !off.missing && !off.shared);
	CHECK_INT(off.freed, bytes);
	CHECK_INT(memory(&k), 0);
	CHECK_INT(rest_status(&k, s), EPD_OFFLOADED);
	CHECK_INT(kit_check(&k), 0);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(off.before, 1);
	CHECK_INT(rest_restore(&k, s, &back), 0);
	CHECK_INT(back.rested, 1);
	CHECK_INT(back.missing, 0);
	CHECK_INT(back.came, back.pages);
	CHECK_INT(back.tiers, 1u << EPD_TIER_NVME);
	CHECK_INT(rest_hash(&k, s), was);
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	/* Again is nothing. */
	CHECK_INT(rest_restore(&k, s, &back), 0);
	CHECK_INT(back.rested, 0);
	CHECK_INT(back.pinned, back.pages);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Whoever goes on from it brings it back; nothing is computed twice. */
TEST(who_goes_on_brings_it_back)
{
	struct epd_offloaded off;
	struct epd_prefilled p;
	struct kit k, other;
	uint32_t s = begin(&k), t = begin(&other);

	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(rest_draw(&k, s, REST_TOKENS), 0);
	CHECK_INT(rest_draw(&other, t, REST_TOKENS), 0);
	CHECK_INT(rest_status(&k, s), EPD_ACTIVE);
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	CHECK_INT(rest_hash(&k, s), rest_hash(&other, t));
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(kit_say(&k, s, "And on.", NULL, &p), 0);
	CHECK_INT(kit_say(&other, t, "And on.", NULL, &p), 0);
	CHECK_INT(rest_hash(&k, s), rest_hash(&other, t));
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
	kit_end(&other);
}

TEST(a_branch_of_what_rests)
{
	struct epd_offloaded off;
	struct epd_forked f;
	struct kit k;
	uint32_t s = begin(&k), ids[2];
	const struct epd_fork_request ask = { .from = kit_ref(s),
		.branches = 2, .ids = ids, .reason = "test" };

	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(epd_flow_fork(k.s, &ask, &f, kit_why(&k)), 0);
	CHECK_INT(rest_status(&k, s), EPD_ACTIVE);
	CHECK_INT(rest_draw(&k, ids[0], REST_TOKENS), 0);
	CHECK_INT(rest_draw(&k, s, REST_TOKENS), 0);
	CHECK_INT(rest_hash(&k, ids[0]), rest_hash(&k, s));
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	/* What a branch stands on stays, till it rests too. */
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK(off.shared);
	CHECK_INT(rest_draw(&k, ids[1], REST_TOKENS), 0);
	CHECK_INT(counted(&k, EPD_M_PAGES_LOST), 0);
	CHECK_INT(rest_offload(&k, ids[1], EPD_TIER_NVME, &off), 0);
	CHECK_INT(rest_offload(&k, ids[0], EPD_TIER_NVME, &off), 0);
	CHECK_INT(memory(&k), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* A lost, damaged or foreign pack is a miss: what it had is computed again. */
TEST(what_the_tier_has_no_more_is_computed_again)
{
	struct epd_offloaded off;
	struct epd_restored back;
	struct kit k;
	uint32_t s = begin(&k);
	uint64_t was = rest_hash(&k, s);
	char path[400];

	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	snprintf(path, sizeof path, "rm -r %s/disk/*/w", k.path);
	CHECK_INT(system(path), 0);
	CHECK_INT(rest_restore(&k, s, &back), 0);
	CHECK_INT(back.came, 0);
	CHECK_INT(back.missing, back.pages);
	CHECK_INT(rest_status(&k, s), EPD_ACTIVE);
	CHECK_INT(rest_draw(&k, s, 0), 0);
	CHECK(counted(&k, EPD_M_PAGES_RECOMPUTED));
	CHECK_INT(rest_hash(&k, s), was);
	kit_reopen(&k);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	snprintf(path, sizeof path, "for f in %s/disk/*/w/w1/*; do chmod 600 $f; "
	    "printf x | dd of=$f bs=1 seek=4200 conv=notrunc 2>/dev/null; done",
	    k.path);
	CHECK_INT(system(path), 0);
	CHECK_INT(rest_draw(&k, s, 0), 0);
	CHECK(counted(&k, EPD_M_TIER_CORRUPT));
	CHECK_INT(rest_hash(&k, s), was);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* A tier that is full, or cannot be had, changes nothing. */
TEST(a_tier_that_fails_leaves_it_as_it_was)
{
	struct epd_offloaded off;
	struct kit k;
	uint32_t s = begin(&k);
	uint64_t was = rest_hash(&k, s), bytes = memory(&k);

	k.config.tier_nvme_cap = 1;
	kit_reopen(&k);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), -ENOSPC);
	CHECK_INT(rest_status(&k, s), EPD_ACTIVE);
	CHECK_INT(memory(&k), bytes);
	CHECK_INT(rest_hash(&k, s), was);
	CHECK_INT(counted(&k, EPD_M_OFFLOAD_ABORTS), 1);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_GPU, &off), EPD_EUNSUPPORTED);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_MOONCAKE, &off),
	    EPD_EUNSUPPORTED);
	k.config.enable_offload = 0;
	kit_reopen(&k);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), EPD_EUNSUPPORTED);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Released at rest, nothing of it stays anywhere. */
TEST(released_at_rest)
{
	struct epd_offloaded off;
	struct kit k;
	uint32_t s = begin(&k);
	const struct epd_ref ref = kit_ref(s);
	uint64_t used = 1;

	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(epd_memory_used(k.s->disk, &used), 0);
	CHECK(used);
	CHECK_INT(epd_flow_release(k.s, &ref, "test", kit_why(&k)), 0);
	CHECK_INT(epd_memory_used(k.s->disk, &used), 0);
	CHECK_INT(used, 0);
	CHECK_INT(memory(&k), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Only the runs that hold the pages asked for come. */
TEST(some_pages_alone)
{
	struct epd_offloaded off;
	struct epd_restored back;
	struct kit k;
	uint32_t s = begin(&k);
	struct epd_page_span first = { 0, 1 }, none = { 1000, 1001 };
	struct epd_restore r = { .state = kit_ref(s), .part = &first, .n = 1,
		.reason = "test" };

	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(epd_flow_restore(k.s, &r, &back, kit_why(&k)), 0);
	CHECK(back.came && back.came < off.pages);
	CHECK_INT(rest_status(&k, s), EPD_ACTIVE);
	r.part = &none;
	CHECK_INT(epd_flow_restore(k.s, &r, &back, kit_why(&k)), EPD_EUSAGE);
	CHECK_INT(rest_draw(&k, s, 1), 0);
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	kit_end(&k);
}

/* It rests in memory: nothing moves, and what was elsewhere comes. */
TEST(at_rest_in_memory)
{
	struct epd_offloaded off;
	struct kit k;
	uint32_t s = begin(&k);
	uint64_t bytes = memory(&k);

	CHECK_INT(rest_offload(&k, s, EPD_TIER_CPU, &off), 0);
	CHECK_INT(off.bytes, 0);
	CHECK_INT(memory(&k), bytes);
	CHECK_INT(rest_status(&k, s), EPD_OFFLOADED);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(memory(&k), 0);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_CPU, &off), 0);
	CHECK(off.bytes);
	CHECK(memory(&k));
	CHECK_INT(rest_draw(&k, s, 1), 0);
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/*
 * Under pressure runs move to the disk, and come back from there: nothing is computed
 * twice though memory holds a part of what there is.
 */
TEST(pressure_moves_runs_to_the_disk)
{
	enum { STATES = 12 };
	struct epd_prefilled p[STATES];
	uint64_t was[STATES], used;
	struct kit k;
	char words[100];

	rest_begin(&k);
	kit_open(&k);
	for (int i = 0; i < STATES; i++) {
		snprintf(words, sizeof words, "%d is the number of this state, "
		    "and it is one of many that are to be kept.", i);
		CHECK_INT(kit_say(&k, 0, words, NULL, &p[i]), 0);
		was[i] = rest_hash(&k, p[i].state);
	}
	/* Recomputing is slow enough that moving pays. */
	epd_count(k.s->metrics, EPD_M_PREFILL_NS, UINT64_C(1) << 50);
	used = memory(&k);
	k.config.memory_cap = (int64_t)(used / 2);
	kit_reopen(&k);
	for (int i = 0; i < STATES; i++)
		CHECK_INT(rest_draw(&k, p[i].state, 1), 0);
	for (int i = 0; i < STATES; i++) {
		struct epd_restored back;

		CHECK_INT(rest_restore(&k, p[i].state, &back), 0);
		CHECK_INT(back.missing, 0);
	}
	CHECK(memory(&k) <= used / 2);
	CHECK(counted(&k, EPD_M_EVICT_RUNS));
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	for (int i = 0; i < STATES; i++)
		CHECK(was[i]);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* By the clock, and by the wait; what is used stays. */
TEST(idle_states_are_put_to_rest)
{
	struct epd_prefilled p;
	struct epd_swept swept;
	struct kit k;
	uint32_t s = begin(&k);
	const struct epd_ref ref = kit_ref(s);

	CHECK_INT(kit_say(&k, 0, "Another one, that nobody waits for.", NULL,
	    &p), 0);
	CHECK_INT(epd_flow_idle(k.s), 0);
	CHECK_INT(epd_flow_wait(k.s, &ref, "search", 1, "", kit_why(&k)), 0);
	CHECK_INT(epd_flow_idle(k.s), 0);
	CHECK_INT(epd_flow_wait(k.s, &ref, "search", 600000, "", kit_why(&k)),
	    0);
	/* As gc does it. */
	CHECK_INT(epd_flow_gc(k.s, &swept, kit_why(&k)), 0);
	CHECK_INT(swept.rested, 1);
	CHECK_INT(rest_status(&k, s), EPD_OFFLOADED);
	CHECK_INT(rest_status(&k, p.state), EPD_ACTIVE);
	k.config.state_ttl_ms = 1;
	kit_reopen(&k);
	epd_clock_sleep_ns(5000000);
	CHECK_INT(epd_flow_idle(k.s), 1);
	CHECK_INT(rest_status(&k, p.state), EPD_OFFLOADED);
	CHECK_INT(rest_draw(&k, s, 1), 0);
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	/* Without a tier of its own nobody is moved. */
	*k.config.tier_nvme_dir = '\0';
	kit_reopen(&k);
	epd_clock_sleep_ns(5000000);
	CHECK_INT(epd_flow_idle(k.s), 0);
	kit_end(&k);
}

/* Who begins as a state that rests takes its pages up from where they rest. */
TEST(a_prefix_that_rests_is_reused)
{
	static const char json[] = "[{\"role\":\"user\",\"content\":\"A long "
	    "beginning that two have in common, with pages enough to be told, and "
	    "then more of it, and more.\"}]";
	struct epd_prefilled p, q;
	struct epd_offloaded off;
	struct kit k;

	rest_begin(&k);
	k.alone = 0;
	kit_open(&k);
	CHECK_INT(kit_messages(&k, 0, json, NULL, 0, &p), 0);
	CHECK_INT(rest_offload(&k, p.state, EPD_TIER_NVME, &off), 0);
	CHECK_INT(memory(&k), 0);
	k.workflow = "w2";
	CHECK_INT(epd_workflow_make(k.s, "w2", (char[EPD_WORKFLOW]){ 0 },
	    kit_why(&k)), 0);
	CHECK_INT(kit_messages(&k, 0, json, NULL, 0, &q), 0);
	CHECK(counted(&k, EPD_M_EXACT_TOKENS) >= 16);
	CHECK(counted(&k, EPD_M_TIER_HITS));
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* While something else goes on the pages of what rests come; what both want one moves. */
TEST(pages_come_ahead)
{
	struct epd_store_options o = { .tenant = "" };
	struct epd_offloaded off;
	struct epd_restored back;
	struct epd_ahead *a;
	struct kit k;
	uint32_t s = begin(&k);
	uint64_t was = rest_hash(&k, s);
	const struct epd_ref ref = kit_ref(s);

	o.path = k.store;
	CHECK(!epd_ahead_begin(k.s, &o, &ref, 0));
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	a = epd_ahead_begin(k.s, &o, &ref, 1);
	CHECK(a);
	for (int i = 0; i < 5000 && counted(&k, EPD_M_PREFETCHED) < 2; i++)
		epd_clock_sleep_ns(1000000);
	epd_ahead_end(a);
	/* It rests still: nobody went on with it. */
	CHECK_INT(rest_status(&k, s), EPD_OFFLOADED);
	CHECK(counted(&k, EPD_M_PREFETCHED));
	CHECK_INT(rest_restore(&k, s, &back), 0);
	CHECK_INT(back.pinned, back.pages);
	CHECK_INT(rest_hash(&k, s), was);
	/* Stopped at once, and beside a decode. */
	for (int i = 0; i < 10; i++) {
		CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
		a = epd_ahead_begin(k.s, &o, &ref, 1);
		if (i % 2)
			CHECK_INT(rest_draw(&k, s, 0), 0);
		epd_ahead_end(a);
	}
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	strcpy(k.config.transfer_prefetch, "none");
	kit_reopen(&k);
	CHECK(!epd_ahead_begin(k.s, &o, &ref, 1));
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* What waits comes before its time is over, what waits longer later. */
TEST(what_is_expected_comes_first)
{
	struct epd_offloaded off;
	struct epd_prefilled p;
	struct kit k;
	uint32_t s = begin(&k);
	struct epd_ref soon = kit_ref(s), late;

	CHECK_INT(kit_say(&k, 0, "Another, which waits for long.", NULL, &p), 0);
	late = kit_ref(p.state);
	CHECK_INT(epd_flow_wait(k.s, &soon, "search", 10, "", kit_why(&k)), 0);
	CHECK_INT(epd_flow_wait(k.s, &late, "search", 3600000, "", kit_why(&k)),
	    0);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(rest_offload(&k, p.state, EPD_TIER_NVME, &off), 0);
	CHECK_INT(memory(&k), 0);
	CHECK_INT(epd_flow_expected(k.s), 1);
	CHECK(memory(&k));
	CHECK_INT(rest_draw(&k, s, 1), 0);
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	kit_end(&k);
}

/* Somebody read its pages, or had them fetched, and it rests all the same. */
TEST(what_came_into_memory_goes_again)
{
	struct epd_offloaded off = { .before = 7 };
	struct epd_prefilled p;
	struct epd_workflow w;
	struct kit k;

	rest_begin(&k);
	kit_open(&k);
	CHECK_INT(kit_say(&k, 0, "Some pages that come and go, and that are "
	    "read meanwhile.", NULL, &p), 0);
	CHECK_INT(rest_offload(&k, p.state, EPD_TIER_NVME, &off), 0);
	CHECK_INT(off.before, 0);
	CHECK_INT(kit_runs(&k), 0);
	CHECK_INT(epd_workflow_open(&w, k.s, "w1", 0, NULL), 0);
	CHECK_INT(epd_rest_fill(&w, p.state, 0), 0);
	epd_workflow_close(&w);
	CHECK(kit_runs(&k) > 0);
	CHECK_INT(rest_status(&k, p.state), EPD_OFFLOADED);
	CHECK_INT(rest_offload(&k, p.state, EPD_TIER_NVME, &off), 0);
	CHECK(off.before == 1 && off.freed > 0 && off.missing == 0);
	CHECK_INT(kit_runs(&k), 0);
	CHECK_INT(rest_offload(&k, p.state, EPD_TIER_NVME, &off), 0);
	CHECK(off.before == 1 && off.freed == 0 && off.had == off.pages);
	kit_end(&k);
}

/* A tier that takes longer for a run than a lease lasts. */
static struct slow {
	struct kit *k;
	const struct epd_lower_ops *real;
	int asked, left_alone;
} slow;

static long
slow_get(struct epd_lower *l, const struct epd_lot *lot, void *const *out,
    uint8_t *had, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_workflow w;
	struct epd_lease left;
	struct epd_state st;

	if (epd_workflow_open(&w, slow.k->s, "w1", 1, NULL))
		return -1;
	slow.asked++;
	slow.left_alone += epd_shard_unfinished(w.shard, 0, &st, &left) == 0;
	epd_workflow_close(&w);
	epd_clock_sleep_ns(UINT64_C(150000000));
	return slow.real->get(l, lot, out, had, deadline_ns, why);
}

TEST(a_long_move_keeps_its_lease)
{
	struct epd_lower_ops ops;
	const struct epd_lower_ops **of;
	struct epd_offloaded off;
	struct epd_restored back;
	struct epd_lower *l;
	struct epd_prefilled p;
	struct kit k;

	rest_begin(&k);
	k.config.lease_ms = 100;
	kit_open(&k);
	CHECK_INT(kit_say(&k, 0, "Some runs of pages.", NULL, &p), 0);
	for (int i = 0; i < 3; i++)
		CHECK_INT(kit_say(&k, p.state, "And some more of them, to be "
		    "moved one by one.", NULL, &p), 0);
	CHECK_INT(rest_offload(&k, p.state, EPD_TIER_NVME, &off), 0);
	CHECK_INT(epd_store_tier(k.s, EPD_TIER_NVME, &l, NULL), 0);
	of = (const struct epd_lower_ops **)(void *)l;
	slow = (struct slow){ .k = &k, .real = *of };
	ops = **of;
	ops.get = slow_get;
	*of = &ops;
	CHECK_INT(rest_offload(&k, p.state, EPD_TIER_CPU, &off), 0);
	CHECK(slow.asked >= 2);
	CHECK_INT(slow.left_alone, 0);
	CHECK_INT(rest_offload(&k, p.state, EPD_TIER_NVME, &off), 0);
	slow.asked = 0;
	CHECK_INT(rest_restore(&k, p.state, &back), 0);
	CHECK(slow.asked >= 2);
	CHECK_INT(slow.left_alone, 0);
	*of = slow.real;
	kit_end(&k);
}

/* A few rounds of all pairs; torture has a thousand and more. */
TEST(pairs_of_verbs_at_one_state)
{
	int kills;

	CHECK_INT(rest_matrix(4 * REST_VERBS * REST_VERBS, &kills), 0);
	CHECK(kills);
	printf("# %d rounds, %d with a kill\n", 4 * REST_VERBS * REST_VERBS,
	    kills);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
