/*
 * half.c - reaching a half, and its verbs: of one whose log is open here, the
 * shard's; of one at a peer's, questions that its server answers by the same
 * functions (answer.c).
 *
 * A half in the same store as the other one is recorded there without a path,
 * so that the store may be moved meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "flow/half.h"
#include "flow/node.h"
#include "flow/tiers.h"

void
epd_half_place(struct epd_half *half, const char *store, const char *workflow)
{
	snprintf(half->store, sizeof half->store, "%s", store);
	snprintf(half->workflow, sizeof half->workflow, "%s", workflow);
	half->w = (struct epd_workflow){ .dirfd = -1, .runs = -1 };
}

int
epd_half_is_away(const struct epd_half *half)
{
	return !strncmp(half->store, EPD_AWAY, strlen(EPD_AWAY));
}

/* ---- at a peer's ---- */

static void
fill_ask(const struct epd_half *half, const uint8_t id[16],
    struct epd_half_ask *a)
{
	*a = (struct epd_half_ask){ .lsn = half->h.lsn };
	memcpy(a->workflow, half->workflow, sizeof a->workflow);
	memcpy(a->uuid, half->uuid, sizeof a->uuid);
	if (id)
		memcpy(a->id, id, sizeof a->id);
}

/* One question about it; *a is the answer, if it is wanted. */
static int
ask(struct epd_half *half, enum epd_ask verb, struct epd_half_ask *a,
    int answers, struct epd_why *why)
{
	struct epd_buf b = {0}, answer = {0};
	struct epd_cur c;
	int rc;

	epd_half_ask_pack(&b, a);
	rc = b.failed ? -ENOMEM : epd_node_ask(half->node, verb,
	    epd_span(b.p, b.n), &answer, half->end_ns, why);
	if (rc == 0 && answers) {
		c = epd_cur(epd_span(answer.p, answer.n));
		rc = epd_half_ask_unpack(&c, a);
	}
	epd_buf_free(&b);
	epd_buf_free(&answer);
	return rc == EPD_EFORMAT ? epd_why(why, EPD_EPEER, "%s does not answer "
	    "as a store does", half->store) : rc;
}

static int
reach_node(struct epd_half *half, struct epd_store *near)
{
	struct epd_half_ask a;
	uint64_t end;
	int rc;

	if (!near->transports)
		return epd_why(&half->why, EPD_EUNSUPPORTED, "this command "
		    "reaches no other machine: epd-handoff does");
	end = epd_clock_boot_ns() + EPD_REACH_NS;
	if (half->end_ns && half->end_ns < end)
		end = half->end_ns;
	rc = epd_node_open(&half->node, near, half->store, end, &half->why);
	if (rc < 0)
		return rc;
	if (memcmp(half->home, epd_node_facts(half->node)->uuid, 16))
		rc = epd_why(&half->why, EPD_EPEER, "another store is there "
		    "now");
	fill_ask(half, NULL, &a);
	if (rc == 0) {
		rc = ask(half, EPD_ASK_REACH, &a, 0, &half->why);
		half->absent = rc == EPD_ENOTHING;
	}
	if (rc < 0) {
		epd_node_close(half->node);
		half->node = NULL;
	}
	return rc;
}

/* ---- here ---- */

