/*
 * flow_given.c - pages that a caller gave: they serve as they are while they are
 * there; lost, they are computed, whatever they were, and the state goes on.
 */
#include "tests/check.h"
#include "tests/unit/reuse.h"

/* A state of the text in workflow "given", of pages that no computation gives. */
static int
give(struct kit *k, const char *text, uint32_t *state)
{
	struct epd_create_state ask = { .workflow = "given" };
	struct epd_prefilled p;
	struct epd_created c = { .state = 0 };
	const void *pages[64];
	uint8_t *own;
	struct epd_run_shape shape;
	struct epd_workflow w;
	struct epd_run *run;
	struct kit_log l;
	int rc;

	in(k, "source");
	alone(k, text, NULL, &p);
	l = kit_read(k, p.state, 0);
	epd_seq_shape(k->se, &shape);
	if (epd_workflow_open(&w, k->s, "source", 1, kit_why(k)) < 0 ||
	    epd_run_open(&run, w.runs, l.run[0], &shape, NULL, 0,
	    kit_why(k)) < 0 || !(own = malloc((size_t)l.npages *
	    shape.bytes)))
		golden_die("give", k->why.text);
	for (long i = 0; i < l.npages; i++) {
		uint8_t *to = own + (size_t)i * shape.bytes;

		memcpy(to, epd_run_page(run, i), shape.bytes);
		/* The least bit of a number here and there. */
		for (size_t at = 0; at < 64; at += 4)
			to[at] ^= 1;
		pages[i] = to;
	}
	ask.ids = l.ids;
	ask.nids = (uint32_t)l.n;
	ask.pages = pages;
	ask.npages = (uint32_t)l.npages;
	ask.rows = l.page[l.npages - 1].rows;
	rc = epd_flow_create(k->se, &ask, &c, kit_why(k));
	epd_run_close(run);
	epd_workflow_close(&w);
	kit_log_free(&l);
	free(own);
	*state = c.state;
	return rc < 0 ? rc : release(k, p.state);
}

static int
is_given(struct kit *k, uint32_t state)
{
	struct kit_log l = kit_read(k, state, 0);

	kit_log_free(&l);
	return l.head.given;
}

static uint64_t
say(struct kit *k, uint32_t state, uint64_t *lost)
{
	struct kit_said said;

	if (kit_decode(k, &state, 1, 4, &said) < 0) {
		printf("# %s\n", k->why.text);
		return 0;
	}
	*lost = said.end.lost;
	return kit_hash_said(&said);
}

TEST(lost_they_are_computed)
{
	const char *text = words(30, 0, 0);

	for (int wipe = 0; wipe < 2; wipe++) {
		struct epd_prefilled want, turn;
		uint64_t lost = 0, said;
		uint32_t state;
		struct kit k;

		kit_start(&k, QWEN2);
		CHECK_INT(give(&k, text, &state), 0);
		in(&k, "other");
		alone(&k, text, NULL, &want);
		said = say(&k, want.state, &lost);
		k.workflow = "given";
		CHECK(is_given(&k, state));
		kit_lose(&k, wipe);
		kit_reopen(&k);
		CHECK(say(&k, state, &lost) == said);
		CHECK(lost > 0);
		CHECK_INT(kit_count(&k, EPD_M_PAGES_RECOMPUTED), lost);
		CHECK_INT(kit_check(&k), 0);
		/* And again, a turn and a branch too; whatever is there still. */
		CHECK_INT(raw(&k, state, words(0, 3, 9), NULL, &turn), 0);
		CHECK(turn.lost > 0);
		CHECK(is_given(&k, state));
		kit_lose(&k, 0);
		CHECK_INT(epd_flow_fork(k.s, &(struct epd_fork_request){
		    .from = { .kind = EPD_REF_STATE, .workflow = "given",
		    .state = state }, .branches = 1, .reason = "test" },
		    &(struct epd_forked){ .first = 0 }, kit_why(&k)), 0);
		CHECK(say(&k, state + 1, &lost) != 0);
		CHECK(lost > 0);
		CHECK(is_given(&k, state + 1));
		CHECK_INT(kit_check(&k), 0);
		kit_end(&k);
	}
}

/* What is computed for others in their stead is theirs, and right. */
TEST(lost_they_are_nobody_elses)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p;
	uint64_t lost = 0;
	uint32_t state;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(give(&k, text, &state), 0);
	k.workflow = "given";
	kit_lose(&k, 0);
	CHECK(say(&k, state, &lost) != 0);
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(p.reused, 0);
	CHECK(!is_given(&k, p.state));
	CHECK(right(&k, p.state));
	in(&k, "other");
	CHECK_INT(raw(&k, 0, text, NULL, &p), 0);
	CHECK_INT(p.reused, (p.tokens - 1) / 16 * 16);
	CHECK(right(&k, p.state));
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Who takes them up while they are there has them from the same hand. */
TEST(a_taker_is_given_them_too)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p;
	uint64_t lost = 0;
	uint32_t state;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(give(&k, text, &state), 0);
	k.workflow = "given";
	CHECK_INT(raw(&k, 0, words(30, 1, 9), NULL, &p), 0);
	CHECK(p.borrowed > 0);
	CHECK(is_given(&k, p.state));
	kit_lose(&k, 0);
	CHECK(say(&k, p.state, &lost) != 0);
	CHECK(lost > 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/*
 * The log's word alone: pages that came with a state from elsewhere, in a file
 * that does not say so.
 */
TEST(the_log_says_so_where_the_file_does_not)
{
	const char *text = words(30, 0, 0);
	struct epd_prefilled p, q;
	struct epd_version v;
	struct epd_state st;
	struct epd_workflow w;
	struct kit_log l;
	uint32_t state;
	uint64_t run;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, in(&k, "from"), text, NULL, &p), 0);
	CHECK_INT(raw(&k, in(&k, "to"), "x", NULL, &q), 0);
	l = kit_read(&k, q.state, 0);
	kit_log_free(&l);
	k.workflow = "from";
	l = kit_read(&k, p.state, 0);
	CHECK_INT(epd_run_id(&run), 0);
	CHECK_INT(epd_workflow_open(&w, k.s, "from", 1, kit_why(&k)), 0);
	{
		struct epd_workflow to;

		CHECK_INT(epd_workflow_open(&to, k.s, "to", 0, kit_why(&k)),
		    0);
		CHECK_INT(epd_shard_state(w.shard, p.state, &st), 0);
		CHECK_INT(epd_shard_version(w.shard, p.state, 0, &v), 0);
		CHECK_INT(epd_run_link(w.runs, v.run, to.runs, run), 0);
		v.links = &(struct epd_run_link){ run, v.npages };
		v.nlinks = 1;
		v.run = 0;
		v.given = 1;
		CHECK_INT(epd_shard_create(to.shard, &st, &v, &state,
		    kit_why(&k)), 0);
		epd_workflow_close(&to);
	}
	epd_workflow_close(&w);
	kit_log_free(&l);
	CHECK_INT(release(&k, p.state), 0);
	k.workflow = "to";
	CHECK(is_given(&k, state));
	CHECK_INT(raw(&k, 0, words(30, 1, 9), NULL, &p), 0);
	CHECK(p.borrowed > 0);
	CHECK(is_given(&k, p.state));
	/* Not to a third workflow, by way of the taker. */
	in(&k, "third");
	CHECK_INT(raw(&k, 0, words(30, 1, 9), NULL, &q), 0);
	CHECK_INT(q.reused, 0);
	CHECK(right(&k, q.state));
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
