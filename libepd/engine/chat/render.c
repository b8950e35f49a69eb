/*
 * render.c - the templates, all of one make: turns of role and content, and
 * where they differ, a row of switches.
 *
 * The images of a prompt are numbered as epd_chat_image() counts those of the
 * messages, so an image that a template would pass over is refused.
 */
#include "engine/chat/render.h"

#include <errno.h>
#include <string.h>

#include "engine/chat/prompt.h"

static const struct epd_traits traits_of[] = {
	[EPD_TEMPLATE_QWEN2_VL] = { .default_system = 1, .late_system = 1,
	    .images_anywhere = 1 },
	[EPD_TEMPLATE_QWEN3_VL] = { .tools = 1, .calls = 1 },
	[EPD_TEMPLATE_QWEN3_BARE] = { .tools = 1, .images_anywhere = 1 },
	[EPD_TEMPLATE_CHATML] = { .late_system = 1, .images_anywhere = 1 },
};

static const char *const role_name[EPD_ROLES] = {
	"system", "user", "assistant", "tool",
};

static const char tools_head[] = "# Tools\n\n"
    "You may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML "
    "tags:\n<tools>";
static const char tools_tail[] = "\n</tools>\n\n"
    "For each function call, return a json object with function name and "
    "arguments within <tool_call></tool_call> XML tags:\n"
    "<tool_call>\n{\"name\": <function-name>, \"arguments\": "
    "<args-json-object>}\n</tool_call>";

void
epd_render_script(struct epd_writer *w, const char *text)
{
	epd_prompt_script(w->out, w->c->tokens, text);
}

static void
text(struct epd_writer *w, struct epd_span s)
{
	epd_buf_put(&w->out->text, s.p, s.n);
}

static void
open_turn(struct epd_writer *w, enum epd_role role)
{
	epd_render_script(w, "<|im_start|>");
	epd_render_script(w, role_name[role]);
	epd_render_script(w, "\n");
}

static void
image(struct epd_writer *w)
{
	if (w->c->vision_id)
		epd_buf_fmt(&w->out->text, "Picture %d: ", w->out->images + 1);
	epd_render_script(w, "<|vision_start|>");
	epd_prompt_image(w->out, w->c->tokens);
	epd_render_script(w, "<|vision_end|>");
}

static int
content(struct epd_writer *w, const struct epd_message *m)
{
	int shows = w->is->images_anywhere || m->role == EPD_USER ||
	    m->role == EPD_TOOL;

	for (size_t i = 0; i < epd_content_count(&m->content); i++) {
		struct epd_part part;
		int rc = epd_content_part(&m->content, i, &part, w->why);

		if (rc)
			return rc;
		if (part.image && !shows)
			return epd_why(w->why, EPD_EUNSUPPORTED, "%s.content"
			    "[%zu]: the template shows no image in a turn of "
			    "the %s", m->content.where, i, role_name[m->role]);
		if (part.image)
			image(w);
		else
			text(w, part.text);
	}
	return 0;
}

static int
call(struct epd_writer *w, const struct epd_json *one, const char *where)
{
	const struct epd_json *f = epd_json_get(one, "function"), *arguments;
	struct epd_span name;

	if (!epd_json_count(f))
		f = one;
	name = epd_json_bytes(epd_json_get(f, "name"));
	arguments = epd_json_get(f, "arguments");
	if (!name.p || !epd_json_has(f, "arguments"))
		return epd_why(w->why, EPD_EFORMAT,
		    "%s has a tool call without name or arguments", where);
	epd_render_script(w, "<tool_call>\n{\"name\": \"");
	text(w, name);
	epd_render_script(w, "\", \"arguments\": ");
	if (epd_json_type(arguments) == EPD_JSON_STRING)
		text(w, epd_json_bytes(arguments));
	else
		epd_json_dump(&w->out->text, arguments);
	epd_render_script(w, "}\n</tool_call>");
	return 0;
}

static int
calls(struct epd_writer *w, const struct epd_message *m)
{
	struct epd_span s = epd_json_bytes(m->content.json);
	int spoke = s.p ? s.n > 0 : epd_content_count(&m->content) > 0;
	int rc = 0;

	if (epd_json_type(m->calls) != EPD_JSON_NULL &&
	    epd_json_type(m->calls) != EPD_JSON_ARRAY)
		return epd_why(w->why, EPD_EFORMAT,
		    "%s.tool_calls is not an array", m->content.where);
	for (size_t i = 0; !rc && i < epd_json_count(m->calls); i++) {
		if (spoke || i)
			epd_render_script(w, "\n");
		rc = call(w, epd_json_at(m->calls, i), m->content.where);
	}
	return rc;
}

