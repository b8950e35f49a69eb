/* tokenizer_json.c - any bytes as a tokenizer.json; what is taken must encode. */
#include <stdlib.h>

#include "engine/token/flat.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_tokenizer *t;
	struct epd_ids ids = {0};
	struct epd_why why;

	if (epd_tokenizer_parse(&t, epd_span(p, n), NULL, &why))
		return 0;
	if (epd_tokenizer_encode_special(t, epd_span_str(
	    "The <|im_end|> e\xcc\x81 12\n\n  words"), &ids))
		abort();
	for (size_t i = 0; i < ids.n; i++)
		if (!epd_tokenizer_bytes(t, ids.v[i]).p)
			abort();
	epd_ids_free(&ids);
	epd_tokenizer_close(t);
	return 0;
}
