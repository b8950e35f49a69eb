/*
 * tier_mooncake.c - what a Mooncake Store gives for a page: base64 that unpacks
 * is the only text for its bytes, and no object that was not made for the page
 * is taken.
 */
#include <stdlib.h>
#include <string.h>

#include "tier/mooncake_in.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	/* The sum is that of no page that an input could hold. */
	struct epd_page_entry e = { .name.b = { 1, 2, 3 }, .rows = 16,
	    .sum = 0x1122334455667788 };
	struct epd_lot lot = { .workflow = "w1", .entry = &e, .n = 1,
	    .shape = { EPD_OBJECT_KV_PAGE, 1, 16, 256 } };
	struct epd_mooncake m = { 0 };
	struct epd_errand errand = { .m = &m, .lot = &lot };
	struct epd_buf bytes = { 0 }, text = { 0 };
	uint8_t page[256];

	if (!epd_base64_unpack(&bytes, epd_span(p, n))) {
		epd_base64_pack(&text, epd_span(bytes.p, bytes.n));
		if (text.n != n || (n && memcmp(text.p, p, n)))
			abort();
	} else if (bytes.n) {
		abort();
	}
	if (!epd_mooncake_open_object(&errand, 0, page, p, n, NULL) &&
	    epd_xxh3_64(page, sizeof page) != e.sum)
		abort();
	epd_buf_free(&bytes);
	epd_buf_free(&text);
	epd_buf_free(&m.object);
	return 0;
}
