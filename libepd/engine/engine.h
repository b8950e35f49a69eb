/*
 * engine.h - the engine's door: pixels to features, text to tokens, tokens to
 * pages and logits.  It computes and keeps nothing; it has never heard of a
 * store.  Folders: kern (arithmetic in one order), image, token, chat, sample,
 * model (checkpoints, vision towers, the language model).
 */
#ifndef EPD_ENGINE_H
#define EPD_ENGINE_H

#include "engine/chat/chat.h"
#include "engine/chat/transcript.h"
#include "engine/image/image.h"
#include "engine/kern/attn.h"
#include "engine/kern/kern.h"
#include "engine/model/model.h"
#include "engine/model/text.h"
#include "engine/sample/sample.h"
#include "engine/token/token.h"

#endif
