/* chat_transcript.c - conversations read back from their ids. */
#include "engine/chat/transcript.h"

#include "engine/chat/chat.h"
#include "engine/token/text.h"
#include "tests/unit/token.h"

/* Text whose special tokens count, and what is read back of it. */
static const struct {
	const char *ids, *text, *messages;
} known[] = {
	{ "", "", "[\n]\n" },
	{ "<|im_start|>user\nHi\nyou<|im_end|>\n<|im_start|>assistant\n",
	    "user: Hi\nyou\n\nassistant: ",
	    "[\n{\"role\": \"user\", \"content\": \"Hi\\nyou\"}\n]\n" },
	{ "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nSo \"?",
	    "user: Hi\n\nassistant: So \"?",
	    "[\n{\"role\": \"user\", \"content\": \"Hi\"},\n"
	    "{\"role\": \"assistant\", \"content\": \"So \\\"?\"}\n]\n" },
	{ "<|im_start|>user\n<|im_end|>", "user: \n",
	    "[\n{\"role\": \"user\", \"content\": \"\"}\n]\n" },
	{ "<|im_start|>user\n\n\nHi\n<|im_end|>\n", "user: \n\nHi\n\n",
	    "[\n{\"role\": \"user\", \"content\": \"\\n\\nHi\\n\"}\n]\n" },
	{ "<|im_start|>us", "us", "[\n]\n" },
	{ "<|im_start|>us<|im_end|>", "us: \n",
	    "[\n{\"role\": \"us\", \"content\": \"\"}\n]\n" },
	{ "<|im_start|>", "", "[\n]\n" },
	{ "<|im_start|><|im_end|>\n", ": \n",
	    "[\n{\"role\": \"\", \"content\": \"\"}\n]\n" },
	{ "<|im_start|>a\nb<|im_start|>c\nd", "a: b\n\nc: d",
	    "[\n{\"role\": \"a\", \"content\": \"b\"},\n"
	    "{\"role\": \"c\", \"content\": \"d\"}\n]\n" },
	{ "<|im_start|>a<|im_start|>c\nd", "a: \n\nc: d",
	    "[\n{\"role\": \"a\", \"content\": \"\"},\n"
	    "{\"role\": \"c\", \"content\": \"d\"}\n]\n" },
	{ "<|im_start|>user\nSee <|vision_start|><|image_pad|><|image_pad|>"
	    "<|vision_end|> and <|vision_start|><|image_pad|><|vision_end|>"
	    "<|vision_start|><|video_pad|><|vision_end|><|im_end|>\n",
	    "user: See [image 0] and [image 1][video]\n",
	    "[\n{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
	    "\"text\": \"See \"}, {\"type\": \"image\", \"image\": "
	    "\"features/0/image.png\"}, {\"type\": \"text\", \"text\": "
	    "\" and \"}, {\"type\": \"image\", \"image\": "
	    "\"features/1/image.png\"}, {\"type\": \"video\"}]}\n]\n" },
	{ "<|vision_start|><|image_pad|>", "[image 0]",
	    "[\n{\"role\": \"raw\", \"content\": [{\"type\": \"image\", "
	    "\"image\": \"features/0/image.png\"}]}\n]\n" },
	{ "x}<|image_pad|><|vision_end|>", "x}[image 0]<|vision_end|>",
	    "[\n{\"role\": \"raw\", \"content\": [{\"type\": \"text\", "
	    "\"text\": \"x}\"}, {\"type\": \"image\", \"image\": "
	    "\"features/0/image.png\"}, {\"type\": \"text\", \"text\": "
	    "\"<|vision_end|>\"}]}\n]\n" },
	{ "a<|vision_start|>", "a",
	    "[\n{\"role\": \"raw\", \"content\": \"a\"}\n]\n" },
	{ "a<|vision_start|>b", "a<|vision_start|>b",
	    "[\n{\"role\": \"raw\", \"content\": \"a<|vision_start|>b\"}\n]\n" },
	{ "Once<|im_end|>\n<|endoftext|>", "Once<|im_end|>\n<|endoftext|>",
	    "[\n{\"role\": \"raw\", \"content\": "
	    "\"Once<|im_end|>\\n<|endoftext|>\"}\n]\n" },
	{ "Once<|im_start|>user\nHi<|im_end|>\n\nthen",
	    "Once\n\nuser: Hi\n\n\nthen",
	    "[\n{\"role\": \"raw\", \"content\": \"Once\"},\n"
	    "{\"role\": \"user\", \"content\": \"Hi\"},\n"
	    "{\"role\": \"raw\", \"content\": \"\\nthen\"}\n]\n" },
	{ "<|im_start|>user\na\t\\\x01\x7f\xc3\xa9<|im_end|>",
	    "user: a\t\\\x01\x7f\xc3\xa9\n",
	    "[\n{\"role\": \"user\", \"content\": "
	    "\"a\\t\\\\\\u0001\x7f\xc3\xa9\"}\n]\n" },
};

