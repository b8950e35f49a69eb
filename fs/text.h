/*
 * text.h - what the files hold, for the table of kinds.  Under the lock, but for
 * the texts of those that are EPD_FS_ASIDE, which take it.
 */
#ifndef EPD_FS_TEXT_H
#define EPD_FS_TEXT_H

#include <errno.h>

#include "fs/world.h"

/* How a text ended: -ENOMEM if it is not whole. */
static inline int
epd_fs_told(const struct epd_buf *b)
{
	return b->failed ? -ENOMEM : 0;
}

/* All are epd_fs_kind's text: out is added to. */
int epd_fs_readme(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
int epd_fs_leases(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
int epd_fs_proof(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
int epd_fs_half(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
int epd_fs_capacity(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
/* Of metrics, used and pages: what lies in tiers is looked at. */
int epd_fs_looked(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
int epd_fs_looked_size(struct epd_fs *fs, const struct epd_fs_at *at,
    uint64_t *out);
/* What at's size is told by is there.  Under no lock; it may wait. */
void epd_fs_want(struct epd_fs *fs, const struct epd_fs_at *at);
int epd_fs_link(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
/* Of a state or one of its versions: json, short fields, words and tokens. */
int epd_fs_json(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
int epd_fs_field(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
int epd_fs_words(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
/* Have the tokenizer there that words' size wants.  Under no lock, too. */
void epd_fs_words_want(struct epd_fs *fs, const struct epd_fs_at *at);
/*
 * The same, and the tokenizer to tell on with, which opens nothing.  Owns: who gets
 * *t lets it go.
 */
struct epd_fs_tongue;
int epd_fs_words_first(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_fs_tongue **t, struct epd_buf *out, struct epd_why *why);
int epd_fs_words_on(struct epd_fs *fs, const struct epd_fs_at *at,
    const struct epd_fs_tongue *t, struct epd_buf *out);
int epd_fs_words_size(struct epd_fs *fs, const struct epd_fs_at *at,
    uint64_t *out);
int epd_fs_tokens(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
/* Of a feature. */
int epd_fs_meta(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
int epd_fs_image(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_buf *out, struct epd_why *why);
int epd_fs_image_size(struct epd_fs *fs, const struct epd_fs_at *at,
    uint64_t *out);

/* An 8-bit RGB picture as a PNG of stored blocks, and how long that is. */
uint64_t epd_fs_png_size(uint32_t w, uint32_t h);
int epd_fs_png(struct epd_buf *out, const uint8_t *rgb, uint32_t w, uint32_t h);

#endif
