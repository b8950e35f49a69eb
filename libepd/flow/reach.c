/*
 * reach.c - states whose image or model is out of reach: they are SUSPECT, as
 * they are, until a verb finds what they need again.
 */
#include <errno.h>

#include "flow/reach.h"

/* Who decodes it has what it needs. */
static int
is_decoded(struct epd_shard *s, uint32_t state)
{
	struct epd_lease l = {0};

	while (epd_shard_lease_next(s, l.id, &l) == 0)
		if (l.state == state && l.kind == EPD_LEASE_DECODE &&
		    epd_shard_lease_stands(s, &l))
			return 1;
	return 0;
}

void
epd_reach_lost(struct epd_workflow *w, uint32_t state, const char *reason)
{
	struct epd_state st;

	/* Where it cannot be written down the error says so all the same. */
	if (epd_shard_state(w->shard, state, &st) == 0 &&
	    st.status == EPD_ACTIVE && !is_decoded(w->shard, state))
		(void)epd_shard_suspect(w->shard, state, reason, NULL);
}

int
epd_reach_load(struct epd_seq *q, uint32_t state, uint32_t version,
    struct epd_why *why)
{
	struct epd_state st;
	int rc = epd_seq_load(q, state, version, why);

	if (rc < 0)
		return rc;
	rc = epd_shard_state(q->w->shard, state, &st);
	if (rc == 0 && st.status == EPD_SUSPECT) {
		rc = epd_shard_clear(q->w->shard, state, "it is in reach again",
		    why);
		/* Another may have found the same. */
		if (rc == EPD_ESTATUS &&
		    epd_shard_state(q->w->shard, state, &st) == 0 &&
		    st.status == EPD_ACTIVE)
			rc = 0;
	}
	return rc;
}

/* What keeps a model's files away, as against what is wrong in them or here. */
static int
is_away(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES ||
	    rc == -EPERM || rc == -EIO || rc == -ESTALE || rc == -ENOTCONN ||
	    rc == -ETIMEDOUT || rc == -ELOOP;
}

int
epd_flow_session(struct epd_session **out, struct epd_store *s,
    const struct epd_session_options *o, const struct epd_ref *states, int n,
    struct epd_why *why)
{
	struct epd_workflow w;
	int rc = epd_session_open(out, s, o, why);

	if (n == 0 || !is_away(rc))
		return rc;
	for (int i = 0; i < n; i++) {
		if (epd_workflow_open(&w, s, states[i].workflow, 0, NULL) < 0)
			continue;
		epd_reach_lost(&w, states[i].state, why ? why->text :
		    epd_strerror(rc));
		epd_workflow_close(&w);
	}
	return EPD_ESUSPECT;
}
