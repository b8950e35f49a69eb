/*
 * wire.h - frames out of a fuzzer's bytes: 28 of a head each, whose magic and CRC are
 * put right if the mode says so, then as much as it says of body and bulk.
 */
#ifndef TESTS_FUZZ_WIRE_H
#define TESTS_FUZZ_WIRE_H

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "transport/frame.h"

/* Never more than a socket takes at once. */
enum { WIRE_SPEECH = 60000 };

static inline size_t
wire_frames(uint8_t *out, const uint8_t *p, size_t n)
{
	size_t to = 0;

	while (n >= EPD_FRAME_SEALED && to + EPD_FRAME < WIRE_SPEECH) {
		struct epd_frame f;
		uint8_t *head = out + to;
		uint64_t more;
		uint32_t crc;

		memset(head, 0, EPD_FRAME);
		memcpy(head, p, EPD_FRAME_SEALED);
		memcpy(head, "EPD1", 4);
		/* Small numbers are worth more than large ones. */
		head[5] = 0;
		head[7] = 0;
		head[22] = head[23] = head[26] = head[27] = 0;
		crc = epd_crc32c(0, head, 44);
		for (int i = 0; i < 4; i++)
			head[44 + i] = (uint8_t)(crc >> 8 * i);
		to += EPD_FRAME;
		p += EPD_FRAME_SEALED;
		n -= EPD_FRAME_SEALED;
		if (epd_frame_unpack(&f, head))
			return to;
		more = f.body + epd_frame_bulk(f.bulk, f.flags & EPD_FRAME_SUMMED);
		if (more > WIRE_SPEECH - to)
			return to;
		for (size_t i = 0; i < more; i++)
			out[to + i] = i < n ? p[i] : 0;
		to += more;
		p += more < n ? more : n;
		n -= more < n ? more : n;
	}
	return to;
}

#endif
