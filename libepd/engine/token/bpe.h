/* bpe.h - byte-level byte-pair encoding of one piece; inside this room only. */
#ifndef EPD_ENGINE_TOKEN_BPE_H
#define EPD_ENGINE_TOKEN_BPE_H

#include "engine/token/flat.h"

/* Room that is used again from piece to piece; zero it to begin. */
struct epd_bpe {
	struct epd_buf symbols, queue;
};

/* Ids of one piece, at most UINT32_MAX / 2 bytes.  Fails: -ENOMEM. */
int epd_bpe_encode(struct epd_bpe *b, const struct epd_tokenizer *t,
    struct epd_span piece, struct epd_ids *out);
void epd_bpe_free(struct epd_bpe *b);

#endif
