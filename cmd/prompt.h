/* prompt.h - what epd-prefill is given, made into what a request holds. */
#ifndef CMD_PROMPT_H
#define CMD_PROMPT_H

#include "cmd/cli.h"

enum {
	PROMPT_TEXT = 64 << 20,	/* bytes of text, or of a JSON file */
	PROMPT_HELD = 256	/* images held open by their descriptors */
};

/* -p, -f and -i in the order they came. */
struct prompt_piece {
	int key;		/* 'p', 'f' or 'i' */
	const char *value;
};

struct prompt_images {
	struct epd_request_image *v;
	int n, cap;
	/* Paths of descriptors, and what people call them; both kept. */
	struct { const char *path, *name; } held[PROMPT_HELD];
	int nheld;
};

/* Append one; the process ends without memory. */
void prompt_image(struct cli *c, struct prompt_images *im,
    struct epd_request_image one);
/* A file, or f:HEX, as -i and message files name it. */
int prompt_image_named(struct cli *c, struct epd_store *s,
    struct prompt_images *im, const char *name, struct epd_why *why);

/*
 * The pieces as a message's content, after the images that are in im already;
 * -i adds to im.  Owns: the caller frees *out.
 */
int prompt_content(struct cli *c, struct epd_store *s,
    const struct prompt_piece *p, int n, struct prompt_images *im,
    struct epd_json **out, struct epd_why *why);
/* The pieces as one text; -i adds to im. */
int prompt_text(struct cli *c, struct epd_store *s,
    const struct prompt_piece *p, int n, struct prompt_images *im,
    struct epd_buf *out, struct epd_why *why);

/*
 * The usual chat JSON: an array of messages, or an object with "messages" and
 * perhaps "tools".  *messages and *tools are *root's.
 */
int prompt_messages(const char *file, struct epd_json **root,
    const struct epd_json **messages, const struct epd_json **tools,
    struct epd_why *why);
int prompt_json(const char *file, struct epd_json **root,
    struct epd_why *why);
/*
 * The images of messages in order.  A path is taken beneath the file's folder;
 * a part that names nothing takes the next of given; data: URLs are decoded.
 */
int prompt_message_images(struct cli *c, struct epd_store *s,
    const char *file, const struct epd_json *messages,
    const struct prompt_images *given, struct prompt_images *out,
    struct epd_why *why);

/* The sentence of a failed prefill, with names for the descriptors in it. */
void prompt_why(const struct prompt_images *im, int rc, struct epd_why *why);

#endif
