/*
 * flow_chain.c - states of very many versions, of none with pages, of large
 * pages: taking one up costs in proportion to its tokens.
 */
#include "base/clock.h"
#include "tests/check.h"
#include "tests/unit/flow.h"

/* A state of so many versions of one token each, none with pages. */
static void
grow(struct kit *k, uint32_t state, int versions)
{
	struct epd_workflow w;
	struct epd_state st;

	if (epd_workflow_open(&w, k->s, "w1", 0, kit_why(k)) < 0 ||
	    epd_shard_state(w.shard, state, &st) < 0)
		golden_die("workflow", k->why.text);
	for (uint32_t i = st.versions; i < (uint32_t)versions; i++) {
		int32_t id = (int32_t)(i * 7 % 500);
		struct epd_version v = {
			.ids = &id, .nids = 1, .next_pos = 1,
			.turn = EPD_TURN_IS_RAW,
		};
		uint32_t version;

		if (epd_shard_advance(w.shard, state, i, 0, &v, &version,
		    kit_why(k)) < 0)
			golden_die("advance", k->why.text);
	}
	epd_workflow_close(&w);
}

/* The least of several times it takes to load a state. */
static uint64_t
load(struct kit *k, uint32_t state, uint64_t *tokens)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		struct epd_workflow w;
		struct epd_runs *runs = NULL;
		struct epd_seq q;
		uint64_t from;

		if (epd_workflow_open(&w, k->s, "w1", 0, kit_why(k)) < 0 ||
		    epd_runs_new(&runs) < 0)
			golden_die("workflow", k->why.text);
		epd_seq_begin(&q, k->se, &w, runs);
		from = epd_clock_boot_ns();
		if (epd_seq_load(&q, state, 0, kit_why(k)) < 0)
			golden_die("load", k->why.text);
		from = epd_clock_boot_ns() - from;
		best = from < best ? from : best;
		*tokens = q.n;
		epd_seq_free(&q);
		epd_runs_free(runs);
		epd_workflow_close(&w);
	}
	return best;
}

TEST(two_thousand_versions)
{
	struct epd_prefilled p;
	struct kit_said said;
	uint64_t tokens[2], ns[2];
	struct kit k;

	/* A checkpoint behind either, for it makes reading another matter. */
	kit_begin(&k, QWEN2);
	k.config.checkpoint_bytes = 65536;
	kit_open(&k);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
		grow(&k, p.state, i ? 16000 : 2000);
		ns[i] = load(&k, p.state, tokens + i);
	}
	printf("# %llu versions %.1f ms, %llu %.1f ms\n",
	    (unsigned long long)tokens[0], (double)ns[0] / 1e6,
	    (unsigned long long)tokens[1], (double)ns[1] / 1e6);
	CHECK_INT(tokens[1] - tokens[0], 14000);
	/* Eight times the versions; 64 would be the square. */
	CHECK(ns[1] < 40 * ns[0]);
	/* Its pages are made when they are needed, and go into one version. */
	CHECK_INT(kit_decode(&k, &(uint32_t){ 1 }, 1, 2, &said), 0);
	CHECK_INT(said.end.lost, 0);
	CHECK_INT(said.end.version, 2001);
	CHECK_INT(kit_decode(&k, &(uint32_t){ 1 }, 1, 2, &said), 0);
	CHECK_INT(said.end.version, 2002);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Versions with a page each, of which most are filled on by the next. */
TEST(versions_with_pages)
{
	for (int t = 16; t <= 64; t += 48) {
		struct epd_prefilled p;
		struct epd_workflow w;
		struct epd_runs *runs;
		struct kit_said said;
		struct epd_seq q;
		struct kit k;

		kit_begin(&k, QWEN2);
		k.config.page_tokens = t;
		kit_open(&k);
		CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
		for (int i = 0; i < 150; i++) {
			CHECK_INT(kit_decode(&k, &p.state, 1, 1, &said), 0);
			CHECK_INT(said.end.lost, 0);
		}
		CHECK_INT(epd_workflow_open(&w, k.s, "w1", 0, kit_why(&k)), 0);
		CHECK_INT(epd_runs_new(&runs), 0);
		epd_seq_begin(&q, k.se, &w, runs);
		CHECK_INT(epd_seq_load(&q, p.state, 0, kit_why(&k)), 0);
		CHECK_INT(q.n, p.tokens + 150);
		CHECK_INT(q.rows, q.n - 1);
		CHECK_INT(q.found, q.n - 1);
		CHECK_INT(q.npages, (long)(q.n + (uint64_t)t - 2) / t);
		epd_seq_free(&q);
		epd_runs_free(runs);
		epd_workflow_close(&w);
		CHECK_INT(kit_check(&k), 0);
		kit_end(&k);
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
