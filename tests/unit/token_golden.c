/* token_golden.c - the ids and texts that Hugging Face gives, and nothing else. */
#include "tests/unit/token.h"

static int lines;

static void
encoded(const struct epd_json *line)
{
	const struct epd_tokenizer *t = token_published();
	struct epd_span text = epd_json_bytes(epd_json_get(line, "text"));
	struct epd_json *ids = epd_json_get(line, "ids");
	struct epd_json *plain = epd_json_get(line, "ids_plain");
	struct epd_ids out = {0};
	int a, b;

	a = !epd_tokenizer_encode_special(t, text, &out) &&
	    token_same_ids(&out, ids);
	out.n = 0;
	b = !epd_tokenizer_encode(t, text, &out) &&
	    token_same_ids(&out, plain ? plain : ids);
	epd_ids_free(&out);
	if (!a || !b)
		CHECK_FAIL("line %d: %s differ", lines, a ? "ids_plain" : "ids");
	lines++;
}

TEST(encodes_as_the_reference)
{
	lines = 0;
	token_lines("tests/golden/text/tokenizer.jsonl", encoded);
	if (!check_failed)
		CHECK_INT(lines, 315);
}

TEST(encodes_what_was_drawn)
{
	lines = 0;
	token_lines("tests/data/token/drawn.jsonl", encoded);
	if (!check_failed)
		CHECK_INT(lines, 500);
}

/* All ids through the streaming decoder, special ones left out if asked. */
static void
decode(const struct epd_tokenizer *t, const struct epd_json *ids, int skip,
    struct epd_buf *out)
{
	struct epd_utf8 u = {0};

	for (size_t i = 0; i < epd_json_count(ids); i++) {
		int32_t id = (int32_t)epd_json_int(epd_json_at(ids, i), -1);

		if (skip && epd_tokenizer_is_special(t, id))
			continue;
		epd_utf8_put(&u, epd_tokenizer_bytes(t, id), out);
	}
	epd_utf8_end(&u, out);
}

static void
decoded(const struct epd_json *line)
{
	struct epd_json *ids = epd_json_get(line, "ids");
	struct epd_json *skip = epd_json_get(line, "decoded_skip_special");
	struct epd_buf all = {0}, some = {0};
	int a, b;

	decode(token_published(), ids, 0, &all);
	decode(token_published(), ids, 1, &some);
	a = token_same_text(&all, epd_json_get(line, "decoded"));
	b = token_same_text(&some, skip ? skip : epd_json_get(line, "decoded"));
	epd_buf_free(&all);
	epd_buf_free(&some);
	if (!a || !b)
		CHECK_FAIL("line %d: %s differs", lines,
		    a ? "decoded_skip_special" : "decoded");
	lines++;
}

TEST(decodes_as_the_reference)
{
	lines = 0;
	token_lines("tests/golden/text/tokenizer.jsonl", decoded);
	if (!check_failed)
		CHECK_INT(lines, 315);
}

static void
streamed(const struct epd_json *line)
{
	const struct epd_json *hex = epd_json_get(line, "token_bytes_hex");
	const struct epd_json *chunks = epd_json_get(line, "chunks");
	const struct epd_json *ids = epd_json_get(line, "ids");
	const char *name = epd_json_str(epd_json_get(line, "name"), "?");
	struct epd_buf out = {0};
	struct epd_utf8 u = {0};

	for (size_t i = 0; i < epd_json_count(hex); i++) {
		struct epd_span want = epd_tokenizer_bytes(token_published(),
		    (int32_t)epd_json_int(epd_json_at(ids, i), -1));
		const char *h = epd_json_str(epd_json_at(hex, i), "");
		uint8_t bytes[64];
		size_t n = strlen(h) / 2;

		CHECK(n <= sizeof bytes && !epd_hex_parse(bytes, n, h));
		CHECK(want.n == n && !memcmp(want.p, bytes, n));
		out.n = 0;
		epd_utf8_put(&u, epd_span(bytes, n), &out);
		if (!token_same_text(&out, epd_json_at(chunks, i)))
			CHECK_FAIL("%s: chunk %zu differs", name, i);
	}
	out.n = 0;
	epd_utf8_end(&u, &out);
	if (!token_same_text(&out, epd_json_get(line, "end")))
		CHECK_FAIL("%s: its end differs", name);
	epd_buf_free(&out);
	lines++;
}