static int
open_store(struct epd_half *half, struct epd_store *near, int look)
{
	const struct epd_store_options o = {
		.path = half->store, .config = &near->config,
		.tenant = near->tenant, .log = near->log, .look = look,
		.transports = near->transports, .codecs = near->codecs,
		.listener = near->listener,
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
	int rc;

	if (epd_node_is_address(half->store)) {
		half->gone = reach_node(half, near);
		return;
	}
	if (epd_half_is_away(half)) {
		half->gone = epd_why(&half->why, EPD_EPEER, "it has no address; "
		    "from there epd-handoff --at reaches here");
		return;
	}
	rc = open_store(half, near, look);
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
	epd_node_close(half->node);
	half->node = NULL;
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

static int
look_there(struct epd_half *half, const uint8_t id[16], struct epd_why *why)
{
	struct epd_half_ask a;
	int rc;

	fill_ask(half, id, &a);
	if ((rc = ask(half, EPD_ASK_LOOK, &a, 1, why)) < 0)
		return rc;
	half->h = a.h;
	half->h.store = half->h.workflow = NULL;
	half->expired = a.expired;
	return 0;
}

/* A verb of the half's; version and reason where it has them. */
static int
tell(struct epd_half *half, enum epd_ask verb, const uint8_t id[16],
    const char *reason, struct epd_why *why)
{
	struct epd_half_ask a;

	fill_ask(half, id, &a);
	snprintf(a.reason, sizeof a.reason, "%.255s", reason);
	return ask(half, verb, &a, 0, why);
}

int
epd_half_look(struct epd_half *half, const uint8_t id[16], struct epd_why *why)
{
	int rc;

	half->h = (struct epd_handoff){0};
	half->expired = 0;
	if (half->node)
		return look_there(half, id, why);
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

	epd_workflow_drop(&half->w, run);
}

int
epd_half_unmake(struct epd_half *half)
{
	return tell(half, EPD_ASK_UNMAKE, half->uuid, "", NULL);
}

int
epd_half_sync(struct epd_half *half, struct epd_why *why)
{
	static const uint8_t none[16];

	return half->node ? tell(half, EPD_ASK_SYNC, none, "", why) :
	    epd_shard_sync(half->w.shard, why);
}

int
epd_half_commit(struct epd_half *half, const uint8_t id[16],
    struct epd_why *why)
{
	int rc;

	if (half->node)
		return tell(half, EPD_ASK_COMMIT, id, "", why);
	rc = epd_shard_commit_at(half->w.shard, id, half->h.lsn, why);
	epd_shard_tell(half->w.shard, freed, half);
	return rc;
}

int
epd_half_rollback(struct epd_half *half, const uint8_t id[16],
    const char *reason, struct epd_why *why)
{
	int rc;

	if (half->node)
		return tell(half, EPD_ASK_ROLLBACK, id, reason, why);
	rc = epd_shard_rollback_at(half->w.shard, id, half->h.lsn, reason, why);
	epd_shard_tell(half->w.shard, freed, half);
	return rc;
}

int
epd_half_forget(struct epd_half *half, const uint8_t id[16],
    struct epd_why *why)
{
	return half->node ? tell(half, EPD_ASK_FORGET, id, "", why) :
	    epd_shard_forget_at(half->w.shard, id, half->h.lsn, why);
}

int
epd_half_prepare(struct epd_half *half, const struct epd_handoff *h,
    struct epd_why *why)
{
	const struct epd_config *config;
	struct epd_half_ask a;

	if (!half->node)
		return epd_shard_prepare(half->w.shard, h, why);
	config = &epd_node_here(half->node)->config;
	fill_ask(half, h->id, &a);
	a.h = *h;
	/* How we may be reached, if at all: our path means nothing there. */
	snprintf(a.store, sizeof a.store, "%s", *config->transfer_address ?
	    config->transfer_address : EPD_AWAY);
	snprintf(a.peer, sizeof a.peer, "%s", h->workflow);
	return ask(half, EPD_ASK_PREPARE, &a, 0, why);
}

int
epd_half_status(struct epd_half *half, uint32_t state, enum epd_status *out,
    struct epd_why *why)
{
	struct epd_half_ask a;
	struct epd_state st;
	int rc;

	if (half->node) {
		fill_ask(half, NULL, &a);
		a.state = state;
		rc = ask(half, EPD_ASK_STATUS, &a, 1, why);
		st.status = (enum epd_status)a.status;
	} else {
		rc = epd_shard_state(half->w.shard, state, &st);
	}
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
	struct epd_half_ask a;
	uint8_t mine[16];
	int rc;

	if (half->node) {
		fill_ask(half, id, &a);
		rc = ask(half, EPD_ASK_HAD, &a, 1, why);
		return rc < 0 ? rc : a.had != 0;
	}
	memcpy(mine, id, 16);
	return epd_shard_walk(half->w.shard, was_committed, mine, why);
}
