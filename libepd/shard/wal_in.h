/* wal_in.h - what wal.c (reading) and wal_write.c share; for them alone. */
#ifndef EPD_SHARD_WAL_IN_H
#define EPD_SHARD_WAL_IN_H

#include <time.h>

#include "shard/wal.h"

#define EPD_WAL_TIP "tip"
#define EPD_WAL_UNSURE "unsure"

enum { EPD_WAL_NAME = 16 };	/* "log.00000001" */

/*
 * 1. fd is the segment pos.segment, -1 before the first seek; pos.offset is
 *    behind the last frame read and delivered whole.
 * 2. win holds the bytes of fd from win_at on; void when fd changes or is cut.
 * 3. torn: bytes behind pos that adopt found to be no frame.
 * 4. flushed: the lsn known durable.  Never above pos.lsn once adopted.
 * 5. again: the tip's when what is read of the log was begun, if begun says so.
 * 6. still: names in the folder are as they were then, if it has not changed
 *    since: no marker, no next segment, and this one under its name.
 * 7. flushfd is the segment too, opened a second time: the kernel tells of a
 *    failed write once for each open file, and a flush without the lock must
 *    not take the news from one with it.  It is there unless nothing is written
 *    or flushed.
 * 8. soft: where in the segment that begins, which was there when it was
 *    opened and not known durable; 0: nowhere.  Of its failure others may have
 *    been told before.  fresh: what is read may still be such.
 * 9. lent: files that a flush under way uses; they are left open for it.
 *
 * The tip's file has a second one behind the first, the mark: where the log ended
 * when it was last appended to, published or not.  Whoever flushes learns from
 * it how much one flush makes durable.  Both are written under the workflow's
 * lock, and with the lock in hand and the log adopted the mark is pos.
 */
struct epd_wal {
	int dirfd, tipfd, fd, flushfd, flags;
	int lent[2];
	int poisoned, lazy;
	struct timespec changed;	/* the folder, when it was last looked through */
	int still;			/* and that was long enough before */
	uint32_t again;
	int begun, fresh;
	int known;			/* seg.uuid is the workflow's */
	struct epd_metrics *metrics;
	struct epd_segment seg;
	struct epd_wal_pos pos;
	struct epd_tip tip, mark;	/* as last read or written */
	int tip_bad;			/* absent or damaged */
	uint64_t flushed, torn, soft;
	struct epd_buf win;
	uint64_t win_at;
};

void epd_wal_name(char name[EPD_WAL_NAME], uint32_t segment);
int epd_wal_damage(const struct epd_wal *w, struct epd_why *why, const char *what);
void epd_wal_shut(struct epd_wal *w, int fd);	/* unless it is lent */
/* An absent or damaged one is no failure, but tip_bad. */
int epd_wal_read_tip(struct epd_wal *w, int patient, struct epd_why *why);
/* Open another segment; what is open and pos are untouched on failure. */
int epd_wal_switch(struct epd_wal *w, uint32_t segment, uint64_t lsn,
    struct epd_why *why);
/*
 * 0; -ESTALE if the segment was written anew after a failed flush, and what was
 * read of it, where that was not flushed, need not be what it says now; -errno.
 */
int epd_wal_same(struct epd_wal *w);
int epd_wal_size(const struct epd_wal *w, uint64_t *size);
/* The frame at pos: 1, or 0 if there is none. */
int epd_wal_step(struct epd_wal *w, uint64_t size, struct epd_frame *f,
    struct epd_why *why);
int epd_wal_deliver(struct epd_wal *w, const struct epd_frame *f,
    epd_wal_fn *fn, void *arg, struct epd_why *why);
epd_wal_fn epd_wal_pass;	/* takes any record and does nothing */
/* A whole frame behind pos that proves that what is at pos was durable. */
int epd_wal_proof(struct epd_wal *w, uint64_t size);

/* Write tip and mark, or the mark; the tip's file is made if need be. */
int epd_wal_publish(struct epd_wal *w);
int epd_wal_mark_end(struct epd_wal *w);
int epd_wal_marked(const struct epd_wal *w);	/* 1: the mark is pos */
/* w->tip as it stands, but for `again`, which becomes another. */
int epd_wal_retip(struct epd_wal *w);
int epd_wal_renew(uint32_t *again);
/*
 * A flush failed.  Without a marker the next appender would take what the page
 * cache says for durable; then, with the lock, what is unpublished is better
 * gone from it.  EPD_EUNSURE.
 */
int epd_wal_unsure(struct epd_wal *w, int why_rc, int locked,
    struct epd_why *why);
int epd_wal_poisoned(struct epd_why *why);
int epd_wal_exists(const struct epd_wal *w, const char *name);
/* After a failed flush: see wal_recover.c. */
int epd_wal_recover(struct epd_wal *w, struct epd_why *why);
/* Write what is soft again, so that this handle's flush speaks for it. */
int epd_wal_harden(struct epd_wal *w, struct epd_why *why);

#endif
