/* handoff.c - the verbs of one half of a hand-off. */
#include <errno.h>
#include <string.h>

#include "shard/shard_in.h"

static int
too_long(const struct epd_handoff *h)
{
	return epd_shard_long(h->store) || epd_shard_long(h->workflow);
}

/* Whether begun again it is the same; the time it has may be another. */
static int
same_offer(const struct epd_handoff *a, const struct epd_handoff *b)
{
	return !a->target && a->state == b->state &&
	    a->version == b->version && !memcmp(a->peer, b->peer, 16) &&
	    !memcmp(a->home, b->home, 16) &&
	    !strcmp(a->store, b->store ? b->store : "") &&
	    !strcmp(a->workflow, b->workflow ? b->workflow : "");
}

static void
tell_log(struct epd_shard *s, const char *op, const uint8_t id[16])
{
	char hex[33];

	epd_hex_format(hex, id, 16);
	epd_log(s->o.log, "op=%s handoff=%s", op, hex);
}

int
epd_shard_prepare(struct epd_shard *s, const struct epd_handoff *h,
    struct epd_why *why)
{
	const struct epd_handoff *old;
	struct epd_handoff mine = *h;
	struct epd_head *head;
	int rc;

	if (too_long(h) || !epd_handoff_is(h->id))
		return epd_why(why, -EINVAL, "a hand-off without an id, or "
		    "with too long a name");
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	mine.target = 0;
	mine.phase = EPD_PREPARED;
	mine.peer_state = mine.peer_version = 0;
	mine.peer_lsn = 0;
	old = epd_table_handoff(s->table, h->id);
	if (old) {
		rc = same_offer(old, h) ? 0 : epd_why(why, EPD_ESTATUS,
		    "another hand-off has this id");
		goto out;
	}
	rc = epd_shard_find(s, h->state, &head);
	if (rc)
		epd_why(why, rc, "s%u: %s", h->state, epd_strerror(rc));
	else
		rc = epd_shard_free_to(s, h->state, why);
	if (rc)
		goto out;
	epd_shard_frame(s, h->state);
	epd_prepare_pack(&s->frame, &mine);
	rc = epd_shard_append(s, why);
out:
	rc = epd_shard_end(s, rc, why);
	if (!rc)
		tell_log(s, "prepare", h->id);
	return rc;
}

int
epd_shard_ready(struct epd_shard *s, const struct epd_handoff *h,
    const struct epd_state *traits, const struct epd_version *v,
    uint32_t *state, struct epd_why *why)
{
	const struct epd_handoff *old;
	struct epd_handoff mine = *h;
	int rc;

	if (!epd_handoff_is(h->id))
		return epd_why(why, -EINVAL, "a hand-off without an id");
	if (too_long(h) || epd_body_size(v) > EPD_FRAME_MAX / 2 ||
	    epd_shard_long(traits->model_path) ||
	    epd_shard_long(traits->tenant) ||
	    epd_shard_long(traits->fingerprint))
		return epd_why(why, EPD_ETOOBIG, "a hand-off larger than a "
		    "record may be");
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	old = epd_table_handoff(s->table, h->id);
	if (old) {
		rc = old->target ? 0 : epd_why(why, EPD_ESTATUS,
		    "this workflow is the source of that hand-off");
		mine.state = old->state;
		rc = epd_shard_end(s, rc, why);
		if (!rc)
			*state = mine.state;
		return rc;
	}
	epd_shard_frame(s, 0);
	mine.target = 1;
	mine.phase = EPD_READY;
	mine.state = s->table->next_state;
	mine.version = 1;
	epd_ready_pack(&s->frame, &mine, mine.state, traits, v);
	rc = epd_shard_end(s, epd_shard_append(s, why), why);
	if (rc)
		return rc;
	*state = mine.state;
	epd_count(s->o.metrics, EPD_M_STATES_CREATED, 1);
	tell_log(s, "ready", h->id);
	return 0;
}

/* A half that was begun again since it was looked at. */
static int
is_other(const struct epd_handoff *h, uint64_t lsn, struct epd_why *why)
{
	return h && lsn && h->lsn != lsn ? epd_why(why, EPD_EABORTED,
	    "this hand-off was begun again meanwhile") : 0;
}

