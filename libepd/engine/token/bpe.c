/*
 * bpe.c - merging the bytes of a piece: always the pair of lowest rank, the
 * leftmost of equals, until no two neighbours merge.
 *
 * The symbols are a list threaded through an array, one place a byte; a heap
 * holds rank and place of each pair that can merge.
 *
 * 1. sym[i].rank is that of the pair (i, its next), or NONE; a heap entry whose
 *    rank is not the place's is stale.  (The bytes a pair covers only grow, so a
 *    rank once left never comes back.)
 * 2. A merge adds at most two entries and takes one: the heap never holds more
 *    than twice the bytes.
 */
#include "engine/token/bpe.h"

#include <errno.h>

#include "base/alloc.h"

#define NONE UINT32_MAX		/* no rank; no place */

struct symbol {
	int32_t id;
	int32_t merged;		/* what the pair becomes */
	uint32_t rank;
	uint32_t prev, next;
};

struct heap {
	uint64_t *v;		/* rank << 32 | place */
	size_t n;
};

static void
push(struct heap *h, uint64_t v)
{
	size_t i = h->n++;

	for (; i && h->v[(i - 1) / 2] > v; i = (i - 1) / 2)
		h->v[i] = h->v[(i - 1) / 2];
	h->v[i] = v;
}

static uint64_t
pop(struct heap *h)
{
	uint64_t top = h->v[0], v = h->v[--h->n];
	size_t i = 0, kid;

	while ((kid = 2 * i + 1) < h->n) {
		if (kid + 1 < h->n && h->v[kid + 1] < h->v[kid])
			kid++;
		if (h->v[kid] >= v)
			break;
		h->v[i] = h->v[kid];
		i = kid;
	}
	h->v[i] = v;
	return top;
}

/* Look up the pair that begins at place i. */
static void
pair(const struct epd_tokenizer *t, struct symbol *sym, uint32_t i,
    struct heap *h)
{
	const struct epd_merge *m = NULL;

	if (sym[i].next != NONE)
		m = epd_flat_merge(t, sym[i].id, sym[sym[i].next].id);
	sym[i].rank = NONE;
	if (!m)
		return;
	sym[i].rank = m->rank;
	sym[i].merged = m->id;
	push(h, (uint64_t)m->rank << 32 | i);
}

static void
merge_all(const struct epd_tokenizer *t, struct symbol *sym, struct heap *h)
{
	while (h->n) {
		uint64_t top = pop(h);
		uint32_t i = (uint32_t)top, gone;

		if (sym[i].rank != top >> 32)
			continue;
		gone = sym[i].next;
		sym[i].id = sym[i].merged;
		sym[i].next = sym[gone].next;
		sym[gone].rank = NONE;
		if (sym[i].next != NONE)
			sym[sym[i].next].prev = i;
		pair(t, sym, i, h);
		if (sym[i].prev != NONE)
			pair(t, sym, sym[i].prev, h);
	}
}

int
epd_bpe_encode(struct epd_bpe *b, const struct epd_tokenizer *t,
    struct epd_span piece, struct epd_ids *out)
{
	const uint8_t *p = piece.p;
	uint32_t n = (uint32_t)piece.n;
	struct symbol *sym;
	struct heap h = { 0 };

	if (n == 1) {
		epd_ids_put(out, &t->head->byte_id[*p], 1);
		return out->failed ? -ENOMEM : 0;
	}
	b->symbols.n = b->queue.n = 0;
	sym = epd_buf_add(&b->symbols, piece.n * sizeof *sym);
	h.v = epd_buf_add(&b->queue, piece.n * 2 * sizeof *h.v);
	if (!sym || !h.v)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		sym[i].id = t->head->byte_id[p[i]];
		sym[i].prev = i ? i - 1 : NONE;
		sym[i].next = i + 1 < n ? i + 1 : NONE;
	}
	for (uint32_t i = 0; i < n; i++)
		pair(t, sym, i, &h);
	merge_all(t, sym, &h);
	for (uint32_t i = 0; n && i != NONE; i = sym[i].next)
		epd_ids_put(out, &sym[i].id, 1);
	return out->failed ? -ENOMEM : 0;
}

void
epd_bpe_free(struct epd_bpe *b)
{
	epd_buf_free(&b->symbols);
	epd_buf_free(&b->queue);
}
