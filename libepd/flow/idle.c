/* idle.c - who may rest, by the clock and by what was measured. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "flow/ahead.h"
#include "flow/idle.h"
#include "flow/rest.h"
#include "flow/room.h"

struct idle {
	struct epd_store *s;
	enum epd_tier tier;
	uint64_t now_ms;
	int n;
};

/* A wait that is long enough to go out and come back twice over. */
static int
waits_long(const struct idle *x, const struct epd_state *st)
{
	const struct epd_metrics *m = x->s->metrics;
	const uint64_t out = epd_metrics_get(m, EPD_M_OFFLOADS);
	const double out_ms = out ? (double)epd_metrics_get(m,
	    EPD_M_OFFLOAD_NS) / (double)out / 1e6 : 100;
	struct epd_again again;

	if (!*st->tool || st->wait_deadline_ms <= x->now_ms)
		return 0;
	epd_store_again(x->s, st->page_bytes * 64, 0, &again);
	return (double)(st->wait_deadline_ms - x->now_ms) >
	    2 * (out_ms + again.restore_ns / 1e6);
}

static int
is_idle(const struct idle *x, const struct epd_state *st)
{
	const uint64_t ttl = (uint64_t)x->s->config.state_ttl_ms;

	return st->status == EPD_ACTIVE && !epd_is_expected(st, x->now_ms) &&
	    !strcmp(st->tenant, x->s->tenant) &&
	    ((ttl && st->changed_ms + ttl <= x->now_ms) || waits_long(x, st));
}

/* By number first: offloading writes to the log that is walked. */
static int
gather(const struct idle *x, const char *name, uint32_t **out, size_t *n)
{
	struct epd_workflow w;
	struct epd_state st;
	size_t cap = 0;
	int rc = epd_workflow_open(&w, x->s, name, 1, NULL);

	*out = NULL;
	*n = 0;
	if (rc < 0)
		return rc;
	for (uint32_t id = 0; epd_shard_next(w.shard, id, &st) == 0;
	    id = st.id) {
		void *p;

		if (!is_idle(x, &st))
			continue;
		if (!(p = epd_grow(*out, *n, &cap, sizeof **out)))
			break;
		*out = p;
		(*out)[(*n)++] = st.id;
	}
	epd_workflow_close(&w);
	return 0;
}

static int
rest_those(void *arg, const char *name)
{
	struct idle *x = arg;
	struct epd_offload o = { .tier = x->tier, .reason = "idle",
		.state = { .kind = EPD_REF_STATE } };
	struct epd_offloaded done;
	uint32_t *id;
	size_t n;

	if (epd_is_stopped())
		return 1;
	if (gather(x, name, &id, &n) < 0)
		return 0;
	strncpy(o.state.workflow, name, sizeof o.state.workflow - 1);
	for (size_t i = 0; i < n; i++) {
		o.state.state = id[i];
		x->n += epd_flow_offload(x->s, &o, &done, NULL) == 0;
	}
	epd_free(id);
	return 0;
}

int
epd_flow_idle(struct epd_store *s)
{
	struct idle x = { .s = s, .tier = epd_store_below(s),
		.now_ms = epd_clock_wall_ms() };
	int rc = x.tier ? epd_workflow_each(s, rest_those, &x) : 0;

	return rc < 0 ? rc : x.n;
}
