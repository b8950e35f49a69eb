/*
 * decode.c - several states as one batch.  Each step runs the last token of
 * every live sequence, draws the next, and lets its text out; a sequence that
 * ends is committed and leaves the batch.  A token drawn but not committed is
 * drawn again identically, so a crash costs time and changes nothing.  Till then
 * its tokens are in a draft.  States of one workflow share its handle.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/decode.h"
#include "flow/draft.h"
#include "flow/handoff.h"
#include "flow/publish.h"
#include "flow/reach.h"
#include "flow/rest.h"
#include "flow/room.h"

struct lane {
	struct epd_seq q;
	struct batch *b;
	struct epd_workflow *w;
	const struct epd_ref *ref;
	uint64_t had;
	uint64_t lease, renew_ns;	/* on the state, and when it is due again */
	uint32_t expect, images;
	struct epd_sampler sampler;
	struct epd_utf8 utf8;
	struct epd_stop stop;
	struct epd_draft draft;
	float *logits, *logprobs;
	size_t nlogprobs;
	int live;
	struct epd_decode_end end;
};

struct batch {
	struct epd_session *s;
	const struct epd_decode *d;
	struct epd_runs *runs;
	struct epd_workflow *workflow;
	int workflows;
	struct lane *lane;
	float *work;
	struct epd_chunk *chunk;
	struct epd_sampled top[20];
	int32_t end_mark;
	uint64_t began;
	int stopped;
};

/* The sampler: what is asked for, else what the checkpoint says. */
static void
sampler_of(const struct batch *b, struct lane *l)
{
	const struct epd_model_info *m = b->s->info;
	const struct epd_decode *d = b->d;
	struct epd_sampler *s = &l->sampler;

	*s = d->sampler;
	if (!d->has_temp)
		s->temp = m->temp;
	if (!d->has_top_k)
		s->top_k = m->top_k;
	if (!d->has_top_p)
		s->top_p = m->top_p;
	if (!d->has_penalty)
		s->penalty = m->penalty;
	s->salt = l->q.head.sampling.salt;
}

/* The workflow of that name, opened the first time it is asked for. */
static int
workflow(struct batch *b, const char *name, struct epd_workflow **out,
    struct epd_why *why)
{
	int rc;

	for (int i = 0; i < b->workflows; i++)
		if (!strcmp(b->workflow[i].name, name)) {
			*out = b->workflow + i;
			return 0;
		}
	rc = epd_workflow_open(b->workflow + b->workflows, b->s->store, name, 0,
	    why);
	if (rc == 0) {
		*out = b->workflow + b->workflows++;
		(void)epd_flow_handoff_settle(b->s->store, *out);
	}
	return rc;
}

/* When a lease of the batch is to be renewed: a third of it is time enough. */
static uint64_t
due(const struct batch *b)
{
	return epd_clock_boot_ns() +
	    (uint64_t)b->s->store->config.lease_ms * 1000000 / 3;
}

/* Take the state for decoding; it may have moved while nobody held it. */
static int
take_lease(struct batch *b, struct lane *l, struct epd_state *st,
    struct epd_why *why)
{
	const struct epd_lease lost = {
		.state = l->ref->state, .kind = EPD_LEASE_DECODE,
	};
	int rc = epd_store_owe_room(b->s->store, (size_t)b->d->n);

	if (rc < 0)
		return epd_why(why, rc, "no memory");
	rc = epd_shard_lease(l->w->shard, l->ref->state, 0, EPD_LEASE_DECODE,
	    (uint64_t)b->s->store->config.lease_ms, &l->lease, why);
	if (rc == EPD_EUNSURE)
		epd_store_owe(b->s->store, l->w->name, &lost,
		    epd_shard_lsn(l->w->shard));
	l->renew_ns = due(b);
	return rc < 0 ? rc : epd_shard_state(l->w->shard, l->ref->state, st);
}

/* The same of one that may rest, or come to. */
static int
take_up(struct batch *b, struct lane *l, struct epd_state *st,
    struct epd_why *why)
{
	int rc, tries = 0;

