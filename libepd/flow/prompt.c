/* prompt.c - what a request says, as tokens to put behind a state. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/prompt.h"

static int
know_template(const struct epd_session *s, struct epd_why *why)
{
	char hex[65];

	if (s->template == EPD_TEMPLATE_NONE)
		return epd_why(why, EPD_EUSAGE, "%s has no chat template; "
		    "--raw takes a prompt as it is", epd_model_path(s->model));
	if (s->template != EPD_TEMPLATE_UNKNOWN)
		return 0;
	epd_hex_format(hex, s->template_hash, 32);
	return epd_why(why, EPD_EUSAGE, "%s: the chat template (%.16s) is not "
	    "one that is known; --raw takes a prompt as it is",
	    epd_model_path(s->model), hex);
}

/* A first turn is a conversation of one or two messages. */
static int
first(struct epd_prompt *out, const struct epd_chat *c,
    const struct epd_prefill *p, struct epd_why *why)
{
	struct epd_json *messages = NULL;
	struct epd_buf b = {0};
	int rc;

	epd_buf_str(&b, "[");
	if (p->system) {
		epd_buf_str(&b, "{\"role\":\"system\",\"content\":");
		epd_json_quote(&b, epd_span_str(p->system));
		epd_buf_str(&b, "},");
	}
	epd_buf_str(&b, "{\"role\":");
	epd_json_quote(&b, epd_span_str(p->role));
	epd_buf_str(&b, ",\"content\":");
	epd_json_dump(&b, p->content);
	epd_buf_str(&b, "}]");
	rc = b.failed ? epd_why(why, -ENOMEM, "no memory") :
	    epd_json_parse(&messages, epd_span(b.p, b.n), "prompt", why);
	if (rc == 0)
		rc = epd_chat_render(out, c, messages, p->tools, why);
	epd_json_free(messages);
	epd_buf_free(&b);
	return rc;
}

static enum epd_turn
turn_before(const struct epd_version *head)
{
	return head->turn == EPD_TURN_IS_CLOSED ? EPD_TURN_CLOSED :
	    EPD_TURN_OPEN;
}

/*
 * The contents of messages [i, *end), a tool's results that follow each other,
 * as one array.
 */
static int
results(struct epd_json **out, const struct epd_json *messages, size_t i,
    size_t *end, struct epd_why *why)
{
	struct epd_buf b = {0};
	int rc;

	epd_buf_str(&b, "[");
	for (*end = i; *end < epd_json_count(messages); ++*end) {
		const struct epd_json *m = epd_json_at(messages, *end);

		if (strcmp(epd_json_str(epd_json_get(m, "role"), ""), "tool"))
			break;
		epd_buf_str(&b, *end > i ? "," : "");
		epd_json_dump(&b, epd_json_get(m, "content"));
	}
	epd_buf_str(&b, "]");
	rc = b.failed ? epd_why(why, -ENOMEM, "no memory") :
	    epd_json_parse(out, epd_span(b.p, b.n), "messages", why);
	epd_buf_free(&b);
	return rc;
}

/*
 * A message that ends a prompt leaves off the line break, so that the state is
 * CLOSED.
 */
static void
chomp(struct epd_prompt *p)
{
	if (p->text.n && p->text.p[p->text.n - 1] == '\n')
		p->text.n--;
}

