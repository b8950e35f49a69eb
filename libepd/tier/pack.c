/* pack.c - the front of a pack, to bytes and back. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "page/page.h"
#include "tier/pack.h"

#define MAGIC "EPDPACK1"
enum { AT_CRC = 188, GIVEN = 1, LOOK = 4 * EPD_PACK_ALIGN };

uint64_t
epd_pack_first(uint32_t n, size_t manifest)
{
	return epd_pack_up(EPD_PACK_HEAD + (uint64_t)n * EPD_PACK_ENTRY +
	    manifest);
}

/* Of all the front, as if the sum itself were zero. */
static uint32_t
front_crc(const uint8_t *p, uint64_t n)
{
	static const uint8_t none[4];
	uint32_t crc = epd_crc32c(0, p, AT_CRC);

	crc = epd_crc32c(crc, none, 4);
	return epd_crc32c(crc, p + AT_CRC + 4, (size_t)n - AT_CRC - 4);
}

void
epd_pack_front(uint8_t *out, const struct epd_pack *p)
{
	uint8_t *e = out + EPD_PACK_HEAD;

	memset(out, 0, (size_t)p->first);
	memcpy(out, MAGIC, 8);
	epd_put_le(out + 8, p->n, 4);
	epd_put_le(out + 12, p->given ? GIVEN : 0, 4);
	epd_put_le(out + 16, p->shape.kind, 4);
	epd_put_le(out + 20, p->shape.type, 4);
	epd_put_le(out + 24, p->shape.tokens, 4);
	epd_put_le(out + 28, p->manifest_bytes, 4);
	epd_put_le(out + 32, p->shape.bytes, 8);
	epd_put_le(out + 40, p->run, 8);
	epd_put_le(out + 48, p->first, 8);
	epd_put_le(out + 56, p->bytes, 8);
	memcpy(out + 64, p->workflow, strnlen(p->workflow, 63));
	for (uint32_t i = 0; i < p->n; i++, e += EPD_PACK_ENTRY) {
		const struct epd_pack_entry *x = p->entry + i;

		memcpy(e, x->page.name.b, EPD_NAME);
		epd_put_le(e + 32, x->page.rows, 4);
		epd_put_le(e + 36, x->codec, 4);
		epd_put_le(e + 40, x->page.sum, 8);
		epd_put_le(e + 48, x->at, 8);
		epd_put_le(e + 56, x->bytes, 8);
	}
	memcpy(e, p->manifest, p->manifest_bytes);
	epd_put_le(out + AT_CRC, front_crc(out, p->first), 4);
}

static int
head_unpack(struct epd_pack *p, const uint8_t *in, uint64_t size)
{
	struct epd_cur c = epd_cur(epd_span(in, EPD_PACK_HEAD));
	struct epd_span magic = epd_unpack_bytes(&c, 8), name;
	uint32_t flags;

	if (memcmp(magic.p, MAGIC, 7))
		return EPD_ECORRUPT;
	if (memcmp(magic.p, MAGIC, 8))
		return EPD_EKIND;
	p->n = epd_unpack_u32(&c);
	flags = epd_unpack_u32(&c);
	p->shape.kind = epd_unpack_u32(&c);
	p->shape.type = epd_unpack_u32(&c);
	p->shape.tokens = epd_unpack_u32(&c);
	p->manifest_bytes = epd_unpack_u32(&c);
	p->shape.bytes = epd_unpack_u64(&c);
	p->run = epd_unpack_u64(&c);
	p->first = epd_unpack_u64(&c);
	p->bytes = epd_unpack_u64(&c);
	name = epd_unpack_bytes(&c, 63);
	memcpy(p->workflow, name.p, 63);
	if (!p->n || p->n > EPD_PACK_PAGES ||
	    p->manifest_bytes > EPD_PACK_MANIFEST ||
	    p->first != epd_pack_first(p->n, p->manifest_bytes) ||
	    p->bytes != size || p->bytes % EPD_PACK_ALIGN || p->first > size)
		return EPD_ECORRUPT;
	p->given = flags == GIVEN;
	return flags > GIVEN ? EPD_EKIND : 0;
}

/* Where it says that the page lies, behind all before; EPD_EKIND: how is unknown. */
static int
entry_check(const struct epd_pack *p, const struct epd_pack_entry *e,
    uint64_t end)
{
	if (e->codec > EPD_PACK_ZSTD)
		return EPD_EKIND;
	if (e->codec == EPD_PACK_RAW ? e->bytes != p->shape.bytes :
	    !e->bytes || e->bytes >= p->shape.bytes)
		return EPD_ECORRUPT;
	return e->at < end || e->at % EPD_PACK_ALIGN || e->at > p->bytes ||
	    e->bytes > p->bytes - e->at ? EPD_ECORRUPT : 0;
}

