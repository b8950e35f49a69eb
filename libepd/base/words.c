/* words.c - words of enums. */
#include "base/words.h"

#include <errno.h>
#include <string.h>

const char *
epd_word(const struct epd_words *w, unsigned value)
{
	return value < w->n && w->word[value] ? w->word[value] : "?";
}

int
epd_word_parse(const struct epd_words *w, const char *text)
{
	for (unsigned i = 0; i < w->n; i++)
		if (w->word[i] && !strcmp(w->word[i], text))
			return (int)i;
	return -EINVAL;
}

void
epd_words_put(struct epd_buf *out, const struct epd_words *w, unsigned least)
{
	const char *sep = "";

	for (unsigned i = least; i < w->n; i++) {
		if (!w->word[i])
			continue;
		epd_buf_str(out, sep);
		epd_buf_str(out, w->word[i]);
		sep = i + 2 < w->n ? ", " : " or ";
	}
}
