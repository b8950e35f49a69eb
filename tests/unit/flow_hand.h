/*
 * flow_hand.h - for tests of hand-offs: two stores that share a memory tier (or
 * one, and another workflow of it), a state to hand over, and what the logs and
 * folders of both have afterwards.
 */
#ifndef TESTS_FLOW_HAND_H
#define TESTS_FLOW_HAND_H

#include "flow/book.h"
#include "flow/branch.h"
#include "flow/handoff.h"
#include "flow/pair.h"
#include "tests/check.h"
#include "tests/unit/flow.h"

/* The target's workflow is w1 of the other store, or w2 of the only one. */
struct hand {
	struct kit k, t;	/* of the other store, or not open */
	int two;
	const char *to;
	uint64_t timeout_ms;
};

static inline struct kit *
hand_kit(struct hand *h, int target)
{
	return target && h->two ? &h->t : &h->k;
}

static inline const char *
hand_workflow(const struct hand *h, int target)
{
	return target ? h->to : "w1";
}

static inline void
hand_open(struct hand *h)
{
	kit_open(&h->k);
	if (h->two)
		kit_open(&h->t);
}

static inline void
hand_close(struct hand *h)
{
	kit_close(&h->k);
	if (h->two)
		kit_close(&h->t);
}

static inline void
hand_begin(struct hand *h, const char *model, int two, int sync)
{
	*h = (struct hand){ .two = two, .to = two ? "w1" : "w2",
	    .timeout_ms = 600000 };
	kit_begin(&h->k, model);
	h->k.config.state_sync = sync;
	h->k.config.lock_timeout_ms = 2000;
	if (two) {
		kit_begin(&h->t, model);
		h->t.config = h->k.config;
	}
	hand_open(h);
}

static inline void
hand_end(struct hand *h)
{
	if (h->two)
		kit_end(&h->t);
	kit_end(&h->k);
}

/* The store's folder out of the way, or back. */
static inline void
hand_away(struct hand *h, int target, int away)
{
	const struct kit *k = hand_kit(h, target);
	char moved[260];

	snprintf(moved, sizeof moved, "%s.away", k->store);
	if (away ? rename(k->store, moved) : rename(moved, k->store))
		golden_die(k->store, strerror(errno));
}

static inline struct epd_ref
hand_ref(const char *workflow, uint32_t state)
{
	struct epd_ref r = { .kind = EPD_REF_STATE, .state = state };

	snprintf(r.workflow, sizeof r.workflow, "%s", workflow);
	return r;
}

/* By how, or greedy: so many tokens of a state. */
static inline int
hand_decode(struct kit *k, const char *workflow, uint32_t state, int most,
    const struct epd_sampler *how, struct kit_said *said)
{
	const struct epd_ref ref = hand_ref(workflow, state);
	const struct epd_decode d = {
		.states = &ref, .n = 1, .most = most, .has_temp = 1,
		.has_top_k = 1, .has_top_p = 1, .has_penalty = 1,
		.sampler = how ? *how :
		    (struct epd_sampler){ .top_p = 1, .penalty = 1 },
		.logprobs = KIT_TOP, .ignore_eos = 1, .token = kit_token,
		.end = kit_ended, .arg = said,
	};

	memset(said, 0, sizeof *said);
	return epd_flow_decode(k->se, &d, kit_why(k));
}

/* A turn of text onto a state. */
static inline int
hand_say(struct kit *k, const char *workflow, uint32_t state,
    const char *text, struct epd_prefilled *out)
{
	struct epd_json *j = kit_json(text);
	const struct epd_prefill p = {
		.kind = EPD_PROMPT_TURN, .content = j, .role = "user",
		.workflow = workflow, .state = state,
	};
	int rc = epd_flow_prefill(k->se, &p, out, kit_why(k));

	epd_json_free(j);
	return rc;
}

static inline uint32_t
hand_fork(struct kit *k, uint32_t state, uint64_t seed)
{
	const struct epd_fork_request f = {
		.from = hand_ref("w1", state), .branches = 1, .has_seed = 1,
		.seed = seed, .reason = "test",
	};
	struct epd_forked out;

	if (epd_flow_fork(k->s, &f, &out, kit_why(k)) < 0)
		golden_die("fork", k->why.text);
	return out.first;
}

/* ---- the hand-off ---- */

static inline int
hand_prepare(struct hand *h, uint32_t state, struct epd_handed *out)
{
	const struct epd_offer o = {
		.state = hand_ref("w1", state),
		.store = h->two ? h->t.store : NULL,
		.workflow = h->to, .timeout_ms = h->timeout_ms,
	};

	return epd_flow_handoff_prepare(h->k.s, &o, out, kit_why(&h->k));
}

static inline int
hand_commit(struct hand *h, int target, const uint8_t id[16],
    struct epd_handed *out)
{
	struct kit *k = hand_kit(h, target);

	return epd_flow_handoff_commit(k->s, id, out, kit_why(k));
}

static inline int
hand_abort(struct hand *h, int target, const uint8_t id[16])
{
	struct kit *k = hand_kit(h, target);
	struct epd_handed out;

	return epd_flow_handoff_abort(k->s, id, "test", &out, kit_why(k));
}

static inline int
hand_adopt(struct hand *h, const uint8_t id[16])
{
	struct kit *k = hand_kit(h, 1);
	struct epd_handed out;

	return epd_flow_handoff_adopt(k->s, id, "test", &out, kit_why(k));
}