static int
table_unpack(struct epd_pack *p, const uint8_t *front)
{
	struct epd_cur c = epd_cur(epd_span(front + EPD_PACK_HEAD,
	    (size_t)p->n * EPD_PACK_ENTRY));
	uint64_t end = p->first;

	p->entry = epd_calloc(p->n, sizeof *p->entry);
	p->manifest = epd_calloc(p->manifest_bytes + 1u, 1);
	if (!p->entry || !p->manifest)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n; i++) {
		struct epd_pack_entry *e = p->entry + i;
		struct epd_span name = epd_unpack_bytes(&c, EPD_NAME);
		int rc;

		memcpy(e->page.name.b, name.p, EPD_NAME);
		e->page.rows = epd_unpack_u32(&c);
		e->codec = epd_unpack_u32(&c);
		e->page.sum = epd_unpack_u64(&c);
		e->at = epd_unpack_u64(&c);
		e->bytes = epd_unpack_u64(&c);
		rc = entry_check(p, e, end);
		if (rc)
			return rc;
		end = e->at + e->bytes;
	}
	memcpy(p->manifest, front + EPD_PACK_HEAD +
	    (size_t)p->n * EPD_PACK_ENTRY, p->manifest_bytes);
	return 0;
}

static int
crc_differs(const uint8_t *front, uint64_t n)
{
	struct epd_cur c = epd_cur(epd_span(front + AT_CRC, 4));

	return epd_unpack_u32(&c) != front_crc(front, n);
}

/* The first n bytes, a multiple of 4096 as O_DIRECT wants it. */
static int
read_first(int fd, uint8_t *p, size_t n)
{
	const ssize_t got = epd_file_pread(fd, p, n, 0);

	return got < 0 ? (int)got : (size_t)got != n ? EPD_ECORRUPT : 0;
}

static int
read_front(struct epd_pack *p, int fd)
{
	size_t have = LOOK;
	uint8_t *front;
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < EPD_PACK_ALIGN)
		return EPD_ECORRUPT;
	if (st.st_size < LOOK)
		have = (size_t)st.st_size / EPD_PACK_ALIGN * EPD_PACK_ALIGN;
	if (!(front = epd_alloc_aligned(EPD_PACK_ALIGN, have)))
		return -ENOMEM;
	rc = read_first(fd, front, have);
	if (rc == 0)
		rc = head_unpack(p, front, (uint64_t)st.st_size);
	if (rc == 0 && p->first > have) {
		epd_free(front);
		front = epd_alloc_aligned(EPD_PACK_ALIGN, (size_t)p->first);
		rc = front ? read_first(fd, front, (size_t)p->first) : -ENOMEM;
	}
	if (rc == 0)
		rc = crc_differs(front, p->first) ? EPD_ECORRUPT :
		    table_unpack(p, front);
	epd_free(front);
	return rc;
}

int
epd_pack_read(struct epd_pack *out, int fd, struct epd_why *why)
{
	struct epd_pack p = { .n = 0 };
	int rc = read_front(&p, fd);

	if (rc) {
		epd_pack_free(&p);
		return epd_why(why, rc, "pack: %s", epd_strerror(rc));
	}
	*out = p;
	return 0;
}

void
epd_pack_free(struct epd_pack *p)
{
	epd_free(p->entry);
	epd_free(p->manifest);
	*p = (struct epd_pack){ .n = 0 };
}

int
epd_pack_is(const struct epd_pack *p, const struct epd_lot *lot)
{
	return p->shape.kind == lot->shape.kind &&
	    p->shape.type == lot->shape.type &&
	    p->shape.tokens == lot->shape.tokens &&
	    p->shape.bytes == lot->shape.bytes;
}

const struct epd_pack_entry *
epd_pack_find(const struct epd_pack *p, const struct epd_lot *lot, long i)
{
	const struct epd_page_entry *want = lot->entry + i;

	/* Mostly page i there is page i here. */
	for (uint32_t k = 0; k < p->n; k++) {
		const struct epd_pack_entry *e = p->entry +
		    ((uint32_t)i + k) % p->n;

		if (e->page.sum == want->sum && e->page.rows == want->rows &&
		    epd_name_equal(&e->page.name, &want->name))
			return e;
	}
	return NULL;
}
