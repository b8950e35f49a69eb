/*
 * flow_fork.c - branches: each goes on as an independent state of the same tokens
 * would, to the bit; they read what they share once, and copy a page when they
 * write to it and not before.
 */
#include "tests/check.h"
#include "tests/unit/fault.h"
#include "tests/unit/reuse.h"

static const char *const families[] = { QWEN2, QWEN25, QWEN3 };

/* Branches of a state; their first number, or an error. */
static int
branches(struct kit *k, uint32_t state, uint32_t version, uint32_t n,
    uint64_t seed, int replace, uint32_t *first)
{
	struct epd_fork_request f = {
		.from = kit_ref(state), .branches = n, .replace = replace,
		.has_seed = seed != 0, .seed = seed, .reason = "test",
	};
	struct epd_forked out;
	int rc;

	snprintf(f.from.workflow, sizeof f.from.workflow, "%s", k->workflow);
	f.from.version = version;
	rc = epd_flow_fork(k->s, &f, &out, kit_why(k));
	if (rc == 0)
		*first = out.first;
	return rc;
}

/* As kit_decode, at a temperature; 0 is greedy. */
static int
draw(struct kit *k, const uint32_t *states, int n, int most, float temp,
    struct kit_said *said)
{
	struct epd_ref ref[KIT_STATES];
	const struct epd_decode d = {
		.states = ref, .n = n, .most = most, .has_temp = 1,
		.has_top_k = 1, .has_top_p = 1, .has_penalty = 1,
		.sampler = { .temp = temp, .top_p = 1, .penalty = 1,
		    .seed = 11 }, .logprobs = KIT_TOP, .ignore_eos = 1,
		.token = kit_token, .end = kit_ended, .arg = said,
	};

	memset(said, 0, (size_t)n * sizeof *said);
	for (int i = 0; i < n; i++)
		ref[i] = kit_ref(states[i]);
	return epd_flow_decode(k->se, &d, kit_why(k));
}

/* A state of three versions about a picture. */
static uint32_t
story(struct kit *k)
{
	const char *paths[] = { kit_picture(k, "a.ppm", 112, 84, 1), NULL };
	struct epd_prefilled p;
	struct kit_said said;

	if (kit_say(k, 0, "Here is something to look at.", paths, &p) < 0 ||
	    kit_decode(k, &p.state, 1, 5, &said) < 0 ||
	    kit_say(k, p.state, "And now?", NULL, &p) < 0)
		golden_die("story", k->why.text);
	return p.state;
}

static uint64_t
hash_state(struct kit *k, uint32_t state)
{
	struct kit_log l = kit_read(k, state, 0);
	uint64_t h = kit_hash_tokens(&l) * 31 + kit_hash_pages(&l);

	if (!kit_recount(k, &l) || !kit_replay(k, &l))
		h = 0;
	kit_log_free(&l);
	return h;
}

enum { N = 8 };

struct went {
	uint64_t said[N], state[N];
};

/*
 * Eight branches of the story at a version, decoded as one batch or one by one,
 * their pages there or lost: what they said and what they are.
 */
static struct went
go(const char *model, uint32_t version, float temp, int apart, int lost,
    int replace)
{
	struct kit_said said[N];
	uint32_t state[N], first = 0;
	struct went w;
	struct kit k;

	kit_start(&k, model);
	if (branches(&k, story(&k), version, N, 5, replace, &first) < 0)
		golden_die("fork", k.why.text);
	for (uint32_t i = 0; i < N; i++)
		state[i] = first + i;
	if (lost)
		kit_lose(&k, 1);
	kit_reopen(&k);
	for (int i = 0; i < (apart ? N : 1); i++)
		if (draw(&k, state + i, apart ? 1 : N, 6, temp,
		    said + i) < 0)
			golden_die("decode", k.why.text);
	for (int i = 0; i < N; i++) {
		w.said[i] = kit_hash_said(said + i);
		w.state[i] = hash_state(&k, state[i]);
	}
	if (kit_check(&k) != 0 || !balanced(&k))
		golden_die("fork", "the books do not balance");
	kit_end(&k);
	return w;
}

