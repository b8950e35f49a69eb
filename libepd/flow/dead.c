/*
 * dead.c - what somebody died over: the RFC's worker crash.  What he had committed
 * stands, what he had begun is nobody's, and the state goes on from its newest version.
 * One that was decoded is SUSPECT while it is seen whether it can: pages come from
 * tiers and other nodes, or are computed, which takes its pictures.
 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "flow/book.h"
#include "flow/sweep.h"
#include "flow/where.h"

/* What a lease's holder did. */
static const char *
work(enum epd_lease_kind kind)
{
	switch (kind) {
	case EPD_LEASE_TRANSFER: return "gave its pages away";
	case EPD_LEASE_OFFLOAD: return "moved it out";
	case EPD_LEASE_RESTORE: return "restored it";
	case EPD_LEASE_DECODE: return "decoded it";
	default: return "looked at it";
	}
}

static void
tell(struct epd_sweep *g, const struct epd_workflow *w,
    const struct epd_lease *l, const struct epd_state *st)
{
	char ref[EPD_REF_TEXT];

	epd_ref_format(ref, w->name, st->id, 0);
	if (!l->id)
		epd_sweep_tell(g, 0, "%s: who moved it died; it is %s again, at "
		    "version %u", ref, epd_status_name(st->status),
		    st->versions);
	else
		epd_sweep_tell(g, 0, "%s: process %d, which %s, died or was too "
		    "late; it is %s, at version %u", ref, (int)l->holder.pid,
		    work(l->kind), epd_status_name(st->status), st->versions);
}

/* Whoever moved a state out or in and died. */
static int
end_unfinished(struct epd_sweep *g, struct epd_workflow *w,
    struct epd_why *why)
{
	struct epd_state st = { .id = 0 };
	struct epd_lease left;
	int rc = 0;

	while (rc >= 0 && epd_shard_unfinished(w->shard, st.id, &st,
	    &left) == 0) {
		const int out = st.status == EPD_OFFLOADING;

		rc = epd_shard_unfinished_end(w->shard, st.id, "who moved it "
		    "died", why);
		if (rc != 1)
			continue;
		g->out->offloads += (uint64_t)out;
		g->out->restores += (uint64_t)!out;
		st.status = EPD_ACTIVE;
		tell(g, w, &left, &st);
	}
	return rc < 0 ? rc : 0;
}

/* How many of its pictures are to be had nowhere, within one transfer's time; -errno. */
static int
pictures_lost(struct epd_store *s, const struct epd_workflow *w, uint32_t state)
{
	const uint64_t end = epd_clock_boot_ns() + UINT64_C(1000000) *
	    (uint64_t)s->config.transfer_timeout_ms;
	struct epd_chain c = { 0 };
	struct epd_version v;
	int lost = 0, rc = epd_chain_of(&c, w->shard, state, 0);

	for (size_t i = 0; rc == 0 && i < c.n; i++) {
		rc = epd_shard_node(w->shard, c.node[i], &v);
		for (uint32_t k = 0; rc == 0 && k < v.nimages; k++)
			lost += epd_feature_is_there(s->features,
			    &v.images[k].fp) == EPD_FEATURE_NONE &&
			    epd_where_feature(s, &v.images[k].fp, end) < 0;
	}
	epd_chain_free(&c);
	return rc < 0 ? rc : lost;
}

static void
suspect(struct epd_sweep *g, struct epd_workflow *w, const struct epd_lease *l,
    struct epd_state *st)
{
	char reason[96];

	if (l->kind != EPD_LEASE_DECODE || st->status != EPD_ACTIVE)
		return;
	snprintf(reason, sizeof reason, "process %d, which decoded it, died or "
	    "was too late", (int)l->holder.pid);
	if (epd_shard_suspect(w->shard, st->id, reason, NULL) == 0 &&
	    pictures_lost(g->s, w, st->id) == 0)
		(void)epd_shard_clear(w->shard, st->id, "what it needs is in "
		    "reach", NULL);
	(void)epd_shard_state(w->shard, st->id, st);
}

int
epd_sweep_dead(struct epd_sweep *g, struct epd_workflow *w,
    struct epd_why *why)
{
	struct epd_lease l = { .id = 0 };
	struct epd_state st;
	int rc = end_unfinished(g, w, why);

	while (rc == 0 && epd_shard_lease_next(w->shard, l.id, &l) == 0) {
		if (epd_shard_lease_stands(w->shard, &l) ||
		    epd_shard_state(w->shard, l.state, &st))
			continue;
		g->out->dead++;
		suspect(g, w, &l, &st);
		tell(g, w, &l, &st);
	}
	return rc;
}
