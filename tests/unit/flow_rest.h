/*
 * flow_rest.h - two verbs started together on one state, many times, and sometimes one
 * of the two is killed: what each may answer, what the state is afterwards, and that
 * it goes on with the same bits.
 */
#ifndef TESTS_FLOW_REST_H
#define TESTS_FLOW_REST_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "flow/room.h"
#include "tests/check.h"
#include "tests/unit/flow.h"

enum rest_verb {
	REST_OFFLOAD, REST_RESTORE, REST_DECODE, REST_FORK, REST_RELEASE,
	REST_GC, REST_EVICT, REST_VERBS
};
static const char *const rest_names[] = {
	"offload", "restore", "decode", "fork", "release", "gc", "evict"
};

enum { REST_TOKENS = 6, REST_DRAWN = 3, REST_LONGEST = 10000 };

static struct rest_shared {
	atomic_int here;
	int rc[2];
	char why[2][sizeof (struct epd_why)];
} *rest_shared;

static inline void
rest_begin(struct kit *k)
{
	kit_begin(k, QWEN2);
	k->alone = 1;
	snprintf(k->config.tier_nvme_dir, sizeof k->config.tier_nvme_dir,
	    "%s/disk", k->path);
	strcpy(k->config.tier_restore, "always");
	if (!rest_shared)
		rest_shared = mmap(NULL, sizeof *rest_shared, PROT_READ |
		    PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rest_shared == MAP_FAILED)
		golden_die("shared memory", "none");
}

static inline int
rest_offload(struct kit *k, uint32_t state, enum epd_tier tier,
    struct epd_offloaded *out)
{
	const struct epd_offload o = { .state = kit_ref(state), .tier = tier,
		.reason = "test" };

	return epd_flow_offload(k->s, &o, out, kit_why(k));
}

static inline int
rest_restore(struct kit *k, uint32_t state, struct epd_restored *out)
{
	const struct epd_restore r = { .state = kit_ref(state),
		.reason = "test" };

	return epd_flow_restore(k->s, &r, out, kit_why(k));
}

/* n tokens more, the likeliest. */
static inline int
rest_draw(struct kit *k, uint32_t state, int n)
{
	const struct epd_ref ref = kit_ref(state);
	const struct epd_decode d = {
		.states = &ref, .n = 1, .most = n, .has_temp = 1,
		.sampler = { .top_p = 1, .penalty = 1 }, .ignore_eos = 1,
	};

	return epd_flow_decode(k->se, &d, kit_why(k));
}

static inline enum epd_status
rest_status(struct kit *k, uint32_t state)
{
	struct epd_state st = { .status = EPD_FREE };
	struct epd_workflow w;

	if (epd_workflow_open(&w, k->s, "w1", 1, kit_why(k)) < 0)
		golden_die("w1", k->why.text);
	if (epd_shard_state(w.shard, state, &st) < 0)
		st.status = EPD_FREE;
	epd_workflow_close(&w);
	return st.status;
}

/* Tokens and pages, whoever computed or moved them. */
static inline uint64_t
rest_hash(struct kit *k, uint32_t state)
{
	struct kit_log l = kit_read(k, state, 0);
	uint64_t h = kit_hash_tokens(&l) * 31 + kit_hash_pages(&l);

	if (!kit_recount(k, &l))
		h = 0;
	kit_log_free(&l);
	return h;
}

static inline int
rest_do(struct kit *k, enum rest_verb v, uint32_t state)
{
	struct epd_offloaded off;
	struct epd_restored back;
	struct epd_forked forked;
	struct epd_swept swept;
	uint32_t ids[2];
	const struct epd_fork_request f = { .from = kit_ref(state),
		.branches = 2, .ids = ids, .reason = "test" };
	const struct epd_ref ref = kit_ref(state);
	uint64_t used = 0;

	switch (v) {
	case REST_OFFLOAD: return rest_offload(k, state, EPD_TIER_NVME, &off);
	case REST_RESTORE: return rest_restore(k, state, &back);
	case REST_DECODE: return rest_draw(k, state, REST_DRAWN);
	case REST_FORK: return epd_flow_fork(k->s, &f, &forked, kit_why(k));
	case REST_RELEASE: return epd_flow_release(k->s, &ref, "test",
	    kit_why(k));
	case REST_GC: return epd_flow_gc(k->s, &swept, kit_why(k));
	default:
		if (epd_memory_used(k->s->memory, &used))
			return -1;
		return epd_store_squeeze(k->s, used) < 0 ? -1 : 0;
	}
}

