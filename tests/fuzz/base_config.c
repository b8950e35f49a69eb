/*
 * base_config.c - a configuration is taken whole or refused with a sentence.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_config c, before;
	struct epd_why why = { "" };
	int rc;

	epd_config_default(&c);
	before = c;
	rc = epd_config_parse(&c, epd_span(p, n), "fuzz", &why);
	if (rc && (rc != EPD_EUSAGE || strncmp(why.text, "fuzz:", 5)))
		abort();
	if (rc && memcmp(&c, &before, sizeof c))
		abort();
	if (c.page_tokens != 16 && c.page_tokens != 64)
		abort();
	if (!c.queues[0][0] || c.threads < 0 || c.threads > 256)
		abort();
	if (!memchr(c.memory_dir, 0, sizeof c.memory_dir))
		abort();
	return 0;
}
