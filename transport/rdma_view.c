/* rdma_view.c - spans of windows, as hosts tell of them. */
#include "transport/rdma_view.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/rdma_wire.h"

struct epd_rdma_view *
epd_rdma_view_find(struct epd_rdma_views *vs, uint64_t window)
{
	for (size_t i = 0; i < vs->n; i++)
		if (vs->v[i].window == window)
			return &vs->v[i];
	return NULL;
}

struct epd_rdma_view *
epd_rdma_view_add(struct epd_rdma_views *vs, uint64_t window)
{
	struct epd_rdma_view *v = epd_rdma_view_find(vs, window), *all;

	if (v)
		return v;
	if (!(all = epd_grow(vs->v, vs->n, &vs->cap, sizeof *all)))
		return NULL;
	vs->v = all;
	vs->v[vs->n] = (struct epd_rdma_view){ .window = window };
	return &vs->v[vs->n++];
}

void
epd_rdma_view_drop(struct epd_rdma_views *vs, struct epd_rdma_view *v)
{
	if (v->cap)
		explicit_bzero(v->s, v->cap * sizeof *v->s);
	epd_free(v->s);
	*v = vs->v[--vs->n];
}

void
epd_rdma_views_drop(struct epd_rdma_views *vs, int writable)
{
	for (size_t i = vs->n; i-- > 0;)
		if (!writable || vs->v[i].writable)
			epd_rdma_view_drop(vs, &vs->v[i]);
	if (writable)
		return;
	epd_free(vs->v);
	*vs = (struct epd_rdma_views){ 0 };
}

/* The first span that ends behind offset. */
static size_t
locate(const struct epd_rdma_view *v, uint64_t offset)
{
	size_t low = 0, high = v->n;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (v->s[mid].offset + v->s[mid].bytes <= offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct epd_rdma_span *
epd_rdma_view_at(const struct epd_rdma_view *v, uint64_t offset)
{
	const size_t i = locate(v, offset);

	return i < v->n && v->s[i].offset <= offset ? &v->s[i] : NULL;
}

uint64_t
epd_rdma_view_next(const struct epd_rdma_view *v, uint64_t from, uint64_t end)
{
	const size_t i = locate(v, from);

	return i < v->n && v->s[i].offset < end ? v->s[i].offset : end;
}

enum epd_rdma_way
epd_rdma_view_way(const struct epd_rdma_view *v, const struct epd_piece *p,
    uint64_t *from)
{
	const uint64_t end = p->offset + p->bytes;
	uint64_t at = p->offset;

	while (at < end) {
		const struct epd_rdma_span *s = epd_rdma_view_at(v, at);

		if (!s) {
			*from = at;
			return EPD_RDMA_ASK;
		}
		if (!s->has_key || v->writable != (p->op == EPD_OP_WRITE))
			return EPD_RDMA_SESSION;
		at = s->offset + s->bytes;
	}
	return EPD_RDMA_RAIL;
}

/* n spans of an answer, and those between them that have no key: how many. */
static size_t
read_spans(struct epd_rdma_span *out, struct epd_cur *c, uint32_t n, uint64_t from,
    uint64_t upto)
{
	size_t k = 0;

	for (uint32_t i = 0; i <= n; i++) {
		struct epd_rdma_span s = { .offset = upto, .has_key = 1 };

		if (i < n) {
			s.offset = epd_unpack_u64(c);
			s.bytes = s.key.bytes = epd_unpack_u64(c);
			s.key.at = epd_unpack_u64(c);
			s.key.key = epd_unpack_u32(c);
			if (s.offset < from || s.offset >= upto || !s.bytes ||
			    s.bytes > upto - s.offset)
				return 0;
		}
		if (s.offset > from)
			out[k++] = (struct epd_rdma_span){ .offset = from,
			    .bytes = s.offset - from };
		if (i < n)
			out[k++] = s;
		from = s.offset + s.bytes;
	}
	return k;
}

int
epd_rdma_view_learn(struct epd_rdma_view *v, uint64_t from, uint64_t end,
    struct epd_span answer)
{
	struct epd_cur c = epd_cur(answer);
	const uint64_t upto = epd_unpack_u64(&c);
	const int writable = epd_unpack_u32(&c) != 0;
	const uint32_t n = epd_unpack_u32(&c);
	const size_t at = locate(v, from);
	struct epd_rdma_span *s, *all;
	size_t k;

	if (c.failed || n > EPD_RDMA_KEYS || upto <= from || upto > end ||
	    epd_cur_left(&c) != (size_t)n * EPD_RDMA_EACH)
		return EPD_EPEER;
	if (!(s = epd_calloc(2 * (size_t)n + 1, sizeof *s)))
		return -ENOMEM;
	k = read_spans(s, &c, n, from, upto);
	all = k ? epd_realloc(v->s, (v->n + k) * sizeof *all) : NULL;
	if (all) {
		memmove(all + at + k, all + at, (v->n - at) * sizeof *all);
		memcpy(all + at, s, k * sizeof *all);
		v->s = all;
		v->cap = v->n += k;
		v->writable = writable;
	}
	explicit_bzero(s, (2 * (size_t)n + 1) * sizeof *s);
	epd_free(s);
	return all ? 0 : k ? -ENOMEM : EPD_EPEER;
}
