/*
 * messages.c - whole message lists.
 */
#include <stdio.h>
#include <string.h>

#include "engine/chat/render.h"

static int
is_content(const struct epd_json *j)
{
	return epd_json_type(j) == EPD_JSON_STRING ||
	    epd_json_type(j) == EPD_JSON_ARRAY;
}

/* where holds the name of it, for why. */
static int
read_message(struct epd_message *m, const struct epd_json *messages, size_t i,
    char where[40], struct epd_why *why)
{
	const struct epd_json *j = epd_json_at(messages, i);
	const char *role = epd_json_str(epd_json_get(j, "role"), NULL);
	int rc;

	snprintf(where, 40, "messages[%zu]", i);
	if (epd_json_type(j) != EPD_JSON_OBJECT || !role)
		return epd_why(why, EPD_EFORMAT,
		    "%s is not an object with a role", where);
	*m = (struct epd_message){
		.content = { .json = epd_json_get(j, "content"),
		    .where = where },
		.calls = epd_json_get(j, "tool_calls"),
	};
	rc = epd_render_role(&m->role, role, where, why);
	if (rc)
		return rc;
	if (!is_content(m->content.json) && (m->content.json ||
	    m->role != EPD_ASSISTANT))
		return epd_why(why, EPD_EFORMAT,
		    "%s.content is neither a string nor an array", where);
	return 0;
}

static int
is_tool(const struct epd_json *messages, size_t i)
{
	return !strcmp(epd_json_str(epd_json_get(epd_json_at(messages, i),
	    "role"), ""), "tool");
}

/* A turn that the template passes over; its images would be counted. */
static int
drop(struct epd_writer *w, const struct epd_message *m)
{
	for (size_t i = 0; i < epd_content_count(&m->content); i++) {
		struct epd_part part;
		int rc = epd_content_part(&m->content, i, &part, w->why);

		if (!rc && part.image)
			rc = epd_why(w->why, EPD_EUNSUPPORTED, "%s.content"
			    "[%zu]: the template passes over this turn",
			    m->content.where, i);
		if (rc)
			return rc;
	}
	return 0;
}

static int
message(struct epd_writer *w, const struct epd_json *messages, size_t i)
{
	struct epd_message m;
	char where[40];
	int rc = read_message(&m, messages, i, where, w->why);

	if (rc)
		return rc;
	if (i == 0) {
		rc = epd_render_head(w, &m);
		if (rc || m.role == EPD_SYSTEM)
			return rc;
	}
	if (m.role == EPD_SYSTEM && !w->is->late_system)
		return drop(w, &m);
	if (m.role == EPD_TOOL && w->is->tools)
		return epd_render_result(w, &m, i == 0 || !is_tool(messages, i - 1),
		    !is_tool(messages, i + 1));
	return epd_render_turn(w, &m);
}

int
epd_chat_render(struct epd_prompt *out, const struct epd_chat *c,
    const struct epd_json *messages, const struct epd_json *tools,
    struct epd_why *why)
{
	struct epd_writer w;
	int rc = epd_render_begin(&w, out, c, tools, why);

	if (rc)
		return rc;
	if (epd_json_type(messages) != EPD_JSON_ARRAY ||
	    !epd_json_count(messages))
		return epd_why(why, EPD_EFORMAT,
		    "messages is not an array of one or more");
	for (size_t i = 0; !rc && i < epd_json_count(messages); i++)
		rc = message(&w, messages, i);
	return epd_render_end(&w, rc);
}
