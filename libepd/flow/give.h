/*
 * give.h - pages of this store, found and held for somebody who is given them: a peer
 * that reads them, or this process that writes them to one.
 */
#ifndef EPD_FLOW_GIVE_H
#define EPD_FLOW_GIVE_H

#include "flow/ask.h"

struct epd_gift;

/*
 * Find the pages that a asks for: of a state of a workflow, else by name alone, and
 * then only those that were computed here.  Those there are have their entry, bytes
 * and there filled in, in a codec's form if it names one; all are of one shape, which
 * a gets.  They stay as they are, whoever evicts or releases them, till the gift is
 * freed; of a state a transfer lease says so.
 * Fails: EPD_ENOTHING, EPD_ENOSTATE, EPD_EUNSUPPORTED (a codec), EPD_ETOOBIG,
 * -ENOMEM, -errno (-EMFILE, -EIO: nothing tells whether they are there).  What cannot
 * be packed is not there.
 * Owns: the caller frees *out, before s is closed.
 */
int epd_gift_find(struct epd_gift **out, struct epd_store *s,
    const struct epd_codecs *codecs, struct epd_pages_ask *a,
    struct epd_why *why);
void epd_gift_free(struct epd_gift *g);
/*
 * Read those that a has as there: what is damaged is there no more.  Before bytes are
 * sent; who links files looks when it computes with them.
 */
void epd_gift_look(struct epd_gift *g, struct epd_pages_ask *a);
/* About how many files it has open; EPD_ASK_FILES of runs at most. */
uint32_t epd_gift_files(const struct epd_gift *g);
/* Page i's bytes as they travel: memory, and the file it is mapped from or -1. */
void epd_gift_page(const struct epd_gift *g, uint32_t i,
    struct epd_extent *out);

/*
 * Whether the index has pages by these names, with these sums; n bytes of 0 or 1.  A
 * probe: no lease is taken, and none of them counts as used.
 */
int epd_gift_have(struct epd_store *s, const struct epd_page_ask *page,
    uint32_t n, uint8_t *have);

#endif
