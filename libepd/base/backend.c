/* backend.c - words for backends, media, operations and priorities. */
#include "base/backend.h"

#define X(id, name) name,
const struct epd_words epd_backends = EPD_WORDS("none", EPD_BACKENDS(X));
const struct epd_words epd_media = EPD_WORDS("none", EPD_MEDIA(X));
#undef X
const struct epd_words epd_ops = EPD_WORDS([EPD_OP_READ] = "read",
    [EPD_OP_WRITE] = "write");
const struct epd_words epd_priorities = EPD_WORDS([EPD_PRIO_LOW] = "low",
    [EPD_PRIO_NORMAL] = "normal", [EPD_PRIO_HIGH] = "high");

const char *
epd_backend_name(enum epd_backend b)
{
	return epd_word(&epd_backends, (unsigned)b < EPD_VIA_COUNT ? b : 0);
}

enum epd_backend
epd_backend_parse(const char *name)
{
	const int i = epd_word_parse(&epd_backends, name);

	return i < 0 ? EPD_VIA_NONE : (enum epd_backend)i;
}

const char *
epd_medium_name(enum epd_medium m)
{
	return epd_word(&epd_media, (unsigned)m < EPD_IN_COUNT ? m : 0);
}

enum epd_medium
epd_medium_parse(const char *name)
{
	const int i = epd_word_parse(&epd_media, name);

	return i < 0 ? EPD_IN_NONE : (enum epd_medium)i;
}