	do {
		rc = epd_rest_wake(l->w, st, 0, why);
		if (rc == 0)
			rc = epd_reach_on(l->w, st, why);
		if (rc == 0)
			rc = take_lease(b, l, st, why);
	} while (epd_rest_again(l->w, l->ref->state, rc, &tries) &&
	    epd_shard_state(l->w->shard, l->ref->state, st) == 0);
	return rc;
}

/* Keep the lease of a lane; without it nothing it draws would count. */
static int
keep_lease(struct batch *b, struct lane *l, struct epd_why *why)
{
	int rc;

	if (!l->lease || epd_clock_boot_ns() < l->renew_ns)
		return 0;
	rc = epd_shard_renew(l->w->shard, l->lease,
	    (uint64_t)b->s->store->config.lease_ms, why);
	/* Elsewise it may be there still, and the end will tell. */
	if (rc != EPD_ELEASE) {
		l->renew_ns = due(b);
		rc = 0;
	}
	return rc;
}

/* While a lane loads, those of all; one that has gone is that lane's matter. */
static int
keep_leases(void *arg, struct epd_why *why)
{
	struct lane *own = arg;

	for (int i = 0; i < own->b->d->n; i++)
		if (own->b->lane + i != own)
			(void)keep_lease(own->b, own->b->lane + i, NULL);
	return keep_lease(own->b, own, why);
}

static int
open_lane(struct batch *b, struct lane *l, struct epd_why *why)
{
	struct epd_state st;
	int rc = workflow(b, l->ref->workflow, &l->w, why);

	if (rc < 0)
		return rc;
	epd_seq_begin(&l->q, b->s, l->w, b->runs);
	rc = epd_shard_state(l->w->shard, l->ref->state, &st);
	if (rc < 0)
		return epd_why(why, rc, "%s/s%u: %s", l->w->name,
		    l->ref->state, epd_strerror(rc));
	if (l->ref->version && l->ref->version != st.versions)
		return epd_why(why, EPD_EUSAGE, "%s/s%u: it is at @%u; an earlier "
		    "version goes on in a fork of it", l->w->name,
		    l->ref->state, st.versions);
	if ((rc = take_up(b, l, &st, why)) < 0)
		return rc;
	l->expect = st.versions;
	l->q.stop = b->d->interrupt;
	l->q.beat = keep_leases;
	l->q.beat_arg = l;
	if ((rc = epd_reach_load(&l->q, l->ref->state, st.versions, why)) < 0)
		return rc;
	if (l->q.head.turn == EPD_TURN_IS_CLOSED)
		return epd_why(why, EPD_EUSAGE, "%s/s%u: its turn is finished; "
		    "add one with epd-prefill", l->w->name, l->ref->state);
	l->had = l->q.n;
	l->images = l->q.nimages;
	sampler_of(b, l);
	/* The first step runs the last token, though its page may be there. */
	if (l->q.rows == l->q.n) {
		l->q.rows--;
		l->q.found -= l->q.found > 0;
	}
	if ((rc = epd_seq_compute(&l->q, l->q.n - 1, NULL, why)) < 0)
		return rc;
	l->end.found = l->q.found;
	l->end.computed = l->q.computed;
	l->logits = epd_malloc((size_t)b->s->info->vocab * sizeof *l->logits);
	if (!l->logits)
		return epd_why(why, -ENOMEM, "no memory");
	if (b->d->most != 0)
		epd_draft_begin(&l->draft, l->w->runs, l->ref->state,
		    l->expect);
	return 0;
}

