/*
 * flow_handoff.c - a state handed over: all of it is there and goes on with the
 * same bits, its source is pinned until that is decided, and whatever fails or
 * waits leaves one owner and nothing else.
 */
#include "base/clock.h"
#include "tests/unit/fault.h"
#include "tests/unit/flow_hand.h"

/* A call like those of fault.h, before a lock is had. */
int
fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	if (cmd == F_OFD_SETLK)
		(void)fault_hits("lock");
	return (int)syscall(SYS_fcntl, fd, cmd, arg);
}

static const struct epd_sampler lively = {
	.temp = 0.8F, .top_p = 0.95F, .top_k = 40, .penalty = 1.1F, .seed = 11,
};

/* A branch that has drawn, beside its parent, which shows a picture. */
static uint32_t
begin(struct hand *h, int two, int sync)
{
	const char *one[] = { NULL, NULL };
	struct epd_prefilled p;
	struct kit_said said;
	uint32_t b;

	hand_begin(h, QWEN2, two, sync);
	one[0] = kit_picture(&h->k, "a.ppm", 84, 56, 1);
	if (kit_say(&h->k, 0, "What is to be seen there?", one, &p) < 0 ||
	    hand_decode(&h->k, "w1", 1, 3, &lively, &said) < 0)
		golden_die("states", h->k.why.text);
	b = hand_fork(&h->k, 1, 5);
	if (hand_decode(&h->k, "w1", b, 4, &lively, &said) < 0)
		golden_die("branch", h->k.why.text);
	return b;
}

/* One owner, no half, nothing amiss, and so many states and runs a side. */
static int
settled(struct hand *h, int source, int target, int runs, int target_runs)
{
	struct hand_log s = hand_look(h, 0, 1), t = hand_look(h, 1, 1);
	int ok = s.states == source && s.active == source &&
	    t.states == target && t.active == target && !s.handoffs &&
	    !t.handoffs && !s.leases && !t.leases && !s.faults && !t.faults &&
	    hand_runs(h, 0) == runs && hand_runs(h, 1) == target_runs &&
	    hand_check(h) == 0;

	if (!ok)
		printf("# source %d of %d, %d halves, %d runs; target %d of "
		    "%d, %d halves, %d runs\n", s.active, s.states,
		    s.handoffs, hand_runs(h, 0), t.active, t.states,
		    t.handoffs, hand_runs(h, 1));
	return ok;
}

/* Pull alone: the target is ready, nothing is decided. */
static int
pull(struct hand *h, const uint8_t id[16])
{
	struct epd_handoff half;
	struct epd_workflow w;
	struct epd_pair p;
	int rc = epd_workflow_open(&w, h->k.s, "w1", 0, kit_why(&h->k));

	if (rc < 0)
		return rc;
	rc = epd_shard_handoff(w.shard, id, &half);
	if (rc == 0)
		rc = epd_pair_open(&p, h->k.s, &w, &half, &h->k.why);
	if (rc == 0 && (rc = epd_pair_look(&p, &h->k.why)) == 0)
		rc = epd_pair_pull(&p, &h->k.why);
	epd_pair_close(&p);
	epd_workflow_close(&w);
	return rc;
}

static int
release(struct kit *k, uint32_t state)
{
	const struct epd_ref ref = hand_ref("w1", state);

	return epd_flow_release(k->s, &ref, "test", kit_why(k));
}

/* Prepared, and pulled too if so. */
static int
offered(struct hand *h, uint32_t state, int pulled, struct epd_handed *out)
{
	int rc = hand_prepare(h, state, out);

	return rc == 0 && pulled ? pull(h, out->id) : rc;
}

/* ---- whole ---- */

/* What is drawn next, of the branch where it is. */
static void
go_on(struct kit *k, const char *workflow, uint32_t state,
    struct epd_prefilled *turn, struct kit_said *said)
{
	if (hand_say(k, workflow, state, "\"And what else?\"", turn) < 0 ||
	    hand_decode(k, workflow, state, 8, &lively, said) < 0)
		golden_die("the next turn", k->why.text);
}

static int
same_said(const struct kit_said *a, const struct kit_said *b)
{
	return a->n == b->n && a->n > 0 &&
	    !memcmp(a->id, b->id, (size_t)a->n * sizeof *a->id) &&
	    !memcmp(a->logprob, b->logprob, (size_t)a->n * sizeof *a->logprob);
}

/* The names that the target's run files have, the fewest. */
static int
names(struct hand *h)
{
	struct kit *k = hand_kit(h, 1);
	int fd = epd_memory_find(k->s->memory, h->to), n = 0;
	struct dirent *e;
	struct stat st;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	while (d && (e = readdir(d)))
		if (fstatat(fd, e->d_name, &st, 0) == 0 &&
		    S_ISREG(st.st_mode) && (!n || (int)st.st_nlink < n))
			n = (int)st.st_nlink;
	if (d)
		closedir(d);
	return n;
}

/* How many files its pages lie in. */
static int
files(const struct epd_whole *f)
{
	int n = 0;

	for (uint64_t i = 0; i < f->rows; i++)
		n += i == 0 || f->row[i].run != f->row[i - 1].run;
	return n;
}

static void
whole(int two)
{
	struct epd_whole before, after;
	struct kit_said unbroken, said;
	struct epd_prefilled turn, handed;
	struct epd_handed out;
	struct hand h;
	uint32_t b = begin(&h, two, 0);

	go_on(&h.k, "w1", b, &turn, &unbroken);
	hand_end(&h);
	b = begin(&h, two, 0);
	before = hand_whole(&h, 0, b);
	CHECK(before.v.sampling.salt != 0 && before.v.nimages == 1);
	CHECK(before.v.next_pos != (int64_t)before.v.nids);
	CHECK_INT(hand_prepare(&h, b, &out), 0);
	CHECK_INT(out.source, EPD_PREPARED);
	CHECK_INT(out.target, 0);
	CHECK_INT(pull(&h, out.id), 0);
	/* While the source has them, each file has a name for either. */
	CHECK(names(&h) >= 2);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	CHECK_STR(out.to, h.to);
	CHECK_INT(out.to_state, 1);
	CHECK_INT(out.state, b);
	after = hand_whole(&h, 1, 1);
	CHECK(hand_same(&before, &after));
	CHECK(settled(&h, 1, 1, 2, files(&before)));
	CHECK(files(&before) > 1);
	go_on(hand_kit(&h, 1), h.to, 1, &handed, &said);
	CHECK_INT(handed.reused, before.v.nids - 1);
	CHECK_INT(handed.fresh, turn.fresh);
	CHECK_INT(handed.lost, 0);
	CHECK_INT(handed.tokens, turn.tokens);
	CHECK(same_said(&said, &unbroken));
	CHECK(hand_check(&h) == 0);
	epd_whole_free(&before);
	epd_whole_free(&after);
	hand_end(&h);
}

TEST(whole_within_a_store) { whole(0); }
TEST(whole_between_stores) { whole(1); }

