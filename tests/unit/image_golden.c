/*
 * image_golden.c - decoding, sizes, resampling and patches against the
 * reference's own results.
 */
#include <fenv.h>
#include <math.h>

#include "engine/image/image.h"
#include "tests/check.h"
#include "tests/golden.h"

static const struct epd_image_rules by_path = { 1, 0, 1 << 24 };
static const struct epd_image_rules as_object = { 0, 1, 1 << 24 };

static int
load(struct epd_image *im, const char *path, const struct epd_image_rules *r)
{
	char at[256];
	struct epd_buf b;
	struct epd_why why = {0};
	int rc;

	snprintf(at, sizeof at, GOLDEN "%s", path);
	b = golden_read(at);
	rc = epd_image_decode(im, epd_span(b.p, b.n), r, &why);
	if (rc < 0)
		printf("# %s: %s\n", path, why.text);
	epd_buf_free(&b);
	return rc;
}

static int
same(const struct epd_image *a, const struct epd_image *b)
{
	return a->w == b->w && a->h == b->h &&
	    !memcmp(a->rgb, b->rgb, (size_t)a->w * (size_t)a->h * 3);
}

static int
sum_is(const struct epd_image *im, const struct epd_json *want)
{
	struct epd_json *shape = epd_json_get(want, "shape");
	char hex[65];

	golden_sha256(hex, im->rgb, (size_t)im->w * (size_t)im->h * 3);
	return im->h == epd_json_int(epd_json_at(shape, 0), -1) &&
	    im->w == epd_json_int(epd_json_at(shape, 1), -1) &&
	    !strcmp(hex, epd_json_str(epd_json_get(want, "sha256"), ""));
}

TEST(sha256)
{
	char hex[65];

	golden_sha256(hex, "abc", 3);
	CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223"
	    "b00361a396177a9cb410ff61f20015ad");
}

TEST(decode)
{
	struct epd_json *m = golden_json(GOLDEN "manifest.json");
	struct epd_json *images = epd_json_get(epd_json_get(m, "preprocess"),
	    "images");
	struct epd_json_iter it = epd_json_begin(images);
	int tested = 0;

	while (epd_json_next(&it)) {
		const char *file = epd_json_str(epd_json_get(it.value, "file"),
		    "");
		struct epd_image a = {0}, b = {0};
		int gray16, ok_a, ok_b;

		CHECK_INT(load(&a, file, &by_path), 0);
		CHECK_INT(load(&b, file, &as_object), 0);
		/* The reference has no rule for 16-bit gray worth having. */
		gray16 = !strcmp(epd_json_str(epd_json_get(it.value, "kind"),
		    ""), "L16");
		ok_a = gray16 || sum_is(&a, epd_json_get(it.value,
		    "rgb_from_path_pil"));
		ok_b = gray16 || sum_is(&b, epd_json_get(it.value,
		    "rgb_from_pil_object"));
		if (!ok_a || !ok_b)
			printf("# %s: by path %d, as object %d\n", it.key,
			    ok_a, ok_b);
		epd_image_free(&a);
		epd_image_free(&b);
		CHECK(ok_a && ok_b);
		tested++;
	}
	epd_json_free(m);
	CHECK(tested >= 17);
}

/* Big-endian samples: the file is made so that value >> 8 is known. */
TEST(gray16_keeps_the_high_byte)
{
	struct epd_image im = {0};

	CHECK_INT(load(&im, "images/gray16_50x66.png", &as_object), 0);
	for (long i = 0; i < im.w * im.h; i++)
		CHECK(im.rgb[3 * i] == im.rgb[3 * i + 1] &&
		    im.rgb[3 * i] == im.rgb[3 * i + 2]);
	/* Clipping, the reference's way, would leave nearly all of it white. */
	long white = 0;
	for (long i = 0; i < im.w * im.h; i++)
		white += im.rgb[3 * i] == 255;
	CHECK(white < im.w * im.h / 2);
	epd_image_free(&im);
}

static struct epd_processor
processor(const struct epd_json *set)
{
	struct epd_processor p = { .merge = 2, .temporal = 2 };

	p.patch = (int)epd_json_int(epd_json_get(set, "patch"), 0);
	p.min_pixels = epd_json_int(epd_json_get(set, "min_pixels"), 0);
	p.max_pixels = epd_json_int(epd_json_get(set, "max_pixels"), 0);
	for (size_t c = 0; c < 3; c++) {
		p.mean[c] = (float)epd_json_real(epd_json_at(epd_json_get(set,
		    "mean"), c), 0);
		p.std[c] = (float)epd_json_real(epd_json_at(epd_json_get(set,
		    "std"), c), 0);
	}
	return p;
}

TEST(fit)
{
	struct epd_buf b = golden_read(GOLDEN "preprocess/smart_resize.jsonl");
	char *line = (char *)b.p, *end;
	int rows = 0, refused = 0;

	epd_buf_cstr(&b);
	for (line = (char *)b.p; *line; line = end + 1, rows++) {
		struct epd_json *j = NULL, *want;
		struct epd_processor p = { .merge = 2 };
		long w, h, ow = -1, oh = -1;
		int rc;

		end = strchr(line, '\n');
		CHECK_INT(epd_json_parse(&j, epd_span(line,
		    (size_t)(end - line)), "row", NULL), 0);
		h = epd_json_int(epd_json_at(j, 0), 0);
		w = epd_json_int(epd_json_at(j, 1), 0);
		p.patch = (int)epd_json_int(epd_json_at(j, 2), 0) / 2;
		p.min_pixels = epd_json_int(epd_json_at(j, 3), 0);
		p.max_pixels = epd_json_int(epd_json_at(j, 4), 0);
		want = epd_json_at(j, 5);
		rc = epd_image_fit(&p, w, h, &ow, &oh, NULL);
		if (epd_json_type(want) == EPD_JSON_NULL) {
			CHECK_INT(rc, EPD_EUNSUPPORTED);
			CHECK(ow == -1 && oh == -1);
			refused++;
		} else {
			CHECK_INT(rc, 0);
			CHECK_INT(oh, epd_json_int(epd_json_at(want, 0), 0));
			CHECK_INT(ow, epd_json_int(epd_json_at(want, 1), 0));
		}
		epd_json_free(j);
	}
	epd_buf_free(&b);
	CHECK(rows == 535 && refused > 0);
}

