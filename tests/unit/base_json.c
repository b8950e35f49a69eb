/* base_json.c - JSON read, hostile and kind, and written as Python writes it. */
#include "tests/check.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"

static int
parse(struct epd_json **j, const char *s)
{
	return epd_json_parse(j, epd_span_str(s), "t", NULL);
}

/* What parsing and dumping makes of s; "!" and the rc if it does not parse. */
static const char *
again(const char *s)
{
	static char text[8192];
	struct epd_buf b = { 0 };
	struct epd_json *j = NULL;
	int rc = parse(&j, s);

	if (rc) {
		snprintf(text, sizeof text, "!%d", rc);
		return text;
	}
	epd_json_dump(&b, j);
	snprintf(text, sizeof text, "%s", epd_buf_cstr(&b));
	epd_json_free(j);
	epd_buf_free(&b);
	return text;
}

/* Pairs of lines: a document in ASCII, and json.dumps(_, ensure_ascii=False). */
TEST(dump_is_what_python_writes)
{
	FILE *f = fopen("tests/data/base/json_dump.txt", "r");
	char *in = NULL, *want = NULL;
	size_t a = 0, b = 0;
	int n = 0;

	CHECK(f);
	while (getline(&in, &a, f) > 0 && getline(&want, &b, f) > 0) {
		in[strcspn(in, "\n")] = want[strcspn(want, "\n")] = '\0';
		CHECK_STR(again(in), want);
		CHECK_STR(again(want), want);
		n++;
	}
	CHECK(n > 100);
	free(in);
	free(want);
	fclose(f);
}

/* Of the file of reals, how many are written as repr() writes them. */
static int
reals(int *all)
{
	FILE *f = fopen("tests/data/base/reals.txt", "r");
	char hex[64], want[64], *end;
	int same = 0;

	for (*all = 0; f && fscanf(f, "%63s %63s", hex, want) == 2; ++*all) {
		struct epd_buf b = { 0 };
		struct epd_jw w = { .out = &b };
		double v = strtod(hex, &end);

		/* The point is another in another locale. */
		if (*end == '.')
			*end = ',';
		epd_jw_real(&w, NULL, *end ? strtod(hex, NULL) : v);
		if (!strcmp(epd_buf_cstr(&b), want))
			same++;
		else
			printf("# %s: %s, not %s\n", hex, epd_buf_cstr(&b),
			    want);
		epd_buf_free(&b);
	}
	if (f)
		fclose(f);
	return same;
}

TEST(reals_are_written_as_repr_does)
{
	int n, same = reals(&n);

	CHECK(n > 200);
	CHECK_INT(same, n);
}

/* The data is a locale whose point is a comma. */
TEST(reals_do_not_go_by_locale)
{
	const char *found;
	char text[8];
	int n, same;

	setenv("LOCPATH", "tests/data/base", 1);
	found = setlocale(LC_NUMERIC, "comma");
	/* While it is set the C library leaks at each newlocale(). */
	unsetenv("LOCPATH");
	if (!found)
		SKIP("this C library does not read the locale");
	snprintf(text, sizeof text, "%.1f", 1.5);
	same = reals(&n);
	setlocale(LC_NUMERIC, "C");
	CHECK_STR(text, "1,5");
	CHECK(n > 200);
	CHECK_INT(same, n);
}

TEST(numbers_keep_their_digits)
{
	CHECK_STR(again("[1e5, 1.50, -0.0, 1E+2, 1e999, 5e000, -0]"),
	    "[1e5, 1.50, -0.0, 1E+2, 1e999, 5e000, 0]");
	CHECK_STR(again("1000000000000000019884624838656"),
	    "1000000000000000019884624838656");
	CHECK_STR(again("[18446744073709551616,1, -9223372036854775809]"),
	    "[18446744073709551616, 1, -9223372036854775809]");
	CHECK_STR(again("{\"a\":18446744073709551616}"),
	    "{\"a\": 18446744073709551616}");
}

