/*
 * layout.c - header and table of a run file, packed and read back.
 *
 *	   0   8  "EPDRUN1\n"
 *	   8   4  format, 1
 *	  12   4  kind			  what the pages are
 *	  16   4  type
 *	  20   4  tokens of a page
 *	  24   8  bytes of a page
 *	  32   8  run id		  the name it was published under
 *	  40   8  count of pages
 *	  48   4  CRC32C of the table
 *	  52   4  flags			  1 the pages were given, not computed
 *	  56      zero
 *	4092   4  CRC32C of all before
 *
 * A table entry: name 32, rows 4, zero 4, sum 8.  All little-endian.
 *
 * The checksums tell damage.  That the file is the one asked for, the shape, the
 * names and, for who expects none, the id tell: a right checksum on another
 * run's pages is no hit.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "page/layout.h"

static const char magic[8] = "EPDRUN1\n";
enum { FORMAT = 1, CRC_AT = EPD_RUN_ALIGN - 4, USED = 56 };

int
epd_run_shape_check(const struct epd_run_shape *s)
{
	if (s->kind != EPD_OBJECT_KV_PAGE)
		return EPD_EKIND;
	if (!s->tokens || !s->bytes)
		return -EINVAL;
	if (s->bytes > EPD_RUN_MAX_BYTES || s->tokens > 65536)
		return EPD_ETOOBIG;
	return 0;
}

size_t
epd_run_stride(const struct epd_run_shape *s)
{
	return (size_t)((s->bytes + EPD_RUN_ALIGN - 1) / EPD_RUN_ALIGN *
	    EPD_RUN_ALIGN);
}

void
epd_run_format(char out[EPD_RUN_NAME], uint64_t run)
{
	snprintf(out, EPD_RUN_NAME, "%016" PRIx64, run);
}

int
epd_run_parse(const char *name, uint64_t *run)
{
	char again[EPD_RUN_NAME];
	uint8_t b[8];
	uint64_t v = 0;

	if (strlen(name) != 16 || epd_hex_parse(b, sizeof b, name))
		return -EINVAL;
	for (int i = 0; i < 8; i++)
		v = v << 8 | b[i];
	epd_run_format(again, v);
	/* One spelling only: upper case would make two files of one run. */
	if (!v || strcmp(again, name))
		return -EINVAL;
	*run = v;
	return 0;
}

static uint8_t *
put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
	return p + bytes;
}

void
epd_run_head_pack(uint8_t *out, const struct epd_run_head *h)
{
	uint8_t *p = out;

	memset(out, 0, EPD_RUN_ALIGN);
	memcpy(p, magic, sizeof magic);
	p += sizeof magic;
	p = put(p, FORMAT, 4);
	p = put(p, h->shape.kind, 4);
	p = put(p, h->shape.type, 4);
	p = put(p, h->shape.tokens, 4);
	p = put(p, h->shape.bytes, 8);
	p = put(p, h->run, 8);
	p = put(p, h->count, 8);
	p = put(p, h->table_crc, 4);
	put(p, h->flags, 4);
	put(out + CRC_AT, epd_crc32c(0, out, CRC_AT), 4);
}

static int
zeros(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return 0;
	return 1;
}

int
epd_run_head_unpack(struct epd_run_head *h, const uint8_t *in, uint64_t size,
    struct epd_why *why)
{
	struct epd_cur c = epd_cur(epd_span(in + sizeof magic, USED - 8));
	struct epd_cur crc = epd_cur(epd_span(in + CRC_AT, 4));
	struct epd_run_head got;
	uint32_t format;
	uint64_t want;

	if (memcmp(in, magic, sizeof magic))
		return epd_why(why, EPD_ECORRUPT, "not a run file");
	if (epd_unpack_u32(&crc) != epd_crc32c(0, in, CRC_AT))
		return epd_why(why, EPD_ECORRUPT, "header's checksum is wrong");
	format = epd_unpack_u32(&c);
	got.shape.kind = epd_unpack_u32(&c);
	got.shape.type = epd_unpack_u32(&c);
	got.shape.tokens = epd_unpack_u32(&c);
	got.shape.bytes = epd_unpack_u64(&c);
	got.run = epd_unpack_u64(&c);
	got.count = epd_unpack_u64(&c);
	got.table_crc = epd_unpack_u32(&c);
	got.flags = epd_unpack_u32(&c);
	if (format != FORMAT)
		return epd_why(why, EPD_EKIND, "run format %" PRIu32, format);
	if (got.shape.kind != EPD_OBJECT_KV_PAGE)
		return epd_why(why, EPD_EKIND, "objects of kind %" PRIu32,
		    got.shape.kind);
	if (!zeros(in + USED, CRC_AT - USED) ||
	    epd_run_shape_check(&got.shape) || !got.run || !got.count ||
	    got.count > EPD_RUN_MAX_PAGES || got.flags > EPD_RUN_GIVEN)
		return epd_why(why, EPD_ECORRUPT, "header makes no sense");
	/* Both factors are bounded above, so this cannot wrap. */
	want = EPD_RUN_ALIGN + got.count *
	    (epd_run_stride(&got.shape) + EPD_RUN_ENTRY);
	if (size != want)
		return epd_why(why, EPD_ECORRUPT, "%" PRIu64 " bytes long, not %"
		    PRIu64, size, want);
	*h = got;
	return 0;
}

uint32_t
epd_run_table_pack(uint8_t *out, const struct epd_page_entry *e, long n)
{
	uint8_t *p = out;

	for (long i = 0; i < n; i++) {
		memcpy(p, e[i].name.b, EPD_NAME);
		p = put(p + EPD_NAME, e[i].rows, 4);
		p = put(p, 0, 4);
		p = put(p, e[i].sum, 8);
	}
	return epd_crc32c(0, out, (size_t)n * EPD_RUN_ENTRY);
}

int
epd_run_table_unpack(struct epd_page_entry *e, const uint8_t *in,
    const struct epd_run_head *h, struct epd_why *why)
{
	size_t n = (size_t)h->count * EPD_RUN_ENTRY;
	struct epd_cur c = epd_cur(epd_span(in, n));

	if (epd_crc32c(0, in, n) != h->table_crc)
		return epd_why(why, EPD_ECORRUPT, "table's checksum is wrong");
	for (uint64_t i = 0; i < h->count; i++) {
		struct epd_span name = epd_unpack_bytes(&c, EPD_NAME);
		uint32_t zero;

		memcpy(e[i].name.b, name.p, EPD_NAME);
		e[i].rows = epd_unpack_u32(&c);
		zero = epd_unpack_u32(&c);
		e[i].sum = epd_unpack_u64(&c);
		if (zero || !e[i].rows || e[i].rows > h->shape.tokens)
			return epd_why(why, EPD_ECORRUPT,
			    "table entry %" PRIu64 " makes no sense", i);
	}
	return 0;
}