static void
same(const struct epd_tokenizer *t, const struct epd_ids *ids,
    enum epd_transcript_kind kind, const char *of, const char *want)
{
	struct epd_buf out = {0};

	CHECK_INT(epd_transcript(&out, t, ids->v, ids->n, kind), 0);
	if (strcmp(epd_buf_cstr(&out), want))
		CHECK_FAIL("%s gives\n%s, not\n%s", of, epd_buf_cstr(&out),
		    want);
	CHECK_INT(epd_transcript_size(t, ids->v, ids->n, kind), out.n);
	epd_buf_free(&out);
}

TEST(reads_back_what_is_known)
{
	const struct epd_tokenizer *t = token_published();

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		struct epd_ids ids = {0};

		CHECK_INT(epd_tokenizer_encode_special(t,
		    epd_span_str(known[i].ids), &ids), 0);
		same(t, &ids, EPD_TRANSCRIPT_TEXT, known[i].ids,
		    known[i].text);
		same(t, &ids, EPD_TRANSCRIPT_MESSAGES, known[i].ids,
		    known[i].messages);
		epd_ids_free(&ids);
	}
}

/* The id of one byte alone. */
static int32_t
byte(const struct epd_tokenizer *t, int b)
{
	return t->head->byte_id[b];
}

TEST(half_characters)
{
	const struct epd_tokenizer *t = token_published();
	const int32_t start = epd_tokenizer_special(t, "<|im_start|>"),
	    stop = epd_tokenizer_special(t, "<|im_end|>"),
	    pad = epd_tokenizer_special(t, "<|image_pad|>");
	int32_t v[] = {
		start, byte(t, 0xe2), byte(t, 'u'), byte(t, 0xc3),
		byte(t, '\n'), byte(t, 0xe2), byte(t, 0x82), byte(t, 0xac),
		byte(t, 0xf0), pad, byte(t, 0xed), byte(t, 0xa0), stop,
		byte(t, '\n'), byte(t, 'x'), byte(t, 0xe2), byte(t, 0x82),
	};
	struct epd_ids ids = { .v = v, .n = sizeof v / sizeof *v };

	same(t, &ids, EPD_TRANSCRIPT_TEXT, "halves",
	    "\xef\xbf\xbdu\xef\xbf\xbd: \xe2\x82\xac\xef\xbf\xbd[image 0]"
	    "\xef\xbf\xbd\xef\xbf\xbd\n\nx");
	same(t, &ids, EPD_TRANSCRIPT_MESSAGES, "halves",
	    "[\n{\"role\": \"\xef\xbf\xbdu\xef\xbf\xbd\", \"content\": "
	    "[{\"type\": \"text\", \"text\": \"\xe2\x82\xac\xef\xbf\xbd\"}, "
	    "{\"type\": \"image\", \"image\": \"features/0/image.png\"}, "
	    "{\"type\": \"text\", \"text\": \"\xef\xbf\xbd\xef\xbf\xbd\"}]},\n"
	    "{\"role\": \"raw\", \"content\": \"x\"}\n]\n");
	ids.n = 4;
	same(t, &ids, EPD_TRANSCRIPT_TEXT, "half a role", "\xef\xbf\xbdu");
}