/* Commit what was drawn and say how it ended. */
static void
finish(struct batch *b, struct lane *l, int rc, enum epd_finish how)
{
	struct epd_version v = { .turn = l->q.head.turn };
	struct epd_buf text = {0}, out = {0}, shown = {0};
	const uint64_t drawn = l->q.n > l->had ? l->q.n - l->had : 0;

	l->live = 0;
	/* What follows a stop string is not shown, half a character too. */
	if (rc == 0 && how != EPD_FINISH_STOP) {
		epd_utf8_end(&l->utf8, &out);
		rc = epd_stop_put(&l->stop, epd_span(out.p, out.n), &shown);
		if (rc == 0)
			epd_stop_end(&l->stop, &shown);
		rc = rc < 0 || out.failed || shown.failed ? -ENOMEM : 0;
	}
	if (rc == 0 && drawn) {
		if (v.turn == EPD_TURN_IS_PROMPT)
			v.turn = EPD_TURN_IS_OPEN;
		if (l->q.ids[l->q.n - 1] == b->end_mark &&
		    v.turn != EPD_TURN_IS_RAW)
			v.turn = EPD_TURN_IS_CLOSED;
		v.finish = (uint8_t)how;
		v.sampling = (struct epd_sampling){
			.temp = l->sampler.temp, .top_p = l->sampler.top_p,
			.penalty = l->sampler.penalty,
			.top_k = l->sampler.top_k, .seed = l->sampler.seed,
			.salt = l->sampler.salt,
		};
		v.logprobs = l->nlogprobs == drawn ? l->logprobs : NULL;
		epd_buf_fmt(&text, "{\"command\": \"decode\", \"drawn\": %llu}",
		    (unsigned long long)drawn);
		v.note = epd_span(text.p, text.n);
		rc = epd_seq_advance(&l->q, &(struct epd_step){
		    .state = l->ref->state, .expect = l->expect,
		    .lease = l->lease, .had = l->had, .images = l->images,
		    }, &v, &l->end.version, &l->end.why);
	}
	/* Unless it went with the version.  A lock not to be had is let be. */
	if (l->lease && l->w && (rc < 0 || !drawn) &&
	    (rc == EPD_ELOCKED || epd_shard_drop(l->w->shard, l->lease,
	    "nothing was drawn", NULL) < 0))
		epd_store_owe(b->s->store, l->w->name, &(struct epd_lease){
		    .id = l->lease }, 0);
	l->lease = 0;
	if (l->w)
		epd_draft_end(&l->draft, l->w->runs);
	if (rc < 0 && !*l->end.why.text)
		epd_why(&l->end.why, rc, "%s", epd_strerror(rc));
	l->end.rc = rc;
	l->end.finish = rc == 0 ? how : EPD_FINISH_NONE;
	l->end.tokens = l->q.head.start + l->q.head.nids +
	    (rc == 0 ? drawn : 0);
	l->end.fresh = rc == 0 ? drawn : 0;
	l->end.lost = l->q.lost;
	l->end.text = epd_span(shown.p, shown.n);
	if (!l->end.version)
		l->end.version = l->expect;
	if (b->d->end)
		b->d->end(b->d->arg, &l->end);
	l->end.text = epd_span(NULL, 0);
	epd_buf_free(&text);
	epd_buf_free(&out);
	epd_buf_free(&shown);
}

static int
is_eos(const struct batch *b, int32_t id)
{
	for (int i = 0; i < b->s->info->n_eos; i++)
		if (b->s->info->eos[i] == id)
			return 1;
	return 0;
}

static int
keep_logprob(struct lane *l, float logprob)
{
	size_t n = l->nlogprobs;

	if ((n & (n - 1)) == 0) {
		void *p = epd_realloc(l->logprobs, (n ? 2 * n : 1) *
		    sizeof *l->logprobs);

		if (!p)
			return -ENOMEM;
		l->logprobs = p;
	}
	l->logprobs[l->nlogprobs++] = logprob;
	return 0;
}

/* Let out the text of a token; 1 once a stop string was met. */
static int
emit(struct batch *b, struct lane *l, const struct epd_sampled *t)
{
	const struct epd_tokenizer *tok = b->s->tokens;
	struct epd_buf whole = {0}, shown = {0};
	struct epd_token_event e = {
		.which = l->end.which, .index = l->q.n - 1, .id = t->id,
		.logprob = t->logprob, .top = b->top, .ntop = b->d->logprobs,
	};
	int rc;

	if (!epd_tokenizer_is_special(tok, t->id))
		epd_utf8_put(&l->utf8, epd_tokenizer_bytes(tok, t->id), &whole);
	rc = epd_stop_put(&l->stop, epd_span(whole.p, whole.n), &shown);
	if (whole.failed || shown.failed)
		rc = -ENOMEM;
	e.text = epd_span(shown.p, shown.n);
	if (rc >= 0)
		epd_draft_put(&l->draft, l->w->runs, t->id);
	if (rc >= 0 && b->d->token && b->d->token(b->d->arg, &e))
		b->stopped = 1;
	epd_buf_free(&whole);
	epd_buf_free(&shown);
	return rc;
}

