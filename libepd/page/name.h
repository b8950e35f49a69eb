/*
 * name.h - what a page looks like, and the names that decide what is in it.
 * Outside this room include page/page.h.
 */
#ifndef EPD_PAGE_NAME_H
#define EPD_PAGE_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

/* The last two are no pages: what a shared tier keeps of a feature, as one of some size. */
enum {
	EPD_OBJECT_KV_PAGE = 1, EPD_OBJECT_STATE_SNAPSHOT = 2,
	EPD_OBJECT_FEATURE_ROWS = 3, EPD_OBJECT_FEATURE_META = 4,
};

/* What a run's pages look like; all pages of a state have one shape. */
struct epd_run_shape {
	uint32_t kind;		/* EPD_OBJECT_KV_PAGE; a run has no others */
	uint32_t type;		/* enum epd_type of the engine */
	uint32_t tokens;	/* a page's, T */
	uint64_t bytes;		/* a page's */
};

/* An image that reaches into a page: at is its first token less the page's first, and may be negative. */
struct epd_page_image {
	int64_t at;
	struct epd_name fp;
};

/* The parent's name of page 0: everything but tokens that decides bytes. */
void epd_page_base(struct epd_name *out, uint32_t arithmetic,
    const char *numeric, const struct epd_name *model,
    const struct epd_run_shape *shape);
/* Of n tokens after parent; images ascending. */
void epd_page_name(struct epd_name *out, const struct epd_name *parent,
    const int32_t *ids, size_t n, const struct epd_page_image *image,
    size_t nimages);

#endif