TEST(numbers_beyond_their_types)
{
	struct epd_json *j;

	CHECK_INT(parse(&j, "[9223372036854775807, 9223372036854775808, "
	    "18446744073709551615, 1000000000000000019884624838656, 1e999, "
	    "-9223372036854775808, -5, 2.5]"), 0);
	CHECK_INT(epd_json_type(epd_json_at(j, 0)), EPD_JSON_INT);
	CHECK_INT(epd_json_int(epd_json_at(j, 0), 1), INT64_MAX);
	CHECK_INT(epd_json_type(epd_json_at(j, 1)), EPD_JSON_REAL);
	CHECK_INT(epd_json_int(epd_json_at(j, 1), 1), 1);
	CHECK(epd_json_uint(epd_json_at(j, 1), 1) == 9223372036854775808u);
	CHECK(epd_json_uint(epd_json_at(j, 2), 1) == UINT64_MAX);
	CHECK(epd_json_real(epd_json_at(j, 2), 1) == 18446744073709551615.0);
	CHECK_INT(epd_json_type(epd_json_at(j, 3)), EPD_JSON_REAL);
	CHECK_INT(epd_json_int(epd_json_at(j, 3), 1), 1);
	CHECK(epd_json_uint(epd_json_at(j, 3), 1) == 1);
	CHECK(epd_json_real(epd_json_at(j, 3), 1) == 1e30);
	CHECK(isinf(epd_json_real(epd_json_at(j, 4), 1)));
	CHECK_INT(epd_json_int(epd_json_at(j, 5), 1), INT64_MIN);
	CHECK(epd_json_uint(epd_json_at(j, 6), 1) == 1);
	CHECK(epd_json_real(epd_json_at(j, 6), 1) == -5);
	CHECK_INT(epd_json_int(epd_json_at(j, 7), 1), 1);
	CHECK(epd_json_real(epd_json_at(j, 7), 1) == 2.5);
	epd_json_free(j);
}

TEST(looking_at_a_tree)
{
	struct epd_json *j, *o;
	struct epd_json_iter it;

	CHECK_INT(parse(&j, " {\"a\": 1, \"n\": null, \"s\": \"x\\u0000y\", "
	    "\"t\": \"z\", \"b\": true, \"l\": [1, null], \"a\": 2} "), 0);
	CHECK_INT(epd_json_type(j), EPD_JSON_OBJECT);
	CHECK_INT(epd_json_count(j), 6);
	CHECK_INT(epd_json_int(epd_json_get(j, "a"), 0), 2);
	CHECK(!epd_json_get(j, "n") && !epd_json_get(j, "none"));
	CHECK(epd_json_has(j, "n") && !epd_json_has(j, "none"));
	CHECK_INT(epd_json_type(epd_json_get(j, "n")), EPD_JSON_NULL);
	CHECK_STR(epd_json_str(epd_json_get(j, "t"), "d"), "z");
	CHECK_STR(epd_json_str(epd_json_get(j, "s"), "d"), "d");
	CHECK_INT(epd_json_bytes(epd_json_get(j, "s")).n, 3);
	CHECK(!memcmp(epd_json_bytes(epd_json_get(j, "s")).p, "x\0y", 3));
	CHECK_STR(epd_json_str(epd_json_get(j, "a"), "d"), "d");
	CHECK(!epd_json_bytes(epd_json_get(j, "a")).p);
	CHECK_INT(epd_json_bool(epd_json_get(j, "b"), 0), 1);
	CHECK_INT(epd_json_bool(epd_json_get(j, "a"), 7), 7);
	CHECK_INT(epd_json_int(epd_json_get(j, "b"), 7), 7);
	CHECK_INT(epd_json_int(epd_json_get(j, "t"), 7), 7);
	CHECK(epd_json_real(epd_json_get(j, "t"), 7) == 7);
	o = epd_json_get(j, "l");
	CHECK_INT(epd_json_count(o), 2);
	CHECK(!epd_json_at(o, 1) && !epd_json_at(o, 2) && !epd_json_at(j, 0));
	CHECK(!epd_json_at(o, SIZE_MAX) && !epd_json_get(o, "a"));
	it = epd_json_begin(j);
	CHECK_INT(epd_json_next(&it), 1);
	CHECK_STR(it.key, "a");
	CHECK_INT(epd_json_int(it.value, 0), 2);
	CHECK_INT(epd_json_next(&it), 1);
	CHECK_STR(it.key, "n");
	CHECK(!it.value);
	for (int i = 0; i < 4; i++)
		CHECK_INT(epd_json_next(&it), 1);
	CHECK_INT(epd_json_next(&it), 0);
	CHECK(!it.key);
	CHECK_INT(epd_json_next(&it), 0);
	it = epd_json_begin(o);
	CHECK_INT(epd_json_next(&it), 0);
	epd_json_free(j);
}