int
epd_render_result(struct epd_writer *w, const struct epd_message *m,
    int first, int last)
{
	int rc;

	if (first)
		epd_render_script(w, "<|im_start|>user");
	epd_render_script(w, "\n<tool_response>\n");
	rc = content(w, m);
	epd_render_script(w, "\n</tool_response>");
	if (last)
		epd_render_script(w, "<|im_end|>\n");
	return rc;
}

int
epd_render_turn(struct epd_writer *w, const struct epd_message *m)
{
	int rc;

	open_turn(w, m->role);
	rc = content(w, m);
	if (!rc && m->role == EPD_ASSISTANT && w->is->calls)
		rc = calls(w, m);
	epd_render_script(w, "<|im_end|>\n");
	return rc;
}

int
epd_render_head(struct epd_writer *w, const struct epd_message *m)
{
	int given = m->role == EPD_SYSTEM, rc = 0;

	if (!given && w->is->default_system)
		epd_render_script(w, "<|im_start|>system\n"
		    "You are a helpful assistant.<|im_end|>\n");
	if (!given && !w->tools)
		return 0;
	open_turn(w, EPD_SYSTEM);
	if (given)
		rc = content(w, m);
	if (given && w->tools)
		epd_render_script(w, "\n\n");
	if (w->tools) {
		epd_render_script(w, tools_head);
		for (size_t i = 0; i < epd_json_count(w->tools); i++) {
			epd_render_script(w, "\n");
			epd_json_dump(&w->out->text, epd_json_at(w->tools, i));
		}
		epd_render_script(w, tools_tail);
	}
	epd_render_script(w, "<|im_end|>\n");
	return rc;
}

int
epd_render_begin(struct epd_writer *w, struct epd_prompt *out,
    const struct epd_chat *c, const struct epd_json *tools,
    struct epd_why *why)
{
	static const char *const needed[] = {
		"<|im_start|>", "<|im_end|>", "<|vision_start|>",
		"<|vision_end|>", "<|image_pad|>",
	};

	if (c->kind == EPD_TEMPLATE_NONE)
		return epd_why(why, EPD_EUNSUPPORTED,
		    "the model has no chat template");
	if (c->kind < EPD_TEMPLATE_QWEN2_VL || c->kind > EPD_TEMPLATE_CHATML)
		return epd_why(why, EPD_EUNSUPPORTED,
		    "the model's chat template is not a known one");
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (epd_tokenizer_special(c->tokens, needed[i]) < 0)
			return epd_why(why, EPD_EUNSUPPORTED,
			    "the tokenizer has no %s", needed[i]);
	*w = (struct epd_writer){
		.out = out, .was = *out, .c = c, .why = why,
		.is = &traits_of[c->kind],
	};
	if (epd_json_type(tools) != EPD_JSON_NULL &&
	    epd_json_type(tools) != EPD_JSON_ARRAY)
		return epd_why(why, EPD_EFORMAT, "tools is not an array");
	if (epd_json_count(tools))
		w->tools = tools;
	if (w->tools && !w->is->tools)
		return epd_why(why, EPD_EUNSUPPORTED,
		    "the model's chat template shows no tools");
	return 0;
}

int
epd_render_end(struct epd_writer *w, int rc)
{
	struct epd_prompt *out = w->out;

	if (!rc && w->c->generation)
		open_turn(w, EPD_ASSISTANT);
	if (!rc && (out->failed || out->text.failed))
		rc = -ENOMEM;
	if (rc) {
		out->text.n = w->was.text.n;
		out->marks = w->was.marks;
		out->images = w->was.images;
	}
	return rc;
}

int
epd_render_role(enum epd_role *out, const char *name, const char *where,
    struct epd_why *why)
{
	for (int r = 0; r < EPD_ROLES; r++)
		if (!strcmp(name, role_name[r])) {
			*out = (enum epd_role)r;
			return 0;
		}
	return epd_why(why, EPD_EUNSUPPORTED, "%s: no role is called \"%.60s\"",
	    where, name);
}
