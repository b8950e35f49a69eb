/*
 * pages.h - which pages a state's versions use, counted over a workflow; not for
 * outsiders.  A page is (run, index); a state uses the last of its nodes that
 * holds a page index, as a partial page is superseded by its copy.
 */
#ifndef EPD_FLOW_PAGES_H
#define EPD_FLOW_PAGES_H

#include "flow/store.h"

struct epd_used_page {
	uint64_t run, node;
	uint32_t at;		/* index in the run */
	uint32_t logical;	/* index in the sequence */
	struct epd_page_ref ref;
};

/*
 * Pages of a version (0: newest), ascending by logical index, and the images and
 * length of its sequence.  Owns: *out and *images are the caller's to free.
 */
int epd_pages_of(struct epd_workflow *w, uint32_t state, uint32_t version,
    struct epd_used_page **out, uint32_t *n, struct epd_image_ref **images,
    uint32_t *nimages, uint64_t *tokens, struct epd_why *why);

/* How many live states of a workflow use each page: a table by (run, at). */
struct epd_page_counts;
int epd_pages_count(struct epd_page_counts **out, struct epd_workflow *w,
    struct epd_why *why);
uint32_t epd_pages_refs(const struct epd_page_counts *c, uint64_t run,
    uint32_t at);
void epd_pages_free(struct epd_page_counts *c);

/* 1 if the run is on the memory tier now. */
int epd_run_present(const struct epd_workflow *w, uint64_t run);

#endif
