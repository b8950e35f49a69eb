/* page_codec - what fp8 and int8 keep of a page. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page/page.h"
#include "tests/check.h"

enum { N = 4096, F32 = 0, BF16 = 1 };

/* A value by the definition of e4m3: sign, 4 bits biased by 7, 3 of fraction. */
static double
e4m3(unsigned code)
{
	const int e = (int)(code >> 3 & 15), m = (int)(code & 7);
	const double a = e ? ldexp(1 + m / 8.0, e - 7) : ldexp(m / 8.0, -6);

	return code & 0x80 ? -a : a;
}

TEST(e4m3_values_are_the_specifications)
{
	for (unsigned c = 0; c < 256; c++) {
		if ((c & 0x7f) == 0x7f) {
			CHECK(isnan(epd_e4m3_value((uint8_t)c)));
			continue;
		}
		CHECK((double)epd_e4m3_value((uint8_t)c) == e4m3(c));
		CHECK_INT(epd_e4m3_of(epd_e4m3_value((uint8_t)c)), c);
	}
	CHECK(epd_e4m3_value(0x7e) == 448.0f);
	CHECK(epd_e4m3_value(1) == 0x1p-9f);
}

/* Between two neighbours: the nearer, of two as near the even code. */
TEST(e4m3_rounds_to_nearest_even)
{
	for (unsigned c = 0; c < 0x7e; c++) {
		const float a = epd_e4m3_value((uint8_t)c);
		const float b = epd_e4m3_value((uint8_t)(c + 1));
		const float mid = a + (b - a) / 2;

		CHECK_INT(epd_e4m3_of(mid), c & 1 ? c + 1 : c);
		CHECK_INT(epd_e4m3_of(nextafterf(mid, 0)), c);
		CHECK_INT(epd_e4m3_of(nextafterf(mid, 1e9f)), c + 1);
		CHECK_INT(epd_e4m3_of(-mid), (c & 1 ? c + 1 : c) | 0x80);
	}
	CHECK_INT(epd_e4m3_of(1e9f), 0x7e);
	CHECK_INT(epd_e4m3_of(INFINITY), 0x7f);
	CHECK_INT(epd_e4m3_of(NAN) & 0x7f, 0x7f);
	CHECK_INT(epd_e4m3_of(1e-30f), 0);
}

static uint32_t seed = 1;

static float
draw(void)
{
	seed = seed * 1664525u + 1013904223u;
	return (float)((double)(seed >> 8) / (1 << 23) - 1.0);
}

static void
put(void *p, uint32_t type, size_t i, float x)
{
	uint32_t u;

	memcpy(&u, &x, 4);
	if (type == BF16)
		((uint16_t *)p)[i] = (uint16_t)(u >> 16);
	else
		((float *)p)[i] = x;
}

static float
get(const void *p, uint32_t type, size_t i)
{
	uint32_t u = type == BF16 ?
	    (uint32_t)((const uint16_t *)p)[i] << 16 : 0;
	float x;

	memcpy(&x, &u, 4);
	return type == BF16 ? x : ((const float *)p)[i];
}

/* Rows of very different sizes; each value keeps what its own row's scale gives. */
static void
keeps(const struct epd_codec *c, uint32_t type, double each, double ofmax)
{
	static uint8_t in[N * 4], out[N * 4], again[N * 4], packed[N * 2];
	int64_t n;

	for (size_t i = 0; i < N; i++)
		put(in, type, i, i / 16 % 7 == 3 ? 0 :
		    draw() * ldexpf(1, (int)(i / 16 % 61) - 30));
	n = c->pack(packed, in, type, N);
	CHECK_INT(n, N / 16 * 18);
	CHECK_INT(c->bound(type, N), n);
	CHECK_INT(c->unpack(out, type, N, packed, (uint64_t)n), 0);
	for (size_t row = 0; row < N / 16; row++) {
		double amax = 0;

		for (size_t i = row * 16; i < row * 16 + 16; i++)
			amax = fmax(amax, fabs((double)get(in, type, i)));
		for (size_t i = row * 16; i < row * 16 + 16; i++) {
			const double x = (double)get(in, type, i);
			const double d = fabs(x - (double)get(out, type, i));

			CHECK(d <= fabs(x) * each + amax * ofmax);
			CHECK(amax > 0 || get(out, type, i) == 0);
		}
	}
	/* The same page gives the same bytes. */
	CHECK_INT(c->pack(again, in, type, N), n);
	CHECK(!memcmp(again, packed, (size_t)n));
}

