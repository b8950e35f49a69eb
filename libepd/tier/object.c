/*
 * object.c - one page with its head, to bytes and back.
 *
 *	 0  magic			32  name
 *	 8  kind, type, tokens, rows	64  sum of the page
 *	24  bytes of the page		72  codec, flags
 *	80  bytes of the payload	88  zero
 *	96  seal
 *
 * The seal covers head and payload if there is a key, else the head alone: what the
 * payload becomes is held against the page's own sum in any case.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zstd.h>

#include "base/hash.h"
#include "tier/object.h"

#define MAGIC "EPDPAGE1"
enum { SEALED = 96, SEAL = 32, GIVEN = 1, CODEC_RAW = 0, CODEC_ZSTD = 1 };

struct head {
	struct epd_run_shape shape;
	uint32_t rows, codec, flags;
	uint64_t sum, payload;
	struct epd_name name;
};

size_t
epd_object_bound(const struct epd_run_shape *shape)
{
	return EPD_OBJECT_HEAD + ZSTD_compressBound((size_t)shape->bytes);
}

static void
seal(uint8_t out[SEAL], const uint8_t *head, const uint8_t *payload, size_t n,
    struct epd_span key)
{
	struct epd_namer h;
	struct epd_name name;

	if (!key.n) {
		memset(out, 0, SEAL);
		epd_put_le(out, epd_xxh3_64(head, SEALED), 8);
		return;
	}
	epd_namer_begin(&h, "epd-object");
	epd_namer_add(&h, key.p, key.n);
	epd_namer_add(&h, head, SEALED);
	epd_namer_add(&h, payload, n);
	epd_namer_end(&h, &name);
	memcpy(out, name.b, SEAL);
}

static void
head_pack(uint8_t *p, const struct head *h)
{
	memset(p, 0, EPD_OBJECT_HEAD);
	memcpy(p, MAGIC, 8);
	epd_put_le(p + 8, h->shape.kind, 4);
	epd_put_le(p + 12, h->shape.type, 4);
	epd_put_le(p + 16, h->shape.tokens, 4);
	epd_put_le(p + 20, h->rows, 4);
	epd_put_le(p + 24, h->shape.bytes, 8);
	memcpy(p + 32, h->name.b, EPD_NAME);
	epd_put_le(p + 64, h->sum, 8);
	epd_put_le(p + 72, h->codec, 4);
	epd_put_le(p + 76, h->flags, 4);
	epd_put_le(p + 80, h->payload, 8);
}

/* EPD_EFORMAT: it is none of ours. */
static int
head_unpack(struct head *h, const void *p)
{
	struct epd_cur c = epd_cur(epd_span(p, EPD_OBJECT_HEAD));
	struct epd_span magic = epd_unpack_bytes(&c, 8), name;

	if (magic.n != 8 || memcmp(magic.p, MAGIC, 8))
		return EPD_EFORMAT;
	h->shape.kind = epd_unpack_u32(&c);
	h->shape.type = epd_unpack_u32(&c);
	h->shape.tokens = epd_unpack_u32(&c);
	h->rows = epd_unpack_u32(&c);
	h->shape.bytes = epd_unpack_u64(&c);
	name = epd_unpack_bytes(&c, EPD_NAME);
	memcpy(h->name.b, name.p, EPD_NAME);
	h->sum = epd_unpack_u64(&c);
	h->codec = epd_unpack_u32(&c);
	h->flags = epd_unpack_u32(&c);
	h->payload = epd_unpack_u64(&c);
	return epd_unpack_u64(&c) ? EPD_EFORMAT : 0;
}

/* What says which bytes are meant has itself a sum that nobody knows before. */
static int
is_marker(const struct epd_lot *lot)
{
	return lot->shape.kind == EPD_OBJECT_FEATURE_META;
}

