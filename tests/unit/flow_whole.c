/*
 * flow_whole.c - what of a state's pages goes along in a hand-off when some are
 * not in memory: the record of all of them does.  And a hand-off in one call, and
 * halves that come when all is over.
 */
#include "base/clock.h"
#include "flow/rest.h"
#include "flow/room.h"
#include "tests/unit/fault.h"
#include "tests/unit/flow_hand.h"

/* s2, a branch that lies in three runs, one of them its own alone. */
static uint32_t
begin(struct hand *h, int two)
{
	struct epd_prefilled p;
	struct kit_said said;
	uint32_t b;

	hand_begin(h, QWEN2, two, 0);
	if (kit_say(&h->k, 0, "What is to be said of all this, and of what "
	    "comes after it, and to whom, and why should it be said at all, "
	    "if nobody has asked for it?", NULL, &p) < 0 ||
	    hand_decode(&h->k, "w1", p.state, 40, NULL, &said) < 0)
		golden_die("state", h->k.why.text);
	b = hand_fork(&h->k, p.state, 5);
	if (hand_decode(&h->k, "w1", b, 40, NULL, &said) < 0)
		golden_die("branch", h->k.why.text);
	return b;
}

/* Pages from `at` on that lie in one run. */
static uint64_t
stretch(const struct epd_whole *f, uint64_t at)
{
	uint64_t n = 1;

	while (at + n < f->rows && f->row[at + n].run == f->row[at].run)
		n++;
	return n;
}

static void
lose(struct kit *k, const char *workflow, uint64_t run)
{
	int fd = epd_memory_find(k->s->memory, workflow);

	if (fd < 0 || epd_run_free(fd, run) < 0)
		golden_die("run", "cannot be removed");
	close(fd);
}

struct told {
	uint32_t state;
	uint64_t pages, missing;
};

static int
tell(void *arg, const struct epd_state_line *l)
{
	struct told *t = arg;

	if (l->state == t->state) {
		t->pages = l->pages;
		t->missing = l->missing;
	}
	return 0;
}

/* PAGES and MISSING of a state. */
static struct told
look(struct kit *k, const char *workflow, uint32_t state)
{
	struct told t = { .state = state };

	if (epd_view_states(k->s, workflow, tell, &t, kit_why(k)) < 0)
		golden_die("view", k->why.text);
	return t;
}

static int
given(struct kit *k, const char *workflow, uint32_t state)
{
	struct epd_workflow w;
	struct epd_version v = { .given = 0 };

	if (epd_workflow_open(&w, k->s, workflow, 1, kit_why(k)) < 0 ||
	    epd_shard_version(w.shard, state, 1, &v) < 0)
		golden_die("version", k->why.text);
	epd_workflow_close(&w);
	return v.given;
}

static uint64_t
next(struct hand *h, int target, uint32_t state, uint64_t *lost)
{
	struct kit *k = hand_kit(h, target);
	struct kit_said said;

	if (hand_decode(k, hand_workflow(h, target), state, 4, NULL,
	    &said) < 0)
		golden_die("decode", k->why.text);
	*lost = said.end.lost;
	return kit_hash_said(&said);
}

enum lost { FIRST, MIDDLE, LAST, ALL, LOSSES };

/* The pages that are lost. */
static uint64_t
lose_some(struct hand *h, const struct epd_whole *f, enum lost which)
{
	uint64_t at = 0, n, lost = 0;

	for (int i = 0; at < f->rows; at += n, i++) {
		n = stretch(f, at);
		if (which == ALL || (which == LAST ? at + n == f->rows :
		    i == (int)which)) {
			lose(&h->k, "w1", f->row[at].run);
			lost += n;
		}
	}
	return lost;
}

