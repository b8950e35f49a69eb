/*
 * ahead.c - a thread that restores.  It has a store of its own and nothing of its
 * caller's, so there is no lock; the caller takes stop back by setting it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "base/thread.h"
#include "flow/ahead.h"
#include "flow/rest.h"
#include "flow/tiers.h"

struct epd_ahead {
	struct epd_store_options o;
	struct epd_ref *state;
	int n, speculative;
	atomic_int stop;
	pthread_t thread;
};

static int
is_over(void *arg)
{
	struct epd_ahead *a = arg;

	return atomic_load(&a->stop);
}

/* The state's pages; whether it is resumed is for the verb to say. */
static void
bring(struct epd_store *s, const struct epd_ref *ref)
{
	struct epd_workflow w;

	if (epd_workflow_open(&w, s, ref->workflow, 0, NULL) < 0)
		return;
	if (epd_workflow_serves(&w, s, ref->state))
		(void)epd_rest_fill(&w, ref->state, ref->version);
	epd_workflow_close(&w);
}

static void *
run(void *arg)
{
	struct epd_ahead *a = arg;
	struct epd_store *s;

	epd_stop_heed(is_over, a);
	if (epd_store_open(&s, &a->o, NULL) < 0)
		return NULL;
	for (int i = 0; i < a->n && !atomic_load(&a->stop); i++)
		bring(s, a->state + i);
	if (a->speculative && !atomic_load(&a->stop))
		(void)epd_flow_expected(s);
	epd_store_close(s);
	return NULL;
}

struct epd_ahead *
epd_ahead_begin(struct epd_store *s, const struct epd_store_options *o,
    const struct epd_ref *states, int n)
{
	const char *how = s->config.transfer_prefetch;
	struct epd_ahead *a;

	if (!strcmp(how, "none") || n <= 0 || !epd_store_tiered(s))
		return NULL;
	a = epd_calloc(1, sizeof *a);
	if (!a || !(a->state = epd_calloc((size_t)n, sizeof *a->state))) {
		epd_free(a);
		return NULL;
	}
	memcpy(a->state, states, (size_t)n * sizeof *states);
	a->n = n;
	a->o = *o;
	a->o.config = &s->config;
	a->o.create = a->o.look = 0;
	a->o.listener = (struct epd_listener){ NULL, NULL };
	a->speculative = !strcmp(how, "speculative");
	atomic_init(&a->stop, 0);
	if (epd_thread_begin(&a->thread, run, a) == 0)
		return a;
	epd_free(a->state);
	epd_free(a);
	return NULL;
}

void
epd_ahead_end(struct epd_ahead *a)
{
	if (!a)
		return;
	atomic_store(&a->stop, 1);
	pthread_join(a->thread, NULL);
	epd_free(a->state);
	epd_free(a);
}

/* ---- what is expected ---- */

struct expected {
	struct epd_store *s;
	uint64_t now_ms;		/* wall clock */
	int n;
};

struct fetch {
	struct epd_store *s;
	const struct epd_workflow *w;
	uint64_t *came;			/* runs */
};

/* A tool that is as late as that is waited for no longer. */
enum { EARLY_MS = 1000, LATE_MS = 60000 };

/* There is room for more without anything having to go. */
static int
is_room(struct epd_store *s)
{
	uint64_t used = 0;

	return epd_memory_used(s->memory, &used) == 0 && (double)used <
	    s->config.tier_low_water * (double)epd_memory_cap(s->memory);
}

int
epd_is_expected(const struct epd_state *st, uint64_t now_ms)
{
	const uint64_t till = st->wait_deadline_ms;

	return *st->tool && till && till <= now_ms + EARLY_MS &&
	    now_ms < till + LATE_MS;
}

/* What is in memory is left as it is; *came is set if something came. */
static int
fetch(void *arg, const struct epd_lot *lot, uint32_t first, struct epd_why *why)
{
	const struct fetch *x = arg;
	struct epd_fill f = { 0 };
	int rc;

	(void)first;
	if (epd_run_is_in(x->w->runs, lot->run))
		return 0;
	rc = epd_fill_run(x->s, x->w, lot, &f, why);
	epd_count(x->s->metrics, EPD_M_PREFETCHED, f.runs);
	*x->came += f.runs;
	return rc == EPD_ENOTHING ? 0 : rc;
}

static int
expect(void *arg, const char *name)
{
	struct expected *x = arg;
	struct epd_workflow w;
	struct epd_state st;

	if (!is_room(x->s) || epd_is_stopped())
		return 1;
	if (epd_workflow_open(&w, x->s, name, 0, NULL) < 0)
		return 0;
	for (uint32_t id = 0; epd_shard_next(w.shard, id, &st) == 0;
	    id = st.id) {
		uint64_t came = 0;
		struct fetch f = { x->s, &w, &came };

		if (!epd_is_expected(&st, x->now_ms) || !is_room(x->s) ||
		    strcmp(st.tenant, x->s->tenant))
			continue;
		(void)epd_lots_of(&w, st.id, 0, 0, fetch, &f, NULL);
		x->n += came > 0;
	}
	epd_workflow_close(&w);
	return 0;
}

int
epd_flow_expected(struct epd_store *s)
{
	struct expected x = { .s = s, .now_ms = epd_clock_wall_ms() };
	int rc = epd_workflow_each(s, expect, &x);

	return rc < 0 ? rc : x.n;
}
