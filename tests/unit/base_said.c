/* base_said - what another one said, fit to be shown. */
#include <stdlib.h>
#include <string.h>

#include "base/said.h"
#include "tests/check.h"

static const char *
said(const char *text)
{
	static char out[240];

	epd_said(out, sizeof out, epd_span_str(text));
	return out;
}

TEST(plain_words_stay_as_they_are)
{
	static const char *const plain[] = {
		"", "no such state", "w1/s3@2: is SUSPECT", "3/4 of it, and/or less",
		"it costs 5 \xe2\x82\xac", "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
		"two  blanks", " around ", "a. b... c?", "(in brackets)",
	};

	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		CHECK_STR(said(plain[i]), plain[i]);
}

TEST(nothing_drives_a_terminal_or_turns_a_line)
{
	CHECK_STR(said("a\x1b[2Jb"), "a?[2Jb");
	CHECK_STR(said("a\r\nb\tc\x7f"), "a??b?c?");
	/* CSI and OSC of the other set. */
	CHECK_STR(said("\xc2\x9b" "31m \xc2\x9d" "0;x"), "?31m ?0;x");
	CHECK_STR(said("\xe2\x80\xae" "txt \xe2\x81\xa6x"), "?txt ?x");
	CHECK_STR(said("a\xe2\x80\x8b" "b\xef\xbb\xbf"), "a?b?");
	CHECK_STR(said("a\xe2\x80\xa8" "b"), "a?b");
}

TEST(a_line_of_ours_is_tamed_in_place)
{
	char line[] = "/a\xc2\x9b" "b \xe2\x80\xae" "c\xe2\x82\xac\n\xff";

	epd_said_tidy(line, strlen(line));
	CHECK_STR(line, "/a??b ???c\xe2\x82\xac?\xff");
}

TEST(what_is_no_utf8)
{
	CHECK_STR(said("a\xff" "b"), "a?b");
	CHECK_STR(said("\xc0\xaf"), "??");
	CHECK_STR(said("\xed\xa0\x80."), "???.");
	CHECK_STR(said("cut \xe2\x82"), "cut ?");
}

TEST(paths_are_told_of_and_not_told)
{
	CHECK_STR(said("/etc/passwd: no such file"), "(path): no such file");
	CHECK_STR(said("open \"/srv/x y\""), "open \"(path) y\"");
	CHECK_STR(said("see ~/k, ../s or ./s/a."), "see (path), (path) or (path).");
	CHECK_STR(said("at tcp://10.0.0.1:70: gone"), "at (path): gone");
	CHECK_STR(said("(/a)"), "((path))");
	CHECK_STR(said("store/w/w1"), "(path)");
	CHECK_STR(said("/"), "(path)");
}

TEST(long_ones_are_cut_at_a_character)
{
	char out[16], text[3000];

	CHECK_INT(epd_said(out, sizeof out, epd_span_str("123456789012345")), 15);
	CHECK_STR(out, "123456789012345");
	CHECK_INT(epd_said(out, sizeof out, epd_span_str("1234567890123456")), 15);
	CHECK_STR(out, "123456789012...");
	/* The twelfth byte is within one. */
	epd_said(out, sizeof out, epd_span_str("12345678901\xe2\x82\xac" "56"));
	CHECK_STR(out, "12345678901...");
	memset(text, 'x', sizeof text);
	CHECK(epd_said(text, sizeof text, epd_span(text, sizeof text)) < 1100);
	CHECK(!strcmp(text + strlen(text) - 3, "..."));
	for (size_t room = 4; room < 30; room++) {
		char *small = malloc(room);

		CHECK(epd_said(small, room, epd_span_str("\xe2\x82\xac /a/b "
		    "\xe2\x82\xac\xe2\x82\xac /c \xf0\x9f\x98\x80 x")) < room);
		free(small);
	}
}

/* Whatever comes: it ends, fits, and has nothing of what may not be shown. */
TEST(what_can_be_shown_as_it_is)
{
	static const char *const no[] = { "\x1b", "a\n", "\x7f", "\xc2\x85",
		"\xff", "a\xc3", "\xe2\x80\xae", "x\xc0\x80" };

	CHECK(epd_all_shown(""));
	CHECK(epd_all_shown("Wetter in K\xc3\xb6ln / 7"));
	for (size_t i = 0; i < sizeof no / sizeof *no; i++)
		CHECK(!epd_all_shown(no[i]));
}

TEST(any_bytes)
{
	unsigned seed = 1;

	for (int i = 0; i < 20000; i++) {
		char out[64];
		uint8_t text[96];
		const size_t n = (size_t)rand_r(&seed) % sizeof text;

		for (size_t k = 0; k < n; k++)
			text[k] = rand_r(&seed) % 3 ? (uint8_t)rand_r(&seed) :
			    (uint8_t)"/. ~\x1b\xc2\x9b\xe2"[rand_r(&seed) % 8];
		CHECK(epd_said(out, sizeof out, epd_span(text, n)) ==
		    strlen(out));
		for (const char *p = out; *p; p++)
			CHECK((unsigned char)*p >= ' ' && *p != 0x7f);
		CHECK(!strstr(out, " /"));
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