static uint64_t seed;

static uint32_t
drawn(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 16) % n;
}

static int32_t
random_id(const struct epd_tokenizer *t)
{
	static const char *const special[] = {
		"<|im_start|>", "<|im_end|>", "<|vision_start|>",
		"<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
		"<|endoftext|>", "<tool_call>",
	};

	switch (drawn(8)) {
	case 0: case 1: case 2:
		return epd_tokenizer_special(t, special[drawn(8)]);
	case 3:
		return byte(t, '\n');
	case 4: case 5:
		return byte(t, (int)drawn(256));
	case 6:
		return (int32_t)drawn((uint32_t)epd_tokenizer_size(t) + 9) - 4;
	default:
		return drawn(9) ? byte(t, 'a') : INT32_MIN;
	}
}

static void
one_line_each(const struct epd_buf *b)
{
	const char *p = (const char *)b->p;
	struct epd_json *j;
	struct epd_why why = {0};
	size_t lines = 0;

	for (size_t i = 0; i < b->n; i++)
		lines += p[i] == '\n';
	if (epd_json_parse(&j, epd_span(b->p, b->n), "messages", &why))
		CHECK_FAIL("%s", why.text);
	CHECK_INT(epd_json_type(j), EPD_JSON_ARRAY);
	CHECK_INT(lines, epd_json_count(j) + 2);
	for (size_t i = 0; i < epd_json_count(j); i++)
		CHECK(epd_json_get(epd_json_at(j, i), "role") &&
		    epd_json_get(epd_json_at(j, i), "content"));
	epd_json_free(j);
}

TEST(begins_as_the_whole_does)
{
	const struct epd_tokenizer *t = token_published();
	int32_t v[48];

	seed = 0x6a09e667f3bcc909;
	for (int round = 0; round < 3000 && !check_failed; round++) {
		const size_t n = drawn(sizeof v / sizeof *v + 1);
		struct epd_buf whole = {0};

		for (size_t i = 0; i < n; i++)
			v[i] = random_id(t);
		CHECK_INT(epd_transcript(&whole, t, v, n, EPD_TRANSCRIPT_TEXT),
		    0);
		CHECK(epd_utf8_valid(epd_span(whole.p, whole.n)));
		for (size_t k = 0; k <= n; k++) {
			struct epd_buf b = {0};

			CHECK_INT(epd_transcript(&b, t, v, k,
			    EPD_TRANSCRIPT_TEXT), 0);
			if (b.n > whole.n || (b.n &&
			    memcmp(b.p, whole.p, b.n)))
				CHECK_FAIL("round %d: %zu of %zu ids give %s, "
				    "not as %s", round, k, n, epd_buf_cstr(&b),
				    epd_buf_cstr(&whole));
			CHECK_INT(epd_transcript_size(t, v, k,
			    EPD_TRANSCRIPT_TEXT), b.n);
			epd_buf_free(&b);
		}
		epd_buf_free(&whole);
		CHECK_INT(epd_transcript(&whole, t, v, n,
		    EPD_TRANSCRIPT_MESSAGES), 0);
		CHECK_INT(epd_transcript_size(t, v, n,
		    EPD_TRANSCRIPT_MESSAGES), whole.n);
		one_line_each(&whole);
		epd_buf_free(&whole);
	}
}

/* ---- there and back ---- */

static const struct epd_tokenizer *tokens;
static enum epd_template only;	/* NONE: any */
static int lines;

static enum epd_template
kind_of(const struct epd_json *line)
{
	const char *name = epd_json_str(epd_json_get(line, "family"), "");

	if (!strcmp(name, "qwen3_vl"))
		return EPD_TEMPLATE_QWEN3_VL;
	if (!strcmp(name, "qwen3_bare"))
		return EPD_TEMPLATE_QWEN3_BARE;
	if (!strcmp(name, "chatml"))
		return EPD_TEMPLATE_CHATML;
	return strcmp(name, "qwen3_text") ? EPD_TEMPLATE_QWEN2_VL :
	    EPD_TEMPLATE_UNKNOWN;
}

