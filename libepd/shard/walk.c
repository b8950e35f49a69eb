/*
 * walk.c - the log's records as they lie, by a reader of its own, and a body
 * looked up there when the checkpoint's copy is damaged.
 */
#include <errno.h>
#include <string.h>

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

/* Fill in what the kind tells; others are told by name alone. */
static int
describe(const struct epd_rec *r, struct epd_record *out)
{
	struct epd_glance g = { 0 };
	struct epd_create create;
	struct epd_advance advance;
	struct epd_release release;
	struct epd_term term;
	int rc = 0;

	switch (r->kind) {
	case EPD_KIND_CREATE:
		rc = epd_create_unpack(r->payload, &create);
		if (!rc)
			rc = epd_body_glance(create.body, &g);
		out->state = rc ? 0 : create.id;
		out->version = 1;
		break;
	case EPD_KIND_ADVANCE:
		rc = epd_advance_unpack(r->payload, &advance);
		if (!rc)
			rc = epd_body_glance(advance.body, &g);
		out->state = rc ? 0 : advance.id;
		out->version = rc ? 0 : advance.expect + 1;
		break;
	case EPD_KIND_RELEASE:
		rc = epd_release_unpack(r->payload, &release);
		out->state = rc ? 0 : release.id;
		out->reason = rc ? "" : release.reason;
		break;
	case EPD_KIND_TERM:
		rc = epd_term_unpack(r->payload, &term);
		out->reason = rc ? "" : term.reason;
		break;
	}
	out->tokens = g.nids;
	out->pages = g.npages;
	return rc;
}

static int
walk_one(void *arg, const struct epd_rec *r, struct epd_why *why)
{
	struct walk *w = arg;
	struct epd_record out = {
		.lsn = r->lsn, .term = r->term, .wall_ms = r->wall_ms,
		.kind = epd_kind_name(r->kind), .reason = "",
		.bytes = EPD_RECORD_HEAD + r->payload.n,
	};
	int rc;

	if (r->lsn <= w->last)
		return 0;
	w->last = r->lsn;
	if (!out.kind)
		out.kind = "?";
	rc = describe(r, &out);
	if (rc)
		return epd_why(why, rc, "record %llu: %s: %s",
		    (unsigned long long)r->lsn, out.kind, epd_strerror(rc));
	return w->fn(w->arg, &out);
}

int
epd_shard_walk(struct epd_shard *s,
    int (*fn)(void *arg, const struct epd_record *r), void *arg,
    struct epd_why *why)
{
	struct walk walk = { fn, arg, 0 };
	struct epd_wal *w;
	uint32_t first;
	int rc;

	/* Segments may go meanwhile: then from what is kept now. */
	for (int i = 0; i < EPD_SHARD_TRIES; i++) {
		rc = epd_shard_reader(s, &w, &first, why);
		if (!rc) {
			rc = epd_wal_read(w, walk_one, &walk, why);
			epd_wal_close(w);
		}
		if (rc != -ESTALE && rc != -ENOENT)
			break;
	}
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
	struct epd_span body;
	uint8_t *p;

	(void)why;
	if (r->lsn != l->n->id)
		return 0;
	if (r->kind == EPD_KIND_CREATE &&
	    !epd_create_unpack(r->payload, &create))
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
