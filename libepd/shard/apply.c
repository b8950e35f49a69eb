/*
 * apply.c - records onto tables.  Each kind has a half that may fail and leaves
 * the table as it was, and a half that may not and changes it.
 *
 * A record moves a state only where life.h has an edge for it.
 */
#include "shard/apply.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "shard/life.h"

#define LLU(x) ((unsigned long long)(x))

const char *
epd_apply_str(struct epd_table *t, const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = epd_arena_add(&t->arena, n);

	return p ? memcpy(p, s, n) : NULL;
}

int
epd_apply_moved(const struct epd_table *t, uint32_t id, enum epd_kind verb,
    enum epd_state_life to, struct epd_head **out, struct epd_why *why)
{
	struct epd_head *h = epd_table_find(t, id);

	if (!h)
		return epd_why(why, EPD_ENOSTATE, "s%u: %s", id,
		    epd_strerror(EPD_ENOSTATE));
	if (!epd_life_state(epd_life_of(h->state.status), to, verb))
		return epd_why(why, EPD_ESTATUS, "s%u: no %s of what is %s",
		    id, epd_kind_name(verb),
		    epd_status_name(h->state.status));
	*out = h;
	return 0;
}

int
epd_apply_meant(const struct epd_table *t, uint32_t id, enum epd_kind verb,
    enum epd_state_life to, struct epd_head **out, struct epd_why *why)
{
	struct epd_head *h;
	int rc = epd_apply_moved(t, id, verb, to, &h, why);

	if (!rc && h->pinned)
		rc = epd_why(why, EPD_ESTATUS, "s%u: mid-hand-off, until that "
		    "is decided", id);
	if (!rc)
		*out = h;
	return rc;
}

static void
changed(struct epd_head *h, const struct epd_change *c)
{
	h->state.changed_ms = c->wall_ms;
	h->guessed = 0;
}

void
epd_apply_touch(struct epd_head *h, const struct epd_change *c)
{
	h->state.epoch = c->lsn;
	changed(h, c);
}

void
epd_apply_free(struct epd_table *t, const struct epd_change *c)
{
	struct epd_head *h = c->head, *alone = epd_table_leave(t, h);

	/* SHARED is printed from counts, and its epoch stays. */
	if (alone)
		changed(alone, c);
	for (uint32_t i = h->state.versions; i-- > 0; )
		epd_tree_drop(t->tree, h->v[i].node);
	epd_table_remove(t, h);
}

static int
prepare_release(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_release in;
	int rc = epd_release_unpack(r->payload, &in);

	return rc ? rc : epd_apply_meant(t, in.id, EPD_KIND_RELEASE,
	    EPD_STATE_FREE, &c->head, why);
}

static void
commit_release(struct epd_table *t, struct epd_change *c)
{
	epd_apply_free(t, c);
}

const struct epd_apply_verb epd_apply_release = {
	prepare_release, commit_release,
};

static int
prepare_term(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_term in;
	int rc = epd_term_unpack(r->payload, &in);

	if (rc)
		return rc;
	if (in.term <= t->term)
		return epd_why(why, EPD_ECORRUPT, "term %llu after term %llu",
		    LLU(in.term), LLU(t->term));
	c->term = in.term;
	if (*in.owner && !(c->owner = epd_apply_str(t, in.owner)))
		return -ENOMEM;
	return 0;
}

static void
commit_term(struct epd_table *t, struct epd_change *c)
{
	t->term = c->term;
	if (c->owner)
		t->owner = c->owner;
}

const struct epd_apply_verb epd_apply_term = { prepare_term, commit_term };

/* NULL: of no kind that this version has a verb for. */
static const struct epd_apply_verb *
verb_of(unsigned kind)
{
	switch (kind) {
	case EPD_KIND_CREATE: return &epd_apply_create;
	case EPD_KIND_ADVANCE: return &epd_apply_advance;
	case EPD_KIND_FORK: return &epd_apply_fork;
	case EPD_KIND_RELEASE: return &epd_apply_release;
	case EPD_KIND_LEASE: return &epd_apply_lease;
	case EPD_KIND_DROP: return &epd_apply_unlease;
	case EPD_KIND_WAIT: return &epd_apply_wait;
	case EPD_KIND_OFFLOAD:
	case EPD_KIND_RESTORE:
	case EPD_KIND_SUSPECT:
	case EPD_KIND_ABORT:
	case EPD_KIND_COMMIT: return &epd_apply_move;
	case EPD_KIND_PREPARE: return &epd_apply_offer;
	case EPD_KIND_READY: return &epd_apply_ready;
	case EPD_KIND_TERM: return &epd_apply_term;
	}
	return NULL;
}

static int
refuse_kind(const struct epd_rec *r, struct epd_why *why)
{
	const char *name = epd_kind_name(r->kind);

	if (r->flags && name)
		return epd_why(why, EPD_EKIND, "record %llu: %s with flags "
		    "%#x", LLU(r->lsn), name, r->flags);
	if (name)
		return epd_why(why, EPD_EKIND, "record kind %s: record %llu: "
		    "this version has no verb for it", name, LLU(r->lsn));
	return epd_why(why, EPD_EKIND, "record kind %u: record %llu: unknown",
	    r->kind, LLU(r->lsn));
}

int
epd_apply_prepare(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	const struct epd_apply_verb *verb = verb_of(r->kind);
	int rc;

	*c = (struct epd_change){
		.kind = r->kind, .lsn = r->lsn, .wall_ms = r->wall_ms,
		.mark = epd_arena_mark(&t->arena),
	};
	if (r->flags || !verb)
		return refuse_kind(r, why);
	rc = verb->prepare(t, r, c, why);
	if (rc)
		epd_apply_drop(t, c);
	return rc;
}

void
epd_apply_drop(struct epd_table *t, struct epd_change *c)
{
	if (c->body)
		t->pending--;
	if (c->kind == EPD_KIND_CREATE || c->kind == EPD_KIND_READY)
		epd_head_free(c->head);
	for (uint32_t i = 0; i < c->branches; i++)
		epd_head_free(c->branch[i]);
	epd_free(c->branch);
	epd_arena_back(&t->arena, c->mark);
}

void
epd_apply_commit(struct epd_table *t, struct epd_change *c)
{
	verb_of(c->kind)->commit(t, c);
	t->lsn = c->lsn;
}

int
epd_apply(struct epd_table *t, const struct epd_rec *r, struct epd_why *why)
{
	struct epd_change c;
	struct epd_why what = { "" };
	int rc;

	if (r->lsn <= t->lsn)
		return 0;
	if (r->lsn != t->lsn + 1 || r->term != t->term)
		return epd_why(why, EPD_ECORRUPT, "record %llu of term %llu "
		    "after record %llu of term %llu", LLU(r->lsn),
		    LLU(r->term), LLU(t->lsn), LLU(t->term));
	rc = epd_apply_prepare(t, r, &c, &what);
	if (!rc)
		epd_apply_commit(t, &c);
	else if (rc == EPD_EKIND)
		epd_why(why, rc, "%s", what.text);
	else if (rc != -ENOMEM)
		rc = epd_why(why, EPD_ECORRUPT, "record %llu: %s: %s",
		    LLU(r->lsn), epd_kind_name(r->kind),
		    *what.text ? what.text : epd_strerror(rc));
	return rc;
}
