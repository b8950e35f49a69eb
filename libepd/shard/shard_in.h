/* shard_in.h - a shard's handle, for the files of this room that act on one. */
#ifndef EPD_SHARD_SHARD_IN_H
#define EPD_SHARD_SHARD_IN_H

#include <pthread.h>

#include "shard/apply.h"
#include "shard/group.h"
#include "shard/shard.h"
#include "shard/wal.h"

enum {
	EPD_SHARD_TRIES = 100,		/* at reading what others sweep */
	EPD_SHARD_RECLAIM = 64,		/* states released in one frame */
	EPD_SHARD_ONCE = 32,		/* waits in vain: then there is none */
};

/*
 * 1. table.lsn is wal's pos.lsn between calls, but for a frame whose records
 *    could not all be applied: its first ones are passed over when it is read
 *    again.
 * 2. Where the log says that what was read of it may not stand, the tables are
 *    loaded anew; until that went well they are stale.
 * 3. What was lent lies in lent and goes with the next lending.
 * 4. The mutex is held from begin to leave or end.  Threads that write share
 *    flushes: one at a time is at it, and all whose records it took with it are
 *    done then.
 * 5. What is untold is told once the record that freed it is durable, in the
 *    order of the log.
 * 6. Whoever was told of the lock's end has seen no record that was not
 *    published, but for leases.
 */
struct epd_shard {
	pthread_mutex_t mutex;		/* of all below, but in a flush */
	struct epd_group group;
	int dirfd, lockfd;
	pid_t pid;			/* whose handle it is */
	unsigned vain;			/* waits for the lock since it was had */
	struct epd_shard_options o;
	struct epd_wal *wal;
	struct epd_table *table;
	int stale;			/* to be loaded before it is used */
	int owning;			/* what follows makes it another node's */
	uint64_t checkpoint_size;	/* of the newest one known, and */
	uint32_t checkpoint_segment;	/* where the log goes on from it */
	struct epd_arena lent;
	uint64_t lending;
	struct epd_arena pass;		/* of one node during epd_shard_runs */
	struct epd_buf frame;		/* to be appended */
	struct epd_buf untold;		/* lsn and run, u64 each */
};

/* Of what is untold, keep what is durable. */
void epd_shard_forget_untold(struct epd_shard *s);
/* Forget what was lent. */
void epd_shard_lend(struct epd_shard *s);
/* The tables from the checkpoint, or empty, and the log standing behind it. */
int epd_shard_load(struct epd_shard *s, struct epd_why *why);
/* A record read back, for epd_wal_read and adopt; arg is the shard. */
int epd_shard_replay(void *arg, const struct epd_rec *r, struct epd_why *why);

/* Take the lock and read to the end of the log; leave drops it. */
int epd_shard_begin(struct epd_shard *s, struct epd_why *why);
void epd_shard_leave(struct epd_shard *s);
/*
 * Drop it, and unless rc says that it failed wait until all that was read or
 * appended is durable: rc then, or why that cannot be told.  A refusal waits till
 * what it rests on is published.
 */
int epd_shard_end(struct epd_shard *s, int rc, struct epd_why *why);
/* The same for what was appended without a flush, to a log that ended at lsn. */
int epd_shard_end_lazy(struct epd_shard *s, int rc, uint64_t lsn,
    struct epd_why *why);

/*
 * With the lock: begin a frame with the releases of what has expired, but for
 * one; how many.  The verb's records are packed behind them.
 */
uint32_t epd_shard_frame(struct epd_shard *s, uint32_t but);
void epd_shard_pack_release(struct epd_shard *s, uint32_t id,
    const char *reason);
/* Append the frame that was packed, apply it, and save if that is due. */
int epd_shard_append(struct epd_shard *s, struct epd_why *why);
/* What follows an advance that was appended. */
void epd_shard_advanced(struct epd_shard *s, uint32_t id, uint32_t expect,
    const struct epd_version *v);
/* With the lock: drop leases that stand no more; how many, or an error. */
int epd_shard_drop_dead(struct epd_shard *s, struct epd_why *why);
/* EPD_ETOOBIG: a record cannot hold them. */
int epd_shard_may_create(const struct epd_state *state,
    const struct epd_version *v, struct epd_why *why);
/* 1: longer than a record's string may be. */
int epd_shard_long(const char *s);
/* Somebody's decode lease that stands: EPD_ELOCKED with its holder; or 0. */
int epd_shard_free_to(struct epd_shard *s, uint32_t state,
    struct epd_why *why);

/* 1 if the state's time is over. */
int epd_shard_expired(const struct epd_head *h);
/* The live state, or EPD_ENOSTATE. */
int epd_shard_find(struct epd_shard *s, uint32_t id, struct epd_head **out);
/* The salt that decoding from a version mixes in, nothing else unpacked. */
int epd_shard_salt(struct epd_shard *s, uint32_t id, uint32_t version,
    uint64_t *out);
/* This clock's time in so many ms, or its end. */
uint64_t epd_shard_in(uint64_t now_ms, uint64_t ms);

/* A node's body, from the log if the checkpoint's is damaged. */
int epd_shard_body(struct epd_shard *s, const struct epd_node *n,
    struct epd_span *out);
/* Another reader of the same log, at the oldest segment kept. */
int epd_shard_reader(struct epd_shard *s, struct epd_wal **out,
    uint32_t *first, struct epd_why *why);
/* With the lock held: rotate, write, sweep, and go on from what was written. */
int epd_shard_save(struct epd_shard *s, struct epd_why *why);

#endif
