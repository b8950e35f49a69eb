/*
 * tokenizer_encode.c - any bytes as text: what is encoded decodes to the text in
 * normal form, and a stream lets out the same wherever it is cut.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/token/text.h"
#include "engine/token/token.h"

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

static void
round_trip(struct epd_span text)
{
	struct epd_buf hold = {0}, back = {0};
	struct epd_ids ids = {0};
	struct epd_span nfc;

	if (epd_tokenizer_encode(tokenizer(), text, &ids) ||
	    epd_nfc(&nfc, text, &hold))
		abort();
	for (size_t i = 0; i < ids.n; i++) {
		struct epd_span s = epd_tokenizer_bytes(tokenizer(), ids.v[i]);

		epd_buf_put(&back, s.p, s.n);
	}
	if (back.n != nfc.n || (back.n && memcmp(back.p, nfc.p, back.n)))
		abort();
	if (epd_tokenizer_encode_special(tokenizer(), text, &ids))
		abort();
	epd_buf_free(&hold);
	epd_buf_free(&back);
	epd_ids_free(&ids);
}

static void
stream(struct epd_span bytes)
{
	const uint8_t *p = bytes.p;
	struct epd_buf whole = {0}, cut = {0};
	struct epd_utf8 a = {0}, b = {0};

	epd_utf8_put(&a, bytes, &whole);
	epd_utf8_end(&a, &whole);
	for (size_t i = 0; i < bytes.n; i++)
		epd_utf8_put(&b, epd_span(p + i, 1), &cut);
	epd_utf8_end(&b, &cut);
	if (whole.n != cut.n || (cut.n && memcmp(whole.p, cut.p, cut.n)))
		abort();
	if (!epd_utf8_valid(epd_span(whole.p, whole.n)))
		abort();
	if (epd_utf8_valid(bytes)) {
		if (whole.n != bytes.n ||
		    (bytes.n && memcmp(whole.p, p, bytes.n)))
			abort();
		round_trip(bytes);
	}
	epd_buf_free(&whole);
	epd_buf_free(&cut);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	stream(epd_span(p, n));
	return 0;
}
