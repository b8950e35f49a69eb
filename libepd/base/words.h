/* words.h - an enum by the words for it, in text and JSON: a table each. */
#ifndef EPD_BASE_WORDS_H
#define EPD_BASE_WORDS_H

#include "base/span.h"

struct epd_words {
	const char *const *word;	/* by value; NULL: that one has none */
	unsigned n;
};

/* An initialiser of one: EPD_WORDS([EPD_X] = "x", [EPD_Y] = "y"). */
#define EPD_WORDS(...) { (const char *const[]){ __VA_ARGS__ }, \
	sizeof (const char *const[]){ __VA_ARGS__ } / sizeof(const char *) }

const char *epd_word(const struct epd_words *w, unsigned value);	/* or "?" */
int epd_word_parse(const struct epd_words *w, const char *text);	/* -EINVAL */
/* "low, normal or high": those of values from least on. */
void epd_words_put(struct epd_buf *out, const struct epd_words *w, unsigned least);

#endif
