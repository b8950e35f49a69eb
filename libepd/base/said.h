/*
 * said.h - what another one said, as it may be shown and logged here: whoever says it may
 * want a terminal to heed it, a line to look like two, or a reader to believe that it
 * is ours.
 */
#ifndef EPD_BASE_SAID_H
#define EPD_BASE_SAID_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/*
 * Put it to out, of room > 3 bytes, with a NUL behind; its length.  Control characters,
 * escapes among them, what hides or turns the text around, and each byte that is no
 * UTF-8 are '?'; what reads as a path is "(path)".  What is too long is cut at a whole
 * character and ends in "...".  out may be where it lies.
 */
size_t epd_said(char *out, size_t room, struct epd_span said);
/* Of ours, that may quote another: each byte of such a character is '?', and no more. */
void epd_said_tidy(char *s, size_t n);
/* Whether a character is none of those. */
int epd_is_shown(uint32_t c);
/* Whether text is UTF-8, and all its characters are so. */
int epd_all_shown(const char *text);

#endif
