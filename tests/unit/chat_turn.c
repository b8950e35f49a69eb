/* chat_turn.c - a conversation built turn by turn is the one rendered at once. */
#include "engine/chat/chat.h"

#include "tests/unit/token.h"

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

static const char *
role_of(const struct epd_json *messages, size_t i)
{
	return epd_json_str(epd_json_get(epd_json_at(messages, i), "role"), "");
}

static struct epd_json *
content_of(const struct epd_json *messages, size_t i)
{
	return epd_json_get(epd_json_at(messages, i), "content");
}

/* The contents of messages[i..] as one array, as long as a tool speaks. */
static struct epd_json *
results(const struct epd_json *messages, size_t *i)
{
	struct epd_buf text = {0};
	struct epd_json *out;
	struct epd_why why;

	for (; !strcmp(role_of(messages, *i), "tool"); ++*i) {
		epd_buf_str(&text, text.n ? ", " : "[");
		epd_json_dump(&text, content_of(messages, *i));
	}
	epd_buf_str(&text, "]");
	if (epd_json_parse(&out, epd_span(text.p, text.n), "results", &why))
		golden_die("results", why.text);
	epd_buf_free(&text);
	return out;
}

static void
encode(const struct epd_prompt *p, const struct epd_chat *c,
    struct epd_ids *out)
{
	long tokens[64], at[64];

	for (int i = 0; i < 64; i++)
		tokens[i] = 2 + i % 3;
	if (p->images > 64 ||
	    epd_prompt_encode(p, c->tokens, tokens, at, out))
		golden_die("a prompt", "cannot be encoded");
}

static int
says(const struct epd_json *messages, const char *key)
{
	for (size_t i = 0; i < epd_json_count(messages); i++)
		if (epd_json_count(epd_json_get(epd_json_at(messages, i), key)))
			return 1;
	return 0;
}

static int lines, late, calls;

static void
by_turns(const struct epd_json *line)
{
	const struct epd_json *messages = epd_json_get(line, "messages");
	const struct epd_json *tools = epd_json_get(line, "tools");
	struct epd_chat c = {
		.kind = kind_of(line), .tokens = token_published(),
		.generation = epd_json_bool(epd_json_get(line,
		    "add_generation_prompt"), 0),
		.vision_id = epd_json_bool(epd_json_get(line,
		    "add_vision_id"), 0),
	};
	int last = c.generation;
	struct epd_ids whole = {0}, parts = {0};
	struct epd_prompt p = {0};
	struct epd_why why;
	size_t i = 0;

	if (c.kind == EPD_TEMPLATE_UNKNOWN)
		return;
	/* What a model would say, not what is said to it. */
	if (c.kind == EPD_TEMPLATE_QWEN3_VL && says(messages, "tool_calls")) {
		calls++;
		return;
	}
	/* One with a video, which chat.c sees to. */
	if (epd_chat_render(&p, &c, messages, tools, &why))
		goto out;
	encode(&p, &c, &whole);
	epd_prompt_free(&p);
	while (i < epd_json_count(messages)) {
		enum epd_turn before = epd_chat_before(&c, parts.v, parts.n);
		const char *role = role_of(messages, i);
		struct epd_json *many = NULL;
		int images = p.images, rc;

		CHECK_INT(before, i ? EPD_TURN_WHOLE : EPD_TURN_FIRST);
		if (!strcmp(role, "tool"))
			many = results(messages, &i);
		else
			i++;
		c.generation = last && i == epd_json_count(messages);
		rc = epd_chat_turn(&p, &c, before, role,
		    many ? many : content_of(messages, i - 1),
		    before == EPD_TURN_FIRST ? tools : NULL, &why);
		epd_json_free(many);
		if (rc == EPD_EUNSUPPORTED && strstr(why.text, "head only")) {
			late++;
			goto out;
		}
		CHECK_INT(rc, 0);
		encode(&p, &c, &parts);
		images = p.images;
		epd_prompt_free(&p);
		p.images = images;
	}
	CHECK_INT(parts.n, whole.n);
	CHECK(!memcmp(parts.v, whole.v, whole.n * sizeof *whole.v));
	lines++;
out:
	epd_prompt_free(&p);
	epd_ids_free(&whole);
	epd_ids_free(&parts);
}

