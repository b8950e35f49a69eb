/*
 * log.h - the log as a whole: made durable, shortened, read, and held against the
 * tables.  Outside this room include shard/shard.h.
 */
#ifndef EPD_SHARD_LOG_H
#define EPD_SHARD_LOG_H

#include "base/err.h"

struct epd_record;
struct epd_shard;

/* All that is published is durable, though sync is 0: what rests on it may be. */
int epd_shard_sync(struct epd_shard *s, struct epd_why *why);
/* Write a checkpoint now and start a new segment. */
int epd_shard_checkpoint(struct epd_shard *s, struct epd_why *why);
/* The log's records as they lie, oldest kept first. */
int epd_shard_walk(struct epd_shard *s,
    int (*fn)(void *arg, const struct epd_record *r), void *arg,
    struct epd_why *why);

/*
 * Recount everything from the log: each record obeys the life cycles, a replay
 * from the oldest kept point gives the tables in memory, counts equal a recount.
 * fn is told each fault in words.  A count of faults or an error.
 */
int epd_shard_check(struct epd_shard *s,
    void (*fn)(void *arg, const char *fault), void *arg, struct epd_why *why);

#endif