/* Draw one token for a lane from its logits. */
static void
draw(struct batch *b, struct lane *l)
{
	struct epd_session *s = b->s;
	struct epd_sampled t;
	int eos, rc = epd_sample(epd_engine_kern(s->engine), &l->sampler,
	    l->logits, s->info->vocab, epd_tokenizer_size(s->tokens), l->q.ids,
	    (long)l->q.n, l->q.n, b->work, &t, b->top, b->d->logprobs);

	if (rc < 0) {
		epd_why(&l->end.why, rc, "sampling: %s", epd_strerror(rc));
		finish(b, l, rc, EPD_FINISH_NONE);
		return;
	}
	eos = !b->d->ignore_eos && is_eos(b, t.id);
	/* An end that is not the turn's mark is not part of the text. */
	if (eos && t.id != b->end_mark && l->q.head.turn != EPD_TURN_IS_RAW) {
		finish(b, l, 0, EPD_FINISH_EOS);
		return;
	}
	rc = epd_seq_extend(&l->q, &t.id, 1, NULL, NULL, 0, &l->end.why);
	if (rc == 0 && (rc = keep_logprob(l, t.logprob)) == 0)
		rc = emit(b, l, &t);
	if (rc < 0)
		finish(b, l, rc, EPD_FINISH_NONE);
	else if (eos)
		finish(b, l, 0, EPD_FINISH_EOS);
	else if (rc > 0)
		finish(b, l, 0, EPD_FINISH_STOP);
	else if (b->d->most >= 0 &&
	    l->q.n - l->had >= (uint64_t)b->d->most)
		finish(b, l, 0, EPD_FINISH_LENGTH);
}

/* One step of all live lanes; the number of lanes run. */
static int
step(struct batch *b)
{
	struct epd_session *s = b->s;
	struct epd_why why = {{0}};
	uint64_t from = epd_clock_boot_ns(), took;
	int n = 0, rc;

	for (int i = 0; i < b->d->n; i++) {
		struct lane *l = b->lane + i;

		if (!l->live)
			continue;
		if (l->q.n >= (uint64_t)s->info->max_position) {
			finish(b, l, 0, EPD_FINISH_LENGTH);
			continue;
		}
		rc = keep_lease(b, l, &l->end.why);
		if (rc == 0)
			rc = epd_seq_chunk(&l->q, l->q.n, b->chunk + n,
			    &l->end.why);
		if (rc < 0) {
			finish(b, l, rc, EPD_FINISH_NONE);
			continue;
		}
		b->chunk[n++].logits = l->logits;
	}
	if (n == 0)
		return 0;
	rc = epd_session_forward(s, b->chunk, n, &why);
	for (int i = 0; i < b->d->n; i++) {
		struct lane *l = b->lane + i;

		if (!l->live)
			continue;
		if (rc < 0) {
			l->end.why = why;
			finish(b, l, rc, EPD_FINISH_NONE);
			continue;
		}
		l->q.rows = l->q.n;
		draw(b, l);
	}
	took = epd_clock_boot_ns() - from;
	if (b->began) {
		epd_count(s->store->metrics, EPD_M_TTFT_COUNT, 1);
		epd_count(s->store->metrics, EPD_M_TTFT_NS,
		    epd_clock_boot_ns() - b->began);
		b->began = 0;
	}
	epd_count(s->store->metrics, EPD_M_DECODE_TOKENS, (uint64_t)n);
	epd_count(s->store->metrics, EPD_M_DECODE_NS, took);
	epd_count_max(s->store->metrics, EPD_M_ITL_MAX_NS, took);
	return n;
}

