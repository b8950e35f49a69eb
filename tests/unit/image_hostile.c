/*
 * image_hostile.c - files cut short, files that lie about their size, sizes
 * made to exhaust memory, formats that are not read, and allocations that fail.
 */
#include <dirent.h>
#include <errno.h>

#include "base/alloc.h"
#include "engine/image/image.h"
#include "tests/check.h"
#include "tests/golden.h"

static const struct epd_image_rules white = { 1, 1, 1 << 24 };
static const struct epd_image_rules drop = { 1, 0, 1 << 24 };

/* One of each reader's ways through. */
static const char *const samples[] = {
	GOLDEN "images/odd_97x61.png", GOLDEN "images/rgba_80x60.png",
	GOLDEN "images/palette_alpha_64x48.png",
	GOLDEN "images/exif6_90x60.jpg", "tests/data/image/progressive.jpg",
	"tests/data/image/cmyk.jpg", "tests/data/image/interlaced_rgba.png",
	"tests/data/image/lossy_alpha.webp", "tests/data/image/lossless.webp",
	"tests/data/image/exif6.webp", "tests/data/image/exif3_late.png",
	"tests/data/image/p6.pnm", "tests/data/image/p6_max1000.pnm",
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* A cut file is refused, or has lost nothing but its tail's formalities. */
TEST(cut_short)
{
	for (int i = 0; i < SAMPLES; i++) {
		struct epd_buf b = golden_read(samples[i]);
		struct epd_image whole = {0};
		int taken = 0;

		CHECK_INT(epd_image_decode(&whole, epd_span(b.p, b.n), &white,
		    NULL), 0);
		for (size_t n = 0; n < b.n; n += b.n - n > 97 ? 97 : 1) {
			struct epd_image im = {0};
			struct epd_why why = {0};
			/* At its own length, so that a reader past it is seen. */
			void *cut = malloc(n ? n : 1);
			int rc;

			memcpy(cut, b.p, n);
			rc = epd_image_decode(&im, epd_span(cut, n), &white,
			    &why);
			free(cut);
			if (rc == 0) {
				CHECK(im.w == whole.w && im.h == whole.h);
				CHECK(!memcmp(im.rgb, whole.rgb,
				    (size_t)(im.w * im.h) * 3));
				epd_image_free(&im);
				taken++;
				continue;
			}
			CHECK_INT(rc, EPD_EFORMAT);
			CHECK(why.text[0] && !im.rgb);
		}
		if (taken > 8)
			CHECK_FAIL("%s: %d cuts taken", samples[i], taken);
		epd_image_free(&whole);
		epd_buf_free(&b);
	}
}

static size_t largest;

static int
watch(void *arg, size_t n)
{
	(void)arg;
	largest = n > largest ? n : largest;
	return 0;
}

/* How it ends, having asked for no more than 1 MiB at once; 1 if it did. */
static int
outcome(const void *p, size_t n, const struct epd_image_rules *r)
{
	struct epd_image im = {0};
	struct epd_why why = {0};
	int rc;

	largest = 0;
	epd_alloc_hook(watch, NULL);
	rc = epd_image_decode(&im, epd_span(p, n), r, &why);
	epd_alloc_hook(NULL, NULL);
	if (rc == 0)
		epd_image_free(&im);
	else if (im.rgb || !why.text[0])
		return 2;
	return largest > 1 << 20 ? 1 : rc;
}

#define OUTCOME(s) outcome(s, sizeof s - 1, &white)
#define IHDR(w, h) "\x89PNG\r\n\x1a\n\0\0\0\rIHDR" w h "\10\2\0\0\0"
#define SOF(w, h, n) "\xff\xd8\xff\xc0\0\x11\10" h w n \
	"\1\x11\0\2\x11\0\3\x11\0"
#define VP8X(flags, w, h) "RIFF\xff\0\0\0WEBPVP8X\n\0\0\0" flags "\0\0\0" w h

TEST(sizes_that_lie)
{
	CHECK_INT(OUTCOME("P6\n65535 65535\n255\n"), EPD_ETOOBIG);
	CHECK_INT(OUTCOME("P6\n1000000000 1000000000\n65535\n"), EPD_ETOOBIG);
	CHECK_INT(OUTCOME("P6\n4000 4000\n255\n"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P5\n99999999999999999999 1\n255\n"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P6\n0 5\n255\n"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P6\n5 0\n255\n"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P6\n2 2\n65536\n"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P6\n2 2\n0\n"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P6\n2 -2\n255\n"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P6\n2 2\n255"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P6"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P6#"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P61 1 255 abc"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("P6 1 1 255 abc"), 0);
	/* The sum of an IHDR is checked first, so these carry the right one. */
	CHECK_INT(OUTCOME(IHDR("\0\0\xff\xff", "\0\0\xff\xff")
	    "\x39\x67\x4e\7"), EPD_ETOOBIG);
	CHECK_INT(OUTCOME(IHDR("\0\0\0\0", "\0\0\0\1") "\x7f\xb5\x38\xe0"),
	    EPD_EFORMAT);
	CHECK_INT(OUTCOME(SOF("\xff\xff", "\xff\xff", "\3")
	    "\xff\xda\0\x0c\3\1\0\2\0\3\0\0\x3f\0"), EPD_ETOOBIG);
	CHECK_INT(OUTCOME(SOF("\0\0", "\0\1", "\3")
	    "\xff\xda\0\x0c\3\1\0\2\0\3\0\0\x3f\0"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("\xff\xd8\xff\xe1\xff\xff" "Exif"), EPD_EFORMAT);
	CHECK_INT(OUTCOME(VP8X("\0", "\xff\x3f\0", "\xff\x3f\0")
	    "VP8 \xff\xff\xff\x7f"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("RIFX\xff\0\0\0WEBPVP8 "), EPD_EFORMAT);
}

/* The cap counts pixels and is met exactly. */
TEST(max_pixels)
{
	for (int i = 0; i < SAMPLES; i++) {
		struct epd_buf b = golden_read(samples[i]);
		struct epd_image im = {0};
		struct epd_image_rules r = white;

		CHECK_INT(epd_image_decode(&im, epd_span(b.p, b.n), &r, NULL),
		    0);
		r.max_pixels = (int64_t)im.w * im.h;
		CHECK_INT(outcome(b.p, b.n, &r), 0);
		r.max_pixels--;
		CHECK_INT(outcome(b.p, b.n, &r), EPD_ETOOBIG);
		r.max_pixels = 0;
		CHECK_INT(outcome(b.p, b.n, &r), EPD_ETOOBIG);
		r.max_pixels = -1;
		CHECK_INT(outcome(b.p, b.n, &r), EPD_ETOOBIG);
		epd_image_free(&im);
		epd_buf_free(&b);
	}
}

TEST(other_formats_are_named)
{
	static const struct { const char *bytes; size_t n; const char *name; }
	t[] = {
		{ "GIF89a\1\0\1\0", 10, "GIF" }, { "BM\66\0\0\0", 6, "BMP" },
		{ "II*\0\10\0\0\0", 8, "TIFF" }, { "MM\0*\0\0\0\10", 8, "TIFF" },
		{ "\0\0\0\x1c" "ftypavif", 12, "AVIF" },
		{ "\0\0\0\x1c" "ftypheic", 12, "HEIF" },
		{ "\0\0\0\x0cJXL \r\n", 10, "JPEG XL" }, { "P3\n1 1\n", 7, "PPM" },
		{ "P7\nWIDTH 1\n", 11, "PAM" }, { "8BPS\0\1", 6, "PSD" },
	};

	for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
		struct epd_image im = {0};
		struct epd_why why = {0};

		CHECK_INT(epd_image_decode(&im, epd_span(t[i].bytes, t[i].n),
		    &white, &why), EPD_EUNSUPPORTED);
		CHECK(strstr(why.text, t[i].name));
	}
	CHECK_INT(OUTCOME(""), EPD_EFORMAT);
	CHECK_INT(OUTCOME("hello"), EPD_EFORMAT);
	CHECK_INT(OUTCOME("\x89"), EPD_EFORMAT);
}

static int
refuse_nth(void *arg, size_t n)
{
	(void)n;
	return (*(int *)arg)-- == 0;
}

/* Every allocation of decoding and resizing, failing in turn. */
TEST(no_memory)
{
	for (int i = 0; i < SAMPLES * 2; i++) {
		struct epd_buf b = golden_read(samples[i / 2]);
		int rc = -1, failed = 0;

		for (int nth = 0; rc != 0; nth++) {
			struct epd_image im = {0}, out = {0};
			struct epd_why why = {0};
			int left = nth;

			CHECK(nth < 10000);
			epd_alloc_hook(refuse_nth, &left);
			rc = epd_image_decode(&im, epd_span(b.p, b.n),
			    i % 2 ? &white : &drop, &why);
			if (rc == 0)
				rc = epd_image_resize(&out, &im, 56, 28,
				    i % 2 ? EPD_PIL : EPD_FAST);
			epd_alloc_hook(NULL, NULL);
			epd_image_free(&im);
			epd_image_free(&out);
			if (rc && rc != -ENOMEM)
				CHECK_FAIL("%s, allocation %d: %s",
				    samples[i / 2], nth, why.text);
			if (!rc && left < 0)
				CHECK_FAIL("%s, allocation %d: not missed",
				    samples[i / 2], nth);
			failed += rc != 0;
		}
		CHECK(failed >= 8);
		epd_buf_free(&b);
	}
}

/* Sizes that meet every edge of the kernel; sums must stay within 32 bits. */
TEST(resize_edges)
{
	static const long sizes[] = { 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 64, 200 };
	enum { N = sizeof sizes / sizeof *sizes };
	uint8_t px[200 * 5 * 3];

	for (size_t k = 0; k < sizeof px; k++)
		px[k] = k / 3 % 2 ? 0 : 255;
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++)
			for (int how = EPD_FAST; how <= EPD_PIL; how++) {
				struct epd_image in = { sizes[i], 5, px }, out;

				CHECK_INT(epd_image_resize(&out, &in, sizes[j],
				    3, (enum epd_resampler)how), 0);
				epd_image_free(&out);
			}
	for (size_t k = 0; k < sizeof px; k++)
		px[k] = 200;
	for (int j = 0; j < N; j++) {
		struct epd_image in = { 5, 200, px }, out;

		CHECK_INT(epd_image_resize(&out, &in, 3, sizes[j], EPD_PIL), 0);
		for (long k = 0; k < out.w * out.h * 3; k++)
			CHECK_INT(out.rgb[k], 200);
		epd_image_free(&out);
	}
	struct epd_image in = { 5, 5, px }, out = { 7, 7, NULL };
	CHECK_INT(epd_image_resize(&out, &in, 0, 5, EPD_PIL), -EINVAL);
	CHECK(out.w == 7);
}

TEST(fit_refuses_nonsense)
{
	struct epd_processor p = { .patch = 14, .merge = 2, .max_pixels = 1000 };
	long w = 5, h = 6;

	CHECK_INT(epd_image_fit(&p, 0, 5, &w, &h, NULL), EPD_EFORMAT);
	CHECK_INT(epd_image_fit(&p, 1, 201, &w, &h, NULL), EPD_EUNSUPPORTED);
	CHECK(w == 5 && h == 6);
	p.min_pixels = INT64_MAX;
	CHECK_INT(epd_image_fit(&p, 10, 10, &w, &h, NULL), EPD_ETOOBIG);
	p.min_pixels = INT64_MIN;
	CHECK_INT(epd_image_fit(&p, 10, 10, &w, &h, NULL), EPD_ETOOBIG);
	/* A bound of nothing gives the smallest size, as the reference does. */
	p.max_pixels = 0;
	CHECK_INT(epd_image_fit(&p, 100, 100, &w, &h, NULL), 0);
	CHECK(w == 28 && h == 28);
	p.patch = 0;
	CHECK_INT(epd_image_fit(&p, 10, 10, &w, &h, NULL), EPD_EFORMAT);
	}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