/* Whatever way, the bits are those of pages that were computed for it alone. */
TEST(branches_are_independent_states)
{
	for (int m = 0; m < 3; m++)
		for (int how = 0; how < 2; how++) {
			const float temp = how ? 1.5f : 0;
			const uint32_t version = how && m ? 2 : 0;
			struct went want = go(families[m], version, temp, 1, 1,
			    0);

			for (int i = 0; i < 3; i++) {
				struct went w = go(families[m], version, temp,
				    i == 1, i == 2, i == 2);

				CHECK(!memcmp(&w, &want, sizeof w));
			}
			/* From one seed each draws otherwise; greedy, alike. */
			for (int i = 1; i < N; i++)
				CHECK_INT(want.said[i] == want.said[0], !how);
		}
}

/* A branch of an earlier version goes on from there as the state did. */
TEST(going_back)
{
	for (int m = 0; m < 3; m++) {
		const char *paths[2] = { NULL };
		struct epd_prefilled p, q;
		struct kit_said was[3], again;
		uint32_t first;
		struct kit k;

		kit_start(&k, families[m]);
		paths[0] = kit_picture(&k, "a.ppm", 84, 56, 1);
		CHECK_INT(kit_say(&k, 0, "Look at this picture.", paths, &p),
		    0);
		for (int i = 0; i < 3; i++)
			CHECK_INT(kit_decode(&k, &p.state, 1, 3 + 4 * i,
			    was + i), 0);
		for (uint32_t v = 1; v <= 3; v++) {
			struct kit_log a, b;

			CHECK_INT(branches(&k, p.state, v, 1, 0, 0, &first),
			    0);
			CHECK_INT(kit_decode(&k, &first, 1, 4 * (int)v - 1,
			    &again), 0);
			CHECK_INT(again.end.lost, 0);
			CHECK_INT(again.end.version, 2);
			CHECK(kit_hash_said(&again) == kit_hash_said(was + v -
			    1));
			a = kit_read(&k, p.state, v + 1);
			b = kit_read(&k, first, 0);
			CHECK(kit_hash_tokens(&a) == kit_hash_tokens(&b));
			CHECK(kit_hash_pages(&a) == kit_hash_pages(&b));
			kit_log_free(&a);
			kit_log_free(&b);
			/* Another way from there. */
			CHECK_INT(branches(&k, p.state, v, 1, 0, 0, &first),
			    0);
			CHECK_INT(kit_say(&k, first, "No.", NULL, &q), 0);
			CHECK(right(&k, first));
		}
		CHECK_INT(branches(&k, p.state, 5, 1, 0, 0, &first),
		    EPD_ENOTHING);
		CHECK(right(&k, p.state));
		CHECK_INT(kit_check(&k), 0);
		kit_end(&k);
	}
}

TEST(kind38_positions_go_with_a_branch)
{
	for (int m = 0; m < 3; m++) {
		struct kit_log a, b;
		uint32_t first, state;
		struct kit k;

		kit_start(&k, families[m]);
		state = story(&k);
		CHECK_INT(branches(&k, state, 0, 2, 0, 0, &first), 0);
		a = kit_read(&k, state, 0);
		b = kit_read(&k, first + 1, 0);
		CHECK(a.head.next_pos < (int64_t)a.n);
		CHECK_INT(b.head.next_pos, a.head.next_pos);
		CHECK(kit_hash_tokens(&a) == kit_hash_tokens(&b));
		kit_log_free(&a);
		kit_log_free(&b);
		kit_end(&k);
	}
}

