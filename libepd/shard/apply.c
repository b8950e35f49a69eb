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

static const char *
keep_str(struct epd_arena *a, const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = epd_arena_add(a, n);

	return p ? memcpy(p, s, n) : NULL;
}

/* Copy a body into the arena, if it is one that can stand behind start tokens. */
static int
keep_body(struct epd_table *t, const struct epd_rec *r, struct epd_span body,
    const struct epd_state *s, uint64_t start, struct epd_change *c,
    struct epd_why *why)
{
	struct epd_body *b;
	struct epd_glance g;
	int rc;

	rc = epd_body_check(body, s->page_tokens, start, &g, why);
	if (rc)
		return rc;
	b = epd_arena_add(&t->arena, sizeof *b + body.n);
	if (!b)
		return -ENOMEM;
	*b = (struct epd_body){
		.p = memcpy(b + 1, body.p, body.n), .n = (uint32_t)body.n,
		.run = g.run, .wall_ms = r->wall_ms,
	};
	c->body = b;
	c->tokens = g.nids;
	rc = epd_tree_reserve(t->tree, t->pending + 1);
	if (!rc)
		t->pending++;
	else
		c->body = NULL;
	return rc;
}

static int
prepare_create(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_create in;
	struct epd_state *s;
	int rc;

	rc = epd_create_unpack(r->payload, &in);
	if (rc)
		return rc;
	if (in.id != t->next_state || in.id == UINT32_MAX)
		return epd_why(why, EPD_ECORRUPT, "state s%u where s%u is next",
		    in.id, t->next_state);
	if (!epd_life_state(EPD_STATE_NONE, EPD_STATE_ACTIVE, EPD_KIND_CREATE))
		return EPD_ESTATUS;
	rc = epd_head_new(&c->head, 1);
	if (!rc)
		rc = epd_table_reserve(t, t->pending + 1);
	if (rc)
		return rc;
	s = &c->head->state;
	*s = in.state;
	s->id = in.id;
	s->status = EPD_ACTIVE;
	s->created_ms = r->wall_ms;
	s->model_path = keep_str(&t->arena, s->model_path);
	s->tenant = keep_str(&t->arena, s->tenant);
	s->fingerprint = keep_str(&t->arena, s->fingerprint);
	if (!s->model_path || !s->tenant || !s->fingerprint)
		return -ENOMEM;
	return keep_body(t, r, in.body, s, 0, c, why);
}

/* The state, if the verb may be done to it. */
static int
meant(const struct epd_table *t, uint32_t id, enum epd_kind verb,
    enum epd_state_life to, struct epd_head **out, struct epd_why *why)
{
	struct epd_head *h = epd_table_find(t, id);

	if (!h)
		return epd_why(why, EPD_ENOSTATE, "s%u: %s", id,
		    epd_strerror(EPD_ENOSTATE));
	if (!epd_life_state(epd_life_of(h->state.status), to, verb))
		return epd_why(why, EPD_ESTATUS, "s%u: %s, which %s may not "
		    "leave", id, epd_status_name(h->state.status),
		    epd_kind_name(verb));
	*out = h;
	return 0;
}

static int
prepare_advance(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	const struct epd_node *n;
	struct epd_advance in;
	struct epd_head *h;
	int rc;

	rc = epd_advance_unpack(r->payload, &in);
	if (!rc)
		rc = meant(t, in.id, EPD_KIND_ADVANCE, EPD_STATE_ACTIVE, &h,
		    why);
	if (rc)
		return rc;
	if (in.expect != h->state.versions)
		return epd_why(why, EPD_EVERSION, "s%u: is at @%u, not @%u",
		    in.id, h->state.versions, in.expect);
	rc = epd_head_reserve(h, 1);
	if (rc)
		return rc;
	c->head = h;
	c->key = in.key;
	c->parent = h->v[h->state.versions - 1].node;
	n = epd_tree_get(t->tree, c->parent);
	return keep_body(t, r, in.body, &h->state, n->start + n->tokens, c, why);
}

static int
prepare_release(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_release in;
	int rc = epd_release_unpack(r->payload, &in);

	return rc ? rc : meant(t, in.id, EPD_KIND_RELEASE, EPD_STATE_FREE,
	    &c->head, why);
}

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
	return 0;
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
	int rc;

	*c = (struct epd_change){
		.kind = r->kind, .lsn = r->lsn, .wall_ms = r->wall_ms,
		.mark = epd_arena_mark(&t->arena),
	};
	if (r->flags)
		return refuse_kind(r, why);
	switch (r->kind) {
	case EPD_KIND_CREATE:
		rc = prepare_create(t, r, c, why);
		break;
	case EPD_KIND_ADVANCE:
		rc = prepare_advance(t, r, c, why);
		break;
	case EPD_KIND_RELEASE:
		rc = prepare_release(t, r, c, why);
		break;
	case EPD_KIND_TERM:
		rc = prepare_term(t, r, c, why);
		break;
	default:
		return refuse_kind(r, why);
	}
	if (rc)
		epd_apply_drop(t, c);
	return rc;
}

void
epd_apply_drop(struct epd_table *t, const struct epd_change *c)
{
	if (c->body)
		t->pending--;
	if (c->kind == EPD_KIND_CREATE)
		epd_head_free(c->head);
	epd_arena_back(&t->arena, c->mark);
}

/* The new node, and the version of the head that holds it. */
static void
commit_version(struct epd_table *t, const struct epd_change *c)
{
	struct epd_state *s = &c->head->state;

	epd_tree_add(t->tree, c->lsn, c->parent, c->tokens, c->body);
	epd_tree_hold(t->tree, c->lsn);
	t->pending--;
	c->head->v[s->versions++] = (struct epd_head_version){ c->lsn, c->key };
	s->epoch = c->lsn;
}

void
epd_apply_commit(struct epd_table *t, const struct epd_change *c)
{
	switch (c->kind) {
	case EPD_KIND_CREATE:
		epd_table_add(t, c->head);
		t->next_state = c->head->state.id + 1;
		commit_version(t, c);
		break;
	case EPD_KIND_ADVANCE:
		commit_version(t, c);
		break;
	case EPD_KIND_RELEASE:
		for (uint32_t i = c->head->state.versions; i-- > 0; )
			epd_tree_drop(t->tree, c->head->v[i].node);
		epd_table_remove(t, c->head);
		break;
	case EPD_KIND_TERM:
		t->term = c->term;
		break;
	default:
		break;
	}
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
