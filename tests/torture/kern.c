/*
 * kern.c - the large sweep: every table, thread count, batch, place, shape and
 * type against one set of bits, tens of millions of values.
 */
#include "tests/check.h"
#include "tests/unit/kern_attn.h"
#include "tests/unit/kern_gemm.h"
#include "tests/unit/kern_ops.h"

static void
said(void)
{
	printf("# %ld values so far\n", compared);
}

TEST(products)
{
	static const long shapes[][3] = {
		{64, 64, 70}, {100, 333, 70}, {1, 1, 70}, {3, 15, 16},
		{7, 17, 33}, {5, 4500, 13}, {256, 1536, 70}, {3420, 1280, 16},
		{2048, 2048, 8}, {1536, 8960, 8}, {192, 8960, 70},
		{40, 8960, 300},
		{8960, 1536, 8}, {896, 4864, 33}, {151936, 896, 2},
	};

	for (int t = 0; t < 3; t++)
		for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
			sweep_gemm((enum epd_type)t, shapes[i][0],
			    shapes[i][1], shapes[i][2], 2000);
	said();
	CHECK_INT(differing, 0);
}

TEST(attention)
{
	static const int shape[][4] = {	/* kv heads, heads, dim, page */
		{2, 14, 64, 16}, {1, 2, 128, 16}, {2, 2, 80, 64},
		{1, 3, 72, 32}, {1, 5, 20, 16}, {1, 13, 64, 64},
		{1, 4, 256, 32}, {3, 3, 17, 16},
	};
	static const long where[][2] = {	/* tokens before, rows */
		{0, 1}, {0, 40}, {15, 3}, {63, 2}, {500, 20}, {1023, 2},
		{1500, 9}, {4090, 12},
	};
	double worst = 0;

	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
		for (int t = 0; t < 2; t++)
			for (size_t w = 0; w < sizeof where / sizeof *where;
			    w++) {
				struct set s;

				make_set(&s, (struct epd_kv){ t ? EPD_BF16 :
				    EPD_F32, shape[i][0], shape[i][2],
				    shape[i][3] }, shape[i][1],
				    where[w][0] + where[w][1]);
				sweep_attn(&s, where[w][0], where[w][1],
				    &worst);
				free_set(&s);
			}
	said();
	CHECK_INT(differing, 0);
	CHECK(worst < 2e-6);
}

TEST(functions)
{
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		double worst = sweep_function(functions + i, 997);

		printf("# %s: at most %.2f ulp from double\n",
		    functions[i].name, worst);
		CHECK(worst < functions[i].most);
	}
	sweep_rows(704, 2);
	said();
	CHECK_INT(differing, 0);
}

TEST(vocabularies)
{
	for (long n = 1; n < 2000; n++)
		sweep_vocab(n, (unsigned)n);
	for (unsigned s = 0; s < 20; s++)
		sweep_vocab(151936, s);
	said();
	CHECK_INT(differing, 0);
}

TEST(angles)
{
	float s, c;

	for (long i = 0; i < 4000000; i++) {
		float x = (float)i * 0.37f * (i & 1 ? -1.0f : 1.0f);

		epd_sincos(x, &s, &c);
		CHECK(s == (float)sin((double)x) && c == (float)cos((double)x));
	}
}

int main(int argc, char **argv) { return check_main(argc, argv); }
