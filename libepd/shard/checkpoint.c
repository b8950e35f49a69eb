/*
 * checkpoint.c - a table as a file:
 *
 *	head	magic 8, version u32, segment u32, uuid 16, lsn u64, term u64,
 *		next_state u32, sections u32, index bytes u64, body bytes u64,
 *		zero 16, index crc u32, head crc u32
 *	index	sections, each: kind u32, count u32, bytes u64, entries
 *	  nodes	id u64, parent u64, tokens u32, body bytes u32, body crc u32,
 *		links u32, run u64, wall_ms u64; ascending
 *	  states id u32, versions u32, status u32, flags u32 (1: changed, 2: rests,
 *		4: waits), epoch u64, created_ms u64, with changed changed_ms
 *		u64, salt u64, traits, with rests tier, with waits deadline_ms
 *		u64 and tool, then per version: node u64, key u64; ascending
 *	  leases as in the log, then node u64; ascending; left out if none
 *	  hand-offs as in the log, then lsn u64; ascending; left out if none
 *	  owner the node's name; left out if none
 *	bodies	in the order of the nodes
 *
 * Only the index is read at the start, and no node is an allocation: a body is
 * read when it is asked for, under its own CRC.  Counts of holders and children
 * are not in the file: they come of what is.
 */
#include "shard/checkpoint.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "shard/hold.h"

enum {
	HEAD = EPD_CHECKPOINT_HEAD,
	NODES = EPD_CHECKPOINT_NODES, STATES = EPD_CHECKPOINT_STATES,
	LEASES = EPD_CHECKPOINT_LEASES, HANDOFFS = EPD_CHECKPOINT_HANDOFFS,
	CHANGED = EPD_CHECKPOINT_CHANGED, RESTS = EPD_CHECKPOINT_RESTS,
	WAITS = EPD_CHECKPOINT_WAITS,
};

static size_t
begin_section(struct epd_buf *b, uint32_t kind, size_t count)
{
	epd_pack_u32(b, kind);
	epd_pack_u32(b, (uint32_t)count);
	epd_pack_u64(b, 0);
	return b->n;
}

static void
end_section(struct epd_buf *b, size_t at)
{
	struct epd_buf n = { 0 };

	epd_pack_u64(&n, b->n - at);
	if (!b->failed && !n.failed)
		memcpy(b->p + at - 8, n.p, 8);
	b->failed |= n.failed;
	epd_buf_free(&n);
}

static int
pack_nodes(const struct epd_table *t, epd_body_fn *body, void *arg,
    struct epd_buf *index, struct epd_buf *bodies)
{
	size_t at = begin_section(index, NODES, epd_tree_count(t->tree));
	const struct epd_node *n = NULL;
	struct epd_span s;
	int rc;

	while ((n = epd_tree_next(t->tree, n ? n->id : 0))) {
		const struct epd_body *b = n->body;

		rc = body(arg, n, &s);
		if (rc)
			return rc;
		epd_pack_u64(index, n->id);
		epd_pack_u64(index, n->parent);
		epd_pack_u32(index, n->tokens);
		epd_pack_u32(index, b->n);
		epd_pack_u32(index, epd_body_crc(b));
		epd_pack_u32(index, b->nlinks);
		epd_pack_u64(index, b->run);
		epd_pack_u64(index, b->wall_ms);
		epd_buf_put(bodies, s.p, s.n);
	}
	end_section(index, at);
	return 0;
}

static void
pack_states(const struct epd_table *t, struct epd_buf *index)
{
	size_t at = begin_section(index, STATES, t->n);

	for (size_t i = 0; i < t->n; i++) {
		const struct epd_head *h = t->head[i];

		epd_pack_u32(index, h->state.id);
		epd_pack_u32(index, h->state.versions);
		epd_pack_u32(index, h->state.status);
		/* A guess is made anew by whoever reads. */
		epd_pack_u32(index, (h->guessed ? 0 : (unsigned)CHANGED) |
		    (*h->state.tier ? (unsigned)RESTS : 0) |
		    (*h->state.tool ? (unsigned)WAITS : 0));
		epd_pack_u64(index, h->state.epoch);
		epd_pack_u64(index, h->state.created_ms);
		if (!h->guessed)
			epd_pack_u64(index, h->state.changed_ms);
		epd_pack_u64(index, h->salt);
		epd_traits_pack(index, &h->state);
		if (*h->state.tier)
			epd_record_str(index, h->state.tier);
		if (*h->state.tool) {
			epd_pack_u64(index, h->state.wait_deadline_ms);
			epd_record_str(index, h->state.tool);
		}
		for (uint32_t k = 0; k < h->state.versions; k++) {
			epd_pack_u64(index, h->v[k].node);
			epd_pack_u64(index, h->v[k].key);
		}
	}
	end_section(index, at);
}

