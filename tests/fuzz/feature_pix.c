/*
 * feature_pix.c - a kept picture, as it is and with its checksums put right: a
 * hostile frame gives exactly the pixels announced, or damage.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "feature/inner.h"

enum { MOST = 1 << 22 };	/* pixels, for the fuzzer's sake */

static void
put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static void
look(const uint8_t *p, size_t n)
{
	struct epd_name fp;
	struct epd_why why = { "" };
	volatile uint8_t any = 0;
	uint8_t *rgb = NULL;
	uint32_t h = 0, w = 0;
	int rc;

	memset(&fp, 0, sizeof fp);
	if (n >= EPD_FEATURE_HEAD)
		memcpy(fp.b, p + 8, EPD_NAME);
	rc = epd_pix_unpack(epd_span(p, n), &fp, NULL, &h, &w, &why);
	if (!rc && (uint64_t)h * w > MOST)
		return;
	rc = epd_pix_unpack(epd_span(p, n), &fp, &rgb, &h, &w, &why);
	if (rc ? rgb || !why.text[0] : !rgb || !h || !w)
		abort();
	for (size_t i = 0; !rc && i < (size_t)h * w * 3; i++)
		any = rgb[i];	/* so that each byte is touched */
	(void)any;
	epd_free(rgb);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	uint8_t *b;

	look(p, n);
	if (n < EPD_FEATURE_HEAD || !(b = malloc(n)))
		return 0;
	memcpy(b, p, n);
	put(b + 48, epd_blake2b64(epd_span(p + EPD_FEATURE_HEAD,
	    n - EPD_FEATURE_HEAD)), 8);
	put(b + 56, 0, 4);
	put(b + 60, epd_crc32c(0, b, 60), 4);
	look(b, n);
	free(b);
	return 0;
}