static int
onto(struct epd_prompt *out, struct epd_chat *c, const struct epd_prefill *p,
    const struct epd_version *head, struct epd_why *why)
{
	const int generation = c->generation;
	enum epd_turn before = turn_before(head);
	size_t n = epd_json_count(p->messages);
	int rc = 0;

	if (p->kind == EPD_PROMPT_TURN)
		return epd_chat_turn(out, c, before, p->role, p->content,
		    p->tools, why);
	for (size_t i = 0, end; rc == 0 && i < n; i = end) {
		const struct epd_json *m = epd_json_at(p->messages, i);
		const char *role = epd_json_str(epd_json_get(m, "role"), NULL);
		struct epd_json *all = NULL;

		if (!role || epd_json_get(m, "tool_calls"))
			return epd_why(why, EPD_EUNSUPPORTED, "messages[%zu]: "
			    "%s", i, role ? "tool calls can only begin a state" :
			    "has no role");
		end = i + 1;
		if (!strcmp(role, "tool") &&
		    (rc = results(&all, p->messages, i, &end, why)) < 0)
			return rc;
		c->generation = end == n ? generation : 0;
		rc = epd_chat_turn(out, c, before, role, all ? all :
		    epd_json_get(m, "content"), i ? NULL : p->tools, why);
		epd_json_free(all);
		before = EPD_TURN_WHOLE;
	}
	return rc;
}

/* Marks of every added token that a raw text spells; pads take images in order. */
static int
raw(struct epd_request *r, const struct epd_session *s,
    const struct epd_prefill *p, struct epd_why *why)
{
	const struct epd_model_info *m = s->info;
	struct epd_ids ids = {0};
	int pads = 0, videos = 0, rc = p->kind == EPD_PROMPT_CONTINUE ?
	    epd_tokenizer_encode(s->tokens, p->text, &ids) :
	    epd_tokenizer_encode_special(s->tokens, p->text, &ids);

	for (size_t i = 0; rc == 0 && i < ids.n; i++) {
		pads += ids.v[i] == m->image_id;
		videos += ids.v[i] == m->video_id;
	}
	if (rc < 0)
		rc = epd_why(why, rc, "prompt: %s", rc == EPD_EFORMAT ?
		    "is not UTF-8" : epd_strerror(rc));
	else if (videos)
		rc = epd_why(why, EPD_EUNSUPPORTED, "the text has a video pad, "
		    "and videos are not taken");
	else if (pads && pads != p->nimages)
		rc = epd_why(why, EPD_EUSAGE, "the text has %d image pad%s, "
		    "and %d image%s given", pads, pads == 1 ? "" : "s",
		    p->nimages, p->nimages == 1 ? " is" : "s are");
	for (int i = 0; rc == 0 && !pads && i < p->nimages; i++) {
		const int32_t three[] = {
			m->vision_start, m->image_id, m->vision_end,
		};

		epd_ids_put(&r->ids, three, 3);
	}
	if (rc == 0)
		epd_ids_put(&r->ids, ids.v, ids.n);
	epd_ids_free(&ids);
	return rc < 0 ? rc : r->ids.failed ?
	    epd_why(why, -ENOMEM, "no memory") : 0;
}

/* Widen each single pad to as many as its image has tokens. */
static int
widen(struct epd_request *r, const struct epd_session *s, const long *tokens,
    struct epd_why *why)
{
	struct epd_ids out = {0};
	int k = 0;

	for (size_t i = 0; i < r->ids.n; i++) {
		if (r->ids.v[i] != s->info->image_id || k == r->nimages) {
			epd_ids_put(&out, r->ids.v + i, 1);
			continue;
		}
		r->rows.image[k].at = out.n;
		for (long j = 0; j < tokens[k] && !out.failed; j++)
			epd_ids_put(&out, r->ids.v + i, 1);
		k++;
	}
	epd_ids_free(&r->ids);
	r->ids = out;
	return out.failed ? epd_why(why, -ENOMEM, "no memory") : 0;
}

static int
render(struct epd_prompt *out, struct epd_session *s,
    const struct epd_prefill *p, const struct epd_version *head, int had,
    struct epd_why *why)
{
	struct epd_chat c = {
		.kind = s->template,
		.tokens = s->tokens,
		.generation = !p->no_generation,
		.vision_id = p->vision_id,
	};
	int rc;

