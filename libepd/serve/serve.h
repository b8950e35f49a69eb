/*
 * serve.h - what workers give to others.  Here: the data role, a store's pages,
 * features and halves of hand-offs for peers, as a host (base/host.h) that a data
 * server of transport/ serves.
 *
 * Each guest has the store opened for itself, so guests do not wait for each other but
 * where processes would.  What they may have under way together is bounded by credits,
 * which this room keeps under a lock of its own.
 */
#ifndef EPD_SERVE_H
#define EPD_SERVE_H

#include "base/host.h"
#include "flow/flow.h"
#include "serve/telling.h"

struct epd_serving;

struct epd_serving_options {
	struct epd_store_options store;	/* lent until it is freed; create and look are not asked */
	uint64_t bytes;			/* being written at once; 0: half the tier's cap */
	uint32_t slots;			/* windows being written; 0: 64 */
};
/*
 * Fails: as epd_store_open.
 * Owns: the caller frees *out once no guest is left; *host is lent until then.
 */
int epd_serving_new(struct epd_serving **out, struct epd_host *host,
    const struct epd_serving_options *o, struct epd_why *why);
void epd_serving_free(struct epd_serving *s);

#endif