/* What any verb does on its way in. */
static inline int
hand_settle(struct hand *h, int target)
{
	struct kit *k = hand_kit(h, target);
	struct epd_workflow w;
	int rc = epd_workflow_open(&w, k->s, hand_workflow(h, target), 0,
	    kit_why(k));

	if (rc < 0)
		return rc;
	rc = epd_flow_handoff_settle(k->s, &w);
	epd_workflow_close(&w);
	return rc;
}

/* ---- what there is afterwards ---- */

struct hand_log {
	int states, active, handoffs, leases;
	uint32_t newest;	/* the state of the highest number, */
	enum epd_status status;	/* and how it stands */
	uint64_t term;
	int faults;		/* of epd_shard_check */
};

static inline void
hand_count_states(struct epd_shard *s, struct hand_log *l)
{
	struct epd_state st;

	while (epd_shard_next(s, l->newest, &st) == 0) {
		l->newest = st.id;
		l->status = st.status;
		l->states++;
		l->active += st.status == EPD_ACTIVE;
	}
}

static inline struct hand_log
hand_look(struct hand *h, int target, int check)
{
	struct kit *k = hand_kit(h, target);
	struct hand_log l = {0};
	struct epd_handoff half;
	struct epd_lease lease = {0};
	struct epd_workflow w;
	uint64_t lsn = 0;

	if (epd_workflow_open(&w, k->s, hand_workflow(h, target), 1,
	    kit_why(k)) < 0)
		return l;
	hand_count_states(w.shard, &l);
	for (; epd_shard_handoff_next(w.shard, lsn, &half) == 0; lsn = half.lsn)
		l.handoffs++;
	while (epd_shard_lease_next(w.shard, lease.id, &lease) == 0)
		l.leases++;
	l.term = epd_shard_term(w.shard);
	if (check)
		l.faults = epd_shard_check(w.shard, kit_fault, NULL,
		    kit_why(k));
	epd_workflow_close(&w);
	return l;
}

/* Run files of a workflow. */
static inline int
hand_run(void *arg, uint64_t run, uint64_t bytes)
{
	(void)run;
	(void)bytes;
	++*(int *)arg;
	return 0;
}

static inline int
hand_runs(struct hand *h, int target)
{
	struct kit *k = hand_kit(h, target);
	int fd = epd_memory_find(k->s->memory, hand_workflow(h, target));
	int n = 0;

	if (fd < 0)
		return 0;
	epd_run_each(fd, hand_run, &n);
	close(fd);
	return n;
}

/* Faults of both stores. */
static inline int
hand_check(struct hand *h)
{
	return kit_check(&h->k) + (h->two ? kit_check(&h->t) : 0);
}

/* A state's whole path; the caller frees it. */
static inline struct epd_whole
hand_whole(struct hand *h, int target, uint32_t state)
{
	struct kit *k = hand_kit(h, target);
	struct epd_workflow w;
	struct epd_whole f = { .rows = 0 };

	if (epd_workflow_open(&w, k->s, hand_workflow(h, target), 1,
	    kit_why(k)) < 0 || epd_whole_make(&f, &w, state, 0,
	    kit_why(k)) < 0)
		golden_die("path", k->why.text);
	epd_workflow_close(&w);
	return f;
}

#define HAND_SAME(what, x) do { if (!(x)) { \
	printf("# other %s\n", what); same = 0; } } while (0)

/* Whether two states are the same in all that a hand-off has to keep. */
static inline int
hand_same(const struct epd_whole *a, const struct epd_whole *b)
{
	const struct epd_version *x = &a->v, *y = &b->v;
	int same = 1;

	HAND_SAME("tokens", x->nids == y->nids && !memcmp(x->ids, y->ids,
	    x->nids * sizeof *x->ids));
	HAND_SAME("images", x->nimages == y->nimages);
	for (uint32_t i = 0; same && i < x->nimages; i++)
		HAND_SAME("image", x->images[i].at == y->images[i].at &&
		    !memcmp(x->images[i].grid, y->images[i].grid,
		    sizeof x->images[i].grid) &&
		    epd_name_equal(&x->images[i].fp, &y->images[i].fp));
	HAND_SAME("next position", x->next_pos == y->next_pos);
	HAND_SAME("sampler", !memcmp(&x->sampling, &y->sampling,
	    sizeof x->sampling));
	HAND_SAME("time to live", a->traits.ttl_deadline_ms ==
	    b->traits.ttl_deadline_ms);
	HAND_SAME("turn", x->turn == y->turn && x->finish == y->finish);
	HAND_SAME("lengths", x->has_lengths == y->has_lengths &&
	    x->text_bytes == y->text_bytes &&
	    x->messages_bytes == y->messages_bytes);
	HAND_SAME("pages", a->rows == b->rows);
	for (uint64_t i = 0; same && i < a->rows; i++)
		HAND_SAME("page", epd_name_equal(&a->row[i].ref.name,
		    &b->row[i].ref.name) && a->row[i].ref.sum ==
		    b->row[i].ref.sum && a->row[i].ref.rows ==
		    b->row[i].ref.rows);
	HAND_SAME("model", epd_name_equal(&a->traits.model_fp,
	    &b->traits.model_fp) && epd_name_equal(&a->traits.base,
	    &b->traits.base));
	HAND_SAME("strings", !strcmp(a->traits.model_path,
	    b->traits.model_path) && !strcmp(a->traits.fingerprint,
	    b->traits.fingerprint) && !strcmp(a->traits.tenant,
	    b->traits.tenant));
	return same;
}

#endif