TEST(streams_as_the_reference)
{
	lines = 0;
	token_lines("tests/golden/text/streaming.jsonl", streamed);
	if (!check_failed)
		CHECK_INT(lines, 19);
}

TEST(names_special_tokens)
{
	const struct epd_tokenizer *t = token_published();

	CHECK_INT(epd_tokenizer_size(t), 151669);
	CHECK_INT(epd_tokenizer_special(t, "<|im_start|>"), 151644);
	CHECK_INT(epd_tokenizer_special(t, "<|image_pad|>"), 151655);
	CHECK_INT(epd_tokenizer_special(t, "</think>"), 151668);
	CHECK_INT(epd_tokenizer_special(t, "<|im_start|"), -1);
	CHECK_INT(epd_tokenizer_special(t, ""), -1);
	CHECK(epd_tokenizer_is_special(t, 151645));
	CHECK(!epd_tokenizer_is_special(t, 151668));
	CHECK(!epd_tokenizer_is_special(t, 0));
	CHECK(!epd_tokenizer_is_special(t, -1));
	CHECK(!epd_tokenizer_bytes(t, 151669).p);
	CHECK(!epd_tokenizer_bytes(t, -1).p);
	CHECK_INT(epd_tokenizer_bytes(t, 151643).n, 13);
}

/* The id of an added token is one of its own in every small tokenizer too. */
TEST(opens_the_small_ones)
{
	static const struct {
		const char *path;
		long size;
	} small[] = {
		{ GOLDEN "checkpoints/qwen2vl-tiny", 538 },
		{ GOLDEN "checkpoints/qwen25vl-tiny", 538 },
		{ GOLDEN "checkpoints/qwen25vl-newsave-tiny", 538 },
		{ GOLDEN "checkpoints/qwen3vl-tiny", 538 },
		{ "examples/tiny-vlm/model", 800 },
	};

	for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
		struct epd_tokenizer *t = token_open(small[i].path);

		CHECK_INT(epd_tokenizer_size(t), small[i].size);
		CHECK_INT(epd_tokenizer_special(t, "</think>"),
		    small[i].size - 1);
		epd_tokenizer_close(t);
	}
}

/* A word of any length is merged in about linear time, marks sorted likewise. */
TEST(long_words_end)
{
	static const struct {
		const char *what;
		size_t ids;
	} words[] = {
		{ "a", 131072 }, { " ", 8192 }, { "\xe4\xb8\x80", 349525 },
		{ "\xcc\x95\xcc\xa3", 1048576 },
	};
	size_t n = 1 << 20;
	char *text = malloc(n);

	for (size_t i = 0; text && i < sizeof words / sizeof *words; i++) {
		size_t len = strlen(words[i].what);
		struct epd_ids out = {0};

		for (size_t k = 0; k < n; k++)
			text[k] = words[i].what[k % len];
		CHECK_INT(epd_tokenizer_encode(token_published(),
		    epd_span(text, n / len * len), &out), 0);
		CHECK(out.n <= words[i].ids);
		epd_ids_free(&out);
	}
	free(text);
}

TEST(refuses_what_is_not_utf8)
{
	static const char *const bad[] = {
		"\x80", "a\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80",
		"\xf4\x90\x80\x80", "\xe6\xbc", "abcdefgh\xf0\x9f\x98",
	};
	struct epd_ids out = {0};

	CHECK_INT(epd_tokenizer_encode(token_published(),
	    epd_span_str("x"), &out), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK_INT(epd_tokenizer_encode(token_published(),
		    epd_span_str(bad[i]), &out), EPD_EFORMAT);
		CHECK_INT(epd_tokenizer_encode_special(token_published(),
		    epd_span_str(bad[i]), &out), EPD_EFORMAT);
		CHECK_INT(out.n, 1);
	}
	epd_ids_free(&out);
}

TEST(encoding_without_memory)
{
	const struct epd_tokenizer *t = token_published();
	struct epd_span text = epd_span_str("e\xcc\x81\xcc\xa3 two<|im_end|>"
	    "lots of words 123 \xe4\xbd\xa0\xe5\xa5\xbd");
	int rc = -ENOMEM;

	for (int n = 0; rc && n < 200; n++) {
		struct epd_ids out = {0};

		token_fail_at(n);
		rc = epd_tokenizer_encode_special(t, text, &out);
		token_fail_at(-1);
		CHECK(!rc || (rc == -ENOMEM && out.n == 0));
		epd_ids_free(&out);
	}
	CHECK_INT(rc, 0);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
