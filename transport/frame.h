/*
 * frame.h - what goes over a connection, as bytes: a head, a small body, then bulk.
 * FORMATS.md (Wire) has them one by one.
 */
#ifndef TRANSPORT_FRAME_H
#define TRANSPORT_FRAME_H

#include <stdint.h>

#include "base/span.h"

enum {
	EPD_FRAME = 48,			/* bytes of a head */
	EPD_FRAME_SEALED = 28,		/* of it that the MAC covers */
	EPD_FRAME_MAC = 16,
	EPD_FRAME_STRANGER = 256,	/* a body's most before authentication */
	EPD_FRAME_BODY = 16 << 20,	/* and after */
	EPD_FRAME_BULK = 1 << 30,
	EPD_FRAME_BLOCK = 256 << 10,	/* of bulk, each with a sum of its own */
	EPD_FRAME_STRETCH = 128 << 10,	/* of a block, summed while in the cache */
	EPD_FRAME_SUM = 8,
	EPD_FRAME_RANGE = 20,		/* body of READ and WRITE */
	EPD_WIRE_VERSION = 1,
};

enum epd_wire_verb {
	EPD_WIRE_HELLO = 1,	/* the server's, of itself */
	EPD_WIRE_PROVE,
	EPD_WIRE_CALL,		/* for the host: verb u16, then its question */
	EPD_WIRE_READ,
	EPD_WIRE_WRITE,
	EPD_WIRE_SHUT,		/* window u64 */
	EPD_WIRE_MAP,		/* its stretches; files go along (Unix sockets) */
	EPD_WIRE_RAIL,		/* these three: rdma */
	EPD_WIRE_EXPOSE,
	EPD_WIRE_COVER,
	EPD_WIRE_VERBS
};

enum { EPD_FRAME_ANSWER = 1, EPD_FRAME_SUMMED = 2, EPD_FRAME_FLAGS = 3 };

struct epd_frame {
	uint16_t verb, flags;
	uint64_t id;		/* a question's number; its answer has the same */
	int32_t status;		/* of an answer: 0, -errno, base/err.h */
	uint32_t body, bulk;	/* bytes; the sums between bulk's blocks not counted */
	uint8_t mac[EPD_FRAME_MAC];
};

void epd_frame_pack(uint8_t out[EPD_FRAME], const struct epd_frame *f);
/*
 * Fails: EPD_EFORMAT: no head of ours, or one that asks for more than there may be.
 */
int epd_frame_unpack(struct epd_frame *out, const uint8_t in[EPD_FRAME]);

/* What READ and WRITE are about. */
struct epd_frame_range {
	uint64_t window, offset;
	uint32_t bytes;
};
void epd_frame_range_pack(uint8_t out[EPD_FRAME_RANGE],
    const struct epd_frame_range *r);
void epd_frame_range_unpack(struct epd_frame_range *out,
    const uint8_t in[EPD_FRAME_RANGE]);

/* Bytes that bulk takes on the wire. */
uint64_t epd_frame_bulk(uint32_t bulk, int summed);

#endif
