/*
 * tokenizer_cache.c - any bytes as a compiled tokenizer, once as they are and
 * once with the sum made to fit, so that the checks behind it are reached.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/token/flat.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void
drop(void *base, size_t n)
{
	(void)base;
	(void)n;
}

static volatile uint8_t seen;

static void
read_all(const uint8_t *p, size_t n)
{
	while (n--)
		seen ^= p[n];
}

static void
use(void *base, size_t n)
{
	struct epd_span text = epd_span_str("The <|im_end|> \x01\x7f words");
	struct epd_tokenizer *t;
	struct epd_ids ids = {0};

	if (epd_flat_adopt(&t, base, n, drop))
		return;
	epd_tokenizer_encode_special(t, text, &ids);
	for (size_t i = 0; i < ids.n; i++)
		if (ids.v[i] < 0 || ids.v[i] >= epd_tokenizer_size(t))
			abort();
	for (int32_t i = 0; i < 300; i++) {
		struct epd_span s = epd_tokenizer_bytes(t, i);

		read_all(s.p, s.n);
		epd_tokenizer_is_special(t, i);
	}
	epd_tokenizer_special(t, "<|im_start|>");
	epd_ids_free(&ids);
	epd_tokenizer_close(t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_flat_head *head = malloc(n ? n : 1);

	if (!head)
		return 0;
	memcpy(head, p, n);
	use(head, n);
	if (n >= sizeof *head) {
		head->size = n;
		head->sum = epd_flat_sum(head, n);
		use(head, n);
	}
	free(head);
	return 0;
}
