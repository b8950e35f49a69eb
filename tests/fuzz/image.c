/* image.c - any bytes as an image file, both rules, then through the resizer. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/image/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	for (int white = 0; white < 2; white++) {
		struct epd_image_rules r = { !white, white, 1 << 16 };
		struct epd_image im = {0}, out = {0};
		struct epd_why why = {0};
		int rc = epd_image_decode(&im, epd_span(p, n), &r, &why);

		if (rc < 0) {
			if (im.rgb || !why.text[0])
				abort();
			continue;
		}
		if (im.w < 1 || im.h < 1 || im.w * im.h > 1 << 16)
			abort();
		if (epd_image_resize(&out, &im, 28, 56,
		    white ? EPD_PIL : EPD_FAST) < 0)
			abort();
		epd_image_free(&im);
		epd_image_free(&out);
	}
	return 0;
}
