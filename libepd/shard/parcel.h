/*
 * parcel.h - a state and one version of it as bytes, for another store.  Outside
 * this room include shard/shard.h.
 */
#ifndef EPD_SHARD_PARCEL_H
#define EPD_SHARD_PARCEL_H

#include "base/err.h"
#include "base/span.h"
#include "shard/arena.h"
#include "shard/types.h"

struct epd_parcel {
	struct epd_state traits;	/* what a creator says */
	struct epd_version v;
	struct epd_arena arena;		/* all of it lies here */
};

/* What of both a creator says; pages and links of v too, if it has any. */
void epd_parcel_pack(struct epd_buf *b, const struct epd_state *traits,
    const struct epd_version *v);
/*
 * The bytes may be anybody's: sizes and counts are as they must be, a root's; what
 * tokens, names and paths mean is not looked at.
 * Fails: EPD_ECORRUPT, EPD_EKIND, -ENOMEM.  Owns: the caller closes *out.
 */
int epd_parcel_open(struct epd_parcel *out, struct epd_span bytes,
    struct epd_why *why);
void epd_parcel_close(struct epd_parcel *p);

#endif
