/* transfer.c - what a transfer is to be like, as the configuration has it. */
#include <stdio.h>
#include <string.h>

#include "flow/route.h"

enum { BATCH_PAGES = 4096 };
static const uint64_t BATCH_BYTES = UINT64_C(64) << 20;

void
epd_transfer_policy_default(struct epd_transfer_policy *out,
    const struct epd_config *c)
{
	static const char *const prefetch[] = {
		[EPD_PREFETCH_NONE] = "none",
		[EPD_PREFETCH_NEXT_STEP] = "next_step",
		[EPD_PREFETCH_SPECULATIVE] = "speculative",
	};
	const int priority = epd_word_parse(&epd_priorities,
	    c->transfer_priority);

	*out = (struct epd_transfer_policy){
		.transport = epd_backend_parse(c->default_transport),
		.priority = priority < 0 ? EPD_PRIO_NORMAL :
		    (enum epd_priority)priority,
		.checksum = c->transfer_checksum,
		.timeout_ms = (uint64_t)c->transfer_timeout_ms,
		.strict = c->transfer_strict,
	};
	for (int i = 0; i < 3; i++)
		if (!strcmp(prefetch[i], c->transfer_prefetch))
			out->prefetch = (enum epd_prefetch)i;
	snprintf(out->compression, sizeof out->compression, "%.15s",
	    c->compression);
}

void
epd_transferred_add(struct epd_transferred *out, const struct epd_carried *c)
{
	out->last = *c;
	out->carries++;
	out->retries += c->retries;
	out->fallbacks += c->fallbacks;
	out->bytes += c->bytes - c->again;
}

uint32_t
epd_pages_batch(const struct epd_pages_ask *a, uint32_t at, uint64_t most)
{
	const int packed = *a->codec && strcmp(a->codec, "none");
	const uint64_t each = a->shape.bytes ? a->shape.bytes : 1;
	uint64_t n = BATCH_BYTES / each;

	/* What comes packed lies there twice. */
	if (n > most / each / (packed ? 2 : 1))
		n = most / each / (packed ? 2 : 1);

	if (n < 1)
		n = 1;
	if (n > BATCH_PAGES)
		n = BATCH_PAGES;
	return n < a->n - at ? (uint32_t)n : a->n - at;
}
