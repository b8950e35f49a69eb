/*
 * check.h - a test program is a list of functions and this.  Each prints one TAP
 * line; a failed check prints where and what, and ends its function.
 *
 *	TEST(name) { CHECK(1 + 1 == 2); CHECK_INT(f(), 3); }
 *	int main(int argc, char **argv) { return check_main(argc, argv); }
 *
 * Arguments name the tests to run.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdio.h>
#include <string.h>

struct check_test {
	const char *name;
	void (*fn)(void);
	struct check_test *next;
};

static struct check_test *check_first, **check_last = &check_first;
static int check_failed, check_skipped;

#define TEST(n) \
	static void test_##n(void); \
	static struct check_test check_##n = { #n, test_##n, NULL }; \
	__attribute__((constructor)) static void check_add_##n(void) \
	{ *check_last = &check_##n; check_last = &check_##n.next; } \
	static void test_##n(void)

#define CHECK_FAIL(...) do { \
	printf("# %s:%d: ", __FILE__, __LINE__); printf(__VA_ARGS__); \
	putchar('\n'); check_failed = 1; return; } while (0)
#define CHECK(x) do { if (!(x)) CHECK_FAIL("%s", #x); } while (0)
#define CHECK_INT(a, b) do { long long check_a = (long long)(a), \
	check_b = (long long)(b); if (check_a != check_b) \
	CHECK_FAIL("%s is %lld, not %lld", #a, check_a, check_b); } while (0)
#define CHECK_STR(a, b) do { const char *check_a = (a), *check_b = (b); \
	if (strcmp(check_a, check_b)) \
	CHECK_FAIL("%s is \"%s\", not \"%s\"", #a, check_a, check_b); } while (0)
#define SKIP(why) do { printf("# %s\n", why); check_skipped = 1; return; } while (0)

static inline int
check_main(int argc, char **argv)
{
	int bad = 0, n = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (struct check_test *t = check_first; t; t = t->next) {
		int wanted = argc < 2;

		for (int i = 1; i < argc; i++)
			wanted |= !strcmp(argv[i], t->name);
		if (!wanted)
			continue;
		check_failed = check_skipped = 0;
		t->fn();
		bad |= check_failed;
		printf("%sok %d - %s%s\n", check_failed ? "not " : "", ++n,
		    t->name, check_skipped ? " # SKIP" : "");
	}
	printf("1..%d\n", n);
	return bad;
}

#endif
