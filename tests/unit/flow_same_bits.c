/*
 * flow_same_bits.c - a conversation through store and log has the same bits
 * under every pair of settings; the scalar table, which is slow, in turn on one
 * model each.
 */
#include "tests/unit/flow_bits.h"

enum { MOST = 8 };

static char seen[BITS_FACTORS][MOST][BITS_FACTORS][MOST];

/* Pairs of choices a setting would be first to try; marks them if asked. */
static int
news(const struct bits_setting *t, int mark)
{
	int n = 0;

	for (int a = 0; a < BITS_FACTORS; a++)
		for (int b = 0; b < a; b++) {
			char *c = &seen[a][t->is[a]][b][t->is[b]];

			n += !*c;
			*c |= (char)mark;
		}
	return n;
}

static int
next(struct bits_setting *t)
{
	int most = 0;

	for (int k = 0; k < bits_total(); k++) {
		struct bits_setting u = bits_nth(k);
		int n = news(&u, 0);

		if (n > most) {
			most = n;
			*t = u;
		}
	}
	news(t, 1);
	return most;
}

/* However a state came about, in every mode; the other settings take turns. */
static int
grown(const char *model, struct bits_want *w, int turn)
{
	int ok = 1;

	for (int grow = 1; grow < bits_sizes[BITS_GROW]; grow++)
		for (int mode = 0; mode < bits_sizes[BITS_MODE]; mode++) {
			const int i = 4 * grow + mode + turn;
			struct bits_setting t = { .is = { i % 2, mode, i % 5,
			    i / 2 % 2, i % 3, i / 3 % 2, i / 4 % 2, i / 5 % 2,
			    bits_sizes[BITS_ISA] - 1, grow } };

			ok &= bits_same(model, w, &t);
		}
	return ok;
}

static int
pairs(const char *model, int turn)
{
	struct bits_setting t;
	struct bits_want w;
	int slow = 0, ok = bits_begin(model, &w);

	memset(seen, 0, sizeof seen);
	while (ok && next(&t))
		if (t.is[BITS_ISA] || slow++ % 4 == turn)
			ok &= bits_same(model, &w, &t);
	ok = ok && grown(model, &w, turn);
	printf("# %s: %d settings\n", model, w.tried);
	return ok && w.tried > 8;
}

TEST(qwen2vl) { CHECK(pairs(QWEN2, 0)); }
TEST(qwen25vl) { CHECK(pairs(QWEN25, 1)); }
TEST(qwen3vl) { CHECK(pairs(QWEN3, 2)); }
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
