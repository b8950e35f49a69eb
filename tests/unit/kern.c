/* kern.c - products, rows and functions: the same bits from every table. */
#include "tests/check.h"
#include "tests/unit/kern_gemm.h"
#include "tests/unit/kern_ops.h"

TEST(products_are_the_reference)
{
	static const long shapes[][3] = {
		{64, 64, 33}, {100, 333, 16}, {1, 1, 70}, {3, 15, 16},
		{7, 17, 33}, {5, 4500, 13}, {9, 8976, 7}, {3, 0, 70},
		{20, 40, 70},
	};

	for (int t = 0; t < 3; t++)
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
			sweep_gemm((enum epd_type)t, shapes[i][0],
			    shapes[i][1], shapes[i][2], 200);
	CHECK_INT(differing, 0);
	printf("# %ld values\n", compared);
}

/* Long rows and many of them, so that k goes in parts. */
TEST(parts_of_k_do_not_show)
{
	sweep_gemm(EPD_BF16, 21, 8960, 70, 100);
	sweep_gemm(EPD_F32, 6, 5003, 70, 100);
	sweep_gemm(EPD_BF16, 17, 8960, 300, 100);
	CHECK_INT(differing, 0);
}

TEST(rows_agree)
{
	sweep_rows(700, 154);
	CHECK_INT(differing, 0);
}

TEST(functions_agree_and_are_near)
{
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		double worst = sweep_function(functions + i, 49999);

		CHECK(worst < functions[i].most);
	}
	CHECK_INT(differing, 0);
}

TEST(exp_is_as_written)
{
	for (float x = -90; x < 90; x += 0.0371f) {
		float y, z = ref_exp(x);

		epd_kern_get("scalar")->exp(1, &x, &y);
		CHECK(!memcmp(&y, &z, 4));
	}
}

TEST(vocabulary)
{
	const float end[] = { 1, -INFINITY, 3, 3, NAN };
	const struct epd_kern *k[ISAS];
	const int n = kerns(k);

	for (long i = 1; i < 70; i++)
		sweep_vocab(i, (unsigned)i);
	sweep_vocab(151936, 7);
	CHECK_INT(differing, 0);
	for (int i = 0; i < n; i++) {
		float v = 7, x[40];

		CHECK_INT(k[i]->top(4, end, &v), 2);
		CHECK(v == 3);
		CHECK_INT(k[i]->top(5, end, &v), -1);
		CHECK_INT(k[i]->top(0, end, &v), -1);
		CHECK_INT(k[i]->top(1, end + 1, &v), 0);
		CHECK_INT(k[i]->finite(1, end), 1);
		CHECK_INT(k[i]->finite(2, end), 0);
		CHECK_INT(k[i]->finite(1, end + 4), 0);
		for (int at = 0; at < 40; at++) {
			for (int j = 0; j < 40; j++)
				x[j] = -3.4e38f;
			CHECK_INT(k[i]->finite(40, x), 1);
			x[at] = NAN;
			CHECK_INT(k[i]->finite(40, x), 0);
			CHECK_INT(k[i]->top(40, x, &v), -1);
		}
	}
}

TEST(angles)
{
	float inv[64], s, c;

	for (long i = 0; i < 100000; i++) {
		float x = (float)i * 14.8f * (i & 1 ? -1.0f : 1.0f);

		epd_sincos(x, &s, &c);
		CHECK(s == (float)sin((double)x) && c == (float)cos((double)x));
	}
	epd_rope_inv(inv, 128, 1e6);
	for (int i = 0; i < 64; i++)
		CHECK(ulps(inv[i], pow(1e6, -i / 64.0)) <= 0.51);
}

TEST(names)
{
	CHECK(epd_kern_get(NULL));
	CHECK_STR(epd_kern_get("scalar")->name, "scalar");
	CHECK(!epd_kern_get("mmx"));
	CHECK(!epd_kern_get(""));
}

int main(int argc, char **argv) { return check_main(argc, argv); }
