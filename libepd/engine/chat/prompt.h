/* prompt.h - growing a prompt; inside this room only. */
#ifndef EPD_ENGINE_CHAT_PROMPT_H
#define EPD_ENGINE_CHAT_PROMPT_H

#include "engine/chat/chat.h"

/*
 * Add text of the template's own: the special tokens it spells get marks, if
 * the tokenizer has them.
 */
void epd_prompt_script(struct epd_prompt *p, const struct epd_tokenizer *t,
    const char *text);
/* The pad that stands for the next image. */
void epd_prompt_image(struct epd_prompt *p, const struct epd_tokenizer *t);

#endif
