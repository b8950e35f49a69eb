/*
 * arrive.h - pages that come from a peer: room for them, and the run they become.
 * Nobody sees them before they were found to be what was said of them.
 */
#ifndef EPD_FLOW_ARRIVE_H
#define EPD_FLOW_ARRIVE_H

#include "flow/ask.h"

struct epd_arrival;

/*
 * Room in a workflow's folder for pages of a's shape in a's codec: those of a->page
 * that are there.  Fails: EPD_EUNSUPPORTED (a codec), EPD_EFORMAT (a shape, or sizes that
 * do not go with it), EPD_ETOOBIG (more than the tier's cap), -ENOSPC, -ENOMEM.
 * Owns: the caller frees *out, which leaves nothing unless it was kept.
 */
int epd_arrival_open(struct epd_arrival **out, struct epd_store *s,
    const char *workflow, const struct epd_codecs *codecs,
    const struct epd_pages_ask *a, struct epd_why *why);
void epd_arrival_free(struct epd_arrival *x);
uint32_t epd_arrival_count(const struct epd_arrival *x);
/* Where the ith that comes is to be put, and how long it is. */
void *epd_arrival_place(const struct epd_arrival *x, uint32_t i,
    uint64_t *bytes);
/*
 * All have come: unpacked, summed, published under *run.  trusted: whoever sent them
 * may be believed, and they serve everybody here; else this workflow alone.
 * Fails: EPD_ECORRUPT, -ENOSPC, -errno.
 */
int epd_arrival_keep(struct epd_arrival *x, int trusted, uint64_t *run,
    struct epd_why *why);
/* The run is of no use after all: unlinked. */
void epd_arrival_undo(struct epd_store *s, const char *workflow, uint64_t run);

#endif
