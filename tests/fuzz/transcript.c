/*
 * transcript.c - any ids as a conversation: text that only grows, messages that
 * are JSON, a line each.  Two bytes an id; the highest stand for what the
 * tokenizer has not.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/chat/transcript.h"
#include "engine/token/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static const struct epd_tokenizer *
tokenizer(void)
{
	static struct epd_tokenizer *t;

	if (!t && epd_tokenizer_open(&t, open("examples/tiny-vlm/model",
	    O_RDONLY | O_DIRECTORY), NULL))
		abort();
	return t;
}

static struct epd_buf
made(const int32_t *id, size_t n, enum epd_transcript_kind kind)
{
	struct epd_buf b = {0};

	if (epd_transcript(&b, tokenizer(), id, n, kind) ||
	    epd_transcript_size(tokenizer(), id, n, kind) != b.n ||
	    !epd_utf8_valid(epd_span(b.p, b.n)))
		abort();
	return b;
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	int32_t id[256] = {0};
	struct epd_buf whole, part;
	struct epd_json *j;
	size_t lines = 0;

	n = n / 2 < 256 ? n / 2 : 256;
	for (size_t i = 0; i < n; i++) {
		id[i] = p[2 * i] | p[2 * i + 1] << 8;
		if (id[i] >= 0xfff0)
			id[i] = id[i] & 1 ? INT32_MIN : -id[i];
	}
	whole = made(id, n, EPD_TRANSCRIPT_TEXT);
	for (size_t k = 0; k < n; k++) {
		part = made(id, k, EPD_TRANSCRIPT_TEXT);
		if (part.n > whole.n ||
		    (part.n && memcmp(part.p, whole.p, part.n)))
			abort();
		epd_buf_free(&part);
	}
	epd_buf_free(&whole);
	whole = made(id, n, EPD_TRANSCRIPT_MESSAGES);
	if (epd_json_parse(&j, epd_span(whole.p, whole.n), "messages", NULL))
		abort();
	for (size_t i = 0; i < whole.n; i++)
		lines += whole.p[i] == '\n';
	if (lines != epd_json_count(j) + 2)
		abort();
	epd_json_free(j);
	epd_buf_free(&whole);
	return 0;
}
