/* feature_name - fingerprints, the plan of a request, the receive pool. */
#include "feature.h"

#include <errno.h>

#include "tests/check.h"

static struct epd_name
model(const struct epd_model_parts *p)
{
	struct epd_name n;

	epd_model_fingerprint(&n, p);
	return n;
}

static struct epd_name
image(const struct epd_name *m, uint32_t t, uint32_t gh, uint32_t gw, long h,
    long w, const uint8_t *rgb)
{
	uint32_t grid[3] = { t, gh, gw };
	struct epd_name n;

	epd_image_fingerprint(&n, m, grid, h, w, rgb);
	return n;
}

TEST(each_part_of_the_model_changes_its_name)
{
	struct epd_name n[32];
	struct epd_model_parts p;
	int k = 0;

#define WITH(field, value) p = parts; p.field = value; n[k++] = model(&p)
	n[k++] = model(&parts);
	WITH(tenant, "u");
	WITH(snapshot, "00fe");
	WITH(family, "qwen2_vl");
	WITH(numeric, "lanes16-int8");
	WITH(processor, "fast/2");
	WITH(dtype, "bf16");
	WITH(quantisation, "int8");
	WITH(adapter, "lora");
	WITH(resampler, "pil");
	WITH(exif, "ignored");
	WITH(alpha, "drop");
	WITH(arithmetic, 2);
	WITH(merge, 3);
	WITH(patch, 16);
	WITH(temporal, 1);
	WITH(min_pixels, 3137);
	WITH(max_pixels, 12845057);
	WITH(mean[0], 0.5f);
	WITH(mean[2], 0.5f);
	WITH(std[1], 0.5f);
	/* Neighbours do not run into each other. */
	p = parts; p.tenant = "t0"; p.snapshot = "0ff"; n[k++] = model(&p);
	p = parts; p.tenant = "t00ff"; p.snapshot = ""; n[k++] = model(&p);
	for (int i = 0; i < k; i++)
		for (int j = 0; j < i; j++)
			if (epd_name_equal(&n[i], &n[j]))
				CHECK_FAIL("parts %d and %d agree", i, j);
	p = parts;
	p.adapter = NULL;
	n[1] = model(&p);
	CHECK(epd_name_equal(&n[0], &n[1]));
}

TEST(kind04_dimension_blind_hash)
{
	static const uint8_t rgb[30 * 150 * 3];
	struct epd_name m = model(&parts);
	struct epd_name a = image(&m, 1, 4, 4, 30, 150, rgb);
	struct epd_name b = image(&m, 1, 4, 4, 150, 30, rgb);

	CHECK(!epd_name_equal(&a, &b));
	b = image(&m, 1, 2, 8, 30, 150, rgb);
	CHECK(!epd_name_equal(&a, &b));
	b = image(&m, 2, 2, 4, 30, 150, rgb);
	CHECK(!epd_name_equal(&a, &b));
	/* A row less, the bytes a prefix. */
	b = image(&m, 1, 4, 4, 29, 150, rgb);
	CHECK(!epd_name_equal(&a, &b));
}

TEST(kind01_kind02_every_byte_of_the_picture_counts)
{
	uint8_t rgb[6 * 6 * 3] = { 0 };
	struct epd_name m = model(&parts), other = { { 1 } };
	struct epd_name a = image(&m, 1, 2, 2, 6, 6, rgb), b;

	for (size_t i = 0; i < sizeof rgb; i++) {
		rgb[i] = 1;
		b = image(&m, 1, 2, 2, 6, 6, rgb);
		CHECK(!epd_name_equal(&a, &b));
		/* All 256 bits differ somewhere: no half is constant. */
		CHECK(memcmp(a.b, b.b, 8) && memcmp(a.b + 24, b.b + 24, 8));
		rgb[i] = 0;
	}
	b = image(&other, 1, 2, 2, 6, 6, rgb);
	CHECK(!epd_name_equal(&a, &b));
}

TEST(kind05_alpha_background_is_in_the_key)
{
	struct epd_model_parts drop = parts;
	struct epd_name a = model(&parts), b;
	uint8_t white[12], black[12] = { 0 };
	struct epd_name x, y;

	/* By what was done to the pixels, and by the option even if they agree. */
	drop.alpha = "drop";
	b = model(&drop);
	memset(white, 255, sizeof white);
	x = image(&a, 1, 2, 2, 2, 2, white);
	y = image(&a, 1, 2, 2, 2, 2, black);
	CHECK(!epd_name_equal(&x, &y));
	y = image(&b, 1, 2, 2, 2, 2, white);
	CHECK(!epd_name_equal(&x, &y));
}

TEST(kind03_names_are_pinned)
{
	struct epd_feature f = feature(0);
	char hex[65];

	epd_hex_format(hex, f.model.b, EPD_NAME);
	CHECK_STR(hex, "f9b35e95550158c80f10619da1f43e879388906c639d6793081806d3177ff6cc");
	epd_hex_format(hex, f.fp.b, EPD_NAME);
	CHECK_STR(hex, "884ee58e2cc2f68d102d000c5bc8c0b41bb4e17c4d01c1e6bc60215caa641f65");
}