TEST(turns_add_up_to_the_whole)
{
	lines = late = calls = 0;
	token_lines("tests/golden/text/chat_templates.jsonl", by_turns);
	if (!check_failed)
		token_lines("tests/data/chat/cases.jsonl", by_turns);
	printf("# %d by turns, %d with a late system turn, %d with calls\n",
	    lines, late, calls);
	if (!check_failed)
		CHECK(lines > 180);
}

/* Encode text that a model drew: its special tokens are tokens. */
static void
draw(const struct epd_chat *c, const char *text, struct epd_ids *out)
{
	if (epd_tokenizer_encode_special(c->tokens, epd_span_str(text), out))
		golden_die(text, "cannot be encoded");
}

static void
add(const struct epd_chat *c, const char *role, const char *content,
    const struct epd_json *tools, struct epd_ids *out, struct epd_prompt *p)
{
	struct epd_json *j = NULL;
	struct epd_why why;
	int images;

	if (epd_json_parse(&j, epd_span_str(content), "content", &why) ||
	    epd_chat_turn(p, c, epd_chat_before(c, out->v, out->n), role, j,
	    out->n ? NULL : tools, &why))
		golden_die(content, why.text);
	encode(p, c, out);
	images = p->images;
	epd_prompt_free(p);
	p->images = images;
	epd_json_free(j);
}

static struct epd_json *
golden_tools(struct epd_ids *want, const struct epd_chat *c)
{
	struct epd_buf file = golden_read(
	    "tests/golden/text/chat_templates.jsonl");
	char *text = (char *)(uintptr_t)epd_buf_cstr(&file), *at, *from;
	struct epd_prompt p = {0};
	struct epd_json *j = NULL;
	struct epd_why why;

	at = strstr(text, "\"qwen3_vl\", \"name\": \"tools\"");
	for (from = at; from > text && from[-1] != '\n'; from--)
		;
	if (!at || epd_json_parse(&j, epd_span(from, strcspn(from, "\n")),
	    "line", &why))
		golden_die("the golden tools", "are not there");
	if (epd_chat_render(&p, c, epd_json_get(j, "messages"),
	    epd_json_get(j, "tools"), &why))
		golden_die("the golden tools", why.text);
	encode(&p, c, want);
	epd_prompt_free(&p);
	epd_buf_free(&file);
	return j;
}

/* The golden list with tools as it comes about: a model speaks in between. */
TEST(a_model_speaks_in_between)
{
	struct epd_chat c = {
		.kind = EPD_TEMPLATE_QWEN3_VL, .tokens = token_published(),
		.generation = 1,
	}, quiet = c;
	struct epd_ids want = {0}, ids = {0};
	struct epd_prompt p = {0};
	struct epd_json *line = golden_tools(&want, &c);
	const struct epd_json *tools = epd_json_get(line, "tools");

	quiet.generation = 0;
	add(&quiet, "system", "\"Use tools.\"", tools, &ids, &p);
	CHECK_INT(epd_chat_before(&c, ids.v, ids.n), EPD_TURN_WHOLE);
	add(&c, "user", "[{\"type\": \"image\"}, {\"text\": \"Weather here?\"}]",
	    NULL, &ids, &p);
	draw(&c, "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", "
	    "\"arguments\": {\"city\": \"K\xc3\xb6ln\", \"days\": 2}}\n"
	    "</tool_call>\n<tool_call>\n{\"name\": \"zoom\", \"arguments\": "
	    "{\"box\": [0, 1]}}\n</tool_call><|im_end|>", &ids);
	CHECK_INT(epd_chat_before(&c, ids.v, ids.n), EPD_TURN_CLOSED);
	add(&c, "tool", "[\"18 \xc2\xb0""C\", [{\"type\": \"image\"}, "
	    "{\"text\": \"zoomed\"}]]", NULL, &ids, &p);
	draw(&c, "<tool_call>\n{\"name\": \"zoom\", \"arguments\": "
	    "{\"box\": [1, 2.5]}}\n</tool_call>", &ids);
	CHECK_INT(epd_chat_before(&c, ids.v, ids.n), EPD_TURN_OPEN);
	add(&quiet, "tool", "\"ok\"", NULL, &ids, &p);
	add(&c, "user", "\"Thanks\"", NULL, &ids, &p);
	CHECK_INT(ids.n, want.n);
	CHECK(!memcmp(ids.v, want.v, want.n * sizeof *want.v));
	epd_json_free(line);
	epd_ids_free(&want);
	epd_ids_free(&ids);
}

