/*
 * segment.c - the bytes of a log.
 *
 *	segment head	magic 8, version u32, number u32, uuid 16, salt u64,
 *			base u64, wall_ms u64, zero u32, crc u32
 *	frame head	mark u32, crc u32, length u32, count u32, lsn u64,
 *			flushed u64, term u64, wall_ms u64; then the payload
 *	tip		magic 8, version u32, segment u32, uuid 16, offset u64,
 *			lsn u64, flushed u64, again u32, crc u32
 *
 * CRCs are CRC32C.  Of a head and the tip: of all before it.  Of a frame: of
 * the salt, then of all behind the crc field.  The mark is the salt's low half,
 * so that looking for a frame behind damage meets no bait in a payload.
 */
#include "shard/segment.h"

#include <endian.h>
#include <string.h>

#include "base/hash.h"
#include "shard/word.h"

static const char segment_magic[8] = "epd-log\n", tip_magic[8] = "epd-tip\n";
enum { VERSION = 1, CRC_AT = 60 };

static void
put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof v);
}

static void
put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof v);
}

/* Magic, CRC and version, alike in heads and tips. */
static int
check_head(struct epd_span s, const char magic[8])
{
	const uint8_t *p = s.p;

	if (s.n < CRC_AT + 4 || memcmp(p, magic, 8) ||
	    epd_crc32c(0, p, CRC_AT) != epd_word32(p + CRC_AT))
		return EPD_ECORRUPT;
	return epd_word32(p + 8) != VERSION ? EPD_EKIND : 0;
}

void
epd_segment_pack(uint8_t out[EPD_SEGMENT_HEAD], const struct epd_segment *s)
{
	memcpy(out, segment_magic, 8);
	put32(out + 8, VERSION);
	put32(out + 12, s->number);
	memcpy(out + 16, s->uuid, 16);
	put64(out + 32, s->salt);
	put64(out + 40, s->base);
	put64(out + 48, s->wall_ms);
	put32(out + 56, 0);
	put32(out + CRC_AT, epd_crc32c(0, out, CRC_AT));
}

int
epd_segment_unpack(struct epd_span s, struct epd_segment *out)
{
	const uint8_t *p = s.p;
	int rc = check_head(s, segment_magic);

	if (!rc && epd_word32(p + 56))
		rc = EPD_EKIND;
	if (rc)
		return rc;
	out->number = epd_word32(p + 12);
	memcpy(out->uuid, p + 16, 16);
	out->salt = epd_word64(p + 32);
	out->base = epd_word64(p + 40);
	out->wall_ms = epd_word64(p + 48);
	return 0;
}

void
epd_tip_pack(uint8_t out[EPD_TIP_SIZE], const struct epd_tip *t)
{
	memcpy(out, tip_magic, 8);
	put32(out + 8, VERSION);
	put32(out + 12, t->segment);
	memcpy(out + 16, t->uuid, 16);
	put64(out + 32, t->offset);
	put64(out + 40, t->lsn);
	put64(out + 48, t->flushed);
	put32(out + 56, t->again);
	put32(out + CRC_AT, epd_crc32c(0, out, CRC_AT));
}

int
epd_tip_unpack(struct epd_span s, struct epd_tip *out)
{
	const uint8_t *p = s.p;
	int rc = check_head(s, tip_magic);

	if (!rc && epd_word64(p + 48) > epd_word64(p + 40))
		rc = EPD_ECORRUPT;
	if (rc)
		return rc;
	out->segment = epd_word32(p + 12);
	memcpy(out->uuid, p + 16, 16);
	out->offset = epd_word64(p + 32);
	out->lsn = epd_word64(p + 40);
	out->flushed = epd_word64(p + 48);
	out->again = epd_word32(p + 56);
	return 0;
}

static uint32_t
frame_crc(const uint8_t *p, size_t n, const struct epd_segment *s)
{
	uint8_t salt[8];

	put64(salt, s->salt);
	return epd_crc32c(epd_crc32c(0, salt, 8), p + 8, n - 8);
}

void
epd_frame_begin(struct epd_buf *b)
{
	uint8_t *p;

	b->n = 0;
	p = epd_buf_add(b, EPD_FRAME_HEAD);
	if (p)
		memset(p, 0, EPD_FRAME_HEAD);
}

void
epd_frame_end(struct epd_buf *b, const struct epd_segment *s,
    const struct epd_frame *f)
{
	uint8_t *p = b->p;

	put32(p, (uint32_t)s->salt);
	put32(p + 8, (uint32_t)(b->n - EPD_FRAME_HEAD));
	put32(p + 12, f->count);
	put64(p + 16, f->lsn);
	put64(p + 24, f->flushed);
	put64(p + 32, f->term);
	put64(p + 40, f->wall_ms);
	put32(p + 4, frame_crc(p, b->n, s));
}

size_t
epd_frame_claim(struct epd_span s, const struct epd_segment *seg)
{
	const uint8_t *p = s.p;
	uint32_t n = epd_word32(p + 8);

	if (epd_word32(p) != (uint32_t)seg->salt || n > EPD_FRAME_MAX)
		return 0;
	return (size_t)n + EPD_FRAME_HEAD;
}

int
epd_frame_parse(struct epd_span s, const struct epd_segment *seg,
    struct epd_frame *out)
{
	const uint8_t *p = s.p;
	size_t n;

	if (s.n < EPD_FRAME_HEAD)
		return 0;
	n = epd_frame_claim(s, seg);
	if (!n || n > s.n || frame_crc(p, n, seg) != epd_word32(p + 4) ||
	    !epd_word32(p + 12) || !epd_word64(p + 16))
		return 0;
	*out = (struct epd_frame){
		.count = epd_word32(p + 12), .lsn = epd_word64(p + 16),
		.flushed = epd_word64(p + 24), .term = epd_word64(p + 32),
		.wall_ms = epd_word64(p + 40),
		.payload = epd_span(p + EPD_FRAME_HEAD, n - EPD_FRAME_HEAD),
	};
	return 1;
}

size_t
epd_frame_mark(struct epd_span s, size_t from, const struct epd_segment *seg)
{
	const uint8_t *p = s.p, *at;
	uint8_t mark[4];

	put32(mark, (uint32_t)seg->salt);
	if (from >= s.n)
		return s.n;
	at = memmem(p + from, s.n - from, mark, sizeof mark);
	return at ? (size_t)(at - p) : s.n;
}
