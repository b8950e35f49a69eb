/* chat.c - any JSON as messages and tools, for every template; and as a turn. */
#include <fcntl.h>
#include <stdlib.h>

#include "engine/chat/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const struct epd_tokenizer *
tokenizer(void)
{
	static struct epd_tokenizer *t;

	if (!t && epd_tokenizer_open(&t, open("examples/tiny-vlm/model",
	    O_RDONLY | O_DIRECTORY), NULL))
		abort();
	return t;
}

static void
finish(struct epd_prompt *p, int rc)
{
	long tokens[256] = {0}, at[256];
	struct epd_ids ids = {0};
	size_t end = 0;

	if (rc && (p->text.n || p->marks || p->images))
		abort();
	for (size_t i = 0; i < p->marks; i++) {
		if (p->mark[i].at < end || p->mark[i].id < 0)
			abort();
		end = p->mark[i].at + p->mark[i].n;
	}
	if (end > p->text.n)
		abort();
	if (!rc && p->images <= 256 &&
	    epd_prompt_encode(p, tokenizer(), tokens, at, &ids))
		abort();
	epd_ids_free(&ids);
	epd_prompt_free(p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char *const role[] = {
		"user", "system", "assistant", "tool",
	};
	const struct epd_json *messages, *tools;
	struct epd_json *j;
	struct epd_why why;

	if (epd_json_parse(&j, epd_span(p, n), "input", &why))
		return 0;
	messages = epd_json_get(j, "messages");
	tools = epd_json_get(j, "tools");
	for (int kind = EPD_TEMPLATE_NONE; kind <= EPD_TEMPLATE_CHATML; kind++) {
		struct epd_chat c = {
			.kind = (enum epd_template)kind,
			.tokens = tokenizer(), .generation = kind & 1,
			.vision_id = kind & 2,
		};
		struct epd_prompt out = {0};

		finish(&out, epd_chat_render(&out, &c, messages, tools, &why));
		finish(&out, epd_chat_turn(&out, &c,
		    (enum epd_turn)(n % 4), role[n / 4 % 4],
		    messages ? epd_json_get(epd_json_at(messages, 0), "content")
		    : j, tools, &why));
	}
	for (int i = 0; epd_chat_image(messages, i); i++)
		;
	epd_json_free(j);
	return 0;
}
