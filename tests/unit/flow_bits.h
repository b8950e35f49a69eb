/*
 * flow_bits.h - one conversation through flow under one setting: whatever the
 * setting, its tokens, positions, answers and log-probabilities are the same for
 * a model and a KV dtype, and its pages for a page size besides.
 */
#ifndef TESTS_FLOW_BITS_H
#define TESTS_FLOW_BITS_H

#include <sys/mman.h>

#include "flow/handoff.h"
#include "tests/check.h"
#include "tests/unit/flow.h"

enum {
	BITS_PROCS, BITS_MODE, BITS_CHUNK, BITS_THREADS, BITS_BATCH, BITS_KV,
	BITS_PAGE, BITS_FLUSH, BITS_ISA, BITS_GROW, BITS_FACTORS,
	BITS_STATES = 8, BITS_DRAWN = 4
};
/* Fresh, two turns, runs unlinked before decoding, memory wiped between turns. */
enum { BITS_FRESH, BITS_TURNS, BITS_UNLINKED, BITS_WIPED };
/*
 * How the state comes to be what it is: as it is; as a branch that its parent
 * became; as a branch of what it was before it went another way; killed while it
 * was decoded, its runs lost; handed over to another workflow and back, or to one
 * of another store; on pages of another state, of its workflow or not.
 */
enum {
	BITS_PLAIN, BITS_FORK, BITS_ROLLBACK, BITS_CRASH, BITS_HANDED,
	BITS_AWAY, BITS_WITHIN, BITS_ACROSS
};

static int bits_sizes[BITS_FACTORS] = { 2, 4, 5, 2, 3, 2, 2, 2, 3, 8 };
static const int bits_chunks[] = { 17, 1, 16, 64, 4096 };
static const int bits_batches[] = { 3, 8, 1 };
static const char *const bits_isas[] = { "scalar", "avx2", "avx512" };

struct bits_setting {
	int is[BITS_FACTORS];
};

struct bits_hash {
	uint64_t said, pages;
};

/* In memory shared with the children of the three-process way. */
struct bits_result {
	struct kit_said said[BITS_STATES];
	uint32_t state[BITS_STATES];
	struct epd_prefilled first, second;
	int failed;
	char text[240];
};

static const char bits_turn1[] =
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Look \"},"
    "{\"type\":\"image\"},{\"type\":\"image\"},{\"type\":\"text\",\"text\":"
    "\" and say what has changed.\"}]},{\"role\":\"assistant\",\"content\":"
    "\"Thank you.\"}";
static const char bits_turn2[] =
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Compare "
    "with this:\"},{\"type\":\"image\"}]}";

struct bits {
	struct kit k;
	struct bits_setting t;
	struct bits_result *r;
	const char *a, *b, *c;
	int n;		/* states */
};

static inline unsigned
bits_flush(int on)
{
	unsigned was = 0;
#if defined __x86_64__
	was = __builtin_ia32_stmxcsr();
	if (on)
		__builtin_ia32_ldmxcsr(was | 0x8040);
#else
	(void)on;
#endif
	return was;
}

static inline void
bits_unflush(unsigned was)
{
#if defined __x86_64__
	__builtin_ia32_ldmxcsr(was);
#else
	(void)was;
#endif
}

static inline void
bits_fail(struct bits *x, const char *what)
{
	x->r->failed = 1;
	snprintf(x->r->text, sizeof x->r->text, "%.60s: %.170s", what,
	    x->k.why.text);
}

static inline void
bits_encode(struct bits *x)
{
	const char *const path[] = { x->a, x->b, x->c };
	struct epd_encoded e;

	for (int i = 0; i < 3; i++)
		if (epd_flow_encode(x->k.se, path[i], &e, kit_why(&x->k)) < 0)
			bits_fail(x, "encode");
}

/* The state goes on as a branch of its version. */
static inline void
bits_branch(struct bits *x, uint32_t version, int replace)
{
	const struct epd_fork_request f = {
		.from = { EPD_REF_STATE, "w1", x->r->state[0], version,
		    {{0}} }, .branches = 1, .replace = replace,
		.reason = "test",
	};
	struct epd_forked out;

	if (epd_flow_fork(x->k.s, &f, &out, kit_why(&x->k)) < 0)
		bits_fail(x, "fork");
	x->r->state[0] = out.first;
}

