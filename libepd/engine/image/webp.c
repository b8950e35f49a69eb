/*
 * webp.c - WebP by libwebp, lossy and lossless, still pictures only.  A file is
 * "RIFF", a length, "WEBP" and chunks: four letters, a length, the bytes, and a
 * zero byte after an odd number of them.
 */
#include <errno.h>
#include <string.h>

#include <webp/decode.h>

#include "base/alloc.h"
#include "engine/image/codec.h"

static struct epd_span
chunk(struct epd_span file, const char *name)
{
	const uint8_t *p = file.p;
	size_t at = 12, n;

	while (at <= file.n && file.n - at >= 8) {
		n = (size_t)p[at + 4] | (size_t)p[at + 5] << 8 |
		    (size_t)p[at + 6] << 16 | (size_t)p[at + 7] << 24;
		if (n > file.n - at - 8)
			break;
		if (!memcmp(p + at, name, 4))
			return epd_span(p + at + 8, n);
		at += 8 + n + (n & 1);
	}
	return epd_span(NULL, 0);
}

static int
fail(VP8StatusCode st, struct epd_why *why)
{
	const char *text = "broken data";

	switch (st) {
	case VP8_STATUS_OUT_OF_MEMORY:
		return epd_why(why, -ENOMEM, "no memory to read the WebP");
	case VP8_STATUS_UNSUPPORTED_FEATURE:
		return epd_why(why, EPD_EUNSUPPORTED,
		    "WebP: a feature this libwebp lacks");
	case VP8_STATUS_SUSPENDED:
	case VP8_STATUS_NOT_ENOUGH_DATA:
		text = "the file is cut short";
		break;
	default:
		break;
	}
	return epd_why(why, EPD_EFORMAT, "WebP: %s", text);
}

int
epd_image_webp(struct epd_image *out, int *turn, struct epd_span file,
    const struct epd_image_rules *rules, struct epd_why *why)
{
	WebPDecoderConfig c;
	VP8StatusCode st;
	struct epd_span exif;
	uint8_t *px;
	size_t n, bytes;
	int rc;

	if (memcmp(file.p, "RIFF", 4))
		return epd_why(why, EPD_EFORMAT, "WebP: no RIFF header");
	if (!WebPInitDecoderConfig(&c))
		return epd_why(why, EPD_EUNSUPPORTED,
		    "libwebp is not the one this was built for");
	st = WebPGetFeatures(file.p, file.n, &c.input);
	if (st != VP8_STATUS_OK)
		return fail(st, why);
	if (c.input.has_animation)
		return epd_why(why, EPD_EUNSUPPORTED,
		    "animated WebP is not read");
	bytes = c.input.has_alpha && rules->white ? 4 : 3;
	n = (size_t)c.input.width * (size_t)c.input.height;
	rc = epd_image_room(&px, (uint64_t)c.input.width,
	    (uint64_t)c.input.height, bytes, rules, why);
	if (rc < 0)
		return rc;
	c.output.colorspace = bytes == 4 ? MODE_RGBA : MODE_RGB;
	c.output.is_external_memory = 1;
	c.output.u.RGBA.rgba = px;
	c.output.u.RGBA.stride = c.input.width * (int)bytes;
	c.output.u.RGBA.size = n * bytes;
	st = WebPDecode(file.p, file.n, &c);
	WebPFreeDecBuffer(&c.output);
	if (st != VP8_STATUS_OK) {
		epd_free(px);
		return fail(st, why);
	}
	if (bytes == 4)
		epd_image_flatten(px, n, 1);
	exif = chunk(file, "EXIF");
	if (exif.n)
		*turn = epd_exif_turn(exif);
	*out = (struct epd_image){ c.input.width, c.input.height, px };
	return 0;
}
