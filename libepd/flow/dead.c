/*
 * dead.c - what somebody died over.  The RFC's worker crash, as it ends here: what he
 * had committed stands, what he had begun is nobody's, and the state goes on from its
 * newest version.
 */
#include <errno.h>

#include "flow/sweep.h"

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
		tell(g, w, &l, &st);
	}
	return rc;
}