/* The state as it is called where it was handed over to. */
static inline uint32_t
bits_over(struct bits *x, struct epd_store *s, const char *from,
    uint32_t state, const char *store, const char *to)
{
	struct epd_offer o = {
		.state = { .kind = EPD_REF_STATE, .state = state },
		.store = store, .workflow = to,
	};
	struct epd_handed out = { .to_state = 0 };

	snprintf(o.state.workflow, sizeof o.state.workflow, "%s", from);
	if (epd_flow_handoff_prepare(s, &o, &out, kit_why(&x->k)) < 0 ||
	    epd_flow_handoff_commit(s, out.id, &out, kit_why(&x->k)) < 0 ||
	    out.missing)
		bits_fail(x, "hand-off");
	return out.to_state;
}

/* There and back. */
static inline void
bits_hand(struct bits *x, int away)
{
	char path[260];
	const struct epd_store_options o = {
		.path = path, .config = &x->k.config, .create = 1,
	};
	const char *to = away ? "w1" : "w2";
	struct epd_store *s = x->k.s;
	uint32_t state;

	snprintf(path, sizeof path, "%s/other", x->k.path);
	if (away && epd_store_open(&s, &o, kit_why(&x->k)) < 0) {
		bits_fail(x, "another store");
		return;
	}
	state = bits_over(x, x->k.s, "w1", x->r->state[0], away ? path : NULL,
	    to);
	if (!x->r->failed)
		x->r->state[0] = bits_over(x, s, to, state, away ? x->k.store :
		    NULL, "w1");
	if (away)
		epd_store_close(s);
}

/* Each turn is followed by this. */
static inline void
bits_grow(struct bits *x, uint32_t version)
{
	struct epd_prefilled p;

	if (x->t.is[BITS_GROW] == BITS_FORK)
		bits_branch(x, version, 1);
	if (x->t.is[BITS_GROW] == BITS_HANDED ||
	    x->t.is[BITS_GROW] == BITS_AWAY)
		bits_hand(x, x->t.is[BITS_GROW] == BITS_AWAY);
	if (x->t.is[BITS_GROW] != BITS_ROLLBACK)
		return;
	if (kit_say(&x->k, x->r->state[0], "Forget all this.", NULL, &p) < 0)
		bits_fail(x, "another way");
	bits_branch(x, version, 0);
}

/* A state that has all there is to come, and goes on behind it. */
static inline void
bits_donor(struct bits *x)
{
	const char *const all[] = { x->a, x->b, x->c, NULL };
	struct epd_prefilled p;
	char json[1024];

	snprintf(json, sizeof json, "[%s,%s,{\"role\":\"assistant\","
	    "\"content\":\"They are alike.\"}]", bits_turn1, bits_turn2);
	x->k.workflow = x->t.is[BITS_GROW] == BITS_ACROSS ? "w2" : "w1";
	if (kit_messages(&x->k, 0, json, all, 1, &p) < 0)
		bits_fail(x, "donor");
	x->k.workflow = "w1";
}

static inline int
bits_die(void *arg, const struct epd_token_event *e)
{
	int *left = (int *)arg;

	(void)e;
	if (--*left == 0)
		kill(getpid(), SIGKILL);
	return 0;
}

/* A process dies at the third token, and the runs with it. */
static inline void
bits_crash(struct bits *x)
{
	const struct epd_ref ref = kit_ref(x->r->state[0]);
	int left = 3;
	const struct epd_decode d = {
		.states = &ref, .n = 1, .most = 6, .has_temp = 1,
		.ignore_eos = 1, .sampler = { .top_p = 1, .penalty = 1 },
		.token = bits_die, .arg = &left,
	};
	pid_t pid;

	fflush(stdout);
	if ((pid = fork()) == 0) {
		kit_open(&x->k);
		epd_flow_decode(x->k.se, &d, NULL);
		_exit(1);
	}
	if (scratch_wait(pid) != -SIGKILL)
		bits_fail(x, "kill");
	kit_lose(&x->k, 0);
}

static inline void
bits_turns(struct bits *x)
{
	const char *const all[] = { x->a, x->b, x->c, NULL };
	const char *const two[] = { x->a, x->b, NULL }, *const one[] =
	    { x->c, NULL };
	struct bits_result *r = x->r;
	char json[1024];

	if (x->t.is[BITS_MODE] == BITS_FRESH) {
		snprintf(json, sizeof json, "[%s,%s]", bits_turn1, bits_turn2);
		if (kit_messages(&x->k, 0, json, all, 0, &r->second) < 0)
			bits_fail(x, "prefill");
		r->state[0] = r->second.state;
		bits_grow(x, r->second.version);
		return;
	}
	snprintf(json, sizeof json, "[%s]", bits_turn1);
	if (kit_messages(&x->k, 0, json, two, 1, &r->first) < 0)
		bits_fail(x, "first turn");
	r->state[0] = r->first.state;
	bits_grow(x, r->first.version);
	if (x->t.is[BITS_MODE] == BITS_WIPED)
		kit_lose(&x->k, 1);
	snprintf(json, sizeof json, "[%s]", bits_turn2);
	if (kit_messages(&x->k, r->state[0], json, one, 0, &r->second) < 0)
		bits_fail(x, "second turn");
	bits_grow(x, r->second.version);
}