/* All of one batch find the same places, whoever comes first. */
TEST(a_shared_prefix_is_mapped_once)
{
	for (int lost = 0; lost < 2; lost++) {
		struct epd_prefilled p;
		struct epd_runs *runs;
		struct epd_workflow w;
		struct epd_seq q[N];
		uint32_t first;
		struct kit k;

		kit_start(&k, QWEN2);
		CHECK_INT(raw(&k, 0, words(20, 0, 0), NULL, &p), 0);
		CHECK_INT(branches(&k, p.state, 0, N, 0, lost, &first), 0);
		for (uint32_t i = 0; i < N; i++)
			CHECK_INT(raw(&k, first + i, words(0, (int)i, 3),
			    NULL, &(struct epd_prefilled){ .state = 0 }), 0);
		if (lost)
			kit_lose(&k, 0);
		CHECK_INT(epd_workflow_open(&w, k.s, "w1", 0, kit_why(&k)), 0);
		CHECK_INT(epd_runs_new(&runs), 0);
		for (uint32_t i = 0; i < N; i++) {
			epd_seq_begin(q + i, k.se, &w, runs);
			CHECK_INT(epd_seq_load(q + i, first + i, 0,
			    kit_why(&k)), 0);
		}
		for (int i = 1; i < N; i++) {
			const long whole = (long)(p.tokens - 1) / 16;

			CHECK(whole > 2);
			for (long j = 0; j < whole; j++)
				CHECK(q[i].page[j] == q[0].page[j]);
			CHECK(q[i].page[whole] != q[0].page[whole]);
		}
		for (int i = 0; i < N; i++)
			epd_seq_free(q + i);
		epd_runs_free(runs);
		epd_workflow_close(&w);
		kit_end(&k);
	}
}

/* A fork touches no page; a part full one is copied by who writes to it. */
TEST(a_page_is_copied_when_it_is_written)
{
	int full = 0;

	for (int n = 6; n < 30; n++) {
		struct epd_prefilled p;
		uint64_t used, after;
		struct kit_said said[N];
		uint32_t first, state[N];
		struct kit k;
		int runs, part;

		kit_start(&k, QWEN2);
		CHECK_INT(raw(&k, 0, words(n, 0, 0), NULL, &p), 0);
		part = (p.tokens - 1) % 16 != 0;
		full += !part;
		runs = kit_runs(&k);
		CHECK_INT(epd_memory_used(k.s->memory, &used), 0);
		CHECK_INT(branches(&k, p.state, 0, N, 0, 0, &first), 0);
		CHECK_INT(epd_memory_used(k.s->memory, &after), 0);
		CHECK_INT(after, used);
		CHECK_INT(kit_runs(&k), runs);
		CHECK_INT(kit_count(&k, EPD_M_TAIL_PAGE_COPIES), 0);
		CHECK_INT(kit_count(&k, EPD_M_CLONE_FORK_COUNT), 1);
		CHECK(kit_count(&k, EPD_M_CLONE_FORK_NS) > 0);
		CHECK_INT(kit_count(&k, EPD_M_STATES_CREATED), N + 1);
		for (uint32_t i = 0; i < N; i++)
			state[i] = first + i;
		CHECK_INT(kit_decode(&k, state, 3, 1, said), 0);
		CHECK_INT(kit_count(&k, EPD_M_TAIL_PAGE_COPIES), part ? 3 : 0);
		CHECK_INT(kit_runs(&k), runs + 3);
		CHECK_INT(kit_decode(&k, state + 3, N - 3, 1, said), 0);
		CHECK_INT(kit_count(&k, EPD_M_TAIL_PAGE_COPIES), part ? N :
		    0);
		CHECK_INT(kit_count(&k, EPD_M_PAGES_LOST), 0);
		CHECK(right(&k, p.state) && right(&k, first + N - 1));
		CHECK(balanced(&k));
		kit_end(&k);
	}
	CHECK(full > 0);
}

/* ---- ends ---- */

