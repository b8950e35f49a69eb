/* fork.c - branches, and the runs of versions that a replaced parent ended. */
#include <errno.h>

#include "base/clock.h"
#include "flow/branch.h"
#include "flow/handoff.h"
#include "flow/reach.h"
#include "flow/rest.h"
#include "flow/tiers.h"
#include "flow/whole.h"

enum { TRIES = 10 };	/* to copy what is the newest still */

static void
freed(void *arg, uint64_t run)
{
	epd_workflow_drop(arg, run);
}

static int
may_fork(struct epd_workflow *w, const struct epd_fork_request *f,
    struct epd_why *why)
{
	struct epd_state st;
	int rc = epd_shard_state(w->shard, f->from.state, &st);

	if (rc < 0)
		return epd_why(why, rc, "%s", epd_strerror(rc));
	if (st.status == EPD_SUSPECT)
		return epd_why(why, EPD_ESUSPECT, "it is SUSPECT: %s",
		    epd_strerror(EPD_ESUSPECT));
	rc = epd_rest_wake(w, &st, 0, why);
	return rc < 0 ? rc : epd_reach_on(w, &st, why);
}

static struct epd_fork_ask
asked(const struct epd_fork_request *f)
{
	return (struct epd_fork_ask){
		.state = f->from.state, .version = f->from.version,
		.expect = f->expect,
		.branches = f->branches, .replace = f->replace,
		.has_seed = f->has_seed, .seed = f->seed,
		.ttl_ms = f->ttl_ms, .reason = f->reason,
	};
}

/* Once: EPD_EVERSION too if the newest, which was meant, is another by now. */
static int
try_alone(struct epd_workflow *w, struct epd_fork_ask ask,
    struct epd_forked *out, struct epd_why *why)
{
	static const char note[] = "{\"command\": \"fork\"}";
	struct epd_whole x;
	struct epd_state st;
	int rc = epd_shard_state(w->shard, ask.state, &st);

	if (rc < 0)
		return epd_why(why, rc, "%s", epd_strerror(rc));
	if (ask.expect && ask.expect != st.versions)
		return epd_why(why, EPD_EVERSION, "it is at @%u, not @%u",
		    st.versions, ask.expect);
	if (!ask.version)
		ask.version = ask.expect = st.versions;
	rc = epd_whole_make(&x, w, ask.state, ask.version, why);
	if (rc < 0)
		return rc;
	x.v.note = epd_span(note, sizeof note - 1);
	rc = epd_shard_fork_alone(w->shard, &ask, &x.traits, &x.v, &out->first,
	    why);
	epd_whole_free(&x);
	out->version = ask.version;
	out->alone = 1;
	return rc;
}

/* The tokens are copied before the lock is had: what comes meanwhile counts. */
static int
fork_alone(struct epd_store *s, struct epd_workflow *w,
    const struct epd_fork_request *f, struct epd_forked *out,
    struct epd_why *why)
{
	int rc, i = 0;

	do
		rc = try_alone(w, asked(f), out, why);
	while (rc == EPD_EVERSION && !f->expect && ++i < TRIES);
	if (rc == 0)
		epd_count(s->metrics, EPD_M_FORK_FALLBACKS, 1);
	return rc;
}

static int
fork_shared(struct epd_workflow *w, const struct epd_fork_request *f,
    struct epd_forked *out, struct epd_why *why)
{
	const struct epd_fork_ask ask = asked(f);
	struct epd_state st;
	int rc, tries = 0;

	do
		rc = epd_shard_fork(w->shard, &ask, &out->first, why);
	while (epd_rest_again(w, f->from.state, rc, &tries));

	/* Which version was the newest was decided there. */
	if (rc == 0)
		out->version = epd_shard_state(w->shard, out->first, &st) == 0 ?
		    st.parent_version : f->from.version;
	return rc;
}

int
epd_flow_fork(struct epd_store *s, const struct epd_fork_request *f,
    struct epd_forked *out, struct epd_why *why)
{
	uint64_t from = epd_clock_boot_ns();
	struct epd_forked done = {0};
	struct epd_workflow w;
	int rc;

	if (f->from.kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	if (!f->branches || f->branches > (uint32_t)EPD_BRANCHES)
		return epd_why(why, EPD_EUSAGE, "%u branches; 1 to %d",
		    f->branches, EPD_BRANCHES);
	if ((rc = epd_workflow_open(&w, s, f->from.workflow, 0, why)) < 0)
		return rc;
	(void)epd_flow_handoff_settle(s, &w);
	rc = may_fork(&w, f, why);
	if (rc == 0 && s->config.enable_cow)
		rc = epd_reach_ended(&w, f->from.state, fork_shared(&w, f,
		    &done, why), why);
	if (rc == -EOVERFLOW || (rc == 0 && !s->config.enable_cow))
		rc = fork_alone(s, &w, f, &done, why);
	if (rc == 0)
		epd_shard_tell(w.shard, freed, &w);
	epd_workflow_close(&w);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; f->ids && i < f->branches; i++)
		f->ids[i] = done.first + i;
	done.ns = epd_clock_boot_ns() - from;
	*out = done;
	return 0;
}
