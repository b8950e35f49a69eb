/*
 * flow_same_bits.c - the whole product of the settings of flow_bits.h, for all
 * three families.
 *
 *	flow_same_bits [TEST...]
 */
#include "tests/unit/flow_bits.h"

static int
all(const char *model)
{
	struct bits_want w;
	int ok = bits_begin(model, &w);

	for (int i = 0; ok && i < bits_total(); i++) {
		struct bits_setting t = bits_nth(i);

		ok &= bits_same(model, &w, &t);
	}
	printf("# %s: %d settings\n", model, w.tried);
	return ok && w.tried == bits_total();
}

TEST(qwen2vl) { CHECK(all(QWEN2)); }
TEST(qwen25vl) { CHECK(all(QWEN25)); }
TEST(qwen3vl) { CHECK(all(QWEN3)); }
TEST(avx512)
{
	if (bits_sizes[BITS_ISA] < 3)
		SKIP("this machine has no AVX-512");
}

int
main(int argc, char **argv)
{
	bits_machine();
	return check_main(argc, argv);
}