static inline pid_t
rest_child(struct kit *k, int i, enum rest_verb v, uint32_t state)
{
	pid_t pid;

	fflush(stdout);
	if ((pid = fork()) != 0)
		return pid;
	if (kit_try_open(k) < 0)
		_exit(1);
	atomic_fetch_add(&rest_shared->here, 1);
	for (int n = 0; n < REST_LONGEST && atomic_load(&rest_shared->here) < 2;
	    n++)
		epd_clock_sleep_ns(100000);
	rest_shared->rc[i] = rest_do(k, v, state);
	memcpy(rest_shared->why[i], k->why.text, sizeof k->why.text);
	kit_close(k);
	_exit(0);
}

/* Whether a verb may answer so beside that other one. */
static inline int
rest_may(enum rest_verb v, int rc, enum rest_verb other)
{
	const int resumes = other == REST_RESTORE || other == REST_DECODE ||
	    other == REST_FORK;

	if (rc == 0)
		return 1;
	if (rc == EPD_ENOSTATE)
		return other == REST_RELEASE;
	switch (v) {
	case REST_OFFLOAD:
		return (rc == EPD_ELOCKED || rc == EPD_ESTATUS) && resumes;
	case REST_DECODE:
		return rc == EPD_ELOCKED && other == REST_DECODE;
	case REST_FORK:
		return rc == EPD_ELOCKED && other == REST_DECODE;
	default:
		return 0;
	}
}

/* In what status a state that stands may be left, by these two, one of them killed. */
static inline int
rest_left(enum epd_status s, enum rest_verb a, enum rest_verb b, int killed)
{
	const int out = a == REST_OFFLOAD || b == REST_OFFLOAD;

	return s == EPD_ACTIVE || (s == EPD_OFFLOADED && out) ||
	    ((s == EPD_OFFLOADING || s == EPD_RESTORING) && killed);
}

/* What a state comes to that nobody disturbed. */
static inline uint64_t
rest_undisturbed(struct kit *k, const char *text)
{
	struct epd_prefilled p;

	if (kit_say(k, 0, text, NULL, &p) < 0 || rest_draw(k, p.state,
	    REST_TOKENS) < 0)
		golden_die("state", k->why.text);
	return rest_hash(k, p.state);
}

/* What the round of a and b came to, once both are over. */
static inline int
rest_judge(struct kit *k, uint32_t state, enum rest_verb a, enum rest_verb b,
    int rests, int killed, uint64_t want)
{
	const enum epd_status is = rest_status(k, state);
	struct epd_state st;
	struct epd_workflow w;
	uint64_t had;
	int ok = 1, released = a == REST_RELEASE || b == REST_RELEASE;

	for (int i = 0; i < 2; i++)
		if (!killed || i)
			ok &= rest_may(i ? b : a, rest_shared->rc[i], i ? a : b);
	if (is == EPD_FREE)
		return ok && released;
	/* A release that was not killed has taken it away. */
	if (released && (b == REST_RELEASE || !killed))
		return 0;
	/* Nobody moved it, and it may have been at rest before. */
	ok &= rest_left(is, a, b, killed) || (rests && is == EPD_OFFLOADED);
	if (epd_workflow_open(&w, k->s, "w1", 1, kit_why(k)) < 0)
		golden_die("w1", k->why.text);
	ok &= epd_shard_state(w.shard, state, &st) == 0;
	had = st.versions > 1 ? REST_DRAWN : 0;
	epd_workflow_close(&w);
	/* Two that decode one after the other draw twice as much. */
	if (st.versions > 2)
		had = 2 * REST_DRAWN;
	if (had < REST_TOKENS)
		ok &= rest_draw(k, state, (int)(REST_TOKENS - had)) == 0;
	ok &= rest_status(k, state) == EPD_ACTIVE ||
	    rest_status(k, state) == is;
	if (rest_status(k, state) != EPD_ACTIVE) {
		struct epd_restored back;

		ok &= rest_restore(k, state, &back) == 0;
	}
	ok &= rest_hash(k, state) == want;
	return ok;
}

