/*
 * shard.h - one workflow's truth: its states, their versions, and the log they
 * come from.  This room knows ids; it has never heard of a page's bytes.
 *
 * Every change is logged and flushed before a table changes; live and recovery
 * meet in one apply().  Writers take the workflow's lock for one append;
 * readers take none and stop at the published durable lsn, so they never see what
 * a later writer could cut.  Threads may share a handle for the verbs that append;
 * then nobody looks at its tables.  A child of fork opens its own, and leaves its
 * parent's alone but for reading and close.
 *
 * Files in the directory: log.NNNNNNNN, tip, checkpoint, lock, unsure (a flush
 * failed), and temporaries .tmp.*, which are swept under the lock.
 */
#ifndef EPD_SHARD_H
#define EPD_SHARD_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/metrics.h"
#include "shard/fork.h"
#include "shard/handoff.h"
#include "shard/lease.h"
#include "shard/log.h"
#include "shard/mend.h"
#include "shard/parcel.h"
#include "shard/release.h"
#include "shard/rest.h"
#include "shard/types.h"
#include "shard/unmake.h"
#include "shard/view.h"

struct epd_shard_options {
	struct epd_metrics *metrics;
	const struct epd_log *log;
	struct epd_procs *procs;	/* who holds leases; NULL: takes none */
	uint64_t lock_timeout_ms;
	unsigned vain;			/* as epd_shard_vain last; UINT_MAX: no wait */
	uint64_t checkpoint_bytes;	/* of log between checkpoints, or as many as the last one took */
	int64_t log_keep;		/* segments kept behind a checkpoint; < 0: all */
	int sync;			/* 0: acknowledged is not durable */
	int read_only;
	const char *owner;		/* the node that writes, lent; NULL, "": none of any */
};

/*
 * Open the workflow in dirfd; a directory with no log is made one, unless
 * read_only.  A torn tail is not touched before the first append.  What a
 * crash or a failed flush left undecided is settled here, under the lock if
 * that is free, unless read_only, which shows what was published.
 * Fails: EPD_ECORRUPT (where is in why; nothing is changed), EPD_EKIND,
 * -ENOENT (read_only and none there), -errno.
 * Owns: the caller owns *out; dirfd stays the caller's, open meanwhile.
 */
int epd_shard_open(struct epd_shard **out, int dirfd,
    const struct epd_shard_options *o, struct epd_why *why);
void epd_shard_close(struct epd_shard *s);
/* Read on to the durable lsn.  What was lent before is void. */
int epd_shard_catch_up(struct epd_shard *s, struct epd_why *why);
/* Waits for the lock in vain since it was had; a verb's next is 4^-n as long. */
unsigned epd_shard_vain(const struct epd_shard *s);
int epd_shard_unsettled(struct epd_shard *s);	/* more in the log than is published */
uint64_t epd_shard_lsn(const struct epd_shard *s);
uint64_t epd_shard_term(const struct epd_shard *s);
const char *epd_shard_owner(const struct epd_shard *s);	/* "": no node's */
/*
 * From here on the workflow is the named node's, under a term above the one it has.
 * Others that say which node they are get EPD_ELEASE from every verb that writes,
 * nothing written: a node that was away finds that it is no more its.
 * Fails: EPD_ESTALE (the term is not above), as create.
 */
int epd_shard_own(struct epd_shard *s, const char *node, uint64_t term,
    struct epd_why *why);
void epd_shard_uuid(const struct epd_shard *s, uint8_t uuid[16]);

/*
 * create_state: a new state at @1.  *id is its number, never used before.
 * Fails: EPD_ELOCKED, EPD_ETOOBIG, EPD_EPOISONED, -EINVAL (v contradicts
 *        itself), EPD_ESTALE (removed: unmake.h), -ENOSPC, ...: not created.
 *        EPD_EUNSURE: it may or may not exist; open again to learn.
 * create and advance also reclaim what has expired; the runs that frees are
 * told to this handle's next release or expire, or are left to a sweep.
 */
int epd_shard_create(struct epd_shard *s, const struct epd_state *state,
    const struct epd_version *v, uint32_t *id, struct epd_why *why);

/*
 * advance_step: v becomes the state's next version if its newest is still
 * `expect`.  key makes it idempotent: the same key on the same version again
 * gives the version it gave (0: no key).
 * Fails: EPD_ENOSTATE, EPD_EVERSION, EPD_ESTATUS, and as create.
 */
int epd_shard_advance(struct epd_shard *s, uint32_t id, uint32_t expect,
    uint64_t key, const struct epd_version *v, uint32_t *version,
    struct epd_why *why);

/* fn is told the runs that went since the last telling. */
void epd_shard_tell(struct epd_shard *s,
    void (*freed)(void *arg, uint64_t run), void *arg);

/*
 * release_state.  A state released before is 0 again; one that never was is
 * EPD_ENOSTATE.  freed is told the run of each node that went with it.
 */
int epd_shard_release(struct epd_shard *s, uint32_t id, const char *reason,
    void (*freed)(void *arg, uint64_t run), void *arg, struct epd_why *why);
/*
 * Release what has expired, drop leases that stand no more, sweep temporaries and
 * a torn tail; the count of states or an error.
 */
int epd_shard_expire(struct epd_shard *s,
    void (*freed)(void *arg, uint64_t run), void *arg, struct epd_why *why);

#endif