/* Parent and branches in the nth order: what nobody stands on goes, no more. */
static int
released(int n, int replace)
{
	int left[4] = { 0, 1, 2, 3 }, count = replace ? 3 : 4, ok;
	uint32_t state[4] = { 0 }, first = 0;
	struct epd_prefilled p;
	struct kit_said said;
	struct kit k;

	kit_start(&k, QWEN2);
	ok = raw(&k, 0, words(12, 0, 0), NULL, &p) == 0 &&
	    kit_decode(&k, &p.state, 1, 20, &said) == 0 &&
	    branches(&k, p.state, 1, 3, 0, replace, &first) == 0;
	for (uint32_t i = 0; i < 3; i++)
		state[i] = first + i;
	state[3] = p.state;
	/* What came after the version they began at is nobody's now. */
	ok = ok && kit_runs(&k) == (replace ? 1 : 2);
	ok = ok && kit_decode(&k, state + 1, 1, 3, &said) == 0;
	for (; ok && count > 0; count--) {
		int at = n % count;

		n /= count;
		ok = release(&k, state[left[at]]) == 0;
		left[at] = left[count - 1];
		for (int i = 0; i < count - 1; i++)
			ok = ok && right(&k, state[left[i]]);
		ok = ok && kit_check(&k) == 0 && balanced(&k);
	}
	ok = ok && kit_runs(&k) == 0;
	if (!ok)
		printf("# %s, %d runs\n", k.why.text, kit_runs(&k));
	kit_end(&k);
	return ok;
}

TEST(released_in_any_order)
{
	for (int n = 0; n < 24; n++)
		CHECK(released(n, 0));
	for (int n = 0; n < 6; n++)
		CHECK(released(n, 1));
}

TEST(replaced_it_is_gone)
{
	struct epd_prefilled p, q;
	struct kit_said said;
	uint32_t first;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, words(12, 0, 0), NULL, &p), 0);
	CHECK_INT(branches(&k, p.state, 0, 2, 0, 1, &first), 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 2, &said), EPD_ENOSTATE);
	CHECK_INT(raw(&k, p.state, "x", NULL, &q), EPD_ENOSTATE);
	CHECK_INT(branches(&k, p.state, 0, 2, 0, 0, &first), EPD_ENOSTATE);
	CHECK_INT(release(&k, p.state), 0);
	CHECK_INT(kit_decode(&k, &first, 1, 2, &said), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* A branch of a branch, and so on, each with a token of its own. */
TEST(branches_of_branches)
{
	struct epd_prefilled p, whole;
	struct kit_said said, one;
	uint32_t at;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, words(12, 0, 0), NULL, &p), 0);
	alone(&k, words(12, 0, 0), NULL, &whole);
	CHECK_INT(kit_decode(&k, &whole.state, 1, 24, &said), 0);
	at = p.state;
	for (int i = 0; i < 24; i++) {
		uint32_t first;

		CHECK_INT(branches(&k, at, 0, 1, 0, i % 2, &first), 0);
		at = first;
		CHECK_INT(kit_decode(&k, &at, 1, 1, &one), 0);
		CHECK_INT(one.id[0], said.id[i]);
		CHECK(one.logprob[0] == said.logprob[i]);
	}
	CHECK(same(&k, at, whole.state));
	CHECK(right(&k, at));
	CHECK_INT(kit_check(&k), 0);
	CHECK(balanced(&k));
	kit_end(&k);
}

/* ---- refusals ---- */

struct forker {
	struct kit *k;
	int rc, calls;
	char why[sizeof (struct epd_why)];
};

static int
fork_meanwhile(void *arg, const struct epd_token_event *e)
{
	struct forker *f = arg;
	uint32_t first;

	(void)e;
	if (!f->calls++) {
		f->rc = branches(f->k, 1, 0, 2, 0, 0, &first);
		memcpy(f->why, f->k->why.text, sizeof f->why);
	}
	return 0;
}

TEST(not_while_it_is_decoded)
{
	const struct epd_ref ref = kit_ref(1);
	struct forker f = { .rc = 0 };
	const struct epd_decode d = {
		.states = &ref, .n = 1, .most = 3, .ignore_eos = 1,
		.token = fork_meanwhile, .arg = &f,
	};
	struct epd_prefilled p;
	uint32_t first;
	char pid[32];
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, words(12, 0, 0), NULL, &p), 0);
	f.k = &k;
	CHECK_INT(epd_flow_decode(k.se, &d, NULL), 0);
	CHECK_INT(f.rc, EPD_ELOCKED);
	snprintf(pid, sizeof pid, "process %d", (int)getpid());
	CHECK(strstr(f.why, pid));
	CHECK_INT(branches(&k, 1, 0, 2, 0, 0, &first), 0);
	CHECK_INT(first, 2);
	kit_end(&k);
}

