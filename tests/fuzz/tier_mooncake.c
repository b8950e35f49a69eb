/*
 * tier_mooncake.c - what a Mooncake Store gives for a page: base64 that reads
 * is the only text for its bytes, and no object that was not made for the page
 * is taken.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tier/mooncake_in.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	/* The name and sum are what no input has. */
	struct epd_page_entry e = { .name.b = { 1, 2, 3 }, .rows = 16,
	    .sum = 0x1122334455667788 };
	struct epd_lot lot = { .workflow = "w1", .entry = &e, .n = 1,
	    .shape = { EPD_OBJECT_KV_PAGE, 1, 16, 256 } };
	struct epd_mooncake m = { 0 };
	struct epd_errand errand = { .m = &m, .lot = &lot };
	char *text = epd_malloc(n + 1), *again = epd_malloc(n + 5);
	uint8_t page[256];
	int64_t bytes;

	memcpy(text, p, n);
	bytes = epd_base64_unpack(text, text, n);
	if (bytes >= 0) {
		if (epd_base64_bytes((size_t)bytes) != n)
			abort();
		epd_base64_pack(again, text, (size_t)bytes);
		if (memcmp(again, p, n))
			abort();
	}
	memcpy(text, p, n);
	if (!epd_mooncake_open_object(&errand, 0, page, text, n, NULL) &&
	    epd_xxh3_64(page, sizeof page) != e.sum)
		abort();
	epd_free(text);
	epd_free(again);
	return 0;
}
