/*
 * rdma_view.h - what a guest knows of windows' regions: an inner part of rdma.
 * What was asked lies in spans, in order, that do not overlap; one without a key
 * goes over the session.
 */
#ifndef TRANSPORT_RDMA_VIEW_H
#define TRANSPORT_RDMA_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "base/piece.h"
#include "base/span.h"
#include "transport/rail.h"

struct epd_rdma_span {
	uint64_t offset, bytes;
	int has_key;
	struct epd_rail_key key;
};

struct epd_rdma_view {
	uint64_t window;
	int writable;
	struct epd_rdma_span *s;
	size_t n, cap;
};

struct epd_rdma_views {
	struct epd_rdma_view *v;
	size_t n, cap;
};

struct epd_rdma_view *epd_rdma_view_find(struct epd_rdma_views *vs, uint64_t window);
/* The same, made if it is not there.  NULL: no memory. */
struct epd_rdma_view *epd_rdma_view_add(struct epd_rdma_views *vs, uint64_t window);
void epd_rdma_view_drop(struct epd_rdma_views *vs, struct epd_rdma_view *v);
/* All; or those alone that are to be written. */
void epd_rdma_views_drop(struct epd_rdma_views *vs, int writable);

/* The span that offset lies in, or NULL. */
struct epd_rdma_span *epd_rdma_view_at(const struct epd_rdma_view *v, uint64_t offset);

/* How a piece can go. */
enum epd_rdma_way { EPD_RDMA_RAIL, EPD_RDMA_SESSION, EPD_RDMA_ASK };
/* ASK: *from is the first of its bytes that nothing is known of. */
enum epd_rdma_way epd_rdma_view_way(const struct epd_rdma_view *v,
    const struct epd_piece *p, uint64_t *from);
/* Where the next span from there on begins, or end. */
uint64_t epd_rdma_view_next(const struct epd_rdma_view *v, uint64_t from,
    uint64_t end);

/*
 * An answer to EXPOSE of [from, end).  Fails: EPD_EPEER: it is none, and v is as it
 * was; -ENOMEM.
 */
int epd_rdma_view_learn(struct epd_rdma_view *v, uint64_t from, uint64_t end,
    struct epd_span answer);

#endif
