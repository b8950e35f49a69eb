/* text.h - what is done to text before it is cut; inside this room only. */
#ifndef EPD_ENGINE_TOKEN_TEXT_H
#define EPD_ENGINE_TOKEN_TEXT_H

#include "base/span.h"

int epd_utf8_valid(struct epd_span text);

/*
 * Normalization form C (UAX 15) of valid UTF-8: *out is text itself when that
 * is seen to be in it, else what is put in hold.  Fails: -ENOMEM.
 */
int epd_nfc(struct epd_span *out, struct epd_span text, struct epd_buf *hold);

#endif
