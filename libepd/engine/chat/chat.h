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
};

/*
 * Look for chat_template.jinja, chat_template.json, then the chat_template of
 * tokenizer_config.json in dirfd.  hash gets the SHA-256 of the text (zeros if
 * none), for messages and the fingerprint.  Fails: EPD_EFORMAT, -errno.
 */
int epd_chat_template(enum epd_template *out, uint8_t hash[32], int dirfd,
    struct epd_why *why);

/* A prompt: text, and where in it the template put its own special tokens. */
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
 * the order of their appearance, and epd_chat_images() lists what each names.
 * User text that spells a special token stays text.
 * Fails: EPD_EFORMAT with the message's index in why, EPD_EUNSUPPORTED (video,
 * audio, a role the template does not know), -ENOMEM.
 */
int epd_chat_render(struct epd_prompt *out, const struct epd_chat *c,
    const struct epd_json *messages, const struct epd_json *tools,
    struct epd_why *why);

/*
 * One more turn onto a conversation: role is user, system, assistant or tool,
 * parts as in a message's content.  open: the turn before is unfinished and is
 * closed first as the template says ("<|im_end|>\n"); closed: the last token
 * was its end mark already and only the line break is added.
 */
enum epd_turn { EPD_TURN_FIRST, EPD_TURN_OPEN, EPD_TURN_CLOSED };
int epd_chat_turn(struct epd_prompt *out, const struct epd_chat *c,
    enum epd_turn before, const char *role, const struct epd_json *content,
    const struct epd_json *tools, struct epd_why *why);

/*
 * What image i of the messages names: the string of "image", or of "image_url"
 * (itself or its "url").  NULL past the last, or if it names none.
 */
const char *epd_chat_image(const struct epd_json *messages, int i);

/*
 * Token ids of a prompt; each image mark becomes tokens[image] copies of its
 * id, and at[image] the index of the first.  Text between marks is encoded as
 * one run, so that a merge may cross from template to user text as it does in
 * the reference.  Fails: -ENOMEM, EPD_EFORMAT.
 */
int epd_prompt_encode(const struct epd_prompt *p, const struct epd_tokenizer *t,
    const long *tokens, long *at, struct epd_ids *out);

#endif
