/* page_name - what decides a page's bytes decides its name. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/span.h"
#include "page/page.h"
#include "tests/check.h"

static const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, 1, 16, 4096 };

static int
same(const struct epd_name *a, const struct epd_name *b)
{
	return epd_name_equal(a, b);
}

TEST(base_covers_each_part)
{
	struct epd_name model = { { 1 } }, other = { { 2 } }, n[9];
	struct epd_run_shape s;

	epd_page_base(&n[0], 1, "lanes16-f32", &model, &shape);
	epd_page_base(&n[1], 2, "lanes16-f32", &model, &shape);
	epd_page_base(&n[2], 1, "onednn", &model, &shape);
	epd_page_base(&n[3], 1, "lanes16-f32", &other, &shape);
	s = shape; s.kind = 2;
	epd_page_base(&n[4], 1, "lanes16-f32", &model, &s);
	s = shape; s.type = 0;
	epd_page_base(&n[5], 1, "lanes16-f32", &model, &s);
	s = shape; s.tokens = 64;
	epd_page_base(&n[6], 1, "lanes16-f32", &model, &s);
	s = shape; s.bytes++;
	epd_page_base(&n[7], 1, "lanes16-f32", &model, &s);
	epd_page_base(&n[8], 1, "lanes16-f32", &model, &shape);
	for (int i = 0; i < 8; i++)
		for (int k = 0; k < i; k++)
			CHECK(!same(&n[i], &n[k]));
	CHECK(same(&n[0], &n[8]));
}

TEST(kind01_same_text_other_image)
{
	struct epd_name base = { { 9 } }, a, b;
	struct epd_page_image im = { 3, { { 1 } } };
	int32_t pad[16] = { 0 };

	epd_page_name(&a, &base, pad, 16, &im, 1);
	im.fp.b[31] = 1;
	epd_page_name(&b, &base, pad, 16, &im, 1);
	CHECK(!same(&a, &b));
	epd_page_name(&b, &base, pad, 16, NULL, 0);
	CHECK(!same(&a, &b));
}

TEST(kind02_full_width_and_bound_to_its_place)
{
	struct epd_name base = { { 9 } }, a, b;
	struct epd_page_image im[2] = { { 0, { { 1 } } }, { 8, { { 2 } } } };
	struct epd_page_image turned[2] = { { 0, { { 2 } } }, { 8, { { 1 } } } };
	int32_t ids[16] = { 0 };

	/* The whole width of a fingerprint counts. */
	for (int bit = 0; bit < 256; bit += 5) {
		im[0].fp = (struct epd_name){ { 1 } };
		epd_page_name(&a, &base, ids, 16, im, 2);
		im[0].fp.b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		epd_page_name(&b, &base, ids, 16, im, 2);
		CHECK(!same(&a, &b));
	}
	im[0].fp = (struct epd_name){ { 1 } };
	epd_page_name(&a, &base, ids, 16, im, 2);
	epd_page_name(&b, &base, ids, 16, turned, 2);
	CHECK(!same(&a, &b));
	im[1].at = -8;
	epd_page_name(&b, &base, ids, 16, im, 2);
	CHECK(!same(&a, &b));
	/* A forged equal suffix: same last page after another first one. */
	epd_page_name(&a, &base, ids, 16, NULL, 0);
	ids[0] = 1;
	epd_page_name(&b, &base, ids, 16, NULL, 0);
	ids[0] = 0;
	epd_page_name(&a, &a, ids, 16, NULL, 0);
	epd_page_name(&b, &b, ids, 16, NULL, 0);
	CHECK(!same(&a, &b));
}

TEST(kind03_the_split_counts_and_processes_agree)
{
	int32_t ids[5] = { 1, 2, 3, 4, 5 };
	struct epd_name base = { { 9 } }, a, b, c;
	int pipes[2];
	pid_t pid;

	epd_page_name(&a, &base, ids, 2, NULL, 0);
	epd_page_name(&a, &a, ids + 2, 3, NULL, 0);
	epd_page_name(&b, &base, ids, 3, NULL, 0);
	epd_page_name(&b, &b, ids + 3, 2, NULL, 0);
	CHECK(!same(&a, &b));
	CHECK_INT(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		epd_page_name(&c, &base, ids, 2, NULL, 0);
		epd_page_name(&c, &c, ids + 2, 3, NULL, 0);
		_exit(write(pipes[1], &c, sizeof c) != sizeof c);
	}
	CHECK(read(pipes[0], &c, sizeof c) == sizeof c);
	waitpid(pid, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
	CHECK(same(&a, &c));
}

TEST(kind06_what_came_before_counts)
{
	struct epd_name base = { { 9 } }, a, b;
	struct epd_page_image first = { 0, { { 1 } } }, second = { 0, { { 7 } } };
	int32_t ids[16] = { 0 };

	epd_page_name(&a, &base, ids, 16, &first, 1);
	first.fp.b[0] = 2;
	epd_page_name(&b, &base, ids, 16, &first, 1);
	epd_page_name(&a, &a, ids, 16, &second, 1);
	epd_page_name(&b, &b, ids, 16, &second, 1);
	CHECK(!same(&a, &b));
}

TEST(lengths_and_signs)
{
	int32_t ids[17] = { 0 }, minus[1] = { -1 };
	struct epd_name base = { { 9 } }, a, b;

	epd_page_name(&a, &base, ids, 16, NULL, 0);
	epd_page_name(&b, &base, ids, 17, NULL, 0);
	CHECK(!same(&a, &b));
	epd_page_name(&b, &base, ids, 15, NULL, 0);
	CHECK(!same(&a, &b));
	epd_page_name(&a, &base, ids, 0, NULL, 0);
	CHECK(!same(&a, &base));
	epd_page_name(&a, &base, ids, 1, NULL, 0);
	epd_page_name(&b, &base, minus, 1, NULL, 0);
	CHECK(!same(&a, &b));
}

/* A change of what goes into a name must be seen here and in the format. */
TEST(names_are_pinned)
{
	struct epd_page_image im = { -2, { { 1, 2, 3 } } };
	struct epd_name model = { { 5 } }, n;
	int32_t ids[3] = { 1, 2, 151655 };
	char hex[65];

	epd_page_base(&n, 1, "lanes16-f32", &model, &shape);
	epd_hex_format(hex, n.b, EPD_NAME);
	CHECK_STR(hex, "672aafd285ad604bf6877564053552b70b24f9795581ffb00c1787536849d03c");
	epd_page_name(&n, &n, ids, 3, &im, 1);
	epd_hex_format(hex, n.b, EPD_NAME);
	CHECK_STR(hex, "e20356f17a96100ce3df85cf69345a06c8eff192e779c179c05b01c786adac3a");
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
