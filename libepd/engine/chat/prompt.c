/*
 * prompt.c - prompts growing, and prompts to token ids.
 *
 * 1. Marks are in ascending order and do not overlap.
 * 2. Only script and image make marks; text of a message never does.
 */
#include "engine/chat/prompt.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

/* Added tokens that the templates spell; not every tokenizer has the later. */
static const char *const tokens_spelled[] = {
	"<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
	"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
};

static void
mark(struct epd_prompt *p, size_t n, int32_t id, int image)
{
	struct epd_prompt_mark *v = epd_grow(p->mark, p->marks, &p->cap,
	    sizeof *v);

	if (!v) {
		p->failed = 1;
		return;
	}
	p->mark = v;
	p->mark[p->marks++] = (struct epd_prompt_mark){
		.at = p->text.n, .n = n, .id = id, .image = image,
	};
}

/* The special token that text begins with; its length, or 0. */
static size_t
token_at(const struct epd_tokenizer *t, const char *text, int32_t *id)
{
	size_t n = sizeof tokens_spelled / sizeof *tokens_spelled;

	for (size_t i = 0; *text == '<' && i < n; i++) {
		size_t len = strlen(tokens_spelled[i]);

		if (strncmp(text, tokens_spelled[i], len))
			continue;
		*id = epd_tokenizer_special(t, tokens_spelled[i]);
		return *id < 0 ? 0 : len;
	}
	return 0;
}

void
epd_prompt_script(struct epd_prompt *p, const struct epd_tokenizer *t,
    const char *text)
{
	while (*text) {
		int32_t id;
		size_t n = token_at(t, text, &id);

		if (n)
			mark(p, n, id, -1);
		else
			n = 1 + strcspn(text + 1, "<");
		epd_buf_put(&p->text, text, n);
		text += n;
	}
}

void
epd_prompt_image(struct epd_prompt *p, const struct epd_tokenizer *t)
{
	static const char pad[] = "<|image_pad|>";

	mark(p, sizeof pad - 1, epd_tokenizer_special(t, pad), p->images++);
	epd_buf_str(&p->text, pad);
}

void
epd_prompt_free(struct epd_prompt *p)
{
	if (!p)
		return;
	epd_buf_free(&p->text);
	epd_free(p->mark);
	*p = (struct epd_prompt){ 0 };
}

static int
encode_mark(const struct epd_prompt_mark *m, const long *tokens, long *at,
    struct epd_ids *out)
{
	long n = 1;

	if (m->image >= 0) {
		n = tokens[m->image];
		at[m->image] = (long)out->n;
	}
	for (long i = 0; i < n && !out->failed; i++)
		epd_ids_put(out, &m->id, 1);
	return out->failed ? -ENOMEM : 0;
}

int
epd_prompt_encode(const struct epd_prompt *p, const struct epd_tokenizer *t,
    const long *tokens, long *at, struct epd_ids *out)
{
	size_t from = 0, before = out->n;
	int rc = 0;

	for (size_t i = 0; !rc && i < p->marks; i++) {
		const struct epd_prompt_mark *m = &p->mark[i];

		rc = epd_tokenizer_encode(t,
		    epd_span(p->text.p + from, m->at - from), out);
		if (!rc)
			rc = encode_mark(m, tokens, at, out);
		from = m->at + m->n;
	}
	if (!rc && p->text.n > from)
		rc = epd_tokenizer_encode(t,
		    epd_span(p->text.p + from, p->text.n - from), out);
	if (rc)
		out->n = before;
	return rc;
}

enum epd_turn
epd_chat_before(const struct epd_chat *c, const int32_t *id, size_t n)
{
	int32_t end = epd_tokenizer_special(c->tokens, "<|im_end|>");
	struct epd_span last;

	if (!n)
		return EPD_TURN_FIRST;
	if (id[n - 1] == end)
		return EPD_TURN_CLOSED;
	last = epd_tokenizer_bytes(c->tokens, id[n - 1]);
	if (n > 1 && id[n - 2] == end && last.n == 1 &&
	    *(const char *)last.p == '\n')
		return EPD_TURN_WHOLE;
	return EPD_TURN_OPEN;
}