TEST(null_and_absent_are_alike)
{
	struct epd_json *j = (struct epd_json *)1;
	struct epd_json_iter it = epd_json_begin(NULL);

	CHECK_INT(parse(&j, "null"), 0);
	CHECK(!j);
	CHECK_INT(epd_json_type(NULL), EPD_JSON_NULL);
	CHECK_INT(epd_json_count(NULL), 0);
	CHECK(!epd_json_at(NULL, 0) && !epd_json_get(NULL, "a"));
	CHECK(!epd_json_has(NULL, "a"));
	CHECK_INT(epd_json_next(&it), 0);
	CHECK_INT(epd_json_int(NULL, 3), 3);
	CHECK_INT(epd_json_bool(NULL, 3), 3);
	CHECK(epd_json_uint(NULL, 3) == 3 && epd_json_real(NULL, 3) == 3);
	CHECK_STR(epd_json_str(NULL, "d"), "d");
	CHECK(!epd_json_str(NULL, NULL) && !epd_json_bytes(NULL).p);
	epd_json_free(NULL);
}

TEST(what_is_no_json_is_refused)
{
	static const char *const bad[] = {
		"", " ", "\n", "nul", "nullx", "TRUE", "NaN", "Infinity",
		"-Infinity", "nan", "01", "-01", "00", "-", "+1", "1.", ".5",
		"1.e5", "1e", "1e+", "0x10", "1-2", "--1", "1 2", "[1,]",
		"[,1]", "[1 2]", "[", "]", "[1", "[1,", "{", "{\"a\"",
		"{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{a:1}",
		"{\"a\" 1}", "{\"a\":1 \"b\":2}", "{1:2}", "{null:1}", "'a'",
		"\"a", "\"a\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"",
		"\"\\", "\"\\u", "\"a\tb\"", "\"a\nb\"", "\"\x01\"", "/**/1",
		"1//x", "#1", "\xef\xbb\xbf\x31", "\v1", "{\"a\\u0000b\":1}",
		"{\"\\u0000\":1}", "\"\xff\"", "\"\xc0\x80\"", "\"\xc3\"",
		"\"\xe0\x80\x80\"", "\"\xed\xa0\x80\"", "\"\xf5\x80\x80\x80\"",
		"\"\xf0\x80\x80\x80\"", "\"\xf4\x90\x80\x80\"", "\"\x80\"",
		"[\"\xe2\x82\"]", "{\"\xff\":1}", "truefalse", "1a", "[1e5e5]",
		"18446744073709551616x", "[18446744073709551616", "]1", "}",
	};
	struct epd_json *j = (struct epd_json *)1;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (parse(&j, bad[i]) != EPD_EFORMAT)
			CHECK_FAIL("takes %s", bad[i]);
	CHECK(j == (struct epd_json *)1);
	CHECK_INT(epd_json_parse(&j, epd_span("1\0", 2), "t", NULL),
	    EPD_EFORMAT);
	CHECK_INT(epd_json_parse(&j, epd_span("\"a\0b\"", 5), "t", NULL),
	    EPD_EFORMAT);
	CHECK_INT(epd_json_parse(&j, epd_span(NULL, 0), "t", NULL),
	    EPD_EFORMAT);
}

