/* room.h - room in the memory tier, made by moving others out.  Not for outsiders. */
#ifndef EPD_FLOW_ROOM_H
#define EPD_FLOW_ROOM_H

#include "flow/store.h"
#include "plan/plan.h"

/*
 * Have bytes more fit in memory.  Where tier.evict_to is set up runs move out to it from
 * tier.high_water on, until tier.low_water; else they go when the cap is reached, and
 * are computed again.  out->over: what is in the way, named in why; no error.
 * Fails: -errno.
 */
int epd_store_room(struct epd_store *s, uint64_t bytes,
    struct epd_memory_fit *out, struct epd_why *why);
/* The tier that runs move out to of themselves; EPD_TIER_NONE if none is set up. */
enum epd_tier epd_store_below(const struct epd_store *s);
/* Where the file system is full below the cap: 1 if that many bytes went, or some; 0. */
int epd_store_squeeze(struct epd_store *s, uint64_t bytes);

/* Which way a run of so many bytes and tokens is had again, by what was measured here. */
void epd_store_again(const struct epd_store *s, uint64_t bytes,
    uint64_t tokens, struct epd_again *out);

#endif