/* With its own store gone for good the state has all it needs. */
TEST(features_go_along)
{
	struct kit_said unbroken, said;
	struct epd_prefilled turn;
	struct epd_feature_meta m;
	struct epd_handed out;
	struct epd_whole f;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);

	go_on(&h.k, "w1", b, &turn, &unbroken);
	hand_end(&h);
	b = begin(&h, 1, 0);
	CHECK_INT(hand_prepare(&h, b, &out), 0);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	CHECK(out.linked > 0 && out.copied == 0 && out.missing == 0);
	CHECK(out.bytes > 0);
	f = hand_whole(&h, 1, 1);
	CHECK_INT(epd_feature_meta(h.t.s->features, &f.v.images[0].fp, &m), 0);
	hand_away(&h, 0, 1);
	CHECK_INT(epd_memory_remove(h.t.s->memory, "w1"), 0);
	go_on(&h.t, "w1", 1, &turn, &said);
	CHECK(turn.lost > 0);
	CHECK(same_said(&said, &unbroken));
	CHECK_INT(kit_check(&h.t), 0);
	hand_away(&h, 0, 0);
	epd_whole_free(&f);
	hand_end(&h);
}

/* Copies, no pages at all, some of them: the same state. */
static void
without_links(int how, int lost)
{
	struct kit_said unbroken, said;
	struct epd_prefilled turn;
	struct epd_handed out;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);

	go_on(&h.k, "w1", b, &turn, &unbroken);
	hand_end(&h);
	b = begin(&h, 1, 0);
	if (lost)
		kit_lose(&h.k, 0);
	CHECK_INT(hand_prepare(&h, b, &out), 0);
	if (how >= 0) {
		fault_arm(1, EXDEV, how);
		fault.only = "linkat";
	}
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	fault_calls();
	if (lost || how > 0)
		CHECK(out.linked == 0 && out.copied == 0 && out.missing > 1);
	else
		CHECK(out.copied > 0 && out.missing == 0);
	CHECK(settled(&h, 1, 1, lost ? 0 : 2, hand_runs(&h, 1)));
	go_on(&h.t, "w1", 1, &turn, &said);
	CHECK(same_said(&said, &unbroken));
	CHECK(hand_check(&h) == 0);
	hand_end(&h);
}

TEST(pages_are_copied_where_they_cannot_be_linked) { without_links(0, 0); }
TEST(pages_that_cannot_be_had_are_computed) { without_links(FAULT_ON, 0); }
TEST(missing_pages_are_computed) { without_links(-1, 1); }

/* ---- whose pages they are ---- */

static int
given(void *arg, uint64_t run, uint64_t bytes)
{
	int *const a = arg;
	struct epd_run_shape shape;
	struct epd_run *r;

	(void)bytes;
	if (epd_run_table(&r, a[0], run, &shape, NULL) < 0)
		return 0;
	a[1] += epd_run_is_given(r);
	epd_run_close(r);
	return 0;
}

static int
hand_given(struct kit *k, const char *workflow, uint32_t state)
{
	struct epd_workflow w;
	struct epd_version v;
	int is = -1;

	if (epd_workflow_open(&w, k->s, workflow, 1, kit_why(k)) < 0)
		return -1;
	if (epd_shard_version(w.shard, state, 1, &v) == 0)
		is = v.given;
	epd_workflow_close(&w);
	return is;
}

/* Another store's pages are for the state that came with them, no other. */
static void
who_else_has_them(int two, int copied)
{
	const char *one[] = { NULL, NULL };
	struct epd_handed out;
	struct epd_prefilled p;
	struct hand h;
	uint32_t b = begin(&h, two, 0);
	struct kit *k = hand_kit(&h, 1);
	int n[2] = { -1, 0 };

	/* One that is made later has all files that are not marked. */
	CHECK(epd_store_index(k->s));
	CHECK_INT(hand_prepare(&h, b, &out), 0);
	if (copied) {
		fault_arm(1, EXDEV, 0);
		fault.only = "linkat";
		CHECK_INT(pull(&h, out.id), 0);
		fault_calls();
	}
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	CHECK_INT(release(&h.k, 1), 0);
	n[0] = epd_memory_find(k->s->memory, h.to);
	CHECK(n[0] >= 0);
	CHECK_INT(epd_run_each(n[0], given, n), 0);
	close(n[0]);
	CHECK(!n[1] == !(two && copied));
	CHECK_INT(hand_given(k, h.to, 1), two);
	one[0] = kit_picture(k, "a.ppm", 84, 56, 1);
	k->workflow = "w7";
	CHECK_INT(kit_say(k, 0, "What is to be seen there?", one, &p), 0);
	CHECK(two ? p.reused == 0 : p.reused > 0);
	CHECK(hand_check(&h) == 0);
	hand_end(&h);
}

TEST(anothers_pages_are_for_its_state_alone) { who_else_has_them(1, 0); }
TEST(copies_of_anothers_pages_are_so_too) { who_else_has_them(1, 1); }
TEST(pages_of_one_store_are_for_all) { who_else_has_them(0, 0); }

static struct {
	struct kit *k;
	uint64_t swept;
} sweep_now;

static void
sweep_meanwhile(void)
{
	const struct epd_store_options o = {
		.path = sweep_now.k->store, .config = &sweep_now.k->config,
	};
	struct epd_swept swept;
	struct epd_store *s;

	if (epd_store_open(&s, &o, NULL) < 0)
		return;
	if (epd_flow_gc(s, &swept, NULL) == 0)
		sweep_now.swept = 1 + swept.runs;
	epd_store_close(s);
}

/* However long it takes from its first link to its record. */
static void
swept_meanwhile(int two)
{
	struct epd_handed out;
	struct epd_whole f;
	struct hand h;
	uint32_t b = begin(&h, two, 0);

	f = hand_whole(&h, 0, b);
	CHECK_INT(offered(&h, b, 0, &out), 0);
	sweep_now.k = hand_kit(&h, 1);
	sweep_now.swept = 0;
	fault.hook = sweep_meanwhile;
	fault_arm(2, 0, FAULT_HOOK);
	fault.only = "linkat";
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	fault_calls();
	CHECK_INT(sweep_now.swept, 1);
	CHECK(out.linked == f.rows && out.missing == 0);
	CHECK(settled(&h, 1, 1, 2, files(&f)));
	epd_whole_free(&f);
	hand_end(&h);
}

TEST(swept_while_it_is_pulled) { swept_meanwhile(1); }
TEST(swept_while_it_is_pulled_within_a_store) { swept_meanwhile(0); }

/* ---- phases ---- */

static void
abandoned(int two, int pulled, int by)
{
	struct epd_handed out;
	struct hand h;
	uint32_t b = begin(&h, two, 0);
	int runs = hand_runs(&h, 0);

	CHECK_INT(offered(&h, b, pulled, &out), 0);
	CHECK_INT(hand_abort(&h, by, out.id), pulled || !two || !by ? 0 :
	    EPD_ENOTHING);
	if (two && by && !pulled)
		CHECK_INT(hand_abort(&h, 0, out.id), 0);
	/* Again, and a commit that comes too late. */
	CHECK_INT(hand_abort(&h, 0, out.id), EPD_ENOTHING);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), EPD_ENOTHING);
	CHECK(settled(&h, 2, 0, runs, 0));
	CHECK_INT(hand_prepare(&h, b, &out), 0);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	CHECK(settled(&h, 1, 1, runs - 1, 2));
	hand_end(&h);
}

