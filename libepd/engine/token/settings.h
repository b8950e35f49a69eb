/*
 * settings.h - what a tokenizer.json may say beside its tables; inside this room
 * only.
 */
#ifndef EPD_ENGINE_TOKEN_SETTINGS_H
#define EPD_ENGINE_TOKEN_SETTINGS_H

#include "base/err.h"
#include "base/json.h"

/*
 * Check all settings of the file, and of the model, against those whose meaning
 * is implemented; *split gets the number of the split pattern.
 * Fails: EPD_EUNSUPPORTED naming the setting, EPD_EFORMAT, -ENOMEM.
 */
int epd_settings_check(const struct epd_json *root, uint32_t *split,
    struct epd_why *why);
/* The same for one entry of added_tokens, the i-th. */
int epd_settings_added(const struct epd_json *token, size_t i,
    struct epd_why *why);

#endif
