/* key.h - a shared key, kept in a file that only its owner reads. */
#ifndef EPD_BASE_KEY_H
#define EPD_BASE_KEY_H

#include "base/err.h"
#include "base/span.h"

enum { EPD_KEY_LEAST = 16, EPD_KEY_MOST = 4096 };

/*
 * The key in the file that a person named: its bytes, less white space at its end.
 * Fails: EPD_EUSAGE (shorter than 16 bytes, longer than 4096, or others may read the
 * file), -errno; why names the file and never what is in it.
 * Owns: the caller frees *out, zeroed first.
 */
int epd_key_read(struct epd_buf *out, const char *path, struct epd_why *why);

#endif