TEST(aborted_when_prepared) { abandoned(1, 0, 0); }
TEST(aborted_when_ready) { abandoned(1, 1, 0); }
TEST(aborted_by_the_target) { abandoned(1, 1, 1); }
TEST(aborted_by_a_target_that_has_nothing) { abandoned(1, 0, 1); }
TEST(aborted_within_a_store) { abandoned(0, 1, 0); }

/* Each step done twice, as by two that looked at the same time. */
TEST(kind25_every_step_again)
{
	struct epd_handed out;
	struct epd_pair p[2];
	struct epd_handoff half;
	struct epd_workflow w[2];
	struct hand h;
	uint32_t b = begin(&h, 1, 0);

	CHECK_INT(hand_prepare(&h, b, &out), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(epd_workflow_open(w + i, h.k.s, "w1", 0,
		    kit_why(&h.k)), 0);
		CHECK_INT(epd_shard_handoff(w[i].shard, out.id, &half), 0);
		CHECK_INT(epd_pair_open(p + i, h.k.s, w + i, &half,
		    &h.k.why), 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK_INT(epd_pair_look(p + i, &h.k.why), 0);
	for (int i = 0; i < 2; i++)
		CHECK_INT(epd_pair_pull(p + i, &h.k.why), 0);
	/* What the second pulled in vain is gone again. */
	CHECK_INT(hand_runs(&h, 1), 2);
	for (int i = 0; i < 4; i++)
		CHECK_INT(epd_shard_commit_at(p[i % 2].src.w.shard, out.id, 0,
		    &h.k.why), 0);
	CHECK_INT(epd_shard_rollback_at(p[1].src.w.shard, out.id, 0, "too late",
	    &h.k.why), EPD_EABORTED);
	for (int i = 0; i < 4; i++)
		CHECK_INT(epd_shard_commit_at(p[i % 2].dst.w.shard, out.id, 0,
		    &h.k.why), 0);
	CHECK_INT(epd_shard_rollback_at(p[1].dst.w.shard, out.id, 0, "too late",
	    &h.k.why), EPD_EABORTED);
	for (int i = 0; i < 4; i++)
		CHECK_INT(epd_shard_forget_at(p[i % 2].src.w.shard, out.id, 0,
		    &h.k.why), 0);
	for (int i = 0; i < 4; i++)
		CHECK_INT(epd_shard_forget_at(p[i % 2].dst.w.shard, out.id, 0,
		    &h.k.why), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(epd_pair_drive(p + i, EPD_GOAL_SETTLE, "",
		    &h.k.why), 0);
		CHECK_INT(epd_pair_drive(p + i, EPD_GOAL_COMMIT, "",
		    &h.k.why), EPD_ENOTHING);
		epd_pair_close(p + i);
		epd_workflow_close(w + i);
	}
	/* Its run went with neither handle telling; a sweep finds it. */
	CHECK_INT(epd_flow_gc(h.k.s, &(struct epd_swept){ .ns = 0 },
	    kit_why(&h.k)), 0);
	CHECK(settled(&h, 1, 1, 2, 2));
	hand_end(&h);
}

static void
pinned(struct hand *h, uint32_t b)
{
	const struct epd_ref ref = hand_ref("w1", b);
	const struct epd_fork_request f = { .from = ref, .branches = 1,
	    .reason = "" };
	struct epd_handed out;
	struct epd_prefilled turn;
	struct kit_said said;
	struct epd_forked forked;

	CHECK_INT(hand_say(&h->k, "w1", b, "\"No.\"", &turn), EPD_ESTATUS);
	CHECK_INT(hand_decode(&h->k, "w1", b, 1, NULL, &said), EPD_ESTATUS);
	CHECK_INT(epd_flow_fork(h->k.s, &f, &forked, kit_why(&h->k)),
	    EPD_ESTATUS);
	CHECK_INT(epd_flow_release(h->k.s, &ref, "no", kit_why(&h->k)),
	    EPD_ESTATUS);
	CHECK_INT(hand_prepare(h, b, &out), EPD_ESTATUS);
	CHECK(*h->k.why.text);
}

TEST(its_source_is_pinned)
{
	struct epd_handed out, again;
	struct kit_said said;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);

	for (int pulled = 0; pulled < 2; pulled++) {
		CHECK_INT(offered(&h, b, pulled, &out), 0);
		pinned(&h, b);
		CHECK_INT(epd_flow_handoff_show(h.k.s, out.id, &again,
		    kit_why(&h.k)), 0);
		CHECK(again.source == EPD_PREPARED && !again.expired);
		CHECK(again.target == (pulled ? EPD_READY : 0));
		CHECK_INT(hand_abort(&h, 0, out.id), 0);
	}
	/* The half that is ready is nobody's to use yet. */
	CHECK_INT(offered(&h, b, 1, &out), 0);
	CHECK_INT(hand_decode(&h.t, "w1", 3, 1, NULL, &said), EPD_ENOSTATE);
	CHECK(hand_decode(&h.t, "w1", 2, 1, NULL, &said) < 0);
	CHECK_INT(hand_abort(&h, 0, out.id), 0);
	CHECK_INT(hand_decode(&h.k, "w1", b, 1, NULL, &said), 0);
	hand_end(&h);
}

/* ---- time-out ---- */

enum verb { SAY, DECODE, FORK, RELEASE, GC, GC_THERE, VERBS };

static int
use(struct hand *h, uint32_t b, enum verb verb)
{
	const struct epd_ref ref = hand_ref("w1", b);
	struct epd_prefilled turn;
	struct kit_said said;
	struct epd_swept swept;

	switch (verb) {
	case SAY: return hand_say(&h->k, "w1", b, "\"So?\"", &turn);
	case DECODE: return hand_decode(&h->k, "w1", b, 1, NULL, &said);
	case FORK: return hand_fork(&h->k, b, 1) == 3 ? 0 : -1;
	case RELEASE:
		return epd_flow_release(h->k.s, &ref, "", kit_why(&h->k));
	case GC: return epd_flow_gc(h->k.s, &swept, kit_why(&h->k));
	default: return epd_flow_gc(h->t.s, &swept, kit_why(&h->t));
	}
}

TEST(its_time_over_the_next_verb_rolls_back)
{
	struct epd_handed out;
	struct hand h;
	uint32_t b;

	for (int i = 0; i < 2 * VERBS; i++) {
		const enum verb verb = (enum verb)(i % VERBS);
		const int pulled = i / VERBS;

		if (verb == GC_THERE && !pulled)
			continue;
		b = begin(&h, 1, 0);
		h.timeout_ms = 1;
		CHECK_INT(hand_prepare(&h, b, &out), 0);
		if (pulled)
			CHECK_INT(pull(&h, out.id), 0);
		epd_clock_sleep_ns(2000000);
		if (use(&h, b, verb) < 0)
			CHECK_FAIL("verb %d: %s", (int)verb, h.k.why.text);
		CHECK(settled(&h, verb == RELEASE ? 1 : 2 + (verb == FORK), 0,
		    hand_runs(&h, 0), 0));
		CHECK_INT(hand_commit(&h, 0, out.id, &out), EPD_ENOTHING);
		hand_end(&h);
	}
}

TEST(its_time_over_a_commit_is_told_so)
{
	struct epd_handed out;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);

	h.timeout_ms = 1;
	CHECK_INT(hand_prepare(&h, b, &out), 0);
	epd_clock_sleep_ns(2000000);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), EPD_EABORTED);
	CHECK(settled(&h, 2, 0, 3, 0));
	/* What is ready by then may still be had. */
	CHECK_INT(offered(&h, b, 1, &out), 0);
	epd_clock_sleep_ns(2000000);
	CHECK_INT(hand_commit(&h, 1, out.id, &out), 0);
	CHECK(settled(&h, 1, 1, 2, 2));
	hand_end(&h);
}

