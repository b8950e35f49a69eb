/*
 * feature_meta.c - meta as it is, and with its checksum put right: what parses
 * makes sense, what matches is the line we would have written.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "feature/inner.h"

static const struct epd_model_parts parts = {
	.tenant = "t", .snapshot = "00ff", .family = "qwen2_5_vl",
	.numeric = "lanes16-f32", .processor = "fast/1", .dtype = "f32",
	.quantisation = "none", .adapter = "", .resampler = "fast",
	.exif = "applied", .alpha = "white", .arithmetic = 1, .merge = 2,
	.patch = 14, .temporal = 2, .min_pixels = 3136, .max_pixels = 12845056,
	.mean = { 0.5f, 0.25f, 0.125f }, .std = { 0.1f, 0.2f, 0.3f },
};

static void
look(struct epd_span text)
{
	struct epd_feature f = { .fp = { { 1 } }, .model = { { 2 } },
	    .parts = &parts, .grid = { 1, 2, 4 }, .layers = 1, .tokens = 2,
	    .hidden = 8, .dtype = "f32" };
	struct epd_feature_meta out;
	struct epd_buf again = { 0 };
	struct epd_meta m;
	struct epd_why why = { "" };
	uint64_t sum;
	int rc = epd_meta_parse(text, &out, &sum, &why);

	if (rc && !why.text[0])
		abort();
	if (!rc && (!out.bytes || !memchr(out.tenant, 0, sizeof out.tenant)))
		abort();
	why.text[0] = 0;
	rc = epd_meta_match(text, &f, &m, &why);
	if (rc && !why.text[0])
		abort();
	if (rc)
		return;
	if (epd_meta_pack(&again, &f, &m) || again.n != text.n ||
	    memcmp(again.p, text.p, text.n))
		abort();
	epd_buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char tail[] = ", \"sum\": \"";
	struct epd_buf b = { 0 };
	size_t body = n;

	look(epd_span(p, n));
	for (size_t i = 0; i + sizeof tail - 1 <= n; i++)
		if (!memcmp(p + i, tail, sizeof tail - 1))
			body = i;
	epd_buf_put(&b, p, body);
	epd_buf_fmt(&b, ", \"sum\": \"%016llx\"}\n",
	    (unsigned long long)epd_blake2b64(epd_span(p, body)));
	look(epd_span(b.p, b.n));
	epd_buf_free(&b);
	return 0;
}
