/*
 * transcript.h - a conversation read back from its token ids alone, for people
 * and for programs.
 *
 * A turn is what stands between <|im_start|> and <|im_end|>, its role being the
 * first line of it; the line break behind a turn is its own.  All else, as in a
 * prompt that was given raw, is outside any turn.  Image pads that follow each
 * other, with the marks about them, are one picture, numbered from 0; video pads
 * are a video.  Any other special token is its own text.  Broken UTF-8 becomes
 * U+FFFD as by epd_utf8_put; what the last ids leave undecided (half a character,
 * <|vision_start|>) is held back.
 */
#ifndef EPD_ENGINE_TRANSCRIPT_H
#define EPD_ENGINE_TRANSCRIPT_H

#include "engine/token/token.h"

enum epd_transcript_kind {
	/*
	 * "user: Look at [image 0]\n\nassistant: A cat.\n": a closed turn ends
	 * in a newline, an empty line stands between turns, a video is
	 * "[video]".  What k ids of n give is how that of all n begins.
	 */
	EPD_TRANSCRIPT_TEXT,
	/*
	 * The usual chat JSON, "[\n", a message a line, "]\n".  content is a
	 * string; with pictures parts {"type": "text", "text"}, {"type":
	 * "image", "image": "features/N/image.png"} and {"type": "video"}.
	 * What is outside any turn has the role "raw".  The last turn, if it is
	 * open, is there as far as it goes, and not at all while it is empty.
	 * Rendered again it gives the same ids, if its text was encoded and
	 * not drawn; tool calls and results come back as text.
	 */
	EPD_TRANSCRIPT_MESSAGES,
};

/* Added to out.  -ENOMEM; out->n is then as before. */
int epd_transcript(struct epd_buf *out, const struct epd_tokenizer *t,
    const int32_t *id, size_t n, enum epd_transcript_kind kind);
/* How many bytes that adds; no memory is asked for. */
uint64_t epd_transcript_size(const struct epd_tokenizer *t, const int32_t *id,
    size_t n, enum epd_transcript_kind kind);

#endif