/* A state's time to live runs out meanwhile: it is gone once that is decided. */
TEST(a_state_that_expires)
{
	const struct epd_fork_request f = {
		.from = hand_ref("w1", 1), .branches = 3, .ttl_ms = 60000,
		.reason = "test",
	};
	struct epd_clock_fake later = { .wall_ms = epd_clock_wall_ms() + 70000,
	    .boot_ns = epd_clock_boot_ns() };
	struct epd_handed out[2], late;
	struct epd_forked forked;
	struct epd_swept swept;
	struct hand h;

	begin(&h, 1, 0);
	CHECK_INT(epd_flow_fork(h.k.s, &f, &forked, kit_why(&h.k)), 0);
	for (uint32_t i = 0; i < 2; i++)
		CHECK_INT(offered(&h, forked.first + i, (int)i, out + i), 0);
	epd_clock_fake(&later);
	/* One that has expired is not there to be offered. */
	CHECK_INT(hand_prepare(&h, forked.first + 2, &late), EPD_ENOSTATE);
	CHECK_INT(epd_flow_gc(h.k.s, &swept, kit_why(&h.k)), 0);
	/* Neither side of a half loses it before that is decided. */
	CHECK_INT(hand_commit(&h, 0, out[0].id, &late), EPD_ENOSTATE);
	CHECK_INT(hand_commit(&h, 0, out[1].id, &late), 0);
	CHECK_INT(late.to_state, 1);
	CHECK_INT(epd_flow_gc(h.k.s, &swept, kit_why(&h.k)), 0);
	/* It is over there at the same time as it would have been here. */
	CHECK_INT(epd_flow_gc(h.t.s, &swept, kit_why(&h.t)), 0);
	CHECK(settled(&h, 2, 0, 3, 0));
	epd_clock_fake(NULL);
	hand_end(&h);
}

TEST(its_time_to_live_goes_along)
{
	const struct epd_fork_request f = {
		.from = hand_ref("w1", 1), .branches = 1, .ttl_ms = 60000,
		.reason = "test",
	};
	struct epd_whole before, after;
	struct epd_forked forked;
	struct epd_handed out;
	struct hand h;

	for (int two = 0; two < 2; two++) {
		begin(&h, two, 0);
		CHECK_INT(epd_flow_fork(h.k.s, &f, &forked, kit_why(&h.k)), 0);
		before = hand_whole(&h, 0, forked.first);
		CHECK_INT(offered(&h, forked.first, 0, &out), 0);
		CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
		after = hand_whole(&h, 1, out.to_state);
		CHECK(before.traits.ttl_deadline_ms > epd_clock_wall_ms());
		CHECK(hand_same(&before, &after));
		epd_whole_free(&before);
		epd_whole_free(&after);
		hand_end(&h);
	}
}

/* ---- a half that cannot be reached ---- */

TEST(a_target_that_is_away)
{
	struct epd_handed out;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);
	int states;

	for (int pulled = 0; pulled < 2; pulled++) {
		CHECK_INT(offered(&h, b, pulled, &out), 0);
		states = hand_look(&h, 0, 0).states;
		hand_away(&h, 1, 1);
		for (int i = 0; i < 2; i++)
			CHECK_INT(hand_commit(&h, 0, out.id, &out),
			    EPD_ETIMEOUT);
		CHECK(strstr(h.k.why.text, "no such store") != NULL);
		CHECK(out.unreachable && out.source == EPD_PREPARED);
		CHECK_INT(hand_look(&h, 0, 0).states, states);
		CHECK_INT(hand_settle(&h, 0), 0);
		CHECK_INT(hand_look(&h, 0, 0).handoffs, 1);
		/* It may be given up all the same. */
		if (pulled) {
			CHECK_INT(hand_abort(&h, 0, out.id), 0);
			hand_away(&h, 1, 0);
			CHECK_INT(hand_look(&h, 1, 0).states, 1);
			CHECK_INT(hand_settle(&h, 1), 1);
			CHECK(settled(&h, 2, 0, 3, 0));
		} else {
			hand_away(&h, 1, 0);
			CHECK_INT(hand_abort(&h, 0, out.id), 0);
		}
	}
	hand_end(&h);
}

/* Past its deadline too: it may have been adopted there. */
TEST(a_target_that_is_away_when_its_time_is_over)
{
	struct epd_handed out;
	struct kit_said said;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);

	h.timeout_ms = 1;
	CHECK_INT(offered(&h, b, 1, &out), 0);
	hand_away(&h, 1, 1);
	epd_clock_sleep_ns(2000000);
	CHECK_INT(hand_settle(&h, 0), 0);
	CHECK_INT(hand_decode(&h.k, "w1", b, 1, NULL, &said), EPD_ESTATUS);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), EPD_ETIMEOUT);
	CHECK(out.unreachable && out.expired && out.source == EPD_PREPARED);
	hand_away(&h, 1, 0);
	CHECK_INT(hand_decode(&h.k, "w1", b, 1, NULL, &said), 0);
	CHECK(settled(&h, 2, 0, hand_runs(&h, 0), 0));
	hand_end(&h);
}

/* The target's workflow is gone, or is another one; its store is there. */
static void
unmade(struct hand *h, int another)
{
	struct kit *k = hand_kit(h, 1);
	char name[EPD_WORKFLOW];
	struct epd_workflow w;

	if (epd_file_remove(k->s->workflows, h->to) < 0)
		golden_die("target", "cannot be removed");
	if (!another)
		return;
	if (epd_workflow_make(k->s, h->to, name, &k->why) < 0 ||
	    epd_workflow_open(&w, k->s, name, 0, &k->why) < 0)
		golden_die("another target", k->why.text);
	epd_workflow_close(&w);
}

/* Nobody can have it there: no source waits for that. */
static void
buried(int two, int another)
{
	struct epd_handed out;
	struct kit_said said;
	struct hand h;
	uint32_t b = begin(&h, two, 0);

	CHECK_INT(offered(&h, b, 0, &out), 0);
	unmade(&h, another);
	CHECK_INT(hand_settle(&h, 0), 0);
	CHECK_INT(hand_decode(&h.k, "w1", b, 1, NULL, &said), EPD_ESTATUS);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), EPD_EABORTED);
	CHECK(settled(&h, 2, 0, hand_runs(&h, 0), 0));
	h.timeout_ms = 1;
	CHECK_INT(offered(&h, b, 0, &out), 0);
	unmade(&h, another);
	epd_clock_sleep_ns(2000000);
	CHECK_INT(hand_settle(&h, 0), 1);
	CHECK_INT(hand_decode(&h.k, "w1", b, 1, NULL, &said), 0);
	CHECK(settled(&h, 2, 0, hand_runs(&h, 0), 0));
	hand_end(&h);
}