/* Is there anything left to decide?  1, or 0, or why it may not be. */
static int
undecided(const struct epd_handoff *h, enum epd_kind verb, struct epd_why *why)
{
	if (h && (h->phase == EPD_PREPARED || h->phase == EPD_READY))
		return 1;
	/* A half that is not there was rolled back. */
	if (!h == (verb == EPD_KIND_ABORT))
		return 0;
	return epd_why(why, EPD_EABORTED, h ? "this hand-off was committed" :
	    "no such hand-off: it was rolled back, or never begun");
}

static int
decide(struct epd_shard *s, const uint8_t id[16], uint64_t lsn,
    enum epd_kind verb, int adopted, const char *reason, struct epd_why *why)
{
	const struct epd_handoff *h;
	struct epd_move m = { .adopted = (uint32_t)adopted, .reason = reason };
	struct epd_term t = { .reason = reason };
	int rc;

	if (epd_shard_long(reason))
		return epd_why(why, EPD_ETOOBIG, "a reason of more than %d "
		    "bytes", EPD_STRING_MAX - 1);
	rc = epd_shard_begin(s, why);
	if (rc)
		return rc;
	h = epd_table_handoff(s->table, id);
	rc = is_other(h, lsn, why);
	if (!rc)
		rc = undecided(h, verb, why);
	if (rc > 0 && adopted && !h->target)
		rc = epd_why(why, EPD_ESTATUS, "only a target adopts");
	if (rc > 0) {
		epd_shard_frame(s, h->state);
		memcpy(m.handoff, id, 16);
		m.id = h->state;
		m.to = !h->target == (verb == EPD_KIND_COMMIT) ? EPD_FREE :
		    EPD_ACTIVE;
		epd_move_pack(&s->frame, verb, &m);
		t.term = s->table->term + 1;
		if (adopted)
			epd_term_pack(&s->frame, &t);
		rc = epd_shard_append(s, why);
	}
	rc = epd_shard_end(s, rc, why);
	if (rc)
		return rc;
	epd_count(s->o.metrics, EPD_M_STATES_RELEASED, m.to == EPD_FREE);
	tell_log(s, epd_kind_name(verb), id);
	return 0;
}

int
epd_shard_commit_at(struct epd_shard *s, const uint8_t id[16], uint64_t lsn,
    struct epd_why *why)
{
	return decide(s, id, lsn, EPD_KIND_COMMIT, 0, "", why);
}

int
epd_shard_rollback_at(struct epd_shard *s, const uint8_t id[16], uint64_t lsn,
    const char *reason, struct epd_why *why)
{
	return decide(s, id, lsn, EPD_KIND_ABORT, 0, reason, why);
}

int
epd_shard_adopt(struct epd_shard *s, const uint8_t id[16], const char *reason,
    struct epd_why *why)
{
	return decide(s, id, 0, EPD_KIND_COMMIT, 1, reason, why);
}

int
epd_shard_forget_at(struct epd_shard *s, const uint8_t id[16], uint64_t lsn,
    struct epd_why *why)
{
	const struct epd_handoff *h;
	struct epd_drop d = { .reason = "both halves are decided" };
	int rc = epd_shard_begin(s, why);

	if (rc)
		return rc;
	h = epd_table_handoff(s->table, id);
	rc = is_other(h, lsn, why);
	if (!rc && h) {
		memcpy(d.handoff, id, 16);
		epd_shard_frame(s, 0);
		epd_drop_pack(&s->frame, &d);
		rc = epd_shard_append(s, why);
	}
	rc = epd_shard_end(s, rc, why);
	if (!rc)
		tell_log(s, "forget", id);
	return rc;
}

int
epd_shard_handoff(struct epd_shard *s, const uint8_t id[16],
    struct epd_handoff *out)
{
	const struct epd_handoff *h = epd_table_handoff(s->table, id);

	if (!h)
		return -ENOENT;
	*out = *h;
	return 0;
}

int
epd_shard_handoff_next(struct epd_shard *s, uint64_t lsn,
    struct epd_handoff *out)
{
	for (size_t i = 0; i < s->table->nhandoffs; i++)
		if (s->table->handoff[i].lsn > lsn) {
			*out = s->table->handoff[i];
			return 0;
		}
	return -ENOENT;
}
