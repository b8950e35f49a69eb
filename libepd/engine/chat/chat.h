/*
 * chat.h - message lists to prompts, by fixed renderings of the families' chat
 * templates.  Which one applies is told by the hash of the checkpoint's own
 * template text; an unknown text is refused.
 */
#ifndef EPD_ENGINE_CHAT_H
#define EPD_ENGINE_CHAT_H

#include "base/err.h"
#include "base/json.h"
#include "base/span.h"
#include "engine/token/token.h"

enum epd_template {
	EPD_TEMPLATE_NONE,	/* the checkpoint has none: --raw only */
	EPD_TEMPLATE_UNKNOWN,	/* it has one that is not in the table */
	EPD_TEMPLATE_QWEN2_VL,	/* Qwen2-VL and Qwen2.5-VL: default system turn */
	EPD_TEMPLATE_QWEN3_VL,
	EPD_TEMPLATE_QWEN3_BARE, /* that without tool calls, and images anywhere */
	EPD_TEMPLATE_CHATML,	/* role and content of each turn, no more */
};

/*
 * Look for chat_template.jinja, chat_template.json, then the chat_template of
 * tokenizer_config.json in dirfd.  hash gets the SHA-256 of the text (zeros if
 * none), for messages and the fingerprint.  Fails: EPD_EFORMAT, -errno.
 */
int epd_chat_template(enum epd_template *out, uint8_t hash[32], int dirfd,
    struct epd_why *why);

/*
 * A prompt: text, and where in it the template put its own special tokens.
 * Zero it to begin, but for images if earlier turns have placed some.
 */
struct epd_prompt {
	struct epd_buf text;
	struct epd_prompt_mark {
		size_t at, n;	/* bytes of text that are this token */
		int32_t id;
		int image;	/* index of the image it stands for, or -1 */
	} *mark;
	size_t marks, cap;
	int images;		/* placed so far */
	int failed;
};
void epd_prompt_free(struct epd_prompt *p);

struct epd_chat {
	enum epd_template kind;
	const struct epd_tokenizer *tokens;
	int generation;		/* end with the assistant's opening */
	int vision_id;		/* "Picture 1: " before each image */
};

/*
 * Render the usual chat JSON: an array of {role, content, tool_calls}, content
 * a string or parts {type: text|image|image_url, ...}.  Images are numbered in
 * the order of their appearance; epd_chat_image() tells what each names.
 * User text that spells a special token stays text.
 * Fails: EPD_EFORMAT with the message's index in why, EPD_EUNSUPPORTED (video,
 * audio, a role or tools that the template does not know), -ENOMEM; out is then
 * as before.
 */
int epd_chat_render(struct epd_prompt *out, const struct epd_chat *c,
    const struct epd_json *messages, const struct epd_json *tools,
    struct epd_why *why);

/* What stands before a turn. */
enum epd_turn {
	EPD_TURN_FIRST,		/* nothing; tools are for this one only */
	EPD_TURN_OPEN,		/* an unfinished turn: closed as the template says */
	EPD_TURN_CLOSED,	/* its end mark, but not yet the line break */
	EPD_TURN_WHOLE,		/* all of it, line break too */
};

/*
 * One more turn onto a conversation: role is user, system, assistant or tool,
 * content as in a message.  For a tool it may also be an array of such contents,
 * strings or arrays, one a result: results that follow each other share a turn.
 * Ids of prompts encoded turn by turn, one after the other, are those of the
 * whole.  Fails: as epd_chat_render.
 */
int epd_chat_turn(struct epd_prompt *out, const struct epd_chat *c,
    enum epd_turn before, const char *role, const struct epd_json *content,
    const struct epd_json *tools, struct epd_why *why);

/* The same from parts, without JSON: text, or an image if image is set. */
struct epd_part {
	int image;
	struct epd_span text;
};
int epd_chat_say(struct epd_prompt *out, const struct epd_chat *c,
    enum epd_turn before, const char *role, const struct epd_part *part,
    size_t parts, const struct epd_json *tools, struct epd_why *why);

/* What stands before the next turn of a conversation of n ids. */
enum epd_turn epd_chat_before(const struct epd_chat *c, const int32_t *id,
    size_t n);

/*
 * What image i of the messages names: the string of "image", or of "image_url"
 * (itself or its "url").  NULL past the last, or if it names none.
 */
const char *epd_chat_image(const struct epd_json *messages, int i);

/*
 * Token ids of a prompt; each image mark becomes tokens[image] copies of its
 * id, and at[image] the index of the first in out.  Text between marks is encoded
 * as one run, so that a merge may cross from template to user text as it does in
 * the reference.  Fails: -ENOMEM, EPD_EFORMAT (text that is not UTF-8), and
 * EPD_ETOOBIG; out is then as before.
 */
int epd_prompt_encode(const struct epd_prompt *p, const struct epd_tokenizer *t,
    const long *tokens, long *at, struct epd_ids *out);

#endif
