/*
 * lease.h - leases: who is at work on a version, so that nobody frees its pages
 * or takes it up a second time.  Outside this room include shard/shard.h.
 *
 * A lease holds its version's node as a state does.  It is in the log, but
 * not flushed: a crash of the machine ends its holder too.  It stands till
 * it is dropped, its holder dies (its byte in the store's procs file, its boot),
 * or its deadline; then whoever comes next may drop it.  Its id is the fence: a
 * holder that woke too late is EPD_ELEASE if anybody dropped it, and goes on as
 * if in time if nobody did.
 */
#ifndef EPD_SHARD_LEASE_H
#define EPD_SHARD_LEASE_H

#include "base/lock.h"
#include "shard/types.h"

struct epd_shard;

/*        id          number  name */
#define EPD_LEASES(X) \
	X(TRANSFER,   1, "transfer") \
	X(RESTORE,    2, "restore") \
	X(VALIDATION, 3, "validation") \
	X(DECODE,     4, "decode") \
	X(OFFLOAD,    5, "offload")

enum epd_lease_kind {
#define X(id, n, name) EPD_LEASE_##id = n,
	EPD_LEASES(X)
#undef X
};
const char *epd_lease_name(unsigned kind);	/* "decode"; NULL if none */

struct epd_lease {
	uint64_t id;		/* lsn of its record: never used again */
	uint32_t state, version;
	uint64_t node;
	enum epd_lease_kind kind;
	struct epd_proc holder;
	uint64_t deadline_ms;	/* of the holder's boot clock */
};

/*
 * Take one on a version (0: the newest), for ttl_ms.  Of a decode lease there is
 * one a state, and while it lasts only its holder advances the state, and nobody
 * forks it.  The holder is this process as procs has it.
 * Fails: EPD_ELOCKED (somebody's decode lease stands; why names it),
 * EPD_ENOSTATE, EPD_ENOTHING, EPD_ESTATUS (a decode lease, mid-hand-off or at rest),
 * -EINVAL (no procs, no such kind), as create.
 */
int epd_shard_lease(struct epd_shard *s, uint32_t state, uint32_t version,
    enum epd_lease_kind kind, uint64_t ttl_ms, uint64_t *id,
    struct epd_why *why);
/*
 * ttl_ms from now.  EPD_ELEASE: it is gone, or not this process's; EPD_ESTATUS: its
 * time was over, and meanwhile a hand-off of the state began.
 */
int epd_shard_renew(struct epd_shard *s, uint64_t id, uint64_t ttl_ms,
    struct epd_why *why);
/* Give it back; one that is gone is 0. */
int epd_shard_drop(struct epd_shard *s, uint64_t id, const char *reason,
    struct epd_why *why);
/*
 * epd_shard_advance by who holds a lease on the state, and the lease's end, in
 * one frame.  EPD_ELEASE as renew: nothing was advanced.  EPD_ELOCKED: it is no
 * decode lease, and somebody's stands.
 */
int epd_shard_advance_leased(struct epd_shard *s, uint64_t lease, uint32_t id,
    uint32_t expect, const struct epd_version *v, uint32_t *version,
    struct epd_why *why);
/* The first with an id above `after`, dead ones too; -ENOENT past the last. */
int epd_shard_lease_next(struct epd_shard *s, uint64_t after,
    struct epd_lease *out);
/* 1: as far as can be told its holder lives, and its deadline is to come. */
int epd_shard_lease_stands(struct epd_shard *s, const struct epd_lease *l);

#endif
