/*
 * split.h - the patterns by which text is cut into pieces before merging; inside
 * this room only.
 */
#ifndef EPD_ENGINE_TOKEN_SPLIT_H
#define EPD_ENGINE_TOKEN_SPLIT_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/span.h"

enum { EPD_SPLITS = 1 };

/* Number of the pattern as tokenizer.json writes it; -1 if it is not known. */
int epd_split_find(struct epd_span pattern);
/* Fails: -ENOMEM. */
int epd_split_compile(pcre2_code **out, uint32_t which,
    pcre2_general_context *memory);

#endif