static inline void
bits_prefill(struct bits *x)
{
	static const char *const text[BITS_STATES] = {
		"", "a picture", "b", "it's 12", "\n\n", "what is it", "Read", "7"
	};
	const struct epd_request_image im = { .path = x->b };
	struct epd_prefilled out;

	if (x->t.is[BITS_GROW] >= BITS_WITHIN)
		bits_donor(x);
	bits_turns(x);
	for (int i = 1; i < x->n; i++) {
		const struct epd_prefill p = {
			.kind = EPD_PROMPT_RAW, .text = epd_span_str(text[i]),
			.images = &im, .nimages = i == 1, .workflow = "w1",
		};

		if (epd_flow_prefill(x->k.se, &p, &out, kit_why(&x->k)) < 0)
			bits_fail(x, "prefill");
		x->r->state[i] = out.state;
	}
}

static inline void
bits_decode(struct bits *x)
{
	if (x->t.is[BITS_GROW] == BITS_CRASH)
		bits_crash(x);
	if (x->t.is[BITS_MODE] == BITS_UNLINKED)
		kit_lose(&x->k, 0);
	if (kit_decode(&x->k, x->r->state, x->n, BITS_DRAWN, x->r->said) < 0)
		bits_fail(x, "decode");
}

/* A step in this process, or in a child that opens the store for itself. */
static inline void
bits_step(struct bits *x, void (*step)(struct bits *))
{
	const int apart = x->t.is[BITS_PROCS], flush = x->t.is[BITS_FLUSH];
	unsigned was;
	pid_t pid;

	if (x->r->failed)
		return;
	if (apart && (pid = fork()) != 0) {
		if (scratch_wait(pid) != 0 && !x->r->failed)
			bits_fail(x, "a child died");
		return;
	}
	if (apart)
		kit_open(&x->k);
	was = bits_flush(flush);
	step(x);
	bits_unflush(was);
	if (apart) {
		kit_close(&x->k);
		_exit(0);
	}
}

/* What is not a matter of bits: what was found, and what was lost. */
static inline void
bits_counts(struct bits *x)
{
	const struct bits_result *r = x->r;
	const int mode = x->t.is[BITS_MODE], grow = x->t.is[BITS_GROW];
	const uint64_t had = r->first.tokens, all = r->second.tokens;
	const uint64_t page = x->t.is[BITS_PAGE] ? 64 : 16;

	if (mode != BITS_FRESH && r->second.reused - r->second.borrowed !=
	    (mode == BITS_WIPED ? 0 : had - 1))
		bits_fail(x, "reused tokens");
	/* Of the last token no page is known; others' go by whole ones. */
	if (grow == BITS_WITHIN && mode != BITS_WIPED &&
	    r->second.reused != all - 1)
		bits_fail(x, "tokens taken up");
	if (grow == BITS_ACROSS && mode != BITS_WIPED &&
	    r->second.reused < (all - 1) / page * page)
		bits_fail(x, "whole pages taken up");
	if (grow < BITS_WITHIN && r->first.borrowed)
		bits_fail(x, "tokens of nobody");
	if (r->second.fresh + r->second.reused != all - 1)
		bits_fail(x, "computed tokens");
	if ((r->second.lost > 0) != (mode == BITS_WIPED))
		bits_fail(x, "lost pages of the second turn");
	if ((r->said[0].end.lost > 0) != (mode == BITS_UNLINKED ||
	    grow == BITS_CRASH))
		bits_fail(x, "lost pages of decoding");
	for (int i = 0; i < x->n; i++)
		if (r->said[i].n != BITS_DRAWN || r->said[i].ended != 1)
			bits_fail(x, "tokens drawn");
}

/* Hashes of the states under a setting; their number, or 0 if it went wrong. */
static inline int
bits_run(const char *model, const struct bits_setting *t,
    struct bits_hash hash[BITS_STATES])
{
	struct bits x = { .t = *t, .n = bits_batches[t->is[BITS_BATCH]] };
	int ok;

