/*
 * walk.c - the log's records as they lie, by a reader of its own, and a body
 * looked up there when the checkpoint's copy is damaged.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "shard/shard_in.h"

int
epd_shard_reader(struct epd_shard *s, struct epd_wal **out, uint32_t *first,
    struct epd_why *why)
{
	struct epd_wal *w;
	uint32_t last;
	int rc;

	rc = epd_wal_range(s->dirfd, first, &last);
	if (!rc)
		rc = epd_wal_open(&w, s->dirfd, EPD_WAL_READ, NULL);
	if (rc)
		return rc;
	rc = epd_wal_seek(w, *first, *first == 1 ? 0 : EPD_WAL_ANY, why);
	if (rc)
		epd_wal_close(w);
	else
		*out = w;
	return rc;
}

struct walk {
	int (*fn)(void *arg, const struct epd_record *r);
	void *arg;
	uint64_t last;			/* lsn told so far */
};

static int
describe_begin(const struct epd_create *in, struct epd_record *out)
{
	struct epd_glance g = { 0 };
	int rc = epd_body_glance(in->body, &g);

	out->state = in->id;
	out->version = 1;
	out->tokens = g.nids;
	out->pages = g.npages;
	return rc;
}

static int
describe_advance(const struct epd_rec *r, struct epd_record *out)
{
	struct epd_glance g = { 0 };
	struct epd_advance in;
	int rc = epd_advance_unpack(r->payload, &in);

	if (!rc)
		rc = epd_body_glance(in.body, &g);
	if (rc)
		return rc;
	out->state = in.id;
	out->version = in.expect + 1;
	out->tokens = g.nids;
	out->pages = g.npages;
	return 0;
}

static int
describe_fork(const struct epd_rec *r, struct epd_arena *a,
    struct epd_record *out)
{
	struct epd_fork in;
	int rc = epd_fork_unpack(r->payload, a, &in);

	if (rc)
		return rc;
	out->state = in.id;
	out->version = in.version;
	out->first = in.first;
	out->count = in.count;
	out->replaced = in.replace != 0;
	out->reason = in.reason;
	return 0;
}

static int
describe_lease(const struct epd_rec *r, struct epd_record *out)
{
	struct epd_lease in;
	int rc = epd_lease_unpack(r->payload, &in);

	if (rc)
		return rc;
	out->state = in.state;
	out->version = in.version;
	out->lease = in.id ? in.id : r->lsn;
	out->reason = epd_lease_name(in.kind);
	return 0;
}

static int
describe_drop(const struct epd_rec *r, struct epd_record *out)
{
	struct epd_drop in;
	int rc = epd_drop_unpack(r->payload, &in);

	if (rc)
		return rc;
	out->lease = in.lease;
	out->has_handoff = !in.lease;
	memcpy(out->handoff, in.handoff, 16);
	out->reason = in.reason;
	return 0;
}

static void
describe_half(const struct epd_handoff *h, struct epd_record *out)
{
	out->state = h->state;
	out->version = h->version;
	out->has_handoff = 1;
	memcpy(out->handoff, h->id, 16);
}

static void
describe_move(const struct epd_move *m, unsigned kind, struct epd_record *out)
{
	out->state = m->id;
	out->has_handoff = epd_handoff_is(m->handoff);
	memcpy(out->handoff, m->handoff, 16);
	out->reason = m->reason;
	out->tier = m->tier;
	if (kind == EPD_KIND_OFFLOAD || kind == EPD_KIND_RESTORE)
		out->status = epd_status_name(m->to);
}

static int
describe_wait(const struct epd_rec *r, struct epd_record *out)
{
	struct epd_wait in;
	int rc = epd_wait_unpack(r->payload, &in);

	if (rc)
		return rc;
	out->state = in.id;
	out->tool = in.tool;
	out->reason = in.reason;
	return 0;
}

/* Fill in what the kind tells; others are told by name alone. */
static int
describe(const struct epd_rec *r, struct epd_arena *a, struct epd_record *out)
{
	struct epd_create create;
	struct epd_release release;
	struct epd_handoff half;
	struct epd_move m;
	struct epd_term term;
	int rc = 0;

	switch (r->kind) {
	case EPD_KIND_CREATE:
		rc = epd_create_unpack(r->payload, &create);
		return rc ? rc : describe_begin(&create, out);
	case EPD_KIND_READY:
		rc = epd_ready_unpack(r->payload, &half, &create);
		if (rc)
			return rc;
		describe_half(&half, out);
		return describe_begin(&create, out);
	case EPD_KIND_ADVANCE:
		return describe_advance(r, out);
	case EPD_KIND_FORK:
		return describe_fork(r, a, out);
	case EPD_KIND_RELEASE:
		rc = epd_release_unpack(r->payload, &release);
		out->state = rc ? 0 : release.id;
		out->reason = rc ? "" : release.reason;
		return rc;
	case EPD_KIND_LEASE:
		return describe_lease(r, out);
	case EPD_KIND_DROP:
		return describe_drop(r, out);
	case EPD_KIND_PREPARE:
		rc = epd_prepare_unpack(r->payload, &half);
		if (!rc)
			describe_half(&half, out);
		return rc;
	case EPD_KIND_WAIT:
		return describe_wait(r, out);
	case EPD_KIND_OFFLOAD:
	case EPD_KIND_RESTORE:
	case EPD_KIND_SUSPECT:
	case EPD_KIND_ABORT:
	case EPD_KIND_COMMIT:
		rc = epd_move_unpack(r->payload, r->kind, &m);
		if (!rc)
			describe_move(&m, r->kind, out);
		return rc;
	case EPD_KIND_TERM:
		rc = epd_term_unpack(r->payload, &term);
		out->reason = rc ? "" : term.reason;
		out->owner = rc ? "" : term.owner;
		return rc;
	}
	return 0;
}