static void
behind_a_gap(int two, enum lost which)
{
	uint64_t missing, lost, want;
	struct epd_whole f, there;
	struct epd_handed out;
	struct epd_swept swept;
	struct hand h;
	struct told t;
	struct kit *k;
	uint32_t b = begin(&h, two);

	want = next(&h, 0, hand_fork(&h.k, b, 5), &lost);
	CHECK_INT(lost, 0);
	f = hand_whole(&h, 0, b);
	CHECK(stretch(&f, 0) < f.rows);
	missing = lose_some(&h, &f, which);
	CHECK(missing > 0 && (missing < f.rows || which == ALL));
	CHECK_INT(hand_prepare(&h, b, &out), 0);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	CHECK_INT(out.missing, missing);
	CHECK_INT(out.linked, f.rows - missing);
	k = hand_kit(&h, 1);
	there = hand_whole(&h, 1, 1);
	CHECK(hand_same(&f, &there));
	t = look(k, h.to, 1);
	CHECK_INT(t.pages, f.rows);
	CHECK_INT(t.missing, missing);
	/* Where none came along there is nothing to tell of. */
	CHECK_INT(given(k, h.to, 1), two && which != ALL);
	CHECK_INT(hand_check(&h), 0);
	CHECK_INT(epd_flow_gc(k->s, &swept, kit_why(k)), 0);
	CHECK_INT(swept.runs, 0);
	CHECK(next(&h, 1, 1, &lost) == want);
	CHECK_INT(lost, missing);
	CHECK_INT(look(k, h.to, 1).missing, 0);
	CHECK_INT(hand_check(&h), 0);
	epd_whole_free(&f);
	epd_whole_free(&there);
	hand_end(&h);
}

TEST(pages_behind_a_gap_come_along)
{
	for (int i = 0; i < LOSSES && !check_failed; i++)
		behind_a_gap(0, (enum lost)i);
}

TEST(pages_behind_a_gap_come_from_another_store)
{
	for (int i = 0; i < LOSSES && !check_failed; i++)
		behind_a_gap(1, (enum lost)i);
}

/* On from there with the gap as it is: what was lost is missing twice over. */
TEST(handed_on_with_its_gap)
{
	struct epd_handed out;
	struct epd_whole f, there;
	uint64_t missing, lost, want;
	struct epd_offer o = { .state = hand_ref("w2", 1), .workflow = "w3" };
	struct hand h;
	uint32_t b = begin(&h, 0);

	want = next(&h, 0, hand_fork(&h.k, b, 5), &lost);
	f = hand_whole(&h, 0, b);
	missing = lose_some(&h, &f, FIRST);
	CHECK_INT(hand_prepare(&h, b, &out), 0);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	CHECK_INT(epd_flow_handoff_whole(h.k.s, &o, &out, kit_why(&h.k)), 0);
	CHECK_INT(out.missing, missing);
	CHECK_INT(out.linked, f.rows - missing);
	h.to = "w3";
	there = hand_whole(&h, 1, 1);
	CHECK(hand_same(&f, &there));
	CHECK(next(&h, 1, 1, &lost) == want);
	CHECK_INT(lost, missing);
	CHECK_INT(hand_check(&h), 0);
	epd_whole_free(&f);
	epd_whole_free(&there);
	hand_end(&h);
}

/* All are lost, and the record has another sum of one. */
static void
with_another_sum(int foreign, int of_given, int want)
{
	struct epd_moved moved = { .missing = 0 };
	struct epd_workflow w, to;
	struct epd_page_ref *page;
	struct epd_whole f;
	struct kit_said said;
	char name[EPD_WORKFLOW];
	struct hand h;
	uint32_t b = begin(&h, 0), state;
	int rc;

	if (epd_workflow_make(h.k.s, "w2", name, kit_why(&h.k)) < 0 ||
	    epd_workflow_open(&w, h.k.s, "w1", 1, kit_why(&h.k)) < 0 ||
	    epd_workflow_open(&to, h.k.s, "w2", 0, kit_why(&h.k)) < 0 ||
	    epd_whole_make(&f, &w, b, 0, kit_why(&h.k)) < 0)
		golden_die("whole", h.k.why.text);
	f.foreign = foreign;
	f.given = of_given;
	CHECK_INT(epd_whole_pages(&f, -1, h.k.s, &to, &moved,
	    kit_why(&h.k)), 0);
	CHECK_INT(f.v.npages, f.rows);
	CHECK_INT(moved.missing, f.rows);
	page = (struct epd_page_ref *)(uintptr_t)f.v.pages;
	page[1].sum ^= 1;
	CHECK_INT(epd_shard_create(to.shard, &f.traits, &f.v, &state,
	    kit_why(&h.k)), 0);
	epd_workflow_close(&to);
	epd_workflow_close(&w);
	epd_whole_free(&f);
	rc = hand_decode(&h.k, "w2", state, 1, NULL, &said);
	CHECK_INT(rc, want);
	CHECK(rc == 0 || strstr(h.k.why.text, "differs from the record"));
	hand_end(&h);
}