TEST(a_target_that_is_gone) { buried(1, 0); buried(0, 0); }
TEST(a_target_that_is_another) { buried(1, 1); buried(0, 1); }

/* An empty workflow is buried in time, but not while something is on its way. */
TEST(a_target_is_not_buried)
{
	struct epd_swept swept;
	struct epd_handed out;
	struct hand h;
	uint32_t b = begin(&h, 0, 0);

	for (int given_up = 0; given_up < 2; given_up++) {
		struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };

		CHECK_INT(offered(&h, b, 0, &out), 0);
		if (given_up)
			CHECK_INT(hand_abort(&h, 0, out.id), 0);
		CHECK_INT(utimensat(h.k.s->workflows, "w2", old, 0), 0);
		CHECK_INT(epd_flow_gc(h.k.s, &swept, kit_why(&h.k)), 0);
		CHECK_INT(faccessat(h.k.s->workflows, "w2", F_OK, 0),
		    given_up ? -1 : 0);
		if (!given_up)
			CHECK_INT(hand_abort(&h, 0, out.id), 0);
	}
	CHECK_INT(offered(&h, b, 0, &out), 0);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	CHECK(settled(&h, 1, 1, 2, 2));
	hand_end(&h);
}

/* Committed and then away: the target has it when it comes back. */
TEST(a_target_that_is_away_when_it_was_committed)
{
	struct epd_handed out;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);
	struct epd_workflow w;

	CHECK_INT(offered(&h, b, 1, &out), 0);
	CHECK_INT(epd_workflow_open(&w, h.k.s, "w1", 0, kit_why(&h.k)), 0);
	CHECK_INT(epd_shard_commit_at(w.shard, out.id, 0, &h.k.why), 0);
	epd_workflow_close(&w);
	hand_away(&h, 1, 1);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), EPD_ETIMEOUT);
	CHECK_INT(hand_abort(&h, 0, out.id), EPD_ETIMEOUT);
	CHECK_INT(hand_settle(&h, 0), 0);
	hand_away(&h, 1, 0);
	CHECK_INT(hand_abort(&h, 0, out.id), EPD_ESTATUS);
	CHECK_INT(hand_settle(&h, 0), 0);
	CHECK_INT(epd_flow_gc(h.k.s, &(struct epd_swept){ .ns = 0 },
	    kit_why(&h.k)), 0);
	CHECK(settled(&h, 1, 1, 2, 2));
	hand_end(&h);
}

/* The source's decision is not to be had: wait, or be adopted by a person. */
static void
orphaned(int committed, int expired)
{
	struct epd_handed out;
	struct epd_workflow w;
	struct hand_log t;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);

	h.timeout_ms = expired ? 1 : 600000;
	CHECK_INT(offered(&h, b, 1, &out), 0);
	CHECK_INT(hand_adopt(&h, out.id), EPD_ESTATUS);
	CHECK(strstr(h.t.why.text, "can be reached") != NULL);
	if (committed) {
		CHECK_INT(epd_workflow_open(&w, h.k.s, "w1", 0,
		    kit_why(&h.k)), 0);
		CHECK_INT(epd_shard_commit_at(w.shard, out.id, 0, &h.k.why), 0);
		epd_workflow_close(&w);
	}
	epd_clock_sleep_ns(2000000);
	hand_away(&h, 0, 1);
	CHECK_INT(hand_commit(&h, 1, out.id, &out), EPD_ETIMEOUT);
	CHECK_INT(hand_abort(&h, 1, out.id), EPD_ETIMEOUT);
	CHECK_INT(hand_settle(&h, 1), 0);
	t = hand_look(&h, 1, 1);
	CHECK(t.states == 1 && t.active == 0 && t.handoffs == 1 && !t.faults);
	CHECK_INT(hand_adopt(&h, out.id), 0);
	CHECK_INT(hand_adopt(&h, out.id), 0);
	CHECK_INT(hand_look(&h, 1, 0).term, t.term + 1);
	CHECK_INT(hand_look(&h, 1, 0).active, 1);
	CHECK_INT(hand_commit(&h, 1, out.id, &out), 0);
	CHECK_INT(out.target, EPD_ADOPTED);
	hand_away(&h, 0, 0);
	/* Whichever side comes first, the source commits to it. */
	CHECK_INT(hand_settle(&h, committed), 1);
	CHECK_INT(epd_flow_gc(h.k.s, &(struct epd_swept){ .ns = 0 },
	    kit_why(&h.k)), 0);
	CHECK(settled(&h, 1, 1, 2, 2));
	hand_end(&h);
}

TEST(a_source_that_is_away) { orphaned(0, 1); }
TEST(a_source_that_is_away_when_it_has_committed) { orphaned(1, 0); }

/* The source has rolled back meanwhile, and its state has gone on or not. */
static void
adopted_after_all(int gone_on)
{
	struct epd_handed out;
	struct kit_said said;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);

	CHECK_INT(offered(&h, b, 1, &out), 0);
	hand_away(&h, 1, 1);
	CHECK_INT(hand_abort(&h, 0, out.id), 0);
	if (gone_on)
		CHECK_INT(hand_decode(&h.k, "w1", b, 1, NULL, &said), 0);
	hand_away(&h, 1, 0);
	hand_away(&h, 0, 1);
	CHECK_INT(hand_adopt(&h, out.id), 0);
	hand_away(&h, 0, 0);
	CHECK_INT(hand_settle(&h, 1), 1);
	CHECK(settled(&h, 1 + gone_on, 1, hand_runs(&h, 0), 2));
	if (gone_on)
		CHECK_INT(hand_decode(&h.k, "w1", b, 1, NULL, &said), 0);
	hand_end(&h);
}

TEST(adopted_though_it_was_rolled_back) { adopted_after_all(0); }
TEST(adopted_though_it_has_gone_on) { adopted_after_all(1); }

/* What the source kept was given up there: then the adopter's is the one. */
TEST(adopted_though_it_was_given_up)
{
	struct epd_workflow w;
	struct epd_handed out;
	struct hand_log l;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);

	CHECK_INT(offered(&h, b, 1, &out), 0);
	hand_away(&h, 1, 1);
	CHECK_INT(hand_abort(&h, 0, out.id), 0);
	CHECK_INT(epd_workflow_open(&w, h.k.s, "w1", 0, kit_why(&h.k)), 0);
	CHECK_INT(epd_shard_suspect(w.shard, b, "test", &h.k.why), 0);
	hand_away(&h, 1, 0);
	hand_away(&h, 0, 1);
	CHECK_INT(hand_adopt(&h, out.id), 0);
	hand_away(&h, 0, 0);
	/* What is suspect may yet be cleared or given up: that is waited for. */
	CHECK_INT(hand_settle(&h, 1), 0);
	CHECK_INT(hand_look(&h, 1, 0).handoffs, 1);
	CHECK_INT(epd_shard_abort(w.shard, b, "test", &h.k.why), 0);
	epd_workflow_close(&w);
	CHECK_INT(hand_settle(&h, 1), 1);
	l = hand_look(&h, 1, 1);
	CHECK(l.active == 1 && !l.handoffs && !l.faults);
	l = hand_look(&h, 0, 1);
	CHECK(l.states == 2 && l.active == 1 && !l.handoffs && !l.faults);
	hand_end(&h);
}

