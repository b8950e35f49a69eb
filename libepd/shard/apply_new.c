/*
 * apply_new.c - records that begin states and versions.
 *
 * A fork holds the parent's node once for each branch and copies nothing that
 * grows with the context: strings of the parent's traits are shared.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "shard/apply.h"
#include "shard/life.h"

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
		.run = g.run, .nlinks = g.nlinks, .wall_ms = r->wall_ms,
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

/* The new node, and the version of the head that holds it. */
static void
commit_version(struct epd_table *t, const struct epd_change *c)
{
	struct epd_state *s = &c->head->state;

	epd_tree_add(t->tree, c->lsn, c->parent, c->tokens, c->body);
	epd_tree_hold(t->tree, c->lsn);
	t->pending--;
	c->head->v[s->versions++] = (struct epd_head_version){ c->lsn, c->key };
	/* What it waited for came, or it went on without. */
	s->tool = s->tier = "";
	s->wait_deadline_ms = 0;
	epd_apply_touch(c->head, c);
}

/* ---- create, and the state that ready brings ---- */

static int
begin_state(struct epd_table *t, const struct epd_rec *r,
    const struct epd_create *in, enum epd_status status, struct epd_change *c,
    struct epd_why *why)
{
	/* Of a frame that begins several those before are pending. */
	const uint64_t next = t->next_state + (uint64_t)t->pending;
	struct epd_state *s;
	int rc;

	if (in->id != next || in->id == UINT32_MAX)
		return epd_why(why, EPD_ECORRUPT, "state s%u where s%llu is "
		    "next", in->id, (unsigned long long)next);
	if (!epd_life_state(EPD_STATE_NONE, epd_life_of(status), c->kind))
		return EPD_ESTATUS;
	rc = epd_head_new(&c->head, 1);
	if (!rc)
		rc = epd_table_reserve(t, t->pending + 1);
	if (rc)
		return rc;
	s = &c->head->state;
	*s = in->state;
	s->id = in->id;
	s->status = status;
	s->created_ms = r->wall_ms;
	s->model_path = epd_apply_str(t, s->model_path);
	s->tenant = epd_apply_str(t, s->tenant);
	s->fingerprint = epd_apply_str(t, s->fingerprint);
	if (!s->model_path || !s->tenant || !s->fingerprint)
		return -ENOMEM;
	return keep_body(t, r, in->body, s, 0, c, why);
}

static int
prepare_create(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_create in;
	int rc = epd_create_unpack(r->payload, &in);

	return rc ? rc : begin_state(t, r, &in, EPD_ACTIVE, c, why);
}

static void
commit_create(struct epd_table *t, struct epd_change *c)
{
	epd_table_add(t, c->head);
	t->next_state = c->head->state.id + 1;
	commit_version(t, c);
	epd_table_join(t, c->head);
}

const struct epd_apply_verb epd_apply_create = {
	prepare_create, commit_create,
};

static int
prepare_ready(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_handoff *h = &c->handoff;
	struct epd_create in;
	int rc = epd_ready_unpack(r->payload, h, &in);

	if (!rc && epd_table_handoff(t, h->id))
		return epd_why(why, EPD_ESTATUS, "this hand-off was begun "
		    "before");
	if (!rc)
		rc = epd_table_reserve_handoff(t);
	if (rc)
		return rc;
	h->lsn = r->lsn;
	h->store = epd_apply_str(t, h->store);
	h->workflow = epd_apply_str(t, h->workflow);
	if (!h->store || !h->workflow)
		return -ENOMEM;
	rc = begin_state(t, r, &in, EPD_RESTORING, c, why);
	/* Nothing but the decision moves it. */
	if (!rc)
		c->head->pinned = 1;
	return rc;
}

static void
commit_ready(struct epd_table *t, struct epd_change *c)
{
	commit_create(t, c);
	t->handoff[t->nhandoffs++] = c->handoff;
}

const struct epd_apply_verb epd_apply_ready = { prepare_ready, commit_ready };

