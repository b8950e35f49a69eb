/* sha256.h - SHA-256 (FIPS 180-4); inside this room only. */
#ifndef EPD_ENGINE_CHAT_SHA256_H
#define EPD_ENGINE_CHAT_SHA256_H

#include "base/span.h"

void epd_sha256(uint8_t out[32], struct epd_span s);

#endif