/* Not being able to look now is no reason to take it. */
TEST(nobody_adopts_for_want_of_memory)
{
	struct epd_handed out;
	struct epd_why why;
	struct hand h;
	uint32_t b = begin(&h, 1, 0);
	int refused = 0, asked, rc;

	CHECK_INT(offered(&h, b, 1, &out), 0);
	for (int n = 1; n < 2000; n++) {
		struct epd_handed told;

		scratch_starve(n, 0);
		rc = epd_flow_handoff_adopt(h.t.s, out.id, "test", &told,
		    &why);
		asked = scratch_mem.count;
		scratch_starve(0, 0);
		CHECK(rc == -ENOMEM || rc == EPD_ESTATUS);
		refused += rc == -ENOMEM;
		if (asked < n)
			break;
	}
	CHECK(refused > 30);
	CHECK_INT(hand_look(&h, 1, 0).active, 0);
	CHECK_INT(hand_abort(&h, 1, out.id), 0);
	hand_end(&h);
}

/* ---- refusals ---- */

static int
refused(struct hand *h, const char *store, const char *workflow,
    struct epd_ref ref)
{
	const struct epd_offer o = {
		.state = ref, .store = store, .workflow = workflow,
	};
	struct epd_handed out;
	int rc = epd_flow_handoff_prepare(h->k.s, &o, &out, kit_why(&h->k));

	if (rc < 0 && !*h->k.why.text)
		printf("# without a word\n");
	return rc;
}

static int
workflows(void *arg, const char *name)
{
	(void)name;
	++*(int *)arg;
	return 0;
}

TEST(what_is_refused)
{
	struct hand h;
	uint32_t b = begin(&h, 0, 0);
	struct epd_ref ref = hand_ref("w1", b), whole_one = { .kind =
	    EPD_REF_WORKFLOW, .workflow = "w1" };
	char path[300];
	int n = 0;
	struct stat st;

	CHECK_INT(refused(&h, NULL, "w1", ref), EPD_EUSAGE);
	CHECK_INT(refused(&h, h.k.store, "w1", ref), EPD_EUSAGE);
	CHECK_INT(refused(&h, NULL, "no/name", ref), EPD_EUSAGE);
	CHECK_INT(refused(&h, NULL, "", whole_one), EPD_EUSAGE);
	CHECK_INT(refused(&h, NULL, "", hand_ref("w9", 1)), EPD_ENOTHING);
	/* Where the state is not there nothing is made for it. */
	snprintf(path, sizeof path, "%s/new", h.k.path);
	CHECK_INT(refused(&h, path, "", hand_ref("w1", 9)), EPD_ENOSTATE);
	CHECK(stat(path, &st) < 0);
	ref.version = 9;
	CHECK_INT(refused(&h, NULL, "", ref), EPD_ENOTHING);
	ref.version = 1;
	CHECK_INT(refused(&h, NULL, "", ref), EPD_EVERSION);
	CHECK_INT(refused(&h, NULL, "kept", ref), EPD_EVERSION);
	CHECK_INT(epd_workflow_each(h.k.s, workflows, &n), 0);
	CHECK_INT(n, 1);
	/* Something else than a store, and another user's. */
	ref.version = 0;
	CHECK_INT(mkdirat(h.k.dir, "else", 0700), 0);
	CHECK_INT(mkdirat(h.k.dir, "else/file", 0700), 0);
	snprintf(path, sizeof path, "%s/else", h.k.path);
	CHECK_INT(refused(&h, path, "", ref), EPD_EFORMAT);
	snprintf(path, sizeof path, "%s/locked", h.k.path);
	CHECK_INT(mkdirat(h.k.dir, "locked", geteuid() ? 0500 : 0700), 0);
	if (!geteuid())
		CHECK_INT(chown(path, 12345, 12345), 0);
	CHECK_INT(refused(&h, path, "", ref), geteuid() ? -EROFS : -EPERM);
	CHECK(hand_check(&h) == 0);
	CHECK_INT(hand_look(&h, 0, 1).handoffs, 0);
	hand_end(&h);
}

TEST(nothing_is_made_for_what_is_refused)
{
	struct hand h;
	uint32_t b = begin(&h, 0, 0);
	struct epd_ref ref = hand_ref("w1", b);
	struct epd_workflow w;
	struct epd_handed out;
	uint64_t lease;
	char path[300];
	struct stat st;

	snprintf(path, sizeof path, "%s/new", h.k.path);
	CHECK_INT(offered(&h, b, 0, &out), 0);
	CHECK_INT(refused(&h, path, "", ref), EPD_ESTATUS);
	CHECK_INT(hand_abort(&h, 0, out.id), 0);
	ref.version = 1;
	CHECK_INT(refused(&h, path, "", ref), EPD_EVERSION);
	ref.version = 0;
	CHECK_INT(epd_workflow_open(&w, h.k.s, "w1", 0, kit_why(&h.k)), 0);
	CHECK_INT(epd_shard_lease(w.shard, b, 0, EPD_LEASE_DECODE, 60000,
	    &lease, &h.k.why), 0);
	CHECK_INT(refused(&h, path, "", ref), EPD_ELOCKED);
	CHECK_INT(epd_shard_drop(w.shard, lease, "test", &h.k.why), 0);
	CHECK_INT(epd_shard_abort(w.shard, b, "test", &h.k.why), 0);
	epd_workflow_close(&w);
	CHECK_INT(refused(&h, path, "", ref), -EPERM);
	CHECK(stat(path, &st) < 0);
	hand_end(&h);
}

TEST(its_own_store_by_path)
{
	const char *path;
	struct epd_handed out;
	struct hand h;
	uint32_t b = begin(&h, 0, 0);
	struct epd_offer o = { .state = hand_ref("w1", b), .workflow = "w2" };
	char roundabout[300];

	snprintf(roundabout, sizeof roundabout, "%s/../store", h.k.store);
	o.store = path = roundabout;
	CHECK_INT(epd_flow_handoff_prepare(h.k.s, &o, &out, kit_why(&h.k)),
	    0);
	CHECK_STR(out.to_store, out.from_store);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	CHECK(settled(&h, 1, 1, 2, 2));
	CHECK(path == o.store);
	hand_end(&h);
}