/* The ids of messages; 0 if the template does not show them, or shows tools. */
static int
ids_of(const struct epd_chat *c, const struct epd_json *messages,
    const struct epd_json *tools, struct epd_ids *out)
{
	long n[64], at[64];
	struct epd_prompt p = {0};
	struct epd_why why;
	int rc = epd_chat_render(&p, c, messages, tools, &why);

	for (int i = 0; i < 64; i++)
		n[i] = 1 + i % 3;
	for (size_t i = 0; i < p.marks; i++)
		if (strncmp((const char *)p.text.p + p.mark[i].at, "<|", 2))
			rc = -1;
	if (rc == 0 && epd_prompt_encode(&p, c->tokens, n, at, out))
		golden_die("a prompt", "cannot be encoded");
	epd_prompt_free(&p);
	return rc == 0;
}

static void
there_and_back(const struct epd_json *line)
{
	struct epd_chat c = {
		.kind = kind_of(line), .tokens = tokens,
		.generation = epd_json_bool(epd_json_get(line,
		    "add_generation_prompt"), 0),
		.vision_id = epd_json_bool(epd_json_get(line,
		    "add_vision_id"), 0),
	};
	struct epd_ids ids = {0}, again = {0};
	struct epd_buf b = {0};
	struct epd_json *j = NULL;
	struct epd_why why;

	if ((only && c.kind != only) || !ids_of(&c,
	    epd_json_get(line, "messages"), epd_json_get(line, "tools"), &ids))
		return;
	CHECK_INT(epd_transcript(&b, tokens, ids.v, ids.n,
	    EPD_TRANSCRIPT_MESSAGES), 0);
	CHECK_INT(epd_json_parse(&j, epd_span(b.p, b.n), "back", &why), 0);
	/* It stands in the text by now. */
	c.vision_id = 0;
	CHECK(ids_of(&c, j, NULL, &again));
	if (again.n != ids.n || memcmp(again.v, ids.v, ids.n * sizeof *ids.v))
		CHECK_FAIL("line %d: other ids of\n%s", lines,
		    epd_buf_cstr(&b));
	lines++;
	epd_json_free(j);
	epd_buf_free(&b);
	epd_ids_free(&ids);
	epd_ids_free(&again);
}

TEST(messages_give_the_same_ids)
{
	tokens = token_published();
	only = EPD_TEMPLATE_NONE;
	lines = 0;
	token_lines("tests/golden/text/chat_templates.jsonl", there_and_back);
	if (!check_failed)
		token_lines("tests/data/chat/cases.jsonl", there_and_back);
	printf("# %d there and back\n", lines);
	if (!check_failed)
		CHECK(lines > 100);
}

TEST(messages_of_the_shipped_model)
{
	struct epd_tokenizer *t = token_open("examples/tiny-vlm/model");

	tokens = t;
	only = EPD_TEMPLATE_QWEN3_BARE;
	lines = 0;
	token_lines("tests/data/chat/cases.jsonl", there_and_back);
	printf("# %d there and back\n", lines);
	if (!check_failed)
		CHECK(lines > 10);
	epd_tokenizer_close(t);
}

TEST(without_memory)
{
	const struct epd_tokenizer *t = token_published();
	struct epd_ids ids = {0};
	int rc = -ENOMEM;

	for (int i = 0; i < 99; i++)
		epd_ids_put(&ids, &(int32_t){ byte(t, 'a' + i % 9) }, 1);
	for (int n = 0; rc && n < 50; n++) {
		struct epd_buf b = {0};

		epd_buf_str(&b, "before");
		token_fail_at(n);
		rc = epd_transcript(&b, t, ids.v, ids.n,
		    EPD_TRANSCRIPT_MESSAGES);
		token_fail_at(-1);
		CHECK(!rc || (rc == -ENOMEM && b.n == 6));
		epd_buf_free(&b);
	}
	CHECK_INT(rc, 0);
	token_fail_at(0);
	CHECK_INT(epd_transcript_size(t, ids.v, ids.n, EPD_TRANSCRIPT_TEXT),
	    ids.n);
	token_fail_at(-1);
	epd_ids_free(&ids);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