/* turn2 of the golden set: turn1, what it drew, its end mark, the new turn. */
TEST(gives_the_golden_second_turn)
{
	static const char path[] = GOLDEN "checkpoints/qwen3vl-tiny";
	struct epd_json *root = golden_json(GOLDEN "manifest.json");
	const struct epd_json *cases = epd_json_get(epd_json_get(epd_json_get(
	    root, "checkpoints"), "qwen3vl-tiny"), "cases");
	const struct epd_json *two = epd_json_get(cases, "turn2");
	const struct epd_json *want = epd_json_get(two, "input_ids");
	size_t from = (size_t)epd_json_int(epd_json_get(two, "cached_tokens"),
	    0);
	struct epd_tokenizer *t = token_open(path);
	struct epd_chat c = {
		.kind = EPD_TEMPLATE_QWEN3_VL, .tokens = t, .generation = 1,
	};
	struct epd_span text = epd_json_bytes(epd_json_get(two, "turn2_text"));
	static const char open[] = "\n<|im_start|>user\n",
	    image[] = "<|vision_start|><|image_pad|><|vision_end|>",
	    close[] = "<|im_end|>\n<|im_start|>assistant\n";
	struct epd_buf said = {0};
	struct epd_part part[3] = {{0}};
	struct epd_prompt p = { .images = 1 };
	struct epd_ids ids = {0};
	struct epd_why why;
	long tokens[2] = { 0, 15 }, at[2];
	char *mid;

	epd_buf_put(&said, text.p, text.n);
	epd_buf_cstr(&said);
	CHECK(!strncmp((char *)said.p, open, strlen(open)));
	said.n -= strlen(close);
	CHECK(!strcmp((char *)said.p + said.n, close));
	said.p[said.n] = '\0';
	mid = strstr((char *)said.p, image);
	CHECK(mid);
	*mid = '\0';
	part[0].text = epd_span_str((char *)said.p + strlen(open));
	part[1].image = 1;
	part[2].text = epd_span_str(mid + strlen(image));
	CHECK_INT(epd_chat_say(&p, &c, EPD_TURN_CLOSED, "user", part, 3, NULL,
	    &why), 0);
	CHECK_INT(p.images, 2);
	CHECK_INT(epd_prompt_encode(&p, t, tokens, at, &ids), 0);
	for (size_t i = 0; i < ids.n; i++)
		CHECK_INT(ids.v[ids.n - 1 - i], epd_json_int(epd_json_at(want,
		    epd_json_count(want) - 1 - i), -1));
	/* The end mark before it has not been fed yet either. */
	CHECK(ids.n + from <= epd_json_count(want));
	CHECK_INT(epd_chat_before(&c, &(int32_t){ (int32_t)epd_json_int(
	    epd_json_at(want, epd_json_count(want) - ids.n - 1), -1) }, 1),
	    EPD_TURN_CLOSED);
	epd_prompt_free(&p);
	epd_ids_free(&ids);
	epd_buf_free(&said);
	epd_tokenizer_close(t);
	epd_json_free(root);
}

TEST(says_as_a_turn_does)
{
	struct epd_chat c = {
		.kind = EPD_TEMPLATE_QWEN2_VL, .tokens = token_published(),
		.generation = 1, .vision_id = 1,
	};
	struct epd_part part[] = {
		{ .text = epd_span_str("See ") }, { .image = 1 },
		{ .text = epd_span_str(" and ") }, { .image = 1 },
	};
	struct epd_prompt p = {0}, q = {0};
	struct epd_json *j;
	struct epd_why why;

	CHECK_INT(epd_json_parse(&j, epd_span_str("[{\"text\": \"See \"},"
	    "{\"type\": \"image\"}, {\"text\": \" and \"}, {\"image\": 1}]"),
	    "content", &why), 0);
	CHECK_INT(epd_chat_say(&p, &c, EPD_TURN_FIRST, "user", part, 4, NULL,
	    &why), 0);
	CHECK_INT(epd_chat_turn(&q, &c, EPD_TURN_FIRST, "user", j, NULL, &why),
	    0);
	CHECK(strstr(epd_buf_cstr(&p.text), "See Picture 1: <|vision_start|>"));
	CHECK_STR(epd_buf_cstr(&p.text), epd_buf_cstr(&q.text));
	CHECK_INT(p.marks, q.marks);
	epd_json_free(j);
	epd_prompt_free(&p);
	epd_prompt_free(&q);
}