/* Moved as a whole, a store knows both halves in it. */
TEST(kind28_the_store_is_moved)
{
	struct epd_handed out;
	struct hand h;
	uint32_t b = begin(&h, 0, 0);

	CHECK_INT(offered(&h, b, 1, &out), 0);
	hand_close(&h);
	hand_away(&h, 0, 1);
	snprintf(h.k.store, sizeof h.k.store, "%.190s/store.away", h.k.path);
	hand_open(&h);
	CHECK_INT(hand_adopt(&h, out.id), EPD_ESTATUS);
	CHECK_INT(hand_commit(&h, 1, out.id, &out), 0);
	CHECK(settled(&h, 1, 1, 2, 2));
	hand_end(&h);
}

/* ---- damage ---- */

static void
spoil(struct kit *k, const char *workflow)
{
	char path[300], byte;
	int fd;

	snprintf(path, sizeof path, "store/w/%s/log.00000001", workflow);
	fd = openat(k->dir, path, O_RDWR);
	if (fd < 0 || pread(fd, &byte, 1, 200) != 1 ||
	    (byte ^= 8, pwrite(fd, &byte, 1, 200) != 1))
		golden_die(path, "cannot be damaged");
	close(fd);
}

static int
count_one(void *arg, const struct epd_handed *h)
{
	struct epd_handed *last = arg;
	uint64_t n = last->linked + 1;

	*last = *h;
	last->linked = n;
	return 0;
}

TEST(the_other_half_is_damaged)
{
	struct epd_handed out, seen = { .linked = 0 };
	struct kit_said said;
	struct hand h;
	uint32_t b = begin(&h, 1, 1);

	CHECK_INT(offered(&h, b, 1, &out), 0);
	spoil(&h.t, "w1");
	CHECK_INT(hand_commit(&h, 0, out.id, &out), EPD_ETIMEOUT);
	CHECK(strstr(h.k.why.text, "log.00000001") != NULL);
	CHECK_INT(epd_flow_handoff_each(h.k.s, count_one, &seen,
	    kit_why(&h.k)), 0);
	CHECK(seen.linked == 1 && seen.unreachable &&
	    seen.source == EPD_PREPARED);
	/* In the damaged log's own store it cannot be read at all. */
	CHECK_INT(hand_commit(&h, 1, out.id, &out), EPD_ECORRUPT);
	CHECK_INT(epd_flow_handoff_each(h.t.s, count_one, &seen,
	    kit_why(&h.t)), EPD_ECORRUPT);
	CHECK_INT(hand_abort(&h, 0, out.id), 0);
	CHECK_INT(hand_decode(&h.k, "w1", b, 1, NULL, &said), 0);
	CHECK_INT(kit_check(&h.k), 0);
	hand_end(&h);
}

TEST(a_damaged_neighbour_hides_nothing)
{
	struct epd_prefilled p;
	struct epd_handed out;
	struct epd_json *j = kit_json("\"Hello.\"");
	const struct epd_prefill other = { .kind = EPD_PROMPT_TURN,
	    .content = j, .role = "user", .workflow = "a" };
	struct hand h;
	uint32_t b = begin(&h, 1, 1);
	uint8_t id[16];
	char hex[33];

	CHECK_INT(epd_flow_prefill(h.k.se, &other, &p, kit_why(&h.k)), 0);
	CHECK_INT(offered(&h, b, 0, &out), 0);
	spoil(&h.k, "a");
	epd_hex_format(hex, out.id, 16);
	CHECK_INT(epd_flow_handoff_find(h.k.s, hex, id, kit_why(&h.k)), 0);
	CHECK(!memcmp(id, out.id, 16));
	hex[4] = '\0';
	CHECK_INT(epd_flow_handoff_find(h.k.s, hex, id, kit_why(&h.k)), 0);
	CHECK_INT(epd_flow_handoff_find(h.k.s, "0000000000000000", id,
	    kit_why(&h.k)), EPD_ECORRUPT);
	CHECK_INT(epd_flow_handoff_find(h.k.s, "012", id, kit_why(&h.k)),
	    EPD_EUSAGE);
	CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
	epd_json_free(j);
	hand_end(&h);
}

TEST(an_id_that_several_begin_with)
{
	struct epd_handoff half = { .id = { 0x12, 0x34, 0x50 }, .version = 1,
	    .store = "", .workflow = "none", .peer = { 1 } };
	char digits[8] = "12345";
	struct epd_workflow w;
	struct hand h;
	uint8_t id[16];
	uint32_t b[2];

	begin(&h, 0, 0);
	for (int i = 0; i < 2; i++)
		b[i] = hand_fork(&h.k, 1, 2);
	CHECK_INT(epd_workflow_open(&w, h.k.s, "w1", 0, kit_why(&h.k)), 0);
	for (int i = 0; i < 2; i++) {
		half.state = b[i];
		half.id[2] = (uint8_t)(0x50 + i);
		CHECK_INT(epd_shard_prepare(w.shard, &half, kit_why(&h.k)),
		    0);
	}
	epd_workflow_close(&w);
	CHECK_INT(epd_flow_handoff_find(h.k.s, digits, id, kit_why(&h.k)),
	    EPD_EAMBIGUOUS);
	CHECK(strstr(h.k.why.text, " 12345000000000000000000000000000 ") &&
	    strstr(h.k.why.text, " 12345100000000000000000000000000"));
	strcpy(digits, "123451");
	CHECK_INT(epd_flow_handoff_find(h.k.s, digits, id, kit_why(&h.k)), 0);
	CHECK(!memcmp(id, half.id, 16));
	hand_end(&h);
}

/* Memory that fails anywhere in it: nothing has changed, or it is done. */
TEST(memory_for_a_hand_off)
{
	struct hand h;
	int failed = 0, asked = 1, rc;
	struct hand_log s, t;
	struct epd_handed out;
	struct epd_swept swept;

	for (int n = 1; asked >= n - 3; n += 3) {
		const uint32_t b = begin(&h, 1, 0);
		int told;

		CHECK_INT(hand_prepare(&h, b, &out), 0);
		scratch_starve(n, n % 2);
		rc = hand_commit(&h, 0, out.id, &out);
		asked = scratch_mem.count;
		scratch_starve(0, 0);
		CHECK(rc == 0 || rc == -ENOMEM || rc == EPD_ETIMEOUT);
		failed += rc < 0;
		told = rc == 0;
		if (rc < 0)
			rc = n % 2 ? hand_commit(&h, 0, out.id, &out) :
			    hand_abort(&h, 0, out.id);
		/* It may be that all was done and only not told. */
		CHECK(rc == 0 || rc == EPD_ENOTHING || rc == EPD_ESTATUS);
		s = hand_look(&h, 0, 0);
		t = hand_look(&h, 1, 0);
		CHECK(s.states + t.states == 2 && s.active + t.active == 2);
		CHECK(!s.handoffs && !t.handoffs && (!told || t.active));
		for (int i = 0; i < 2; i++)
			CHECK_INT(epd_flow_gc(hand_kit(&h, i)->s, &swept,
			    kit_why(&h.k)), 0);
		CHECK(settled(&h, s.states, t.states, s.states + 1,
		    2 * t.states));
		hand_end(&h);
	}
	printf("# failed at %d of %d\n", failed, asked);
	CHECK(failed > 20);
}

/* ---- two at once ---- */

