/*
 * turn.c - one turn at a time.
 *
 * Turns are cut after "<|im_end|>" and a line break, or after the assistant's
 * opening: the first cut has a special token on its right in any case, so that
 * no merge could have crossed it.
 */
#include <string.h>

#include "engine/chat/render.h"

/* What closes the turn before. */
static int
before_turn(struct epd_writer *w, enum epd_turn before,
    const struct epd_message *m)
{
	switch (before) {
	case EPD_TURN_FIRST:
		return epd_render_head(w, m);
	case EPD_TURN_OPEN:
		epd_render_script(w, "<|im_end|>\n");
		break;
	case EPD_TURN_CLOSED:
		epd_render_script(w, "\n");
		break;
	case EPD_TURN_WHOLE:
		break;
	}
	if (w->tools)
		return epd_why(w->why, EPD_EUSAGE,
		    "tools go with the first turn");
	if (m->role == EPD_SYSTEM && !w->is->late_system)
		return epd_why(w->why, EPD_EUNSUPPORTED,
		    "the template shows a system turn at the head only");
	return 0;
}

/* Whether an array holds results of several calls and not parts of one. */
static int
is_results(const struct epd_json *j)
{
	enum epd_json_type t = epd_json_type(epd_json_at(j, 0));

	return t == EPD_JSON_STRING || t == EPD_JSON_ARRAY;
}

static int
one_result(struct epd_writer *w, const struct epd_message *m, int first,
    int last)
{
	return w->is->tools ? epd_render_result(w, m, first, last) :
	    epd_render_turn(w, m);
}

static int
results(struct epd_writer *w, const struct epd_message *m)
{
	const struct epd_json *list = m->content.json;
	size_t n = epd_json_count(list);
	int rc = 0;

	if (!is_results(list))
		return one_result(w, m, 1, 1);
	for (size_t i = 0; !rc && i < n; i++) {
		struct epd_message one = *m;

		one.content.json = epd_json_at(list, i);
		if (epd_json_type(one.content.json) != EPD_JSON_STRING &&
		    epd_json_type(one.content.json) != EPD_JSON_ARRAY)
			return epd_why(w->why, EPD_EFORMAT, "the turn's "
			    "content[%zu] is neither a string nor an array", i);
		rc = one_result(w, &one, i == 0, i + 1 == n);
	}
	return rc;
}

static int
add(struct epd_prompt *out, const struct epd_chat *c, enum epd_turn before,
    const char *role, const struct epd_content *content,
    const struct epd_json *tools, struct epd_why *why)
{
	struct epd_message m = { .content = *content };
	struct epd_writer w;
	int rc = epd_render_begin(&w, out, c, tools, why);

	if (!rc)
		rc = epd_render_role(&m.role, role, "the turn", why);
	if (rc)
		return rc;
	rc = before_turn(&w, before, &m);
	if (!rc && m.role == EPD_TOOL)
		rc = results(&w, &m);
	else if (!rc && (m.role != EPD_SYSTEM || before != EPD_TURN_FIRST))
		rc = epd_render_turn(&w, &m);
	return epd_render_end(&w, rc);
}

int
epd_chat_turn(struct epd_prompt *out, const struct epd_chat *c,
    enum epd_turn before, const char *role, const struct epd_json *content,
    const struct epd_json *tools, struct epd_why *why)
{
	struct epd_content json = { .json = content, .where = "the turn" };

	if (epd_json_type(content) != EPD_JSON_STRING &&
	    epd_json_type(content) != EPD_JSON_ARRAY)
		return epd_why(why, EPD_EFORMAT,
		    "the turn's content is neither a string nor an array");
	return add(out, c, before, role, &json, tools, why);
}

int
epd_chat_say(struct epd_prompt *out, const struct epd_chat *c,
    enum epd_turn before, const char *role, const struct epd_part *part,
    size_t parts, const struct epd_json *tools, struct epd_why *why)
{
	struct epd_content content = {
		.part = part, .parts = parts, .where = "the turn",
	};

	return add(out, c, before, role, &content, tools, why);
}
