/* release.c - states and features let go of, and what is unlinked with them. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "flow/handoff.h"
#include "flow/litter.h"
#include "flow/need.h"
#include "flow/release.h"
#include "flow/tiers.h"
#include "page/page.h"

int
epd_run_take(int dir, uint64_t run, uint64_t *runs, uint64_t *bytes)
{
	char name[EPD_RUN_NAME];
	struct stat st;
	int rc;

	epd_run_format(name, run);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if ((rc = epd_run_free(dir, run)) == 0) {
		++*runs;
		*bytes += epd_bytes_back(&st);
	}
	return rc;
}

void
epd_freed(void *arg, uint64_t run)
{
	struct epd_freeing *f = arg;

	if (f->w->runs >= 0)
		(void)epd_run_take(f->w->runs, run, &f->runs, &f->bytes);
	epd_workflow_drop(f->w, run);
}

struct needing {
	struct epd_store *s;
	struct epd_need need;
	struct epd_why *why;
};

static int
need_of(void *arg, const char *workflow)
{
	struct needing *n = arg;

	return epd_need_add(&n->need, n->s, workflow, n->why);
}

/* What live states show is kept as a picture, so that they can go on. */
static int
release_feature(struct epd_store *s, const struct epd_name *fp,
    struct epd_why *why)
{
	struct needing n = { .s = s, .why = why };
	struct epd_feature_meta m;
	int rc;

	if (epd_feature_meta(s->features, fp, &m) == -ENOENT)
		return epd_why(why, EPD_ENOTHING, "no such feature");
	rc = epd_workflow_each(s, need_of, &n);
	epd_need_sort(&n.need);
	if (rc == 0 && !epd_need_has(&n.need, fp))
		rc = epd_feature_remove(s->features, fp);
	else if (rc == 0 && (rc = epd_feature_evict(s->features, fp)) ==
	    -ENOENT)
		rc = epd_why(why, EPD_ESTATUS, "live states show it, and no "
		    "picture is kept to make it from again");
	epd_need_free(&n.need);
	return rc;
}

int
epd_flow_release(struct epd_store *s, const struct epd_ref *ref,
    const char *reason, struct epd_why *why)
{
	struct epd_workflow w;
	struct epd_freeing f = { .w = &w };
	const int all = ref->kind == EPD_REF_WORKFLOW;
	int rc;

	if (ref->kind == EPD_REF_FEATURE)
		return release_feature(s, &ref->feature, why);
	if (ref->version)
		return epd_why(why, EPD_EUSAGE, "a version goes with its "
		    "state; release the state");
	if ((rc = epd_workflow_open(&w, s, ref->workflow, 0, why)) < 0)
		return rc;
	(void)epd_flow_handoff_settle(s, &w);
	rc = epd_shard_give_up(w.shard, ref->state, all, reason, why);
	if (rc == 0)
		rc = all ? epd_shard_release_all(w.shard, reason, epd_freed, &f,
		    why) : epd_shard_release(w.shard, ref->state, reason,
		    epd_freed, &f, why);
	rc = rc < 0 ? rc : 0;
	epd_log(&s->log, "op=release workflow=%s state=%u runs=%llu rc=%d",
	    ref->workflow, ref->state, (unsigned long long)f.runs, rc);
	epd_workflow_close(&w);
	return rc;
}