static int
set_up(struct batch *b, struct epd_why *why)
{
	const struct epd_decode *d = b->d;
	const size_t vocab = (size_t)b->s->info->vocab;
	int rc;

	if ((rc = epd_session_engine(b->s, why)) < 0)
		return rc;
	b->began = epd_clock_boot_ns();
	b->end_mark = epd_tokenizer_special(b->s->tokens, "<|im_end|>");
	b->lane = epd_calloc((size_t)d->n, sizeof *b->lane);
	b->workflow = epd_calloc((size_t)d->n, sizeof *b->workflow);
	b->chunk = epd_calloc((size_t)d->n, sizeof *b->chunk);
	b->work = epd_malloc(3 * vocab * sizeof *b->work);
	if (!b->lane || !b->workflow || !b->chunk || !b->work ||
	    epd_runs_new(&b->runs) < 0)
		return epd_why(why, -ENOMEM, "no memory");
	for (int i = 0; i < d->n; i++) {
		struct lane *l = b->lane + i;

		l->b = b;
		l->ref = d->states + i;
		l->end.which = i;
		l->stop.strings = d->stop;
		l->stop.n = d->nstop;
	}
	return 0;
}

static void
take_down(struct batch *b)
{
	for (int i = 0; b->lane && i < b->d->n; i++) {
		struct lane *l = b->lane + i;

		epd_seq_free(&l->q);
		epd_stop_free(&l->stop);
		epd_free(l->logits);
		epd_free(l->logprobs);
	}
	while (b->workflows > 0)
		epd_workflow_close(b->workflow + --b->workflows);
	epd_runs_free(b->runs);
	epd_free(b->workflow);
	epd_free(b->lane);
	epd_free(b->chunk);
	epd_free(b->work);
}

static int
worst(int a, int b)
{
	if (a == 0 || b == 0)
		return a ? a : b;
	return epd_exitcode(b) > epd_exitcode(a) ? b : a;
}

int
epd_flow_decode(struct epd_session *s, const struct epd_decode *d,
    struct epd_why *why)
{
	struct epd_memory_fit fit;
	struct batch b = { .s = s, .d = d };
	int rc;

	if (d->n <= 0 || d->logprobs < 0 || d->logprobs > 20)
		return epd_why(why, EPD_EUSAGE, "%s", d->n <= 0 ? "no states" :
		    "at most 20 log-probabilities a token");
	if ((rc = set_up(&b, why)) < 0) {
		take_down(&b);
		if (why && !*why->text)
			epd_why(why, rc, "%s", epd_strerror(rc));
		return rc;
	}
	epd_store_settle(s->store);
	for (int i = 0; i < d->n; i++) {
		struct lane *l = b.lane + i;

		l->live = 1;
		rc = open_lane(&b, l, &l->end.why);
		if (rc == -EINTR) {
			l->had = l->q.n;
			finish(&b, l, 0, EPD_FINISH_INTERRUPT);
		} else if (rc < 0) {
			finish(&b, l, rc, EPD_FINISH_NONE);
			if (rc == EPD_ESUSPECT)
				epd_reach_lost(l->w, l->ref->state,
				    l->end.why.text);
		} else if (d->most == 0) {
			finish(&b, l, 0, EPD_FINISH_LENGTH);
		}
	}
	while (!b.stopped && !(d->interrupt && *d->interrupt))
		if (step(&b) == 0)
			break;
	rc = 0;
	for (int i = 0; i < d->n; i++) {
		if (b.lane[i].live)
			finish(&b, b.lane + i, 0, EPD_FINISH_INTERRUPT);
		if (worst(rc, b.lane[i].end.rc) != rc) {
			rc = b.lane[i].end.rc;
			epd_why(why, rc, "%s", b.lane[i].end.why.text);
		}
	}
	epd_log(&s->store->log, "op=decode states=%d rc=%d", d->n, rc);
	take_down(&b);
	/* Each lane asked for room by itself; together they may be above the cap. */
	(void)epd_store_room(s->store, 0, &fit, NULL);
	return rc;
}
