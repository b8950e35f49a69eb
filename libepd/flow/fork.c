/* fork.c - branches, and the runs of versions that a replaced parent ended. */
#include <string.h>

#include "base/clock.h"
#include "flow/branch.h"
#include "flow/handoff.h"
#include "page/page.h"

static void
freed(void *arg, uint64_t run)
{
	const struct epd_workflow *w = arg;

	if (w->runs >= 0)
		(void)epd_run_free(w->runs, run);
}

static int
may_fork(struct epd_workflow *w, const struct epd_fork_request *f,
    struct epd_forked *out, struct epd_why *why)
{
	struct epd_state st;
	int rc = epd_shard_state(w->shard, f->from.state, &st);

	if (rc < 0)
		return epd_why(why, rc, "%s", epd_strerror(rc));
	if (st.status == EPD_SUSPECT)
		return epd_why(why, EPD_ESUSPECT, "it is SUSPECT: %s",
		    epd_strerror(EPD_ESUSPECT));
	out->version = f->from.version ? f->from.version : st.versions;
	return 0;
}

int
epd_flow_fork(struct epd_store *s, const struct epd_fork_request *f,
    struct epd_forked *out, struct epd_why *why)
{
	struct epd_fork_ask ask = {
		.state = f->from.state, .version = f->from.version,
		.branches = f->branches, .replace = f->replace,
		.has_seed = f->has_seed, .seed = f->seed,
		.ttl_ms = f->ttl_ms, .reason = f->reason,
	};
	uint64_t from = epd_clock_boot_ns();
	struct epd_forked done = {0};
	struct epd_workflow w;
	int rc;

	if (f->from.kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	if ((rc = epd_workflow_open(&w, s, f->from.workflow, 0, why)) < 0)
		return rc;
	(void)epd_flow_handoff_settle(s, &w);
	rc = may_fork(&w, f, &done, why);
	/* What stands on the newest version stands on that one. */
	ask.version = done.version;
	if (rc == 0)
		rc = epd_shard_fork(w.shard, &ask, &done.first, why);
	if (rc == 0)
		epd_shard_tell(w.shard, freed, &w);
	epd_workflow_close(&w);
	if (rc < 0)
		return rc;
	done.ns = epd_clock_boot_ns() - from;
	*out = done;
	return 0;
}