static int
turn_of(const struct epd_chat *c, enum epd_turn before, const char *role,
    const char *content, const char *tools, struct epd_why *why)
{
	struct epd_json *j = NULL, *k = NULL;
	struct epd_prompt p = {0};
	int rc;

	if (epd_json_parse(&j, epd_span_str(content), "content", why) ||
	    epd_json_parse(&k, epd_span_str(tools), "tools", why))
		golden_die(content, why->text);
	rc = epd_chat_turn(&p, c, before, role, j, k, why);
	if (rc && (p.text.n || p.marks || p.images))
		rc = -EIO;
	epd_prompt_free(&p);
	epd_json_free(j);
	epd_json_free(k);
	return rc;
}

TEST(refuses_turns)
{
	struct epd_chat c = {
		.kind = EPD_TEMPLATE_QWEN3_VL, .tokens = token_published(),
	};
	struct epd_why why = {0};

	CHECK_INT(turn_of(&c, EPD_TURN_OPEN, "system", "\"\"", "null", &why),
	    EPD_EUNSUPPORTED);
	CHECK_INT(turn_of(&c, EPD_TURN_OPEN, "user", "\"\"", "[1]", &why),
	    EPD_EUSAGE);
	CHECK_INT(turn_of(&c, EPD_TURN_FIRST, "user", "\"\"", "1", &why),
	    EPD_EFORMAT);
	CHECK_INT(turn_of(&c, EPD_TURN_OPEN, "robot", "\"\"", "null", &why),
	    EPD_EUNSUPPORTED);
	CHECK_INT(turn_of(&c, EPD_TURN_OPEN, "user", "{}", "null", &why),
	    EPD_EFORMAT);
	CHECK_INT(turn_of(&c, EPD_TURN_OPEN, "user", "null", "null", &why),
	    EPD_EFORMAT);
	CHECK_INT(turn_of(&c, EPD_TURN_OPEN, "user", "[\"x\"]", "null", &why),
	    EPD_EFORMAT);
	CHECK_INT(turn_of(&c, EPD_TURN_OPEN, "tool", "[\"x\", 1]", "null",
	    &why), EPD_EFORMAT);
	CHECK(strstr(why.text, "content[1]"));
	c.kind = EPD_TEMPLATE_QWEN2_VL;
	CHECK_INT(turn_of(&c, EPD_TURN_OPEN, "system", "\"\"", "null", &why),
	    0);
	CHECK_INT(turn_of(&c, EPD_TURN_FIRST, "user", "\"\"", "[1]", &why),
	    EPD_EUNSUPPORTED);
}

TEST(turns_without_memory)
{
	struct epd_chat c = {
		.kind = EPD_TEMPLATE_QWEN3_VL, .tokens = token_published(),
		.generation = 1,
	};
	struct epd_part part[] = {
		{ .image = 1 }, { .text = epd_span_str("What is it?") },
	};
	struct epd_json *tools;
	struct epd_why why;
	long tokens[1] = { 100 }, at[1];
	int rc = -ENOMEM;

	CHECK_INT(epd_json_parse(&tools, epd_span_str("[{\"a\": [1.5, \"\\n\"]}]"),
	    "tools", &why), 0);
	for (int n = 0; rc && n < 200; n++) {
		struct epd_prompt p = {0};
		struct epd_ids ids = {0};

		token_fail_at(n);
		rc = epd_chat_say(&p, &c, EPD_TURN_FIRST, "user", part, 2,
		    tools, &why);
		CHECK(!rc || (!p.text.n && !p.marks && !p.images));
		if (!rc)
			rc = epd_prompt_encode(&p, c.tokens, tokens, at, &ids);
		token_fail_at(-1);
		CHECK(!rc || (rc == -ENOMEM && !ids.n));
		epd_prompt_free(&p);
		epd_ids_free(&ids);
	}
	CHECK_INT(rc, 0);
	epd_json_free(tools);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
