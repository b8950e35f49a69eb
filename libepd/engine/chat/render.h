/* render.h - the pieces of a rendering; inside this room only. */
#ifndef EPD_ENGINE_CHAT_RENDER_H
#define EPD_ENGINE_CHAT_RENDER_H

#include "engine/chat/content.h"

/* How the templates differ. */
struct epd_traits {
	int default_system;	/* a system turn when none is given */
	int late_system;	/* one after the first is shown */
	int tools;		/* tools listed, results in a user's turn */
	int calls;		/* tool calls of the assistant shown */
	int images_anywhere;	/* not in the turns of user and tool alone */
};

enum epd_role { EPD_SYSTEM, EPD_USER, EPD_ASSISTANT, EPD_TOOL, EPD_ROLES };

struct epd_message {
	enum epd_role role;
	struct epd_content content;
	const struct epd_json *calls;
};

struct epd_writer {
	struct epd_prompt *out, was;
	const struct epd_chat *c;
	const struct epd_traits *is;
	const struct epd_json *tools;	/* NULL if there are none */
	struct epd_why *why;
};

/* Begin and, with the outcome so far, end; after a failure out is as before. */
int epd_render_begin(struct epd_writer *w, struct epd_prompt *out,
    const struct epd_chat *c, const struct epd_json *tools,
    struct epd_why *why);
int epd_render_end(struct epd_writer *w, int rc);

int epd_render_role(enum epd_role *out, const char *name, const char *where,
    struct epd_why *why);
void epd_render_script(struct epd_writer *w, const char *text);
/* What stands at the head; m is the first message, shown here if a system's. */
int epd_render_head(struct epd_writer *w, const struct epd_message *m);
int epd_render_turn(struct epd_writer *w, const struct epd_message *m);
/* A tool's result; first and last of those that share a turn. */
int epd_render_result(struct epd_writer *w, const struct epd_message *m,
    int first, int last);

#endif