	if ((rc = know_template(s, why)) < 0)
		return rc;
	out->images = had;
	if (head && head->turn == EPD_TURN_IS_RAW)
		return epd_why(why, EPD_EUSAGE, "the state was begun with "
		    "--raw; go on with --raw or --continue");
	if (head && p->system)
		return epd_why(why, EPD_EUSAGE, "--system belongs to the first "
		    "turn");
	if (head)
		rc = onto(out, &c, p, head, why);
	else if (p->kind == EPD_PROMPT_TURN)
		rc = first(out, &c, p, why);
	else
		rc = epd_chat_render(out, &c, p->messages, p->tools, why);
	if (rc == 0 && p->no_generation)
		chomp(out);
	if (rc == 0 && out->failed)
		rc = epd_why(why, -ENOMEM, "no memory");
	if (rc == 0 && out->images - had != p->nimages)
		rc = epd_why(why, EPD_EUSAGE, "the messages have %d image%s, "
		    "and %d %s given", out->images - had,
		    out->images - had == 1 ? "" : "s", p->nimages,
		    p->nimages == 1 ? "is" : "are");
	return rc;
}

int
epd_request_make(struct epd_request *out, struct epd_session *s,
    const struct epd_prefill *p, const struct epd_version *head, uint32_t had,
    struct epd_why *why)
{
	const size_t all = had + (size_t)p->nimages;
	const int templated = p->kind == EPD_PROMPT_TURN ||
	    p->kind == EPD_PROMPT_MESSAGES;
	struct epd_request r = { .nimages = p->nimages };
	struct epd_encoded *each = NULL;
	struct epd_prompt prompt = {0};
	long *tokens = NULL, *at = NULL;	/* by the sequence's images */
	int rc;

	if (p->kind == EPD_PROMPT_CONTINUE && (!head ||
	    head->turn == EPD_TURN_IS_CLOSED))
		return epd_why(why, EPD_EUSAGE, "--continue goes on with a "
		    "turn that is open, and this one is not");
	rc = templated ? render(&prompt, s, p, head, (int)had, why) :
	    raw(&r, s, p, why);
	if (rc == 0 && p->nimages) {
		each = epd_calloc((size_t)p->nimages, sizeof *each);
		tokens = epd_calloc(2 * all, sizeof *tokens);
		at = tokens ? tokens + all : NULL;
		rc = each && tokens ? epd_flow_images(s, p->images, p->nimages,
		    &r.rows, each, why) : epd_why(why, -ENOMEM, "no memory");
	}
	for (int i = 0; rc == 0 && i < p->nimages; i++)
		tokens[had + (size_t)i] = (long)each[i].tokens;
	if (rc == 0 && !templated)
		rc = widen(&r, s, tokens ? tokens + had : NULL, why);
	if (rc == 0 && templated) {
		rc = epd_prompt_encode(&prompt, s->tokens, tokens, at, &r.ids);
		if (rc < 0)
			epd_why(why, rc, "prompt: %s", rc == EPD_EFORMAT ?
			    "is not UTF-8" : epd_strerror(rc));
		for (int i = 0; rc == 0 && i < p->nimages; i++)
			r.rows.image[i].at = (uint64_t)at[had + (size_t)i];
	}
	if (rc == 0 && r.ids.n == 0)
		rc = epd_why(why, EPD_EUSAGE, "the prompt is empty");
	r.turn = !templated ? EPD_TURN_IS_RAW : p->no_generation ?
	    EPD_TURN_IS_CLOSED : EPD_TURN_IS_PROMPT;
	if (p->kind == EPD_PROMPT_CONTINUE)
		r.turn = head->turn == EPD_TURN_IS_RAW ? EPD_TURN_IS_RAW :
		    EPD_TURN_IS_OPEN;
	epd_prompt_free(&prompt);
	epd_free(tokens);
	epd_free(each);
	if (rc < 0)
		epd_request_free(&r);
	else
		*out = r;
	return rc;
}

void
epd_request_free(struct epd_request *r)
{
	epd_request_rows_free(&r->rows);
	epd_ids_free(&r->ids);
	*r = (struct epd_request){0};
}
