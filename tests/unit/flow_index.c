/*
 * flow_index.c - an index that is lost and made anew has what was computed in
 * this store, and nothing of what came to it from elsewhere.
 */
#include "tests/unit/flow_hand.h"
#include "tests/unit/reuse.h"

/* The file of a store's index; both stores have their folders in one place. */
static int
lose_index(struct hand *h, struct kit *k)
{
	char name[80] = "memory/epd-";
	const size_t n = strlen(name);

	epd_hex_format(name + n, k->s->uuid, 16);
	memcpy(name + n + 32, "/pages", sizeof "/pages");
	return unlinkat(h->k.dir, name, 0) < 0 ? -errno : 0;
}

/* What a new state of a workflow takes up of the text; -1 if it is not right. */
static long
reused(struct kit *k, const char *workflow, const char *text)
{
	struct epd_prefilled p;

	in(k, workflow);
	return raw(k, 0, text, NULL, &p) < 0 || !right(k, p.state) ? -1 :
	    (long)p.reused;
}

/* A hand-off between stores by links: the files do not say whose they are. */
static void
made_anew(int two, int by_gc)
{
	const char *text = words(40, 0, 0), *mine = words(0, 5, 40);
	struct epd_prefilled p, q;
	struct epd_handed out;
	struct epd_swept swept;
	struct hand h;
	struct kit *t;

	hand_begin(&h, QWEN2, two, 0);
	t = hand_kit(&h, 1);
	CHECK_INT(raw(&h.k, in(&h.k, "w1"), text, NULL, &p), 0);
	CHECK(p.tokens > 33);
	CHECK_INT(raw(t, in(t, "own"), mine, NULL, &q), 0);
	CHECK_INT(hand_prepare(&h, p.state, &out), 0);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	h.k.workflow = "w1";
	CHECK_INT(release(&h.k, p.state), 0);
	CHECK(hand_runs(&h, 1) > 0);
	kit_reopen(t);
	CHECK_INT(lose_index(&h, t), 0);
	if (by_gc)
		CHECK_INT(epd_flow_gc(t->s, &swept, NULL), 0);
	/* Of this store, as ever; of another, for nobody but its state. */
	CHECK_INT(reused(t, "w6", mine), (q.tokens - 1) / 16 * 16);
	CHECK_INT(reused(t, "w7", text), two ? 0 : (p.tokens - 1) / 16 * 16);
	CHECK(epd_index_rebuild(epd_store_index(t->s)) > 0);
	CHECK_INT(reused(t, "w8", mine), (q.tokens - 1) / 16 * 16);
	/* By now somebody has computed it here. */
	CHECK_INT(reused(t, "w9", text), (p.tokens - 1) / 16 * 16);
	CHECK_INT(hand_check(&h), 0);
	hand_end(&h);
}

TEST(what_another_store_computed_is_not_in_it) { made_anew(1, 0); }
TEST(nor_where_gc_comes_first) { made_anew(1, 1); }
TEST(what_another_workflow_computed_is) { made_anew(0, 0); }

/* A run that no log has is nobody's word. */
TEST(what_no_log_has_is_not_in_it)
{
	const char *text = words(40, 0, 0);
	struct epd_prefilled p;
	struct hand h;
	char from[300], to[300];

	hand_begin(&h, QWEN2, 0, 0);
	CHECK_INT(raw(&h.k, in(&h.k, "w1"), text, NULL, &p), 0);
	CHECK_INT(lose_index(&h, &h.k), 0);
	snprintf(from, sizeof from, "%s/w/w1", h.k.store);
	snprintf(to, sizeof to, "%s/away", h.k.path);
	CHECK_INT(rename(from, to), 0);
	kit_reopen(&h.k);
	CHECK_INT(reused(&h.k, "w2", text), 0);
	CHECK_INT(rename(to, from), 0);
	CHECK(epd_index_rebuild(epd_store_index(h.k.s)) > 0);
	CHECK_INT(reused(&h.k, "w3", text), (p.tokens - 1) / 16 * 16);
	CHECK_INT(hand_check(&h), 0);
	hand_end(&h);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