/* Of given ones nothing is known but that sum: what is computed serves. */
TEST(what_is_computed_is_compared)
{
	with_another_sum(0, 0, EPD_ECORRUPT);
	with_another_sum(1, 0, EPD_ECORRUPT);
	with_another_sum(0, 1, 0);
}

/* Computed here, all of it, they are for others too. */
TEST(whose_they_are_when_none_came_along)
{
	for (int which = FIRST; which <= ALL; which += ALL) {
		struct epd_handed out;
		struct epd_prefilled p;
		struct epd_whole f;
		struct hand h;
		uint64_t lost;
		uint32_t b = begin(&h, 1);

		f = hand_whole(&h, 0, b);
		lose_some(&h, &f, (enum lost)which);
		CHECK_INT(hand_prepare(&h, b, &out), 0);
		CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
		next(&h, 1, 1, &lost);
		CHECK(lost > 0);
		h.t.workflow = "w7";
		CHECK_INT(kit_say(&h.t, 0, "What is to be said of all this, "
		    "and of what comes after it, and to whom, and why should "
		    "it be said at all, if nobody has asked for it?", NULL,
		    &p), 0);
		CHECK(which == ALL ? p.reused > 0 : p.reused == 0);
		CHECK_INT(hand_check(&h), 0);
		epd_whole_free(&f);
		hand_end(&h);
	}
}

/* ---- in one call ---- */

static struct {
	struct hand *h;
	uint32_t state;
	int commits, rc;
} rival;

static int
rival_ends(void *arg, const struct epd_handed *h)
{
	struct epd_store *s = arg;
	struct epd_handed out;

	if (h->state != rival.state || rival.rc == 0)
		return 0;
	rival.rc = rival.commits ?
	    epd_flow_handoff_commit(s, h->id, &out, NULL) :
	    epd_flow_handoff_abort(s, h->id, "rival", &out, NULL);
	return 0;
}

/* Whoever finds it ends it, as gc does what is past its time. */
static void
overtake(void)
{
	struct kit *k = &rival.h->k;
	const struct epd_store_options o = {
		.path = k->store, .config = &k->config,
	};
	struct epd_store *s;

	if (epd_store_open(&s, &o, NULL) < 0)
		return;
	(void)epd_flow_handoff_each(s, rival_ends, s, NULL);
	epd_store_close(s);
}

/* The calls there were; -1: somebody was told what is not so. */
static int
overtaken(struct hand *h, uint32_t parent, int n)
{
	struct epd_offer o = { .workflow = h->to, .timeout_ms = 600000,
	    .store = h->two ? h->t.store : NULL };
	struct epd_why why = {{0}};
	struct hand_log s, t;
	struct epd_handed out;
	int rc, calls, ok, back;

	rival.h = h;
	rival.rc = 1;
	rival.state = hand_fork(&h->k, parent, 9);
	o.state = hand_ref("w1", rival.state);
	fault.hook = overtake;
	fault_arm(n, 0, FAULT_HOOK);
	rc = epd_flow_handoff_whole(h->k.s, &o, &out, &why);
	calls = fault_calls();
	s = hand_look(h, 0, 0);
	t = hand_look(h, 1, 0);
	back = s.states == 3;
	ok = s.handoffs + t.handoffs == 0 && s.states + t.states == 3 &&
	    s.active == s.states && t.active == t.states;
	/* It is not "no such hand-off" that one hears who has it back. */
	ok &= rc == 0 || rc == (back ? EPD_EABORTED : EPD_ENOTHING);
	ok &= rc == 0 ? !back : !out.source && !out.target && *why.text;
	ok &= rival.rc != 0 || back == !rival.commits;
	if (!ok)
		printf("# call %d: %d (%s), rival %d, %d here, %d there\n", n,
		    rc, why.text, rival.rc, s.states, t.states);
	if (t.states)
		ok &= epd_flow_release(hand_kit(h, 1)->s, &(struct epd_ref){
		    .kind = EPD_REF_STATE, .workflow = "w1",
		    .state = t.newest }, "", NULL) == 0;
	else
		ok &= epd_flow_release(h->k.s, &o.state, "", NULL) == 0;
	return ok ? calls : -1;
}