TEST(the_fault_is_named_with_its_line)
{
	struct epd_why why;
	struct epd_json *j;

	CHECK_INT(epd_json_parse(&j, epd_span_str("{\n \"a\": 1,\n b: 2}"),
	    "config.json", &why), EPD_EFORMAT);
	CHECK_STR(why.text,
	    "config.json:3: JSON has a key that is not a string");
	CHECK_INT(epd_json_parse(&j, epd_span("", (size_t)1 << 31), "big",
	    &why), EPD_EFORMAT);
	CHECK_STR(why.text, "big: more than 1 GiB of JSON");
}

TEST(odd_but_right)
{
	CHECK_STR(again("\"\\ud83d\\ude00\""), "\"\xf0\x9f\x98\x80\"");
	CHECK_STR(again("\"\\ud800\""), "\"\xef\xbf\xbd\"");
	CHECK_STR(again("\"\\udc00x\""), "\"\xef\xbf\xbdx\"");
	CHECK_STR(again("\"\\ud800\\u0041\""), "\"\xef\xbf\xbd" "A\"");
	CHECK_STR(again("\"\\/\\b\\f\\n\\r\\t\\u001F\""),
	    "\"/\\b\\f\\n\\r\\t\\u001f\"");
	CHECK_STR(again("\t\r\n 1 \t\r\n"), "1");
	CHECK_STR(again("{\"\":0}"), "{\"\": 0}");
	CHECK_STR(again("{\"a\":1,\"b\":2,\"a\":3}"), "{\"a\": 3, \"b\": 2}");
	CHECK_STR(again("[ ]"), "[]");
	CHECK_STR(again("{ }"), "{}");
	CHECK_STR(again("\"\\u0000\""), "\"\\u0000\"");
}

TEST(depth_is_bounded)
{
	char s[400000];
	struct epd_json *j;

	for (int deep = 63; deep <= 66; deep++) {
		memset(s, '[', (size_t)deep);
		memset(s + deep, ']', (size_t)deep);
		s[2 * deep] = '\0';
		CHECK_STR(again(s), deep <= 64 ? s : "!-1017");
	}
	memset(s, '[', sizeof s - 1);
	s[sizeof s - 1] = '\0';
	CHECK_INT(parse(&j, s), EPD_EFORMAT);
	for (size_t i = 0; i + 5 < sizeof s; i += 5)
		memcpy(s + i, "{\"a\":", 5);
	CHECK_INT(parse(&j, s), EPD_EFORMAT);
}

TEST(every_cut_and_every_flip_is_survived)
{
	static const char doc[] = "{\"a\": [1, -2.5e3, true, null, "
	    "\"\\u00e9\xc3\xa9\\n\"], \"b\": {\"c\": 18446744073709551616}}";
	char s[sizeof doc];
	struct epd_json *j;

	for (size_t n = 0; n < sizeof doc - 1; n++)
		CHECK_INT(epd_json_parse(&j, epd_span(doc, n), "t", NULL),
		    EPD_EFORMAT);
	for (size_t i = 0; i < 8 * (sizeof doc - 1); i++) {
		memcpy(s, doc, sizeof doc);
		s[i / 8] = (char)(s[i / 8] ^ 1 << i % 8);
		if (!epd_json_parse(&j, epd_span(s, sizeof doc - 1), "t",
		    NULL))
			epd_json_free(j);
	}
}

TEST(quote_mends_broken_utf8)
{
	struct epd_buf b = { 0 };

	/* As Python's decode(errors="replace"). */
	epd_json_quote(&b, epd_span_str("a\xff" "b\xe2\x82" "c\xf0\x9f\x98"
	    "\xed\xa0\x80" "\xc0\xaf"));
	CHECK_STR(epd_buf_cstr(&b), "\"a\xef\xbf\xbd" "b\xef\xbf\xbd"
	    "c\xef\xbf\xbd" "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
	    "\xef\xbf\xbd\xef\xbf\xbd\"");
	b.n = 0;
	epd_json_quote(&b, epd_span(NULL, 0));
	CHECK_STR(epd_buf_cstr(&b), "\"\"");
	epd_buf_free(&b);
}