/* ---- advance ---- */

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
		rc = epd_apply_meant(t, in.id, EPD_KIND_ADVANCE,
		    EPD_STATE_ACTIVE, &h, why);
	if (rc)
		return rc;
	if (in.expect != h->state.versions)
		return epd_why(why, EPD_EVERSION, "s%u: it is at @%u, not @%u",
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

static void
commit_advance(struct epd_table *t, struct epd_change *c)
{
	commit_version(t, c);
}

const struct epd_apply_verb epd_apply_advance = {
	prepare_advance, commit_advance,
};

/* ---- fork ---- */

/* What of a fork's numbers can be told before anything is made. */
static int
check_fork(const struct epd_table *t, const struct epd_fork *in,
    const struct epd_head *h, struct epd_why *why)
{
	const struct epd_node *n;

	if (!in->version || in->version > h->state.versions)
		return epd_why(why, EPD_ENOTHING, "s%u: it has no version @%u",
		    in->id, in->version);
	if (!in->count || in->count > EPD_FORK_MAX)
		return epd_why(why, -EINVAL, "%u branches; 1 to %d", in->count,
		    EPD_FORK_MAX);
	if (in->first != t->next_state || UINT32_MAX - in->first < in->count)
		return epd_why(why, EPD_ECORRUPT, "state s%u where s%u is next",
		    in->first, t->next_state);
	n = epd_tree_get(t->tree, h->v[in->version - 1].node);
	if (UINT32_MAX - n->heads < in->count)
		return epd_why(why, -EOVERFLOW, "s%u@%u: %u states stand on it",
		    in->id, in->version, n->heads);
	return epd_life_state(EPD_STATE_NONE, EPD_STATE_SHARED,
	    EPD_KIND_FORK) ? 0 : EPD_ESTATUS;
}

static int
make_branch(const struct epd_rec *r, const struct epd_fork *in, uint32_t i,
    const struct epd_head *parent, struct epd_head **out)
{
	struct epd_head *h;
	int rc = epd_head_new(&h, 1);

	if (rc)
		return rc;
	h->state = parent->state;
	h->state.id = in->first + i;
	h->state.versions = 1;
	h->state.status = EPD_ACTIVE;
	h->state.tool = h->state.tier = "";
	h->state.wait_deadline_ms = 0;
	h->state.epoch = r->lsn;
	h->state.created_ms = h->state.changed_ms = r->wall_ms;
	h->state.parent_state = in->id;
	h->state.parent_version = in->version;
	h->state.ttl_deadline_ms = in->ttl_deadline_ms;
	h->salt = in->salts[i];
	h->v[0] = (struct epd_head_version){
		.node = parent->v[in->version - 1].node,
	};
	*out = h;
	return 0;
}

static int
prepare_fork(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why)
{
	struct epd_fork in;
	int rc = epd_fork_unpack(r->payload, &t->arena, &in);

	if (!rc)
		rc = epd_apply_meant(t, in.id, EPD_KIND_FORK, in.replace ?
		    EPD_STATE_FREE : EPD_STATE_SHARED, &c->head, why);
	if (!rc)
		rc = check_fork(t, &in, c->head, why);
	if (!rc)
		rc = epd_table_reserve(t, t->pending + in.count);
	if (!rc && !(c->branch = epd_calloc(in.count, sizeof *c->branch)))
		rc = -ENOMEM;
	for (uint32_t i = 0; !rc && i < in.count; i++) {
		rc = make_branch(r, &in, i, c->head, &c->branch[i]);
		c->branches += !rc;
	}
	c->replace = in.replace != 0;
	/* The salts are in the heads. */
	epd_arena_back(&t->arena, c->mark);
	return rc;
}

static void
commit_fork(struct epd_table *t, struct epd_change *c)
{
	for (uint32_t i = 0; i < c->branches; i++) {
		epd_tree_hold(t->tree, c->branch[i]->v[0].node);
		epd_table_add(t, c->branch[i]);
		epd_table_join(t, c->branch[i]);
	}
	t->next_state += c->branches;
	epd_apply_touch(c->head, c);
	if (c->replace)
		epd_apply_free(t, c);
	epd_free(c->branch);
	c->branch = NULL;
	c->branches = 0;
}

const struct epd_apply_verb epd_apply_fork = { prepare_fork, commit_fork };