static void
overtaken_everywhere(int commits)
{
	struct hand h;
	int calls = 1, ended = 0;

	begin(&h, 1);
	h.k.config.lock_timeout_ms = h.t.config.lock_timeout_ms = 20;
	hand_close(&h);
	hand_open(&h);
	rival.commits = commits;
	for (int n = 1; calls >= n - 1; n++) {
		calls = overtaken(&h, 1, n);
		CHECK(calls >= 0);
		ended += rival.rc == 0;
	}
	printf("# ended by another at %d calls\n", ended);
	CHECK(ended > 20);
	CHECK_INT(hand_check(&h), 0);
	hand_end(&h);
}

TEST(rolled_back_by_another_it_is_told_so) { overtaken_everywhere(0); }
TEST(carried_through_by_another) { overtaken_everywhere(1); }

/* ---- when all is over ---- */

/* One that looked long ago pulls; what it makes is nobody's to adopt. */
static void
late(int adopted)
{
	struct epd_handed out;
	struct epd_handoff half;
	struct epd_workflow w;
	struct epd_pair p;
	struct hand h;
	uint32_t b = begin(&h, 1);

	CHECK_INT(hand_prepare(&h, b, &out), 0);
	CHECK_INT(epd_workflow_open(&w, h.k.s, "w1", 0, kit_why(&h.k)), 0);
	CHECK_INT(epd_shard_handoff(w.shard, out.id, &half), 0);
	CHECK_INT(epd_pair_open(&p, h.k.s, &w, &half, &h.k.why), 0);
	CHECK_INT(epd_pair_look(&p, &h.k.why), 0);
	if (adopted) {
		CHECK_INT(epd_pair_pull(&p, &h.k.why), 0);
		hand_away(&h, 0, 1);
		CHECK_INT(hand_adopt(&h, out.id), 0);
		hand_away(&h, 0, 0);
		CHECK_INT(hand_settle(&h, 1), 1);
	} else {
		CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	}
	CHECK_INT(epd_pair_pull(&p, &h.k.why), 0);
	epd_pair_close(&p);
	epd_workflow_close(&w);
	CHECK_INT(hand_look(&h, 1, 0).states, 2);
	hand_away(&h, 0, 1);
	CHECK_INT(hand_commit(&h, 1, out.id, &out), EPD_ETIMEOUT);
	CHECK_INT(hand_adopt(&h, out.id), EPD_ESTATUS);
	CHECK(strstr(h.t.why.text, "came late"));
	CHECK_INT(hand_look(&h, 1, 0).active, 1);
	/* Nobody waits for the source's word on it. */
	CHECK_INT(hand_abort(&h, 1, out.id), EPD_ENOTHING);
	CHECK_INT(hand_look(&h, 1, 1).states, 1);
	CHECK_INT(hand_look(&h, 1, 1).handoffs, 0);
	hand_away(&h, 0, 0);
	CHECK_INT(hand_look(&h, 0, 1).states, 1);
	CHECK_INT(hand_check(&h), 0);
	hand_end(&h);
}

TEST(a_half_that_came_late_is_not_adopted) { late(0); }
TEST(nor_is_one_behind_an_adoption) { late(1); }

