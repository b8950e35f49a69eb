/*
 * content.c - reading the parts of a message, and what its images name.
 *
 * A part is an image if its type says so or it has one of the image keys, as in
 * the templates; then a text if it has one.  Where they would pass over what is
 * neither, it is refused.
 */
#include "engine/chat/content.h"

#include <string.h>

int
epd_content_is_image(const struct epd_json *part)
{
	const char *type = epd_json_str(epd_json_get(part, "type"), "");

	return !strcmp(type, "image") || epd_json_has(part, "image") ||
	    epd_json_has(part, "image_url");
}

size_t
epd_content_count(const struct epd_content *c)
{
	switch (epd_json_type(c->json)) {
	case EPD_JSON_STRING:
		return 1;
	case EPD_JSON_ARRAY:
		return epd_json_count(c->json);
	default:
		return c->parts;
	}
}

static int
json_part(const struct epd_json *j, const char *where, size_t i,
    struct epd_part *out, struct epd_why *why)
{
	const char *type = epd_json_str(epd_json_get(j, "type"), "");
	struct epd_span text = epd_json_bytes(epd_json_get(j, "text"));

	if (epd_json_type(j) != EPD_JSON_OBJECT)
		return epd_why(why, EPD_EFORMAT,
		    "%s.content[%zu] is not an object", where, i);
	if (epd_content_is_image(j)) {
		*out = (struct epd_part){ .image = 1 };
		return 0;
	}
	if (!strcmp(type, "video") || epd_json_has(j, "video"))
		return epd_why(why, EPD_EUNSUPPORTED,
		    "%s.content[%zu] is a video", where, i);
	if (!text.p && strstr(type, "audio"))
		return epd_why(why, EPD_EUNSUPPORTED,
		    "%s.content[%zu] is audio", where, i);
	if (!text.p)
		return epd_why(why, EPD_EFORMAT,
		    "%s.content[%zu] is neither text nor image", where, i);
	*out = (struct epd_part){ .text = text };
	return 0;
}

int
epd_content_part(const struct epd_content *c, size_t i, struct epd_part *out,
    struct epd_why *why)
{
	switch (epd_json_type(c->json)) {
	case EPD_JSON_STRING:
		*out = (struct epd_part){ .text = epd_json_bytes(c->json) };
		return 0;
	case EPD_JSON_ARRAY:
		return json_part(epd_json_at(c->json, i), c->where, i, out,
		    why);
	default:
		*out = c->part[i];
		return 0;
	}
}

static const char *
name_of(const struct epd_json *part)
{
	const struct epd_json *url = epd_json_get(part, "image_url");
	const char *name = epd_json_str(epd_json_get(part, "image"), NULL);

	if (!name)
		name = epd_json_str(url, NULL);
	return name ? name : epd_json_str(epd_json_get(url, "url"), NULL);
}

const char *
epd_chat_image(const struct epd_json *messages, int i)
{
	for (size_t m = 0; i >= 0 && m < epd_json_count(messages); m++) {
		const struct epd_json *content = epd_json_get(
		    epd_json_at(messages, m), "content");

		if (epd_json_type(content) != EPD_JSON_ARRAY)
			continue;
		for (size_t k = 0; k < epd_json_count(content); k++) {
			const struct epd_json *part = epd_json_at(content, k);

			if (epd_content_is_image(part) && i-- == 0)
				return name_of(part);
		}
	}
	return NULL;
}