TEST(fp8_keeps_three_bits)
{
	/* Half a step of 1/8, and what is below the least normal. */
	keeps(&epd_codec_fp8, F32, 1.0 / 16, 0x1p-10 / 440);
	keeps(&epd_codec_fp8, BF16, 1.0 / 16 + 1.0 / 256, 0x1p-10 / 440);
}

TEST(int8_keeps_a_127th_of_the_row)
{
	keeps(&epd_codec_int8, F32, 0, 0.51 / 126);
	keeps(&epd_codec_int8, BF16, 1.0 / 256, 0.51 / 126);
}

TEST(extremes)
{
	const struct epd_codec *const both[] = { &epd_codec_fp8, &epd_codec_int8 };
	float in[16], out[16];
	uint8_t packed[18];

	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < 16; i++)
			in[i] = i & 1 ? 3.4028234e38f : -3.3e38f;
		CHECK_INT(both[k]->pack(packed, in, F32, 16), 18);
		CHECK_INT(both[k]->unpack(out, F32, 16, packed, 18), 0);
		for (int i = 0; i < 16; i++)
			CHECK(isfinite(out[i]) && fabsf(out[i]) > 3e38f);
		for (int i = 0; i < 16; i++)
			in[i] = i & 1 ? 1e-45f : -1e-40f;
		CHECK_INT(both[k]->pack(packed, in, F32, 16), 18);
		CHECK_INT(both[k]->unpack(out, F32, 16, packed, 18), 0);
		for (int i = 0; i < 16; i++)
			CHECK(fabsf(out[i] - in[i]) <= 1e-40f);
		in[7] = NAN;
		CHECK_INT(both[k]->pack(packed, in, F32, 16), EPD_ENUMERIC);
		in[7] = -INFINITY;
		CHECK_INT(both[k]->pack(packed, in, F32, 16), EPD_ENUMERIC);
	}
}

TEST(what_was_not_packed_so_is_refused)
{
	const struct epd_codec *const both[] = { &epd_codec_fp8, &epd_codec_int8 };
	float in[16] = { 1, 2, 3 }, out[16];
	uint8_t good[18], bad[18];

	for (int k = 0; k < 2; k++) {
		CHECK_INT(both[k]->pack(good, in, F32, 16), 18);
		CHECK_INT(both[k]->unpack(out, F32, 16, good, 17), EPD_ECORRUPT);
		CHECK_INT(both[k]->unpack(out, F32, 32, good, 18), EPD_ECORRUPT);
		memcpy(bad, good, 18);
		bad[1] = 0x80 | bad[1];
		CHECK_INT(both[k]->unpack(out, F32, 16, bad, 18), EPD_ECORRUPT);
		memcpy(bad, good, 18);
		bad[0] = 0x80;
		bad[1] = 0x7f;
		CHECK_INT(both[k]->unpack(out, F32, 16, bad, 18), EPD_ECORRUPT);
		memcpy(bad, good, 18);
		bad[9] = k ? 0x80 : 0xff;
		CHECK_INT(both[k]->unpack(out, F32, 16, bad, 18), EPD_ECORRUPT);
	}
	/* Whatever else: finite, or refused. */
	for (int round = 0; round < 20000; round++) {
		for (int i = 0; i < 18; i++)
			bad[i] = (uint8_t)(draw() * 128 + 128);
		for (int k = 0; k < 2; k++) {
			if (both[k]->unpack(out, F32, 16, bad, 18) < 0)
				continue;
			for (int i = 0; i < 16; i++)
				CHECK(isfinite(out[i]));
		}
	}
}

static const struct epd_codec mine = { .name = "half" };
static const struct epd_codec other = { .name = "fp8" };

TEST(by_name)
{
	const struct epd_codec *const list[] = { &mine, &other };
	const struct epd_codecs more = { list, 2 };

	CHECK(epd_codec_of(NULL, "fp8") == &epd_codec_fp8);
	CHECK(epd_codec_of(NULL, "int8") == &epd_codec_int8);
	CHECK(!epd_codec_of(NULL, "half") && !epd_codec_of(NULL, "none"));
	CHECK(epd_codec_of(&more, "half") == &mine);
	CHECK(epd_codec_of(&more, "fp8") == &other);
	CHECK(!epd_codec_of(&more, "") && !epd_codec_of(&more, "HALF"));
	CHECK(!epd_codec_name_ok("abcdefghijklmnop"));
	CHECK(epd_codec_name_ok("abcdefghijklmno"));
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
