/*
 * flow_same_bits.c - the product of the settings of flow_bits.h, for all three
 * families; each processor takes its share of it.
 *
 *	flow_same_bits [TEST...]
 */
#include <unistd.h>

#include "tests/unit/flow_bits.h"

/*
 * All there is of plain states; of those that came about otherwise what is not a
 * matter of one process's arithmetic.
 */
static int
wanted(const struct bits_setting *t)
{
	return t->is[BITS_GROW] == BITS_PLAIN || (!t->is[BITS_THREADS] &&
	    !t->is[BITS_FLUSH] && t->is[BITS_ISA]);
}

/* Every n'th setting from i on; the exit status of a child. */
static int
share(const char *model, struct bits_want *w, int i, int n)
{
	int bad = 0;

	for (; i < bits_total() && bad < 5; i += n) {
		struct bits_setting t = bits_nth(i);

		if (!wanted(&t))
			continue;
		bad += !bits_same(model, w, &t);
	}
	fflush(stdout);
	return bad > 0;
}

static int
all(const char *model)
{
	int n = (int)sysconf(_SC_NPROCESSORS_ONLN), ok;
	struct bits_want w;
	pid_t pid[64];

	n = n < 1 ? 1 : n > 64 ? 64 : n;
	ok = bits_begin(model, &w);
	printf("# %s: %d settings\n", model, bits_total());
	fflush(stdout);
	for (int i = 0; ok && i < n; i++)
		if ((pid[i] = fork()) == 0)
			_exit(share(model, &w, i, n));
	for (int i = 0, begun = ok; begun && i < n; i++)
		ok &= scratch_wait(pid[i]) == 0;
	return ok;
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
