/* fork.c - branches, and the runs of versions that a replaced parent ended. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/branch.h"
#include "flow/handoff.h"
#include "flow/whole.h"

static void
freed(void *arg, uint64_t run)
{
	const struct epd_workflow *w = arg;

	if (w->runs >= 0)
		(void)epd_run_free(w->runs, run);
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
	return 0;
}

/* ---- branches that share nothing ---- */

/* Of the seed and the branch's place; without a seed unlike any other. */
static uint64_t
salt_of(const struct epd_fork_request *f, uint64_t parent, uint32_t i)
{
	uint64_t with[4] = { parent, (uint64_t)f->has_seed, f->seed, i };
	uint64_t salt;

	if (!f->has_seed && getrandom(with + 2, sizeof *with, 0) !=
	    (ssize_t)sizeof *with)
		with[2] = epd_clock_boot_ns();
	salt = epd_xxh3_64(with, sizeof with);
	return salt ? salt : 1;
}

/* What the shard refuses where branches share. */
static int
is_free(struct epd_shard *s, uint32_t state, struct epd_why *why)
{
	struct epd_handoff h = {0};
	struct epd_lease l = {0};

	while (epd_shard_lease_next(s, l.id, &l) == 0)
		if (l.state == state && l.kind == EPD_LEASE_DECODE &&
		    epd_shard_lease_stands(s, &l))
			return epd_why(why, EPD_ELOCKED, "process %d is "
			    "decoding it", (int)l.holder.pid);
	while (epd_shard_handoff_next(s, h.lsn, &h) == 0)
		if (h.state == state && h.phase == EPD_PREPARED)
			return epd_why(why, EPD_ESTATUS, "mid-hand-off, until "
			    "that is decided");
	return 0;
}

/* The parent goes, unless it has gone on meanwhile. */
static int
end_parent(struct epd_workflow *w, const struct epd_fork_request *f,
    uint32_t versions, struct epd_why *why)
{
	struct epd_state st;
	int rc = epd_shard_catch_up(w->shard, why);

	if (rc == 0)
		rc = epd_shard_state(w->shard, f->from.state, &st);
	if (rc == 0 && st.versions != versions)
		rc = epd_why(why, EPD_EVERSION, "it went on to @%u meanwhile",
		    st.versions);
	return rc < 0 ? rc : epd_shard_release(w->shard, f->from.state,
	    f->reason, freed, w, why);
}

/* One that failed takes those before it along. */
static int
create_all(struct epd_workflow *w, const struct epd_fork_request *f,
    struct epd_whole *x, uint32_t versions, uint32_t *ids, struct epd_why *why)
{
	static const char note[] = "{\"command\": \"fork\"}";
	const uint64_t parent = x->v.sampling.salt;
	uint32_t n = 0;
	int rc = 0;

	x->v.note = epd_span(note, sizeof note - 1);
	while (rc == 0 && n < f->branches) {
		x->v.sampling.salt = salt_of(f, parent, n);
		rc = epd_shard_create(w->shard, &x->traits, &x->v, ids + n,
		    why);
		n += rc == 0;
	}
	if (rc == 0 && f->replace)
		rc = end_parent(w, f, versions, why);
	while (rc < 0 && rc != EPD_EUNSURE && n-- > 0)
		(void)epd_shard_release(w->shard, ids[n], "its fork failed",
		    freed, w, NULL);
	return rc;
}

static int
fork_alone(struct epd_store *s, struct epd_workflow *w,
    const struct epd_fork_request *f, struct epd_forked *out, uint32_t *ids,
    struct epd_why *why)
{
	struct epd_whole x;
	struct epd_state st;
	int rc = epd_shard_state(w->shard, f->from.state, &st);
	uint64_t ttl = rc == 0 ? st.ttl_deadline_ms : 0;

	if (rc == 0)
		rc = is_free(w->shard, f->from.state, why);
	if (rc == 0 && f->expect && f->expect != st.versions)
		rc = epd_why(why, EPD_EVERSION, "is at @%u, not @%u",
		    st.versions, f->expect);
	out->version = f->from.version ? f->from.version : st.versions;
	if (rc == 0)
		rc = epd_whole_make(&x, w, f->from.state, out->version, why);
	if (rc < 0)
		return rc;
	x.traits.parent_state = f->from.state;
	x.traits.parent_version = out->version;
	x.traits.ttl_deadline_ms = f->ttl_ms ? epd_clock_wall_ms() +
	    f->ttl_ms : ttl;
	rc = create_all(w, f, &x, st.versions, ids, why);
	epd_whole_free(&x);
	if (rc < 0)
		return rc;
	epd_count(s->metrics, EPD_M_FORK_FALLBACKS, 1);
	out->first = ids[0];
	out->alone = 1;
	return 0;
}

/* ---- branches ---- */

static int
fork_shared(struct epd_workflow *w, const struct epd_fork_request *f,
    struct epd_forked *out, uint32_t *ids, struct epd_why *why)
{
	const struct epd_fork_ask ask = {
		.state = f->from.state, .version = f->from.version,
		.expect = f->expect,
		.branches = f->branches, .replace = f->replace,
		.has_seed = f->has_seed, .seed = f->seed,
		.ttl_ms = f->ttl_ms, .reason = f->reason,
	};
	struct epd_state st;
	int rc = epd_shard_fork(w->shard, &ask, &out->first, why);

	for (uint32_t i = 0; rc == 0 && i < f->branches; i++)
		ids[i] = out->first + i;
	/* Which version was the newest was decided there. */
	if (rc == 0)
		out->version = epd_shard_state(w->shard, out->first, &st) == 0 ?
		    st.parent_version : f->from.version;
	if (rc == 0)
		epd_shard_tell(w->shard, freed, w);
	return rc;
}

int
epd_flow_fork(struct epd_store *s, const struct epd_fork_request *f,
    struct epd_forked *out, struct epd_why *why)
{
	uint64_t from = epd_clock_boot_ns();
	struct epd_forked done = {0};
	struct epd_workflow w;
	uint32_t *ids;
	int rc;

	if (f->from.kind != EPD_REF_STATE)
		return epd_why(why, EPD_EUSAGE, "not a state");
	if (!f->branches || f->branches > (uint32_t)EPD_BRANCHES)
		return epd_why(why, EPD_EUSAGE, "%u branches; 1 to %d",
		    f->branches, EPD_BRANCHES);
	if (!(ids = epd_calloc(f->branches, sizeof *ids)))
		return epd_why(why, -ENOMEM, "no memory");
	if ((rc = epd_workflow_open(&w, s, f->from.workflow, 0, why)) < 0) {
		epd_free(ids);
		return rc;
	}
	(void)epd_flow_handoff_settle(s, &w);
	rc = may_fork(&w, f, why);
	if (rc == 0 && s->config.enable_cow)
		rc = fork_shared(&w, f, &done, ids, why);
	if (rc == -EOVERFLOW || (rc == 0 && !s->config.enable_cow))
		rc = fork_alone(s, &w, f, &done, ids, why);
	epd_workflow_close(&w);
	if (rc == 0 && f->ids)
		memcpy(f->ids, ids, f->branches * sizeof *ids);
	epd_free(ids);
	if (rc < 0)
		return rc;
	done.ns = epd_clock_boot_ns() - from;
	*out = done;
	return 0;
}
