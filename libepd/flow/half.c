/*
 * half.c - reaching a half, and the verbs of one whose log is open here.
 *
 * A half in the same store as the other one is recorded there without a path,
 * so that the store may be moved meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "flow/half.h"

void
epd_half_place(struct epd_half *half, const char *store, const char *workflow)
{
	snprintf(half->store, sizeof half->store, "%s", store);
	snprintf(half->workflow, sizeof half->workflow, "%s", workflow);
	half->w = (struct epd_workflow){ .dirfd = -1, .runs = -1 };
}

static int
open_store(struct epd_half *half, struct epd_store *near, int look)
{
	const struct epd_store_options o = {
		.path = half->store, .config = &near->config,
		.tenant = near->tenant, .log = near->log, .look = look,
		.transports = near->transports, .codecs = near->codecs,
	};

	static const uint8_t here[16];
	int rc;

	half->s = near;
	if (strcmp(half->store, near->path) &&
	    (rc = epd_store_open(&half->s, &o, &half->why)) < 0)
		return rc;
	if (!memcmp(half->home, here, 16) ||
	    !memcmp(half->home, half->s->uuid, 16))
		return 0;
	if (half->s != near)
		epd_store_close(half->s);
	return epd_why(&half->why, EPD_ENOTHING, "%s: another store is there "
	    "now", half->store);
}

/* The workflow, if it is the one meant. */
static int
open_workflow(struct epd_half *half, int look)
{
	uint8_t uuid[16];
	int rc = epd_workflow_open(&half->w, half->s, half->workflow, look,
	    &half->why);

	if (rc < 0)
		return rc;
	epd_shard_uuid(half->w.shard, uuid);
	if (!memcmp(uuid, half->uuid, 16))
		return 0;
	epd_workflow_close(&half->w);
	return epd_why(&half->why, EPD_ENOTHING, "another workflow has its "
	    "name");
}

void
epd_half_reach(struct epd_half *half, struct epd_store *near)
{
	const int look = !near->procs;
	int rc = open_store(half, near, look);

	if (rc < 0) {
		half->s = NULL;
	} else if ((rc = open_workflow(half, look)) < 0) {
		half->absent = rc == EPD_ENOTHING;
		if (half->s != near)
			epd_store_close(half->s);
		half->s = NULL;
	} else {
		memcpy(half->home, half->s->uuid, 16);
	}
	half->gone = rc;
}

void
epd_half_leave(struct epd_half *half, const struct epd_store *near)
{
	if (!half->s)
		return;
	epd_workflow_close(&half->w);
	if (half->s != near)
		epd_store_close(half->s);
	half->s = NULL;
}

/* ---- verbs ---- */

int
epd_handoff_expired(const struct epd_handoff *h)
{
	uint8_t boot[16];

	/* What cannot be told waits for its deadline. */
	return (epd_clock_boot_id(boot) == 0 && memcmp(boot, h->boot, 16)) ||
	    epd_clock_boot_ns() / 1000000 >= h->deadline_ms;
}

int
epd_half_look(struct epd_half *half, const uint8_t id[16], struct epd_why *why)
{
	int rc;

	half->h = (struct epd_handoff){0};
	if (!half->s)
		return 0;
	rc = epd_shard_catch_up(half->w.shard, why);
	if (rc == 0)
		rc = epd_shard_handoff(half->w.shard, id, &half->h);
	half->h.store = half->h.workflow = NULL;
	half->expired = rc == 0 && epd_handoff_expired(&half->h);
	return rc == -ENOENT ? 0 : rc;
}

static void
freed(void *arg, uint64_t run)
{
	const struct epd_half *half = arg;

	if (half->w.runs >= 0)
		(void)epd_run_free(half->w.runs, run);
}

int
epd_half_sync(struct epd_half *half, struct epd_why *why)
{
	return epd_shard_sync(half->w.shard, why);
}

int
epd_half_commit(struct epd_half *half, const uint8_t id[16],
    struct epd_why *why)
{
	int rc = epd_shard_commit_at(half->w.shard, id, half->h.lsn, why);

	epd_shard_tell(half->w.shard, freed, half);
	return rc;
}

int
epd_half_rollback(struct epd_half *half, const uint8_t id[16],
    const char *reason, struct epd_why *why)
{
	int rc = epd_shard_rollback_at(half->w.shard, id, half->h.lsn, reason,
	    why);

	epd_shard_tell(half->w.shard, freed, half);
	return rc;
}

int
epd_half_forget(struct epd_half *half, const uint8_t id[16],
    struct epd_why *why)
{
	return epd_shard_forget_at(half->w.shard, id, half->h.lsn, why);
}

int
epd_half_prepare(struct epd_half *half, const struct epd_handoff *h,
    struct epd_why *why)
{
	return epd_shard_prepare(half->w.shard, h, why);
}

int
epd_half_status(struct epd_half *half, uint32_t state, enum epd_status *out,
    struct epd_why *why)
{
	struct epd_state st;
	int rc = epd_shard_state(half->w.shard, state, &st);

	(void)why;
	if (rc == 0)
		*out = st.status;
	return rc;
}

static int
was_committed(void *arg, const struct epd_record *r)
{
	return r->has_handoff && !memcmp(r->handoff, arg, 16) &&
	    !strcmp(r->kind, "commit");
}

int
epd_half_had(struct epd_half *half, const uint8_t id[16], struct epd_why *why)
{
	uint8_t mine[16];

	memcpy(mine, id, 16);
	return epd_shard_walk(half->w.shard, was_committed, mine, why);
}