int64_t
epd_object_pack(void *out, const struct epd_lot *lot, long i,
    const void *page, int level, struct epd_span key)
{
	const size_t bytes = (size_t)lot->shape.bytes;
	struct head h = {
		.shape = lot->shape, .rows = lot->entry[i].rows,
		.flags = lot->given ? GIVEN : 0,
		.sum = is_marker(lot) ? epd_xxh3_64(page, bytes) :
		    lot->entry[i].sum,
		.name = lot->entry[i].name, .codec = CODEC_RAW,
		.payload = bytes,
	};
	uint8_t *p = out, *payload = p + EPD_OBJECT_HEAD;
	size_t n = 0;

	if (level)
		n = ZSTD_compress(payload, ZSTD_compressBound(bytes), page,
		    bytes, level);
	if (level && ZSTD_isError(n))
		return -ENOMEM;
	if (level && n < bytes) {
		h.codec = CODEC_ZSTD;
		h.payload = n;
	} else {
		memcpy(payload, page, bytes);
	}
	head_pack(p, &h);
	seal(p + SEALED, p, payload, (size_t)h.payload, key);
	return EPD_OBJECT_HEAD + (int64_t)h.payload;
}

int64_t
epd_object_bytes(const void *head, const struct epd_run_shape *shape)
{
	struct head h;

	if (head_unpack(&h, head) || h.shape.bytes != shape->bytes ||
	    h.payload > shape->bytes)
		return EPD_ECORRUPT;
	return EPD_OBJECT_HEAD + (int64_t)h.payload;
}

/* Whether it says that it is that page; NULL, or what differs. */
static const char *
differs(const struct head *h, const struct epd_lot *lot, long i)
{
	const struct epd_page_entry *e = lot->entry + i;

	if (!epd_name_equal(&h->name, &e->name))
		return "it is another page's";
	if (h->shape.kind != lot->shape.kind ||
	    h->shape.type != lot->shape.type ||
	    h->shape.tokens != lot->shape.tokens ||
	    h->shape.bytes != lot->shape.bytes)
		return "it has another layout";
	if (h->rows != e->rows)
		return "it has other rows";
	if (!is_marker(lot) && h->sum != e->sum)
		return "it has another sum";
	if ((h->flags & GIVEN) != (lot->given ? (unsigned)GIVEN : 0))
		return "it comes from elsewhere";
	return NULL;
}

static int
open_payload(void *out, const struct head *h, const uint8_t *payload)
{
	const size_t bytes = (size_t)h->shape.bytes, n = (size_t)h->payload;

	if (h->codec == CODEC_RAW && n == bytes) {
		memcpy(out, payload, n);
		return 0;
	}
	if (h->codec == CODEC_ZSTD &&
	    ZSTD_getFrameContentSize(payload, n) == bytes &&
	    ZSTD_decompress(out, bytes, payload, n) == bytes)
		return 0;
	return EPD_ECORRUPT;
}

int
epd_object_unpack(void *out, const struct epd_lot *lot, long i,
    const void *in, size_t n, struct epd_span key, struct epd_why *why)
{
	const uint8_t *p = in, *payload = p + EPD_OBJECT_HEAD;
	const char *what;
	uint8_t want[SEAL];
	struct head h;

	if (n < EPD_OBJECT_HEAD || head_unpack(&h, p))
		return epd_why(why, EPD_ECORRUPT, "no page's object");
	if ((what = differs(&h, lot, i)))
		return epd_why(why, EPD_ECORRUPT, "%s", what);
	if (h.codec > CODEC_ZSTD)
		return epd_why(why, EPD_EKIND, "packed by %" PRIu32 ", which "
		    "is unknown here", h.codec);
	if (h.payload != n - EPD_OBJECT_HEAD)
		return epd_why(why, EPD_ECORRUPT, "%zu bytes of %" PRIu64,
		    n - EPD_OBJECT_HEAD, h.payload);
	seal(want, p, payload, (size_t)h.payload, key);
	if (memcmp(want, p + SEALED, SEAL))
		return epd_why(why, EPD_ECORRUPT, "its seal is broken");
	if (open_payload(out, &h, payload) ||
	    epd_xxh3_64(out, (size_t)h.shape.bytes) != h.sum)
		return epd_why(why, EPD_ECORRUPT, "its bytes are not the page");
	return 0;
}
