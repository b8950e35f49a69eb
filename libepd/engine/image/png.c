/*
 * png.c - PNG by libspng.  Samples of 16 bits keep their high byte, gray ones
 * too (the reference has no useful rule for those); fewer than 8 are spread
 * over the range.  Gamma and profiles are left alone, as the reference does.
 * A file that is cut short or fails a checksum anywhere is refused.
 */
#include <errno.h>
#include <spng.h>

#include "base/alloc.h"
#include "engine/image/codec.h"

/* Of one ancillary chunk, as stored or as unpacked, and of all together. */
enum { CHUNK_MAX = 16 << 20, CHUNKS_MAX = 64 << 20 };

static struct spng_alloc memory = {
	epd_malloc, epd_realloc, epd_calloc, epd_free,
};

/* zlib's failed allocations come out as broken streams; errno knows better. */
static int
fail(int rc, struct epd_why *why)
{
	if (rc == SPNG_EMEM || errno == ENOMEM)
		return epd_why(why, -ENOMEM, "no memory to read the PNG");
	return epd_why(why, EPD_EFORMAT, "PNG: %s", spng_strerror(rc));
}

static int
see_through(spng_ctx *c, const struct spng_ihdr *h)
{
	struct spng_trns t;

	return h->color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ||
	    h->color_type == SPNG_COLOR_TYPE_TRUECOLOR_ALPHA ||
	    !spng_get_trns(c, &t);
}

static int
pixels(spng_ctx *c, struct epd_image *out, int *turn,
    const struct epd_image_rules *rules, struct epd_why *why)
{
	struct spng_ihdr h;
	struct spng_exif exif;
	size_t n;
	uint8_t *px;
	int rc, alpha;

	rc = spng_get_ihdr(c, &h);
	if (rc)
		return fail(rc, why);
	/* Dropped alpha needs no reading: without it no pixel differs. */
	alpha = rules->white && see_through(c, &h);
	n = (size_t)h.width * h.height;
	rc = epd_image_room(&px, h.width, h.height, alpha ? 4 : 3, rules, why);
	if (rc < 0)
		return rc;
	rc = spng_decode_image(c, px, n * (alpha ? 4 : 3),
	    alpha ? SPNG_FMT_RGBA8 : SPNG_FMT_RGB8,
	    alpha ? SPNG_DECODE_TRNS : 0);
	if (!rc)
		rc = spng_decode_chunks(c);
	if (rc) {
		epd_free(px);
		return fail(rc, why);
	}
	if (alpha)
		epd_image_flatten(px, n, 1);
	if (!spng_get_exif(c, &exif))
		*turn = epd_exif_turn(epd_span(exif.data, exif.length));
	*out = (struct epd_image){ h.width, h.height, px };
	return 0;
}

int
epd_image_png(struct epd_image *out, int *turn, struct epd_span file,
    const struct epd_image_rules *rules, struct epd_why *why)
{
	spng_ctx *c;
	int rc;

	errno = 0;
	c = spng_ctx_new2(&memory, 0);
	if (!c)
		return epd_why(why, -ENOMEM, "no memory to read the PNG");
	spng_set_crc_action(c, SPNG_CRC_ERROR, SPNG_CRC_ERROR);
	spng_set_chunk_limits(c, CHUNK_MAX, CHUNKS_MAX);
	rc = spng_set_png_buffer(c, file.p, file.n);
	rc = rc ? fail(rc, why) : pixels(c, out, turn, rules, why);
	spng_ctx_free(c);
	return rc;
}
