/*
 * wire_view.c - answers to EXPOSE from a host that may lie: what is learnt of a
 * window stays in order and within what was asked, or nothing is learnt.  An input
 * is answers one behind another, each with a byte for how far was asked; the first
 * byte of an input says whether heads are put right.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/rdma_view.h"
#include "transport/rdma_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* In order, apart, of some bytes. */
static void
look(const struct epd_rdma_view *v)
{
	uint64_t end = 0;

	for (size_t i = 0; i < v->n; i++) {
		const struct epd_rdma_span *s = &v->s[i];

		if (!s->bytes || s->offset < end ||
		    (s->has_key && s->key.bytes != s->bytes) ||
		    epd_rdma_view_at(v, s->offset) != s ||
		    epd_rdma_view_at(v, s->offset + s->bytes - 1) != s)
			abort();
		end = s->offset + s->bytes;
		if (end < s->offset)
			abort();
	}
}

/* One question and its answer: bytes of it that were used. */
static size_t
one(struct epd_rdma_view *v, const uint8_t *p, size_t n, int mend)
{
	uint64_t from = v->n ? v->s[v->n - 1].offset + v->s[v->n - 1].bytes : 0;
	const uint64_t end = from + 1 + (uint64_t)p[0] * 100;
	uint8_t a[16 + 4 * EPD_RDMA_EACH];
	const size_t had = v->n, most = n - 1 < sizeof a ? n - 1 : sizeof a;
	int rc;

	memcpy(a, p + 1, most);
	if (mend && most >= 16) {
		const uint64_t upto = from + 1 + a[0] % (end - from);

		for (int i = 0; i < 8; i++)
			a[i] = (uint8_t)(upto >> 8 * i);
		memset(a + 12, 0, 4);
		a[12] = (uint8_t)((most - 16) / EPD_RDMA_EACH);
	}
	rc = epd_rdma_view_learn(v, from, end, epd_span(a, mend && most >= 16 ?
	    16 + (size_t)a[12] * EPD_RDMA_EACH : most));
	if (rc ? v->n != had : v->n == had)
		abort();
	look(v);
	if (!rc) {
		const struct epd_piece all = { .op = EPD_OP_READ, .offset = from,
			.bytes = end - from };
		enum epd_rdma_way way = epd_rdma_view_way(v, &all, &from);

		if (way == EPD_RDMA_ASK && (from < all.offset || from >= end ||
		    epd_rdma_view_at(v, from)))
			abort();
	}
	return 1 + most;
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_rdma_views vs = { 0 };
	struct epd_rdma_view *v = epd_rdma_view_add(&vs, 1);
	const int mend = n && p[0] & 1;

	if (!v)
		return 0;
	for (size_t at = 1; at < n && v->n < 4096;)
		at += one(v, p + at, n - at, mend);
	epd_rdma_views_drop(&vs, 0);
	return 0;
}
