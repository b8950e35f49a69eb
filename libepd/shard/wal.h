/*
 * wal.h - the shard's diary as files: log.NNNNNNNN, tip, unsure.  A transition
 * is written here before any table changes.
 *
 * What is published ends at the tip, which is written after the flush.  Readers
 * stop there, whatever lies behind: a whole frame past the tip was cut short
 * of its publication by a crash, and only the next lock holder may flush it and
 * adopt it.  So nobody but it can have seen what may yet be cut.
 */
#ifndef EPD_SHARD_WAL_H
#define EPD_SHARD_WAL_H

#include "base/metrics.h"
#include "shard/record.h"
#include "shard/segment.h"

struct epd_wal;

struct epd_wal_pos {
	uint32_t segment;
	uint64_t offset;
	uint64_t lsn;		/* of the last record before it */
};

/* A nonzero return stops the reading and becomes its result. */
typedef int epd_wal_fn(void *arg, const struct epd_rec *r, struct epd_why *why);

enum { EPD_WAL_READ = 1, EPD_WAL_RELAXED = 2 };	/* flags */

/* Owns: the caller owns *out; dirfd stays the caller's, open meanwhile. */
int epd_wal_open(struct epd_wal **out, int dirfd, int flags,
    struct epd_metrics *m);
void epd_wal_close(struct epd_wal *w);
const struct epd_wal_pos *epd_wal_pos(const struct epd_wal *w);
void epd_wal_uuid(const struct epd_wal *w, uint8_t uuid[16]);
/* What is durable for all that is known; if shown, or without sync: published. */
uint64_t epd_wal_done(const struct epd_wal *w, int shown);
/* Another one: of what was not durable then, anything may be gone. */
uint32_t epd_wal_again(const struct epd_wal *w);

/*
 * Stand at the start of a segment.  lsn is the record before it, or
 * EPD_WAL_ANY.  Fails: -ENOENT, EPD_ECORRUPT, EPD_EKIND.
 */
#define EPD_WAL_ANY UINT64_MAX
int epd_wal_seek(struct epd_wal *w, uint32_t segment, uint64_t lsn,
    struct epd_why *why);
/* The highest segment, and the lowest with no gap up to it; -ENOENT. */
int epd_wal_range(int dirfd, uint32_t *first, uint32_t *last);

/*
 * Hand each record to fn, from where w stands up to the tip.
 * Fails: EPD_ECORRUPT with file and offset; -ESTALE (the next segment is gone,
 * or the log was written anew or cut: begin again from the checkpoint).
 */
int epd_wal_read(struct epd_wal *w, epd_wal_fn *fn, void *arg,
    struct epd_why *why);
/* 1: something lies behind the tip, or a flush failed, or the tip is damaged. */
int epd_wal_unsettled(struct epd_wal *w);
/* 1: the tip was absent or damaged when last read. */
int epd_wal_tipless(const struct epd_wal *w);
int epd_wal_unlinked(int fd);	/* 1: the open file has lost its name */
/* Where there is no log: EPD_ECORRUPT if the tip speaks of one. */
int epd_wal_lost(struct epd_wal *w, struct epd_why *why);

/* The following are for who holds the workflow's lock. */

/* A new log: its tip and first segment. */
int epd_wal_begin(struct epd_wal *w, struct epd_why *why);
/*
 * Read to the end of what is whole, published or not.  A torn tail is left for
 * append to cut.  After a failed flush the last segment is first
 * written anew from what the disk gives back.
 * Fails: as read, -ESTALE too where it wrote the segment itself; EPD_EUNSURE.
 */
int epd_wal_adopt(struct epd_wal *w, epd_wal_fn *fn, void *arg,
    struct epd_why *why);
/*
 * Append the records behind a frame's head in b (epd_frame_begin).  w must stand
 * at the end (adopt).  They are neither durable nor published: that is
 * a flush's, once the lock is dropped.
 * Fails: EPD_ETOOBIG, EPD_EPOISONED, -errno: they are not in the log.
 *        EPD_EUNSURE: they may or may not survive.
 */
int epd_wal_append(struct epd_wal *w, struct epd_buf *b, uint32_t count,
    uint64_t term, uint64_t wall_ms, struct epd_why *why);
/*
 * Without the lock: all that w stands behind becomes durable and published, by a
 * flush of its own or one that others waited for too.  run may be called while
 * other threads use w; end wants the lock, and does what it can without.  What
 * begin began is to be ended before it is begun again.
 * Fails: EPD_EUNSURE: it may or may not survive.
 */
struct epd_flush {
	struct epd_tip end;
	int fd, tipfd, dirfd, turn, covered, rc, marked;
};
int epd_wal_flush_begin(struct epd_wal *w, struct epd_flush *f,
    struct epd_why *why);
void epd_wal_flush_run(struct epd_flush *f);
int epd_wal_flush_end(struct epd_wal *w, struct epd_flush *f, int has_lock,
    struct epd_why *why);
/*
 * What is appended while lazy is published at once, if all before it is: it
 * needs no flush, and may be lost with the machine.
 */
void epd_wal_relax(struct epd_wal *w, int lazy);
/* Flush and publish what lies behind the tip, which nobody waits for any more. */
int epd_wal_settle(struct epd_wal *w, struct epd_why *why);
/* What was appended without a flush becomes durable. */
int epd_wal_flush(struct epd_wal *w, struct epd_why *why);
/* Flush and go on in a new segment, unless this one is empty. */
int epd_wal_rotate(struct epd_wal *w, struct epd_why *why);
/* Cut the torn tail that adopt found. */
int epd_wal_trim(struct epd_wal *w, struct epd_why *why);
/* Remove the segments below `first`, and what temporaries a crash left. */
int epd_wal_sweep(struct epd_wal *w, uint32_t first);

#endif
