/*
 * frame.c - heads as bytes.
 *
 *	0 magic u32	4 verb u16	6 flags u16	8 id u64	16 status i32
 *	20 body u32	24 bulk u32	28 mac 16	44 crc u32 of all before
 */
#include "transport/frame.h"

#include <string.h>

#include "base/err.h"
#include "base/hash.h"

enum { MAGIC = 0x31445045 };		/* "EPD1" */

void
epd_frame_pack(uint8_t out[EPD_FRAME], const struct epd_frame *f)
{
	epd_put_le(out, MAGIC, 4);
	epd_put_le(out + 4, f->verb, 2);
	epd_put_le(out + 6, f->flags, 2);
	epd_put_le(out + 8, f->id, 8);
	epd_put_le(out + 16, (uint32_t)f->status, 4);
	epd_put_le(out + 20, f->body, 4);
	epd_put_le(out + 24, f->bulk, 4);
	memcpy(out + EPD_FRAME_SEALED, f->mac, EPD_FRAME_MAC);
	epd_put_le(out + 44, epd_crc32c(0, out, 44), 4);
}

/* Whether bulk may come with it, and what its status may be. */
static int
is_possible(const struct epd_frame *f)
{
	const int answer = f->flags & EPD_FRAME_ANSWER;

	if (f->verb < EPD_WIRE_HELLO || f->verb >= EPD_WIRE_VERBS ||
	    f->flags & ~EPD_FRAME_FLAGS || f->body > EPD_FRAME_BODY ||
	    f->bulk > EPD_FRAME_BULK || f->status > UINT16_MAX ||
	    f->status < -UINT16_MAX)
		return 0;
	if (answer ? f->status > 0 : f->status && f->verb != EPD_WIRE_CALL)
		return 0;
	if (answer && f->status)
		return !f->bulk && f->body <= EPD_FRAME_STRANGER;
	if (f->verb == (answer ? EPD_WIRE_READ : EPD_WIRE_WRITE))
		return f->bulk && f->body == (answer ? 0 : EPD_FRAME_RANGE);
	return !f->bulk;
}

int
epd_frame_unpack(struct epd_frame *out, const uint8_t in[EPD_FRAME])
{
	struct epd_cur c = epd_cur(epd_span(in, EPD_FRAME));
	const uint32_t magic = epd_unpack_u32(&c);
	struct epd_frame f;

	f.verb = epd_unpack_u16(&c);
	f.flags = epd_unpack_u16(&c);
	f.id = epd_unpack_u64(&c);
	f.status = (int32_t)epd_unpack_u32(&c);
	f.body = epd_unpack_u32(&c);
	f.bulk = epd_unpack_u32(&c);
	memcpy(f.mac, epd_unpack_bytes(&c, EPD_FRAME_MAC).p, EPD_FRAME_MAC);
	if (magic != MAGIC || epd_unpack_u32(&c) != epd_crc32c(0, in, 44) ||
	    !is_possible(&f))
		return EPD_EFORMAT;
	*out = f;
	return 0;
}

void
epd_frame_range_pack(uint8_t out[EPD_FRAME_RANGE], const struct epd_frame_range *r)
{
	epd_put_le(out, r->window, 8);
	epd_put_le(out + 8, r->offset, 8);
	epd_put_le(out + 16, r->bytes, 4);
}

void
epd_frame_range_unpack(struct epd_frame_range *out,
    const uint8_t in[EPD_FRAME_RANGE])
{
	struct epd_cur c = epd_cur(epd_span(in, EPD_FRAME_RANGE));

	out->window = epd_unpack_u64(&c);
	out->offset = epd_unpack_u64(&c);
	out->bytes = epd_unpack_u32(&c);
}

uint64_t
epd_frame_bulk(uint32_t bulk, int summed)
{
	const uint64_t blocks = ((uint64_t)bulk + EPD_FRAME_BLOCK - 1) /
	    EPD_FRAME_BLOCK;

	return bulk + (summed ? blocks * EPD_FRAME_SUM : 0);
}
