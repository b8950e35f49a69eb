/*
 * decode.c - which format a file is in, and what holds for every one of them:
 * the cap on pixels, transparency, the turn that EXIF asks for.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/codec.h"
#include "engine/kern/fp.h"

/* Formats by their first bytes; those without a reader are refused by name. */
static const struct kind {
	const char *name;
	epd_image_reader *read;
	size_t at, n;
	const char *magic;
} kinds[] = {
	{ "PNG", epd_image_png, 0, 8, "\x89PNG\r\n\x1a\n" },
	{ "JPEG", epd_image_jpeg, 0, 3, "\xff\xd8\xff" },
	{ "WebP", epd_image_webp, 8, 4, "WEBP" },
	{ "PPM", epd_image_ppm, 0, 2, "P5" },
	{ "PPM", epd_image_ppm, 0, 2, "P6" },
	{ "plain PBM", NULL, 0, 2, "P1" },
	{ "plain PGM", NULL, 0, 2, "P2" },
	{ "plain PPM", NULL, 0, 2, "P3" },
	{ "PBM", NULL, 0, 2, "P4" },
	{ "PAM", NULL, 0, 3, "P7\n" },
	{ "PFM", NULL, 0, 3, "PF\n" },
	{ "PFM", NULL, 0, 3, "Pf\n" },
	{ "GIF", NULL, 0, 4, "GIF8" },
	{ "BMP", NULL, 0, 2, "BM" },
	{ "TIFF", NULL, 0, 4, "II*\0" },
	{ "TIFF", NULL, 0, 4, "MM\0*" },
	{ "BigTIFF", NULL, 0, 4, "II+\0" },
	{ "BigTIFF", NULL, 0, 4, "MM\0+" },
	{ "AVIF", NULL, 4, 8, "ftypavif" },
	{ "HEIF", NULL, 4, 4, "ftyp" },
	{ "JPEG 2000", NULL, 4, 4, "jP  " },
	{ "JPEG 2000", NULL, 0, 4, "\xff\x4f\xff\x51" },
	{ "JPEG XL", NULL, 0, 2, "\xff\x0a" },
	{ "JPEG XL", NULL, 4, 4, "JXL " },
	{ "PSD", NULL, 0, 4, "8BPS" },
	{ "QOI", NULL, 0, 4, "qoif" },
	{ "ICO", NULL, 0, 4, "\0\0\1\0" },
	{ "PDF", NULL, 0, 5, "%PDF-" },
};

static const struct kind *
sniff(struct epd_span file)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const struct kind *k = &kinds[i];

		if (file.n >= k->at + k->n &&
		    !memcmp((const char *)file.p + k->at, k->magic, k->n))
			return k;
	}
	return NULL;
}

static int
decode(struct epd_image *out, struct epd_span file,
    const struct epd_image_rules *rules, struct epd_why *why)
{
	struct epd_image im = {0};
	const struct kind *k;
	int turn = 1, rc;

	if (!file.n)
		return epd_why(why, EPD_EFORMAT, "the file is empty");
	k = sniff(file);
	if (!k)
		return epd_why(why, EPD_EFORMAT,
		    "not an image: PNG, JPEG, WebP, PPM and PGM are read");
	if (!k->read)
		return epd_why(why, EPD_EUNSUPPORTED, "%s is not read: only "
		    "PNG, JPEG, WebP, PPM (P6) and PGM (P5) are", k->name);
	rc = k->read(&im, &turn, file, rules, why);
	if (rc < 0)
		return rc;
	if (rules->exif && turn > 1) {
		rc = epd_image_turn(&im, turn);
		if (rc < 0) {
			epd_image_free(&im);
			return epd_why(why, rc, "no memory to turn the image");
		}
	}
	*out = im;
	return 0;
}

int
epd_image_decode(struct epd_image *out, struct epd_span file,
    const struct epd_image_rules *rules, struct epd_why *why)
{
	unsigned long was = epd_fp_enter();
	int rc = decode(out, file, rules, why);

	epd_fp_leave(was);
	return rc;
}

void
epd_image_free(struct epd_image *im)
{
	if (!im)
		return;
	epd_free(im->rgb);
	*im = (struct epd_image){0};
}

int
epd_image_admit(uint64_t w, uint64_t h, const struct epd_image_rules *rules,
    struct epd_why *why)
{
	if (!w || !h)
		return epd_why(why, EPD_EFORMAT, "the image is empty: %" PRIu64
		    " x %" PRIu64 " pixels", w, h);
	if (rules->max_pixels < 0 || w > (uint64_t)rules->max_pixels / h)
		return epd_why(why, EPD_ETOOBIG, "%" PRIu64 " x %" PRIu64
		    " pixels, and at most %" PRId64 " are read", w, h,
		    rules->max_pixels);
	return 0;
}

int
epd_image_room(uint8_t **out, uint64_t w, uint64_t h, size_t bytes,
    const struct epd_image_rules *rules, struct epd_why *why)
{
	int rc = epd_image_admit(w, h, rules, why);
	uint8_t *p = NULL;

	if (rc < 0)
		return rc;
	if (w <= SIZE_MAX / h / bytes)
		p = epd_malloc((size_t)(w * h) * bytes);
	if (!p)
		return epd_why(why, -ENOMEM, "no memory for %" PRIu64 " x %"
		    PRIu64 " pixels", w, h);
	*out = p;
	return 0;
}

/*
 * Pillow's alpha_composite onto opaque white: 7 bits below the point, and a
 * division by 255 made of shifts.
 */
static uint8_t
on_white(unsigned c, unsigned a)
{
	unsigned v = (c * a + 255 * (255 - a) + 128) << 7;

	return (uint8_t)(((v >> 8) + v) >> 15);
}

void
epd_image_flatten(uint8_t *px, size_t n, int white)
{
	uint8_t *to = px;

	for (size_t i = 0; i < n; i++, px += 4, to += 3) {
		unsigned a = white ? px[3] : 255;

		for (int c = 0; c < 3; c++)
			to[c] = a == 255 ? px[c] : on_white(px[c], a);
	}
}
