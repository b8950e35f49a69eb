/*
 * text.h - the language model over pages of keys and values.  Pages are the
 * caller's; what is written to them depends on the tokens before alone, never
 * on chunk, batch, thread count or instruction set.
 */
#ifndef EPD_ENGINE_TEXT_H
#define EPD_ENGINE_TEXT_H

#include "engine/model/model.h"

/*
 * A page holds `tokens` (16, 32 or 64) tokens of all layers:
 * [layers][kv_heads]{ K: [tokens/16][head_dim][16], V: [tokens][head_dim] }.
 * K is kept after RoPE, sixteen tokens side by side; rows not yet computed are
 * zero.  For 16 tokens K is thus [head_dim][tokens].
 */
struct epd_page_shape {
	enum epd_type type;	/* EPD_F32 or EPD_BF16 */
	int tokens;
};
size_t epd_page_bytes(const struct epd_model *m, const struct epd_page_shape *s);
/* Make the page's rows from `rows` on zero, as in a page that never had them. */
void epd_page_cut(const struct epd_model *m, const struct epd_page_shape *s,
    void *page, int rows);

/* Visual rows of the sequence; rows is [1 + deepstack][n][hidden] of type. */
struct epd_visual {
	long at, n;
	enum epd_type type;	/* EPD_F32 or EPD_BF16 */
	const void *rows;
};

/* A run of new tokens of one sequence. */
struct epd_chunk {
	const int32_t *ids;		/* [n] */
	const int32_t (*pos)[3];	/* [n] */
	long n;
	long past;			/* tokens of the sequence before these */
	const struct epd_visual *visual;	/* ascending; those elsewhere are ignored */
	int nvisual;
	void *const *pages;		/* page i holds tokens from i * tokens on */
	float *logits;			/* [vocab] after the last token, or */
	int all;			/* [n][vocab]; NULL: none */
};

/*
 * Compute n chunks of different sequences in one pass: their keys and values
 * are written to their pages, their logits to where they say.  Sequences may
 * share any page that no chunk writes.  ids at a visual row are not looked at.
 * Fails: -ENOMEM, EPD_ENUMERIC (then pages may hold anything), EPD_EFORMAT (an
 * id past the vocabulary), EPD_EUSAGE (no such page shape).
 */
int epd_forward(struct epd_engine *e, const struct epd_page_shape *s,
    const struct epd_chunk *chunk, long n, struct epd_why *why);

/*
 * For tests and tools: called with a tensor as it is made: rows of cols floats.
 * Names are those of the golden set: hidden_in_layer0, vision_block1, ...; index
 * is the number at the end, or -1.  Rows of a long call come in several pieces.
 */
typedef void epd_probe_fn(void *arg, const char *name, int index,
    const float *x, long rows, long cols);
void epd_engine_probe(struct epd_engine *e, epd_probe_fn *fn, void *arg);

#endif