static void
pack_leases(const struct epd_table *t, struct epd_buf *index)
{
	size_t at = begin_section(index, LEASES, t->nleases);

	for (size_t i = 0; i < t->nleases; i++) {
		epd_lease_put(index, &t->lease[i]);
		epd_pack_u64(index, t->lease[i].node);
	}
	end_section(index, at);
}

static void
pack_handoffs(const struct epd_table *t, struct epd_buf *index)
{
	size_t at = begin_section(index, HANDOFFS, t->nhandoffs);

	for (size_t i = 0; i < t->nhandoffs; i++) {
		epd_handoff_put(index, &t->handoff[i]);
		epd_pack_u64(index, t->handoff[i].lsn);
	}
	end_section(index, at);
}

static void
pack_owner(const struct epd_table *t, struct epd_buf *index)
{
	size_t at = begin_section(index, EPD_CHECKPOINT_OWNER, 1);

	epd_record_str(index, t->owner);
	end_section(index, at);
}

int
epd_checkpoint_pack(const struct epd_table *t, uint32_t segment,
    epd_body_fn *body, void *arg, struct epd_buf *index,
    struct epd_buf *bodies)
{
	struct epd_buf b = { 0 };
	int rc;

	if (!epd_buf_add(index, HEAD))
		return -ENOMEM;
	rc = pack_nodes(t, body, arg, index, bodies);
	if (rc)
		return rc;
	pack_states(t, index);
	if (t->nleases)
		pack_leases(t, index);
	if (t->nhandoffs)
		pack_handoffs(t, index);
	if (*t->owner)
		pack_owner(t, index);
	if (index->failed || bodies->failed)
		return -ENOMEM;
	epd_buf_put(&b, EPD_CHECKPOINT_MAGIC, 8);
	epd_pack_u32(&b, EPD_CHECKPOINT_VERSION);
	epd_pack_u32(&b, segment);
	epd_buf_put(&b, t->uuid, 16);
	epd_pack_u64(&b, t->lsn);
	epd_pack_u64(&b, t->term);
	epd_pack_u32(&b, t->next_state);
	epd_pack_u32(&b, 2u + (t->nleases > 0) + (t->nhandoffs > 0) +
	    (*t->owner != 0));
	epd_pack_u64(&b, index->n - HEAD);
	epd_pack_u64(&b, bodies->n);
	epd_pack_u64(&b, 0);
	epd_pack_u64(&b, 0);
	epd_pack_u32(&b, epd_crc32c(0, index->p + HEAD, index->n - HEAD));
	epd_pack_u32(&b, b.failed ? 0 : epd_crc32c(0, b.p, b.n));
	if (!b.failed)
		memcpy(index->p, b.p, HEAD);
	rc = b.failed ? -ENOMEM : 0;
	epd_buf_free(&b);
	return rc;
}

int
epd_checkpoint_write(int dirfd, const struct epd_table *t,
    uint32_t segment, epd_body_fn *body, void *arg, uint64_t *size)
{
	struct epd_buf index = { 0 }, bodies = { 0 };
	struct epd_span parts[2];
	int rc;

	rc = epd_checkpoint_pack(t, segment, body, arg, &index, &bodies);
	if (!rc) {
		parts[0] = epd_span(index.p, index.n);
		parts[1] = epd_span(bodies.p, bodies.n);
		rc = epd_file_replace(dirfd, EPD_CHECKPOINT, parts, 2, 1);
	}
	if (!rc)
		*size = index.n + bodies.n;
	epd_buf_free(&index);
	epd_buf_free(&bodies);
	return rc;
}