/* One round; 1 if it went as it may. */
static inline int
rest_round(struct kit *k, enum rest_verb a, enum rest_verb b, unsigned *seed,
    int kills, uint64_t want, const char *text)
{
	const int rests = rand_r(seed) % 2;
	struct epd_prefilled p;
	struct epd_offloaded off;
	pid_t pid[2];
	int st, killed = 0, ok;

	kit_open(k);
	if (kit_say(k, 0, text, NULL, &p) < 0)
		golden_die("state", k->why.text);
	if (rests && rest_offload(k, p.state, EPD_TIER_NVME, &off) < 0)
		golden_die("offload", k->why.text);
	kit_close(k);
	memset(rest_shared, 0, sizeof *rest_shared);
	pid[0] = rest_child(k, 0, a, p.state);
	pid[1] = rest_child(k, 1, b, p.state);
	if (kills) {
		for (int i = 0; i < REST_LONGEST &&
		    atomic_load(&rest_shared->here) < 2; i++)
			epd_clock_sleep_ns(100000);
		epd_clock_sleep_ns((uint64_t)(rand_r(seed) % 4000) * 1000);
		killed = kill(pid[0], SIGKILL) == 0;
	}
	for (int i = 0; i < 2; i++) {
		if (waitpid(pid[i], &st, 0) != pid[i])
			st = -1;
		if (i == 0 && killed && WIFEXITED(st))
			killed = 0;	/* it was over before */
		if ((i || !killed) && st)
			return 0;
	}
	kit_open(k);
	ok = rest_judge(k, p.state, a, b, rests, killed, want) && kit_check(k) == 0;
	if (!ok)
		printf("# s%u: %s%s%s: %d \"%s\"; %s: %d \"%s\"; it is %s\n",
		    p.state, rests ? "at rest, " : "", rest_names[a], killed ?
		    " (killed)" : "", rest_shared->rc[0], rest_shared->why[0],
		    rest_names[b], rest_shared->rc[1], rest_shared->why[1],
		    epd_status_name(rest_status(k, p.state)));
	/* Nothing piles up. */
	{
		const struct epd_ref all = { .kind = EPD_REF_WORKFLOW,
			.workflow = "w1" };

		ok &= epd_flow_release(k->s, &all, "done", kit_why(k)) == 0;
	}
	kit_close(k);
	return ok;
}

/* Every pair, in both orders as to who is killed, rounds times; how many went wrong. */
static inline int
rest_matrix(int rounds, int *kills)
{
	static const char text[] = "A state that several want something of at "
	    "one and the same time, and that has some pages for that.";
	unsigned seed = 7;
	struct kit k;
	uint64_t want;
	int wrong = 0, n = 0;

	rest_begin(&k);
	kit_open(&k);
	want = rest_undisturbed(&k, text);
	kit_close(&k);
	*kills = 0;
	for (int r = 0; n < rounds && !wrong; r++)
		for (int a = 0; a < REST_VERBS && n < rounds; a++)
			for (int b = 0; b < REST_VERBS && n < rounds; b++, n++) {
				const int kill_one = (r + a + b) % 3 == 0;

				*kills += kill_one;
				wrong += !rest_round(&k, (enum rest_verb)a,
				    (enum rest_verb)b, &seed, kill_one, want,
				    text);
			}
	kit_end(&k);
	return wrong;
}

#endif