static int
walk_one(void *arg, const struct epd_rec *r, struct epd_why *why)
{
	struct epd_arena a = { NULL };
	struct walk *w = arg;
	struct epd_record out = {
		.lsn = r->lsn, .term = r->term, .wall_ms = r->wall_ms,
		.kind = epd_kind_name(r->kind), .reason = "",
		.tier = "", .tool = "", .status = "", .owner = "",
		.bytes = EPD_RECORD_HEAD + r->payload.n,
	};
	int rc;

	if (r->lsn <= w->last)
		return 0;
	w->last = r->lsn;
	if (!out.kind)
		out.kind = "?";
	rc = describe(r, &a, &out);
	if (rc)
		epd_why(why, rc, "record %llu: %s: %s",
		    (unsigned long long)r->lsn, out.kind, epd_strerror(rc));
	else
		rc = w->fn(w->arg, &out);
	epd_arena_free(&a);
	return rc;
}

struct epd_follow {
	struct epd_shard *s;
	struct epd_wal *w;		/* NULL: stands nowhere */
	struct walk walk;
};

int
epd_follow_open(struct epd_follow **out, struct epd_shard *s)
{
	struct epd_follow *f = epd_calloc(1, sizeof *f);

	if (!f)
		return -ENOMEM;
	f->s = s;
	*out = f;
	return 0;
}

int
epd_follow_on(struct epd_follow *f,
    int (*fn)(void *arg, const struct epd_record *r), void *arg,
    struct epd_why *why)
{
	uint32_t first;
	int rc = 0;

	f->walk.fn = fn;
	f->walk.arg = arg;
	/* Segments may go meanwhile: then from what is kept now. */
	for (int i = 0; i < EPD_SHARD_TRIES; i++) {
		if (!f->w)
			rc = epd_shard_reader(f->s, &f->w, &first, why);
		if (!rc)
			rc = epd_wal_read(f->w, walk_one, &f->walk, why);
		if (!rc)
			break;
		/* Where a reader that stopped stands nobody knows. */
		epd_wal_close(f->w);
		f->w = NULL;
		if (rc != -ESTALE && rc != -ENOENT)
			break;
	}
	return rc;
}

void
epd_follow_close(struct epd_follow *f)
{
	if (!f)
		return;
	epd_wal_close(f->w);
	epd_free(f);
}

int
epd_shard_walk(struct epd_shard *s,
    int (*fn)(void *arg, const struct epd_record *r), void *arg,
    struct epd_why *why)
{
	struct epd_follow f = { .s = s };
	int rc = epd_follow_on(&f, fn, arg, why);

	epd_wal_close(f.w);
	return rc;
}

enum { FOUND = 1 };

struct lookup {
	struct epd_shard *s;
	const struct epd_node *n;
};

/* Stops with FOUND once the node's body is in the arena. */
static int
look(void *arg, const struct epd_rec *r, struct epd_why *why)
{
	struct lookup *l = arg;
	struct epd_body *b = l->n->body;
	struct epd_create create;
	struct epd_advance advance;
	struct epd_handoff half;
	struct epd_span body;
	uint8_t *p;

	(void)why;
	if (r->lsn != l->n->id)
		return 0;
	if ((r->kind == EPD_KIND_CREATE &&
	    !epd_create_unpack(r->payload, &create)) ||
	    (r->kind == EPD_KIND_READY &&
	    !epd_ready_unpack(r->payload, &half, &create)))
		body = create.body;
	else if (r->kind == EPD_KIND_ADVANCE &&
	    !epd_advance_unpack(r->payload, &advance))
		body = advance.body;
	else
		return EPD_ECORRUPT;
	if (body.n != b->n || epd_crc32c(0, body.p, body.n) != b->crc)
		return EPD_ECORRUPT;
	p = epd_arena_add(&l->s->table->arena, body.n);
	if (!p)
		return -ENOMEM;
	b->p = memcpy(p, body.p, body.n);
	return FOUND;
}

int
epd_shard_body(struct epd_shard *s, const struct epd_node *n,
    struct epd_span *out)
{
	struct lookup l = { s, n };
	struct epd_wal *w;
	uint32_t first;
	int rc = epd_table_body(s->table, n->body, out);

	if (rc != EPD_ECORRUPT)
		return rc;
	if (epd_shard_reader(s, &w, &first, NULL))
		return rc;
	if (epd_wal_read(w, look, &l, NULL) == FOUND)
		rc = epd_table_body(s->table, n->body, out);
	epd_wal_close(w);
	return rc;
}