static float worst[2];	/* pixel_values, by resampler */

static int
rows_agree(const struct golden *g, const char *stem, const char *how, int which,
    const float *rows, long each)
{
	char name[192];
	long n, k;
	const float *want;
	const int32_t *index;

	snprintf(name, sizeof name, "%s/rows", stem);
	index = golden_i32(g, name, &k);
	snprintf(name, sizeof name, "%s/pixel_values%s.%s", stem,
	    index ? "_rows" : "", how);
	want = golden_f32(g, name, &n);
	if (!want)
		return 0;
	for (long i = 0; i < n; i++) {
		long row = index ? index[i / each] : i / each;
		float d = fabsf(rows[row * each + i % each] - want[i]);

		worst[which] = fmaxf(worst[which], d);
	}
	return 1;
}

static int
one_case(const struct golden *g, const struct epd_processor *p,
    const char *file, const struct epd_json *c, int which)
{
	static const char *const how[2] = { "fast", "pil" };
	enum epd_resampler kind = which ? EPD_PIL : EPD_FAST;
	char path[128], stem[128];
	struct epd_image in, out, want;
	const char *ppm;
	long w, h, each = 6L * p->patch * p->patch;
	float *rows;
	int tested = 0;

	snprintf(path, sizeof path, "images/%s", file);
	snprintf(stem, sizeof stem, "%.*s", (int)strcspn(file, "."), file);
	if (load(&in, path, &as_object) < 0 ||
	    epd_image_fit(p, in.w, in.h, &w, &h, NULL) < 0)
		return -1;
	if (h != epd_json_int(epd_json_at(epd_json_get(c, "resized_hw"), 0),
	    0) || w != epd_json_int(epd_json_at(epd_json_get(c, "resized_hw"),
	    1), 0) || epd_image_resize(&out, &in, w, h, kind) < 0)
		return -1;
	ppm = epd_json_str(epd_json_get(c, which ? "resized_pil" :
	    "resized_fast"), NULL);
	if (ppm) {
		if (load(&want, ppm, &as_object) < 0 || !same(&out, &want))
			return -1;
		epd_image_free(&want);
		tested++;
	}
	rows = malloc((size_t)(w * h) * 6 * sizeof *rows);
	epd_image_patches(p, &out, 1, kind, rows);
	tested += rows_agree(g, stem, how[which], which, rows, each);
	free(rows);
	epd_image_free(&in);
	epd_image_free(&out);
	return tested;
}

TEST(resize_and_patches)
{
	struct epd_json *m = golden_json(GOLDEN "manifest.json");
	struct epd_json_iter set = epd_json_begin(epd_json_get(epd_json_get(m,
	    "preprocess"), "sets"));
	int resized = 0;

	while (epd_json_next(&set)) {
		struct epd_processor p = processor(set.value);
		char path[128];
		struct golden g;
		struct epd_json_iter it = epd_json_begin(epd_json_get(
		    set.value, "cases"));

		snprintf(path, sizeof path, GOLDEN "%s", epd_json_str(
		    epd_json_get(set.value, "file"), ""));
		g = golden_open(path);
		while (epd_json_next(&it)) {
			if (!strncmp(it.key, "gray16", 6))
				continue;
			for (int which = 0; which < 2; which++) {
				int rc = one_case(&g, &p, it.key, it.value,
				    which);

				if (rc < 0)
					CHECK_FAIL("%s %s differs, resampler "
					    "%d", set.key, it.key, which);
				resized += rc;
			}
		}
		golden_close(&g);
	}
	epd_json_free(m);
	printf("# pixel_values differ by %g (fast), %g (pil)\n",
	    (double)worst[0], (double)worst[1]);
	CHECK(resized > 70);
	CHECK(worst[0] <= 2e-6f && worst[1] <= 2e-6f);
}

/* What a caller did to the floating-point environment changes no bit. */
TEST(any_rounding_mode)
{
	struct epd_processor p = { .patch = 14, .merge = 2, .temporal = 2,
	    .min_pixels = 3136, .max_pixels = 15680,
	    .mean = { .48145466f, .4578275f, .40821073f },
	    .std = { .26862954f, .26130258f, .27577711f } };
	struct epd_image in, out[2];
	static float rows[2][56 * 84 * 6];
	long w, h;

	CHECK_INT(load(&in, "images/odd_97x61.png", &as_object), 0);
	for (int up = 0; up < 2; up++) {
		int rc;

		fesetround(up ? FE_UPWARD : FE_TONEAREST);
		rc = epd_image_fit(&p, in.w, in.h, &w, &h, NULL);
		rc |= epd_image_resize(&out[up], &in, w, h, EPD_FAST);
		epd_image_patches(&p, &out[up], 1, EPD_FAST, rows[up]);
		fesetround(FE_TONEAREST);
		CHECK_INT(rc, 0);
		CHECK(w == 84 && h == 56);
	}
	CHECK(same(&out[0], &out[1]));
	CHECK(!memcmp(rows[0], rows[1], sizeof rows[0]));
	epd_image_free(&out[0]);
	epd_image_free(&out[1]);
	epd_image_free(&in);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
