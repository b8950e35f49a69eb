/*
 * object.h - a page as lower tiers keep it: a head that says by itself what it is,
 * and the page's bytes, packed by zstd where that makes them smaller.  Not for
 * outsiders.
 *
 *	head (128) | payload
 *
 * The head has the page's name, layout, rows and sum, how the payload is packed, and
 * a seal: a sum of the head, or where a key is given a BLAKE2b of key, head and payload:
 * nobody without it can make an object that is taken.  FORMATS draws it.
 */
#ifndef EPD_TIER_OBJECT_H
#define EPD_TIER_OBJECT_H

#include "base/span.h"
#include "tier/lower.h"

enum { EPD_OBJECT_HEAD = 128 };

/* Bytes that a page of this shape takes up packed, at most. */
size_t epd_object_bound(const struct epd_run_shape *shape);
/*
 * Page i of a lot into out, which has room for the bound.  level as zstd has it; 0:
 * unpacked.  The bytes it took, or -ENOMEM.  key may be empty.
 */
int64_t epd_object_pack(void *out, const struct epd_lot *lot, long i,
    const void *page, int level, struct epd_span key);
/*
 * The bytes that an object has in all, as its head says, or EPD_ECORRUPT: for who has
 * no more than EPD_OBJECT_HEAD bytes of it.
 */
int64_t epd_object_bytes(const void *head, const struct epd_run_shape *shape);
/*
 * The page into out (shape.bytes), if in is page i of the lot: name, layout, rows,
 * sums.  out is not to be looked at otherwise.
 * Fails: EPD_ECORRUPT (why says what differs), EPD_EKIND, -ENOMEM.
 */
int epd_object_unpack(void *out, const struct epd_lot *lot, long i,
    const void *in, size_t n, struct epd_span key, struct epd_why *why);

#endif
