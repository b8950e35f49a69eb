/*
 * segment.h - a log's bytes: segment heads, frames, and the tip.  No files here.
 *
 * One flush writes one frame under one CRC, which is salted per segment, so
 * that bytes of another log or of a payload never pass for a frame.
 */
#ifndef EPD_SHARD_SEGMENT_H
#define EPD_SHARD_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum {
	EPD_SEGMENT_HEAD = 64, EPD_FRAME_HEAD = 48, EPD_TIP_SIZE = 64,
	EPD_FRAME_MAX = 64 << 20	/* payload of one frame */
};

struct epd_segment {
	uint32_t number;
	uint8_t uuid[16];	/* the workflow's */
	uint64_t salt;
	uint64_t base;		/* lsn of its first record */
	uint64_t wall_ms;
};

struct epd_frame {
	uint64_t lsn;		/* of its first record */
	uint64_t flushed;	/* all up to here was durable when it was written */
	uint64_t term, wall_ms;
	uint32_t count;
	struct epd_span payload;
};

/* Where the published log ends. */
struct epd_tip {
	uint32_t segment;
	uint8_t uuid[16];
	uint64_t offset, lsn;
	uint64_t flushed;	/* durable to here; below lsn without sync, or if leases came last */
	uint32_t again;		/* another one once the segment was written anew */
};

void epd_segment_pack(uint8_t out[EPD_SEGMENT_HEAD], const struct epd_segment *s);
/* Fails: EPD_ECORRUPT, EPD_EKIND (another format version). */
int epd_segment_unpack(struct epd_span p, struct epd_segment *out);
void epd_tip_pack(uint8_t out[EPD_TIP_SIZE], const struct epd_tip *t);
int epd_tip_unpack(struct epd_span p, struct epd_tip *out);

/* Room for a frame's head in an empty buffer; the records go behind it. */
void epd_frame_begin(struct epd_buf *b);
void epd_frame_end(struct epd_buf *b, const struct epd_segment *s,
    const struct epd_frame *f);
/*
 * How many bytes the frame that begins at p claims; 0 if it cannot be one.
 * p.n is at least EPD_FRAME_HEAD.  Only a claim: parse tells whether it is so.
 */
size_t epd_frame_claim(struct epd_span p, const struct epd_segment *s);
/* 1: a whole valid frame begins at p.  0: none. */
int epd_frame_parse(struct epd_span p, const struct epd_segment *s,
    struct epd_frame *out);
/* Offset of what may be the head of a frame, at or after from; p.n if none. */
size_t epd_frame_mark(struct epd_span p, size_t from, const struct epd_segment *s);

#endif
