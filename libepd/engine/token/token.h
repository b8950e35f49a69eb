/*
 * token.h - text to token ids and back, by a Hugging Face tokenizer.json of the
 * Qwen kind: NFC, the split regex, byte-level BPE, added tokens.  Anything else
 * in the file is refused by name.
 */
#ifndef EPD_ENGINE_TOKEN_H
#define EPD_ENGINE_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* Growing token ids; zero it to begin. */
struct epd_ids {
	int32_t *v;
	size_t n, cap;
	int failed;
};
void epd_ids_free(struct epd_ids *ids);
void epd_ids_put(struct epd_ids *ids, const int32_t *v, size_t n);

struct epd_tokenizer;

/*
 * Read tokenizer.json in dirfd.  Encoding may be used by several threads at
 * once.  Fails: EPD_EFORMAT, EPD_EUNSUPPORTED, EPD_ETOOBIG, -errno.
 * Owns: the caller owns *out.
 */
int epd_tokenizer_open(struct epd_tokenizer **out, int dirfd,
    struct epd_why *why);
void epd_tokenizer_close(struct epd_tokenizer *t);

/*
 * The same, through a compiled form kept as `name` in cachefd (-1: none): read
 * by mapping when it was made from the same tokenizer.json (device, inode,
 * size, mtime, ctime), written when not.  A cache that is absent, damaged, or
 * cannot be written costs time and nothing else.
 */
int epd_tokenizer_open_cached(struct epd_tokenizer **out, int dirfd,
    int cachefd, const char *name, struct epd_why *why);

/*
 * Ids of text in which no added token is looked for, added to out.  On failure
 * out->n is as before.  Fails: -ENOMEM; EPD_EFORMAT: not UTF-8; EPD_ETOOBIG:
 * over 256 MiB.
 */
int epd_tokenizer_encode(const struct epd_tokenizer *t, struct epd_span text,
    struct epd_ids *out);
/* Ids of text whose added tokens count, as Hugging Face has it. */
int epd_tokenizer_encode_special(const struct epd_tokenizer *t,
    struct epd_span text, struct epd_ids *out);

long epd_tokenizer_size(const struct epd_tokenizer *t);	/* highest id + 1 */
/* Id of an added token by its text; -1 if there is none. */
int32_t epd_tokenizer_special(const struct epd_tokenizer *t, const char *text);
/* Whether id is an added token that skip_special_tokens leaves out of text. */
int epd_tokenizer_is_special(const struct epd_tokenizer *t, int32_t id);
/* The bytes an id stands for; {NULL, 0} for an id past the end. */
struct epd_span epd_tokenizer_bytes(const struct epd_tokenizer *t, int32_t id);
/* Hash of tokenizer.json: the name (base/hash.h) with its bytes as one part. */
void epd_tokenizer_name(const struct epd_tokenizer *t, uint8_t name[32]);

/*
 * Bytes to text as they come: only whole characters are let out, a broken
 * sequence becomes U+FFFD exactly as in Python's UTF-8 decoder (errors=replace).
 * Zero it to begin.
 */
struct epd_utf8 {
	uint8_t held[4];
	int n;
};
void epd_utf8_put(struct epd_utf8 *u, struct epd_span bytes, struct epd_buf *out);
void epd_utf8_end(struct epd_utf8 *u, struct epd_buf *out);

#endif
