/*
 * rest.h - a state that rests: it is offloaded, restored, and may wait for a tool.
 * Outside this room include shard/shard.h.
 *
 * Where pages are is not this room's: it says who is moving them, so that of two that
 * would move one state out or in one does, and that nobody frees what is on its way.
 * Each of the two ways is begun by a move and a lease in one frame and ended by
 * another pair; the lease's id is the fence.  Who died on the way is passed over: the
 * next one begins where the log says.
 */
#ifndef EPD_SHARD_REST_H
#define EPD_SHARD_REST_H

#include <stdint.h>

#include "base/err.h"
#include "shard/types.h"

struct epd_lease;
struct epd_shard;

struct epd_rest {
	uint64_t lease;			/* 0: nothing is under way by this process */
	enum epd_status was;		/* before */
	uint32_t version;		/* the newest, then */
};

/*
 * OFFLOADING, to that tier, and an offload lease for ttl_ms.  1: it is OFFLOADED to
 * there already, or is being moved there by one that lives; nothing was logged.
 * Fails: EPD_ELOCKED (it is decoded, or being moved by one that lives, elsewhere),
 * EPD_ESTATUS, EPD_ENOSTATE, as create.
 */
int epd_shard_offload(struct epd_shard *s, uint32_t state, const char *tier,
    uint64_t ttl_ms, const char *reason, struct epd_rest *out,
    struct epd_why *why);
/*
 * All of it is there: OFFLOADED, and the lease's end.  EPD_ESTATUS, EPD_ELEASE,
 * EPD_ENOSTATE: it was resumed or released meanwhile, and what is in memory stays.
 */
int epd_shard_offloaded(struct epd_shard *s, uint32_t state, uint64_t lease,
    const char *reason, struct epd_why *why);

/*
 * RESTORING, and a restore lease.  1: it is ACTIVE, or SUSPECT; nothing was logged.
 * What was moving out is called off by it, and its lease is gone.  Fails: EPD_ELOCKED (being restored by one
 * that lives, whom to wait for), EPD_ESTATUS, EPD_ENOSTATE, as create.
 */
int epd_shard_restore(struct epd_shard *s, uint32_t state, uint64_t ttl_ms,
    const char *reason, struct epd_rest *out, struct epd_why *why);
/*
 * ACTIVE, and the lease's end; also of an offload that could not go on.  0 too if
 * another made it ACTIVE meanwhile.
 */
int epd_shard_restored(struct epd_shard *s, uint32_t state, uint64_t lease,
    const char *reason, struct epd_why *why);

/*
 * The first state with an id above `after` that is OFFLOADING or RESTORING (a hand-off's
 * target is not meant) while nobody that lives moves it.  left: the lease of who did, id
 * 0 if that went too.  EPD_ENOSTATE past the last.
 */
int epd_shard_unfinished(struct epd_shard *s, uint32_t after,
    struct epd_state *out, struct epd_lease *left);
/* It is ACTIVE, as before: 1; 0: it is no such state by now. */
int epd_shard_unfinished_end(struct epd_shard *s, uint32_t state,
    const char *reason, struct epd_why *why);

/* Call fn under the workflow's lock if the state is OFFLOADED still: 1, or 0. */
int epd_shard_at_rest(struct epd_shard *s, uint32_t state,
    void (*fn)(void *arg), void *arg, struct epd_why *why);

/*
 * It waits for a tool's result, expected by deadline_ms of the wall clock (0: no
 * idea); tool "": it waits no more.  Its next version ends that too.
 * Fails: EPD_ENOSTATE, EPD_ESTATUS, as create.
 */
int epd_shard_wait(struct epd_shard *s, uint32_t state, const char *tool,
    uint64_t deadline_ms, const char *reason, struct epd_why *why);

#endif
