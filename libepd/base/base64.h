/*
 * base64.h - bytes as text: RFC 4648, section 4, with its padding and nothing
 * else.  What unpacks is the only text for its bytes.
 */
#ifndef EPD_BASE_BASE64_H
#define EPD_BASE_BASE64_H

#include "base/err.h"
#include "base/span.h"

size_t epd_base64_bytes(size_t n);	/* what n bytes become */
void epd_base64_pack(struct epd_buf *out, struct epd_span bytes);
/* Nothing is left in out of what is no such text.  EPD_EFORMAT, -ENOMEM. */
int epd_base64_unpack(struct epd_buf *out, struct epd_span text);

#endif
