/*
 * sample_parts.c - the generator against its published vectors; stop strings
 * however the text is cut.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "engine/sample/philox.h"
#include "engine/sample/sample.h"
#include "tests/check.h"

TEST(philox_known_answers)
{
	/* kat_vectors of the Random123 distribution, philox4x32 10. */
	static const uint32_t t[3][10] = {
		{ 0, 0, 0, 0, 0, 0,
		    0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
		{ ~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
		    0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd },
		{ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344,
		    0xa4093822, 0x299f31d0,
		    0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 },
	};

	for (int i = 0; i < 3; i++) {
		uint32_t out[4];

		epd_philox(t[i], t[i] + 4, out);
		CHECK(!memcmp(out, t[i] + 6, sizeof out));
	}
}

TEST(uniform)
{
	double sum = 0, squares = 0;
	uint32_t out[4];

	/* Counter: index, salt; key: seed; low words first. */
	epd_philox((uint32_t[]){ 0x13198a2e, 0x03707344, 0x243f6a88,
	    0x85a308d3 }, (uint32_t[]){ 0xa4093822, 0x299f31d0 }, out);
	CHECK(epd_sample_uniform(0x299f31d0a4093822, 0x85a308d3243f6a88,
	    0x0370734413198a2e) == (float)(out[0] >> 8) / 16777216);
	for (uint64_t i = 0; i < 10000; i++) {
		double u = epd_sample_uniform(1, 2, i);

		CHECK(u >= 0 && u < 1);
		sum += u;
		squares += u * u;
	}
	CHECK(fabs(sum / 10000 - 0.5) < 0.01);
	CHECK(fabs(squares / 10000 - 1.0 / 3) < 0.01);
	CHECK(epd_sample_uniform(1, 2, 3) != epd_sample_uniform(1, 3, 3));
	CHECK(epd_sample_uniform(1, 2, 3) != epd_sample_uniform(2, 2, 3));
}

/* Feed text in pieces of `step` bytes; what was shown, and whether it stopped. */
static int
stopped(const char *const *strings, int n, const char *text, size_t step,
    char shown[64])
{
	struct epd_stop s = { strings, n, {0} };
	struct epd_buf out = {0};
	size_t len = strlen(text);
	int rc = 0;

	for (size_t i = 0; i < len && !rc; i += step)
		rc = epd_stop_put(&s, epd_span(text + i, len - i < step ?
		    len - i : step), &out);
	if (!rc)
		epd_stop_end(&s, &out);
	snprintf(shown, 64, "%s", epd_buf_cstr(&out));
	epd_stop_free(&s);
	epd_buf_free(&out);
	return rc;
}

TEST(stop_strings)
{
	static const struct {
		const char *strings[3], *text, *shown;
		int rc;
	} t[] = {
		{ { "END" }, "well ENEND of it", "well EN", 1 },
		{ { "END" }, "well EN", "well EN", 0 },
		{ { "aab" }, "aaab", "a", 1 },
		{ { "abcd", "bc" }, "xabcd", "xa", 1 },
		{ { "bc", "abc" }, "xabcd", "x", 1 },
		{ { "abc", "bc" }, "xabcd", "x", 1 },
		{ { "\n\n" }, "a\nb\n\nc", "a\nb", 1 },
		{ { "" }, "abc", "abc", 0 },
		{ { "abab" }, "abaabab", "aba", 1 },
		{ { "\xc3\xa9" }, "\xc3\xa8\xc3\xa9", "\xc3\xa8", 1 },
	};

	for (size_t i = 0; i < sizeof t / sizeof *t; i++)
		for (size_t step = 1; step < 20; step++) {
			char shown[64];
			int n = 0;

			while (n < 3 && t[i].strings[n])
				n++;
			CHECK_INT(stopped(t[i].strings, n, t[i].text, step,
			    shown), t[i].rc);
			CHECK_STR(shown, t[i].shown);
		}
}

TEST(stop_shows_at_once)
{
	const char *const strings[] = { "stop" };
	struct epd_stop s = { strings, 1, {0} };
	struct epd_buf out = {0};

	CHECK_INT(epd_stop_put(&s, epd_span_str("go st"), &out), 0);
	CHECK_STR(epd_buf_cstr(&out), "go ");
	CHECK_INT(epd_stop_put(&s, epd_span_str("ay"), &out), 0);
	CHECK_STR(epd_buf_cstr(&out), "go stay");
	epd_stop_free(&s);
	epd_stop_free(NULL);
	epd_buf_free(&out);
}

static int
refuse(void *arg, size_t n)
{
	(void)arg;
	(void)n;
	return 1;
}

TEST(stop_without_memory)
{
	const char *const strings[] = { "stop" };
	struct epd_stop s = { strings, 1, {0} };
	struct epd_buf out = {0};
	int rc;

	epd_alloc_hook(refuse, NULL);
	rc = epd_stop_put(&s, epd_span_str("go"), &out);
	epd_alloc_hook(NULL, NULL);
	CHECK_INT(rc, -ENOMEM);
	epd_stop_free(&s);
	epd_buf_free(&out);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