TEST(what_cannot_be_branched)
{
	struct epd_fork_request f = { .branches = 1, .reason = "" };
	struct epd_forked out = { .first = 77 };
	struct epd_workflow w;
	struct epd_prefilled p;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, words(12, 0, 0), NULL, &p), 0);
	f.from = kit_ref(9);
	CHECK_INT(epd_flow_fork(k.s, &f, &out, kit_why(&k)), EPD_ENOSTATE);
	f.from = kit_ref(1);
	strcpy(f.from.workflow, "w9");
	CHECK_INT(epd_flow_fork(k.s, &f, &out, kit_why(&k)), EPD_ENOTHING);
	f.from = kit_ref(1);
	f.from.version = 2;
	CHECK_INT(epd_flow_fork(k.s, &f, &out, kit_why(&k)), EPD_ENOTHING);
	f.from.version = 0;
	f.branches = 0;
	CHECK(epd_flow_fork(k.s, &f, &out, kit_why(&k)) < 0);
	f.branches = 1;
	CHECK_INT(epd_workflow_open(&w, k.s, "w1", 0, kit_why(&k)), 0);
	CHECK_INT(epd_shard_suspect(w.shard, 1, "test", kit_why(&k)), 0);
	CHECK_INT(epd_flow_fork(k.s, &f, &out, kit_why(&k)), EPD_ESUSPECT);
	CHECK_INT(epd_shard_clear(w.shard, 1, "test", kit_why(&k)), 0);
	epd_workflow_close(&w);
	CHECK_INT(out.first, 77);
	CHECK_INT(epd_flow_fork(k.s, &f, &out, kit_why(&k)), 0);
	CHECK_INT(out.first, 2);
	CHECK_INT(out.version, 1);
	CHECK(out.ns > 0);
	kit_end(&k);
}

/* ---- memory, calls, kills ---- */

static int
counted(void *arg, const struct epd_state_line *l)
{
	(void)l;
	++*(int *)arg;
	return 0;
}

static int
states(struct kit *k)
{
	int n = 0;

	return epd_view_states(k->s, NULL, counted, &n, kit_why(k)) < 0 ? -1 :
	    n;
}

TEST(all_branches_or_none)
{
	struct epd_prefilled p;
	int failed = 0, killed = 0;
	struct kit k;

	kit_begin(&k, QWEN2);
	k.config.state_sync = 1;
	kit_open(&k);
	CHECK_INT(raw(&k, 0, words(12, 0, 0), NULL, &p), 0);
	for (int how = 0; how < 4; how++)
		for (int n = 1; ; n++) {
			int was = states(&k), rc, count, now;
			uint32_t first = 0;

			if (how == 0)
				scratch_starve(n, 0);
			else if (how < 3)
				fault_arm(n, how == 1 ? EIO : ENOSPC, 0);
			if (how < 3) {
				rc = branches(&k, p.state, 0, 3, 0, 0, &first);
			} else {
				pid_t pid;

				kit_close(&k);
				fflush(stdout);
				if ((pid = fork()) == 0) {
					kit_open(&k);
					fault_arm(n, 0, FAULT_KILL);
					_exit(branches(&k, p.state, 0, 3, 0,
					    0, &first) != 0);
				}
				rc = scratch_wait(pid);
				killed += rc != 0;
				kit_open(&k);
			}
			count = how ? fault_calls() : scratch_mem.count;
			scratch_starve(0, 0);
			failed += rc < 0;
			if (how < 3)
				kit_reopen(&k);
			now = states(&k);
			CHECK(now == was || now == was + 3);
			if (how < 3 && rc != EPD_EUNSURE)
				CHECK_INT(now, rc < 0 ? was : was + 3);
			CHECK_INT(kit_check(&k), 0);
			if (rc == 0 && (how == 3 || count < n))
				break;
		}
	CHECK(failed > 5 && killed > 5);
	CHECK(right(&k, p.state));
	CHECK(balanced(&k));
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