/* Its workflow is removed under a driver that has it open. */
static void
removed(int two, int pulled)
{
	struct epd_handed out;
	struct epd_handoff half;
	struct epd_workflow w;
	struct kit_said said;
	struct epd_pair p;
	struct hand h;
	uint32_t b = begin(&h, two);
	int rc;

	CHECK_INT(hand_prepare(&h, b, &out), 0);
	CHECK_INT(epd_workflow_open(&w, h.k.s, "w1", 0, kit_why(&h.k)), 0);
	CHECK_INT(epd_shard_handoff(w.shard, out.id, &half), 0);
	CHECK_INT(epd_pair_open(&p, h.k.s, &w, &half, &h.k.why), 0);
	CHECK_INT(epd_pair_look(&p, &h.k.why), 0);
	if (pulled)
		CHECK_INT(epd_pair_pull(&p, &h.k.why), 0);
	CHECK_INT(epd_file_remove(hand_kit(&h, 1)->s->workflows, h.to), 0);
	rc = epd_pair_drive(&p, EPD_GOAL_COMMIT, "", &h.k.why);
	CHECK(rc < 0);
	epd_pair_close(&p);
	epd_workflow_close(&w);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), EPD_EABORTED);
	CHECK_INT(hand_decode(&h.k, "w1", b, 1, NULL, &said), 0);
	CHECK_INT(hand_check(&h), 0);
	hand_end(&h);
}

TEST(a_target_that_is_removed_meanwhile)
{
	for (int i = 0; i < 4; i++)
		removed(i % 2, i / 2);
}

/* Runs in memory, and those of them that say they were given. */
static int
count_given(void *arg, uint64_t run, uint64_t bytes)
{
	int *n = arg;
	struct epd_run_shape shape;
	struct epd_run *r;

	(void)bytes;
	if (epd_run_table(&r, n[2], run, &shape, NULL) < 0)
		return 0;
	n[0]++;
	n[1] += epd_run_is_given(r);
	epd_run_close(r);
	return 0;
}

/*
 * Pages that came from a peer are given by the log, and by their files or not: they
 * rest, or make way, and come back, and are that still.
 */
static void
to_the_disk(int by_room)
{
	struct epd_offloaded off;
	struct epd_restored back = { 0 };
	struct epd_swept swept;
	struct epd_handed out;
	struct epd_restore r = { .state = kit_ref(1), .reason = "test" };
	struct hand h;
	uint32_t b = begin(&h, 1);
	uint64_t lost, want = next(&h, 0, hand_fork(&h.k, b, 5), &lost);
	struct kit *k = hand_kit(&h, 1);
	int n[3] = { 0 };

	hand_close(&h);
	snprintf(k->config.tier_nvme_dir, sizeof k->config.tier_nvme_dir,
	    "%s/disk", k->path);
	strcpy(k->config.tier_restore, "always");
	hand_open(&h);
	CHECK_INT(hand_prepare(&h, b, &out), 0);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	CHECK(out.linked > 0);
	CHECK(given(k, h.to, 1));
	memcpy(r.state.workflow, "w1", 3);
	if (by_room)
		CHECK(epd_store_squeeze(k->s, UINT64_MAX) >= 0);
	else
		CHECK_INT(epd_flow_offload(k->s, &(struct epd_offload){
		    .state = r.state, .tier = EPD_TIER_NVME, .reason = "test" },
		    &off, kit_why(k)), 0);
	kit_lose(k, 0);
	CHECK_INT(epd_flow_gc(k->s, &swept, kit_why(k)), 0);
	CHECK_INT(swept.disk.runs, 0);
	CHECK_INT(epd_flow_restore(k->s, &r, &back, kit_why(k)), 0);
	CHECK(back.came > 0);
	CHECK_INT(back.came, back.pages);
	CHECK_INT(back.tiers, 1u << EPD_TIER_NVME);
	CHECK_INT(kit_count(k, EPD_M_TIER_CORRUPT), 0);
	n[2] = epd_memory_find(k->s->memory, "w1");
	CHECK_INT(epd_run_each(n[2], count_given, n), 0);
	close(n[2]);
	CHECK(n[0] > 1);
	CHECK_INT(n[1], n[0]);
	CHECK_INT(epd_flow_gc(k->s, &swept, kit_why(k)), 0);
	CHECK_INT(swept.runs, 0);
	CHECK_INT(swept.disk.runs, 0);
	CHECK_INT(hand_check(&h), 0);
	CHECK(next(&h, 1, 1, &lost) == want);
	CHECK_INT(lost, 0);
	CHECK(given(k, h.to, 1));
	hand_end(&h);
}

TEST(what_came_rests_on_the_disk_and_is_given_still)
{
	to_the_disk(0);
}

TEST(what_came_makes_way_to_the_disk_and_is_given_still)
{
	to_the_disk(1);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