	x.r = mmap(NULL, sizeof *x.r, PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (x.r == MAP_FAILED)
		golden_die("results", "no memory");
	kit_begin(&x.k, model);
	x.k.isa = bits_isas[t->is[BITS_ISA]];
	x.k.threads = t->is[BITS_THREADS] + 1;
	x.k.config.chunk = bits_chunks[t->is[BITS_CHUNK]];
	x.k.config.page_tokens = t->is[BITS_PAGE] ? 64 : 16;
	strcpy(x.k.config.kv_dtype, t->is[BITS_KV] ? "f32" : "bf16");
	x.a = kit_picture(&x.k, "a.ppm", 56, 84, 1);
	x.b = kit_picture(&x.k, "b.ppm", 84, 56, 2);
	x.c = kit_picture(&x.k, "c.ppm", 61, 62, 3);
	if (!t->is[BITS_PROCS])
		kit_open(&x.k);
	bits_step(&x, bits_encode);
	bits_step(&x, bits_prefill);
	bits_step(&x, bits_decode);
	if (t->is[BITS_PROCS])
		kit_open(&x.k);
	if (!x.r->failed)
		bits_counts(&x);
	for (int i = 0; i < x.n && !x.r->failed; i++) {
		struct kit_log l = kit_read(&x.k, x.r->state[i], 0);

		hash[i].said = kit_hash_tokens(&l) * 31 +
		    kit_hash_said(x.r->said + i);
		hash[i].pages = kit_hash_pages(&l);
		if (!kit_recount(&x.k, &l))
			bits_fail(&x, "a page's bytes");
		kit_log_free(&l);
	}
	if (!x.r->failed && kit_check(&x.k) != 0)
		bits_fail(&x, "check");
	if (x.r->failed)
		printf("# %s\n", x.r->text);
	ok = !x.r->failed;
	kit_end(&x.k);
	munmap(x.r, sizeof *x.r);
	return ok ? x.n : 0;
}

static inline int
bits_total(void)
{
	int n = 1;

	for (int i = 0; i < BITS_FACTORS; i++)
		n *= bits_sizes[i];
	return n;
}

static inline struct bits_setting
bits_nth(int n)
{
	struct bits_setting t;

	for (int i = 0; i < BITS_FACTORS; n /= bits_sizes[i++])
		t.is[i] = n % bits_sizes[i];
	return t;
}

/* What each of two KV dtypes gives, the pages for each of two sizes. */
struct bits_want {
	uint64_t said[2][BITS_STATES], pages[2][2][BITS_STATES];
	int tried;
};

static inline int
bits_begin(const char *model, struct bits_want *w)
{
	struct bits_hash hash[BITS_STATES];

	*w = (struct bits_want){ .tried = 0 };
	for (int i = 0; i < 4; i++) {
		const int kv = i / 2, page = i % 2;
		struct bits_setting t = { .is = { 0, 0, 4, 0, 1, kv, page, 0,
		    bits_sizes[BITS_ISA] - 1, BITS_PLAIN } };

		if (!bits_run(model, &t, hash))
			return 0;
		for (int k = 0; k < BITS_STATES; k++) {
			if (page && w->said[kv][k] != hash[k].said)
				printf("# state %d: page size changes bits\n",
				    k);
			w->said[kv][k] = hash[k].said;
			w->pages[kv][page][k] = hash[k].pages;
		}
	}
	return 1;
}

static inline int
bits_same(const char *model, struct bits_want *w, const struct bits_setting *t)
{
	const int kv = t->is[BITS_KV], page = t->is[BITS_PAGE];
	struct bits_hash hash[BITS_STATES];
	int n = bits_run(model, t, hash), ok = n > 0;

	for (int i = 0; i < n; i++)
		ok &= hash[i].said == w->said[kv][i] &&
		    hash[i].pages == w->pages[kv][page][i];
	w->tried++;
	if (!ok)
		printf("# %s: procs %d mode %d chunk %d threads %d isa %s "
		    "batch %d kv %s page %d flush %d grow %d: other bits\n",
		    model,
		    t->is[BITS_PROCS] ? 3 : 1, t->is[BITS_MODE],
		    bits_chunks[t->is[BITS_CHUNK]], t->is[BITS_THREADS] + 1,
		    bits_isas[t->is[BITS_ISA]],
		    bits_batches[t->is[BITS_BATCH]], kv ? "f32" : "bf16",
		    page ? 64 : 16, t->is[BITS_FLUSH], t->is[BITS_GROW]);
	return ok;
}

/* What a machine lacks must not stand in for a pair it could try. */
static inline void
bits_machine(void)
{
	while (!epd_kern_get(bits_isas[bits_sizes[BITS_ISA] - 1]))
		bits_sizes[BITS_ISA]--;
}

#endif
