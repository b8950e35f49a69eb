/*
 * base_json.c - what parses, dumps; and its dump parses to the same dump.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static void
look(const struct epd_json *j)
{
	struct epd_json_iter it = epd_json_begin(j);
	size_t n = epd_json_count(j);

	(void)epd_json_real(j, epd_json_int(j, 0) ? 1 : 2);
	(void)epd_json_uint(j, 0);
	if (epd_json_str(j, NULL) &&
	    strlen(epd_json_str(j, "")) != epd_json_bytes(j).n)
		abort();
	if (epd_json_type(j) == EPD_JSON_ARRAY)
		for (size_t i = 0; i < n; i++)
			look(epd_json_at(j, i));
	while (epd_json_next(&it)) {
		if (epd_json_get(j, it.key) != it.value)
			abort();
		look(it.value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_buf a = { 0 }, b = { 0 };
	struct epd_json *j;
	struct epd_why why;

	epd_json_quote(&a, epd_span(p, n));
	if (epd_json_parse(&j, epd_span(a.p, a.n), "quoted", &why))
		abort();
	epd_json_free(j);
	epd_buf_free(&a);
	if (epd_json_parse(&j, epd_span(p, n), "fuzz", &why)) {
		if (!strlen(why.text))
			abort();
		return 0;
	}
	look(j);
	epd_json_dump(&a, j);
	epd_json_free(j);
	if (epd_json_parse(&j, epd_span(a.p, a.n), "again", &why))
		abort();
	epd_json_dump(&b, j);
	if (a.n != b.n || memcmp(a.p, b.p, a.n))
		abort();
	epd_json_free(j);
	epd_buf_free(&a);
	epd_buf_free(&b);
	return 0;
}