TEST(writer_keeps_commas_and_brackets)
{
	struct epd_buf b = { 0 };
	struct epd_jw w = { .out = &b };

	epd_jw_begin(&w, NULL, '{');
	epd_jw_str(&w, "s", "a\"b");
	epd_jw_str(&w, "z", NULL);
	epd_jw_int(&w, "i", INT64_MIN);
	epd_jw_uint(&w, "u", UINT64_MAX);
	epd_jw_real(&w, "r", 0.1);
	epd_jw_real(&w, "nan", NAN);
	epd_jw_bool(&w, "b", 2);
	epd_jw_hex(&w, "h", "\x01\xff", 2);
	epd_jw_bytes(&w, "y", epd_span("a\0", 2));
	epd_jw_begin(&w, "l", '[');
	epd_jw_begin(&w, NULL, '[');
	epd_jw_end(&w, ']');
	epd_jw_int(&w, NULL, 1);
	epd_jw_begin(&w, NULL, '{');
	epd_jw_int(&w, "x", 2);
	epd_jw_end(&w, '}');
	epd_jw_end(&w, ']');
	epd_jw_bool(&w, "e", 0);
	epd_jw_end(&w, '}');
	epd_buf_str(&b, "\n");
	epd_jw_begin(&w, NULL, '[');
	epd_jw_end(&w, ']');
	CHECK_STR(epd_buf_cstr(&b), "{\"s\": \"a\\\"b\", \"z\": null, "
	    "\"i\": -9223372036854775808, \"u\": 18446744073709551615, "
	    "\"r\": 0.1, \"nan\": null, \"b\": true, \"h\": \"01ff\", "
	    "\"y\": \"a\\u0000\", \"l\": [[], 1, {\"x\": 2}], "
	    "\"e\": false}\n[]");
	for (int i = 0; i < 100; i++)
		epd_jw_begin(&w, NULL, '[');
	CHECK(b.failed);
	epd_buf_free(&b);
}

TEST(writer_shows_a_terminal_nothing_that_drives_it)
{
	/* A CSI of the other set, DEL, marks of direction, what has no width. */
	static const char said[] = "a\xc2\x9b" "31m\x7f \xe2\x80\xae" "b"
	    "\xe2\x81\xa6" "c\xe2\x80\x8b" "\xef\xbb\xbf" "d\xc3\xa9"
	    "\xf3\xa0\x80\x81";
	struct epd_buf b = { 0 };
	struct epd_jw w = { .out = &b };
	struct epd_json *j = NULL;

	epd_jw_begin(&w, NULL, '{');
	epd_jw_str(&w, said, said);
	epd_jw_end(&w, '}');
#define SHOWN "\"a\\u009b31m\\u007f \\u202eb\\u2066c\\u200b\\ufeffd\xc3\xa9" \
    "\\udb40\\udc01\""
	CHECK_STR(epd_buf_cstr(&b), "{" SHOWN ": " SHOWN "}");
	CHECK_INT(epd_json_parse(&j, epd_span(b.p, b.n), "it", NULL), 0);
	CHECK_STR(epd_json_str(epd_json_get(j, said), ""), said);
	epd_json_free(j);
	/* What a template is given stays as it is. */
	b.n = 0;
	epd_json_quote(&b, epd_span_str("\xe2\x80\x8d"));
	CHECK_STR(epd_buf_cstr(&b), "\"\xe2\x80\x8d\"");
	epd_buf_free(&b);
}

static int
refuse_at(void *arg, size_t n)
{
	(void)n;
	return (*(int *)arg)-- == 0;
}

TEST(writing_without_memory_fails_and_leaks_nothing)
{
	struct epd_json *j;
	int n, left, failed = 1;

	CHECK_INT(parse(&j, "[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\","
	    "1.5,\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"]"),
	    0);
	for (n = 0; failed; n++) {
		struct epd_buf b = { 0 };

		left = n;
		epd_alloc_hook(refuse_at, &left);
		epd_json_dump(&b, j);
		epd_alloc_hook(NULL, NULL);
		failed = b.failed;
		epd_buf_free(&b);
	}
	CHECK(n > 1);
	epd_json_free(j);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