TEST(sizes_and_their_overflow)
{
	struct epd_feature f = feature(0);

	CHECK_INT(epd_feature_bytes(&f), ROW_BYTES);
	f.dtype = "bf16";
	CHECK_INT(epd_feature_bytes(&f), ROW_BYTES / 2);
	f.dtype = "f64";
	CHECK_INT(epd_feature_bytes(&f), 0);
	f.dtype = "f32";
	f.layers = f.tokens = f.hidden = UINT32_MAX;
	CHECK_INT(epd_feature_bytes(&f), 0);
	f.layers = 1u << 31;
	f.tokens = 1u << 31;
	f.hidden = 1;
	CHECK_INT(epd_feature_bytes(&f), 0);
	f.tokens = 0;
	CHECK_INT(epd_feature_bytes(&f), 0);
}

/* ---- the plan ---- */

static struct epd_plan_image
planned(uint8_t fp, uint32_t h, uint32_t w, int hit)
{
	return (struct epd_plan_image){ .fp = { { fp } }, .grid = { 1, h, w },
	    .hit = hit, .encode = -1, .same = -1 };
}

TEST(plan_offsets_and_what_to_encode)
{
	struct epd_plan_image im[5] = {
		planned(1, 4, 6, 0), planned(2, 2, 2, 1), planned(1, 4, 6, 0),
		planned(3, 8, 2, 0), planned(2, 2, 2, 1),
	};
	static const int encode[5] = { 1, 0, 0, 1, 0 }, same[5] = { 0, 1, 0, 3, 1 };
	static const uint64_t patch[5] = { 0, 24, 28, 52, 68 };
	static const uint64_t token[5] = { 0, 6, 7, 13, 17 };

	epd_feature_plan(im, 5, 2);
	for (int i = 0; i < 5; i++) {
		CHECK_INT(im[i].encode, encode[i]);
		CHECK_INT(im[i].same, same[i]);
		CHECK_INT(im[i].patch_at, patch[i]);
		CHECK_INT(im[i].token_at, token[i]);
	}
	epd_feature_plan(NULL, 0, 2);
}

TEST(plan_does_not_wrap)
{
	struct epd_plan_image im[2] = {
		planned(1, UINT32_MAX, UINT32_MAX, 0), planned(2, 2, 2, 0) };

	im[0].grid[0] = UINT32_MAX;
	epd_feature_plan(im, 2, 0);
	CHECK(im[1].patch_at == UINT64_MAX && im[1].token_at == UINT64_MAX);
}

TEST(adjacent_images_permuted)
{
	/* kind 10: whatever the order, offsets are sums of what stands before. */
	static const int order[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
	    { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	for (int o = 0; o < 6; o++) {
		struct epd_plan_image im[3];
		uint64_t at = 0;

		for (int i = 0; i < 3; i++)
			im[i] = planned((uint8_t)(order[o][i] + 1),
			    2, 2 + 2 * (uint32_t)order[o][i], 0);
		epd_feature_plan(im, 3, 2);
		for (int i = 0; i < 3; i++) {
			CHECK_INT(im[i].token_at, at);
			CHECK_INT(im[i].patch_at, at * 4);
			at += 1 + (uint64_t)order[o][i];
		}
	}
}

/* ---- the receive pool ---- */

TEST(pool_capacity_and_idempotent_drop)
{
	struct epd_recv_pool *p = NULL;
	uint8_t *a, *b;

	CHECK_INT(epd_recv_pool_new(&p, 0, 1), -EINVAL);
	CHECK_INT(epd_recv_pool_new(&p, 1, 0), -EINVAL);
	CHECK_INT(epd_recv_pool_new(&p, SIZE_MAX, 1), EPD_ETOOBIG);
	CHECK_INT(epd_recv_pool_new(&p, SIZE_MAX / 2, 4), EPD_ETOOBIG);
	CHECK(!p);
	CHECK_INT(epd_recv_pool_new(&p, 100, 2), 0);
	CHECK(!epd_recv_take(p, 101));
	a = epd_recv_take(p, 100);
	b = epd_recv_take(p, 1);
	CHECK(a && b && a != b);
	CHECK((uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
	memset(a, 1, 100);
	memset(b, 2, 100);
	CHECK(a[99] == 1 && b[0] == 2);
	CHECK(!epd_recv_take(p, 1));
	/* kind 12: dropped twice is dropped once. */
	epd_recv_drop(p, a);
	epd_recv_drop(p, a);
	epd_recv_drop(p, NULL);
	epd_recv_drop(p, b + 1);
	epd_recv_drop(p, a - 64);
	epd_recv_drop(p, b + 128);
	CHECK(epd_recv_take(p, 1) == a);
	CHECK(!epd_recv_take(p, 1));
	epd_recv_pool_free(p);
	epd_recv_pool_free(NULL);
	for (int at = 1; at <= 2; at++) {
		int rc;

		scratch_starve(at, 0);
		rc = epd_recv_pool_new(&p, 100, 2);
		scratch_starve(0, 0);
		CHECK_INT(rc, -ENOMEM);
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
