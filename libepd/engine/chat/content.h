/*
 * content.h - what one message holds, given as JSON or as parts; inside this
 * room only.
 */
#ifndef EPD_ENGINE_CHAT_CONTENT_H
#define EPD_ENGINE_CHAT_CONTENT_H

#include "engine/chat/chat.h"

struct epd_content {
	const struct epd_json *json;	/* string, array of parts, or null */
	const struct epd_part *part;	/* else these */
	size_t parts;
	const char *where;		/* "messages[2]", for why */
};

size_t epd_content_count(const struct epd_content *c);	/* a string is one */
/* Fails: EPD_EFORMAT, EPD_EUNSUPPORTED naming the part. */
int epd_content_part(const struct epd_content *c, size_t i,
    struct epd_part *out, struct epd_why *why);
/* Whether a JSON part stands for an image. */
int epd_content_is_image(const struct epd_json *part);

#endif