/* Overtaken at any call by one who ends it, a driver is told so, no worse. */
static struct {
	struct hand *h;
	uint8_t id[16];
	enum epd_goal goal;
	struct epd_pair *late;	/* pulls after that what it saw long before */
	int half_way;		/* dies when the target has committed */
	int rc;
} rival;

/* Pull and commit at both, and no more. */
static int
go_half_way(struct epd_store *s)
{
	struct epd_handoff half;
	struct epd_workflow w;
	struct epd_pair p;
	int rc = epd_workflow_open(&w, s, "w1", 0, NULL);

	if (rc < 0)
		return rc;
	rc = epd_shard_handoff(w.shard, rival.id, &half);
	if (rc == 0 && (rc = epd_pair_open(&p, s, &w, &half, NULL)) == 0) {
		rc = epd_pair_look(&p, NULL);
		if (rc == 0 && !p.dst.h.phase)
			rc = epd_pair_pull(&p, NULL);
		if (rc == 0)
			rc = epd_shard_commit_at(p.src.w.shard, rival.id, 0,
			    NULL);
		if (rc == 0)
			rc = epd_shard_commit_at(p.dst.w.shard, rival.id, 0,
			    NULL);
		epd_pair_close(&p);
	}
	epd_workflow_close(&w);
	return rc;
}

static void
overtake(void)
{
	struct kit *k = &rival.h->k;
	struct epd_store_options o = { .path = k->store, .config = &k->config };
	struct epd_handed out;
	struct epd_store *s;

	if ((rival.rc = epd_store_open(&s, &o, NULL)) < 0)
		return;
	if (rival.half_way)
		rival.rc = go_half_way(s);
	else
		rival.rc = rival.goal == EPD_GOAL_COMMIT ?
		    epd_flow_handoff_commit(s, rival.id, &out, NULL) :
		    epd_flow_handoff_abort(s, rival.id, "rival", &out, NULL);
	epd_store_close(s);
	if (rival.rc == 0 && rival.late)
		(void)epd_pair_pull(rival.late, NULL);
}

/* Whoever won, what both were told is so.  The calls there were. */
static int
overtaken(struct hand *h, uint32_t parent, int n, enum epd_goal goal)
{
	uint32_t b = hand_fork(&h->k, parent, 9);
	struct hand_log s, t;
	struct epd_handed out;
	int rc, calls, ok;

	rival.h = h;
	rival.goal = goal;
	rival.rc = 1;
	if (hand_prepare(h, b, &out) < 0)
		golden_die("prepare", h->k.why.text);
	memcpy(rival.id, out.id, 16);
	fault.hook = overtake;
	fault_arm(n, 0, FAULT_HOOK);
	rc = hand_commit(h, 0, rival.id, &out);
	calls = fault.count;
	fault.at = 0;
	s = hand_look(h, 0, 0);
	t = hand_look(h, 1, 0);
	/* A rival that could not have the lock has changed nothing. */
	ok = s.handoffs + t.handoffs == 0 && s.active == s.states &&
	    t.active == t.states && s.states + t.states == 3;
	ok &= rc == 0 ? t.states == 1 : (rc == EPD_EABORTED &&
	    t.states == 0) || (rc == EPD_ENOTHING && rival.rc == 0 &&
	    t.states == (goal == EPD_GOAL_COMMIT));
	if (rival.rc == 0)
		ok &= t.states == (goal == EPD_GOAL_COMMIT);
	if (!ok)
		printf("# call %d: driver %d (%s), rival %d, %d here, %d "
		    "there\n", n, rc, h->k.why.text, rival.rc, s.states,
		    t.states);
	if (t.states)
		release(&h->t, t.newest);
	else
		release(&h->k, b);
	return ok ? calls : -1;
}

static void
overtaken_everywhere(enum epd_goal goal)
{
	struct hand h;
	int calls = 1, done = 0;

	begin(&h, 1, 0);
	h.k.config.lock_timeout_ms = 20;
	hand_close(&h);
	h.t.config.lock_timeout_ms = 20;
	hand_open(&h);
	for (int n = 1; calls >= n - 2; n += 2, done++) {
		calls = overtaken(&h, 1, n, goal);
		CHECK(calls >= 0);
	}
	printf("# overtaken at %d calls\n", done);
	CHECK(done > 30);
	CHECK_INT(epd_flow_gc(h.t.s, &(struct epd_swept){ .ns = 0 },
	    kit_why(&h.t)), 0);
	CHECK(settled(&h, 2, 0, hand_runs(&h, 0), 0));
	hand_end(&h);
}

/*
 * A third that has looked before the two others and is killed when it has pulled
 * behind them: its half is nobody's, whatever the first one saw of the other.
 */
static int
late(struct hand *h, int n)
{
	uint32_t b = hand_fork(&h->k, 1, 9);
	struct epd_handed out;
	struct epd_handoff half;
	struct epd_workflow w;
	struct epd_pair p;
	struct hand_log t;
	int calls, ok;

	if (hand_prepare(h, b, &out) < 0 || epd_workflow_open(&w, h->k.s, "w1",
	    0, kit_why(&h->k)) < 0 || epd_shard_handoff(w.shard, out.id,
	    &half) < 0 || epd_pair_open(&p, h->k.s, &w, &half,
	    &h->k.why) < 0 || epd_pair_look(&p, &h->k.why) < 0)
		golden_die("late", h->k.why.text);
	rival.h = h;
	rival.goal = EPD_GOAL_COMMIT;
	rival.late = &p;
	memcpy(rival.id, out.id, 16);
	fault.hook = overtake;
	fault_arm(n, 0, FAULT_HOOK);
	hand_commit(h, 0, rival.id, &out);
	calls = fault.count;
	fault.at = 0;
	rival.late = NULL;
	epd_pair_close(&p);
	epd_workflow_close(&w);
	hand_settle(h, 1);
	t = hand_look(h, 1, 0);
	ok = t.states == 1 && t.active == 1 && t.handoffs == 0;
	if (!ok)
		printf("# call %d: %d of %d there, %d halves\n", n, t.active,
		    t.states, t.handoffs);
	for (; t.states > 0; t = hand_look(h, 1, 0))
		if (release(&h->t, t.newest) < 0)
			break;
	return ok ? calls : -1;
}

TEST(a_half_that_comes_late)
{
	struct hand h;
	int calls = 1, tried = 0;

	begin(&h, 1, 0);
	hand_close(&h);
	h.k.config.lock_timeout_ms = h.t.config.lock_timeout_ms = 10;
	hand_open(&h);
	for (int n = 1; calls >= tried; n++) {
		calls = late(&h, n);
		CHECK(calls >= 0);
		tried = n;
	}
	CHECK(tried > 100);
	CHECK(hand_check(&h) == 0);
	hand_end(&h);
}

TEST(overtaken_by_a_commit) { overtaken_everywhere(EPD_GOAL_COMMIT); }
TEST(overtaken_by_an_abort) { overtaken_everywhere(EPD_GOAL_ABORT); }
TEST(overtaken_half_way)
{
	rival.half_way = 1;
	overtaken_everywhere(EPD_GOAL_COMMIT);
	rival.half_way = 0;
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
