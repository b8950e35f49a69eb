/*
 * tier_object.c - a page's object of any bytes, asked for the page that it says it
 * is.  The first byte says whether its seal is put right, so that what lies behind it
 * is reached too, and whether a key is wanted.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tier/object.h"

enum { SEALED = 96, MOST = 1 << 16 };

static uint64_t
get(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_page_entry e = { .rows = 0 };
	struct epd_lot lot = { .workflow = "w1", .run = 1, .entry = &e, .n = 1 };
	struct epd_why why;
	uint8_t *in, *out;
	int how, rc;

	if (n < 1 + EPD_OBJECT_HEAD)
		return 0;
	how = *p++;
	n--;
	lot.shape = (struct epd_run_shape){ (uint32_t)get(p + 8, 4),
	    (uint32_t)get(p + 12, 4), (uint32_t)get(p + 16, 4), get(p + 24, 8) };
	if (lot.shape.bytes > MOST)
		return 0;
	e.rows = (uint32_t)get(p + 20, 4);
	memcpy(e.name.b, p + 32, EPD_NAME);
	lot.given = how >> 2 & 1;
	in = malloc(n);
	out = malloc(lot.shape.bytes ? lot.shape.bytes : 1);
	if (!in || !out)
		abort();
	memcpy(in, p, n);
	e.sum = get(p + 64, 8);
	if (how & 1) {
		memset(in + SEALED, 0, EPD_OBJECT_HEAD - SEALED);
		epd_put_le(in + SEALED, epd_xxh3_64(in, SEALED), 8);
	}
	rc = epd_object_unpack(out, &lot, 0, in, n, how & 2 ?
	    epd_span("key", 3) : epd_span("", 0), &why);
	if (rc == 0 && ((how & 3) == 3 ||
	    epd_xxh3_64(out, (size_t)lot.shape.bytes) != e.sum ||
	    epd_object_bytes(in, &lot.shape) != (int64_t)n))
		abort();
	free(in);
	free(out);
	return 0;
}
