/*
 * image_formats.c - every kind of file the readers take, against Pillow's
 * reading of it (tests/data/image/gen.py), and where EXIF orientation is found.
 */
#include <dirent.h>

#include "engine/image/codec.h"
#include "tests/check.h"
#include "tests/golden.h"

#define DATA "tests/data/image/"

static int
load(struct epd_image *im, const char *name, const char *ext, int white,
    struct epd_why *why)
{
	struct epd_image_rules r = { !white, white, 1 << 24 };
	char at[256];
	struct epd_buf b;
	int rc;

	snprintf(at, sizeof at, DATA "%s%s", name, ext);
	b = golden_read(at);
	rc = epd_image_decode(im, epd_span(b.p, b.n), &r, why);
	epd_buf_free(&b);
	return rc;
}

/* NAME.ppm serves both rules where there is one. */
static const char *
expected(const char *name, int white)
{
	const char *ext = white ? ".white.ppm" : ".drop.ppm";
	char at[256];
	FILE *f;

	snprintf(at, sizeof at, DATA "%s%s", name, ext);
	f = fopen(at, "rb");
	if (!f)
		return ".ppm";
	fclose(f);
	return ext;
}

static int
agrees(const char *name, int white)
{
	struct epd_image a = {0}, b = {0};
	struct epd_why why = {0};
	int ok, rc = load(&a, name, "", white, &why);

	if (rc < 0) {
		printf("# %s: %s\n", name, why.text);
		return 0;
	}
	load(&b, name, expected(name, white), white, NULL);
	ok = a.w == b.w && a.h == b.h &&
	    !memcmp(a.rgb, b.rgb, (size_t)(a.w * a.h) * 3);
	if (!ok)
		printf("# %s differs, %s\n", name, white ? "white" : "drop");
	epd_image_free(&a);
	epd_image_free(&b);
	return ok;
}

static int
is_input(const char *name)
{
	static const char *const exts[] = { ".png", ".jpg", ".webp", ".pnm" };
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < sizeof exts / sizeof *exts; i++)
		if (!strcmp(dot, exts[i]))
			return strcmp(name, "animated.webp") != 0;
	return 0;
}

TEST(as_pillow_reads_them)
{
	DIR *d = opendir(DATA);
	struct dirent *e;
	int n = 0, bad = 0;

	CHECK(d);
	while ((e = readdir(d)))
		if (is_input(e->d_name)) {
			bad += !agrees(e->d_name, 0) + !agrees(e->d_name, 1);
			n++;
		}
	closedir(d);
	CHECK_INT(bad, 0);
	CHECK(n >= 40);
}

TEST(animated_webp_is_named)
{
	struct epd_image im = {0};
	struct epd_why why = {0};

	CHECK_INT(load(&im, "animated.webp", "", 1, &why), EPD_EUNSUPPORTED);
	CHECK(strstr(why.text, "animated WebP"));
	CHECK(!im.rgb);
}

#define TIFF(s) epd_exif_turn(epd_span(s, sizeof s - 1))

TEST(orientation)
{
	CHECK_INT(TIFF("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"), 6);
	CHECK_INT(TIFF("MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\5\0\0"), 5);
	CHECK_INT(TIFF("Exif\0\0MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\2\0\0"),
	    2);
	/* The second entry, of type LONG. */
	CHECK_INT(TIFF("II*\0\10\0\0\0\2\0\x11\1\3\0\1\0\0\0\6\0\0\0"
	    "\x12\1\4\0\1\0\0\0\3\0\0\0"), 3);
	/* Out of range, of another type, of another count. */
	CHECK_INT(TIFF("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\x9\0\0\0"), 1);
	CHECK_INT(TIFF("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0\0\0\0\0"), 1);
	CHECK_INT(TIFF("II*\0\10\0\0\0\1\0\x12\1\2\0\1\0\0\0\6\0\0\0"), 1);
	CHECK_INT(TIFF("II*\0\10\0\0\0\1\0\x12\1\3\0\2\0\0\0\6\0\0\0"), 1);
	/* Offsets and counts that lie. */
	CHECK_INT(TIFF("II*\0\xff\xff\xff\xff\1\0\x12\1\3\0\1\0\0\0\6\0"), 1);
	CHECK_INT(TIFF("II*\0\10\0\0\0\xff\xff\x12\1\3\0\1\0\0\0\6\0"), 1);
	CHECK_INT(TIFF("II*\0\x9\0\0\0\1"), 1);
	CHECK_INT(TIFF("II*\0\10\0\0\0"), 1);
	CHECK_INT(TIFF("Exif\0\0"), 1);
	CHECK_INT(TIFF(""), 1);
}

/* An odd last frame stands for both halves; merge 1 is row-major order. */
TEST(patches_of_frames)
{
	struct epd_processor p = { .patch = 1, .merge = 2, .temporal = 2,
	    .std = { 1, 1, 1 } };
	uint8_t px[3][4 * 2 * 3];
	struct epd_image f[3];
	float rows[2 * 8 * 6];

	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 24; k++)
			px[i][k] = (uint8_t)(i * 64 + k);
		f[i] = (struct epd_image){ 4, 2, px[i] };
	}
	epd_image_patches(&p, f, 3, EPD_FAST, rows);
	for (int t = 0; t < 2; t++)
		for (int r = 0; r < 8; r++) {
			/* Block r/4; in it two rows of two. */
			int x = r / 4 * 2 + r % 2, y = r / 2 % 2;

			for (int c = 0; c < 3; c++)
				for (int h = 0; h < 2; h++) {
					int i = t ? 2 : h;
					float want = (float)px[i][(y * 4 + x) *
					    3 + c] / 255;

					CHECK(rows[(t * 8 + r) * 6 + c * 2 + h]
					    == want);
				}
		}
	p.merge = 1;
	epd_image_patches(&p, f, 1, EPD_FAST, rows);
	for (int r = 0; r < 8; r++)
		CHECK(rows[r * 6] == (float)px[0][r * 3] / 255 &&
		    rows[r * 6] == rows[r * 6 + 1]);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
