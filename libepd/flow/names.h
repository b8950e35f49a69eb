/* names.h - pages called by what they hold, looked at anew.  Not for outsiders. */
#ifndef EPD_FLOW_NAMES_H
#define EPD_FLOW_NAMES_H

#include "flow/store.h"

/*
 * The sequences of all live states: versions, pages and images follow one another,
 * and each page has the name that its tokens, images and the page before make.
 * Costs the nodes, not the states times their paths.  fn is told what is wrong.
 * Fails: -ENOMEM, -errno.
 */
int epd_names_check(struct epd_workflow *w,
    void (*fn)(void *arg, const char *fault), void *arg);

/* Patches to a side of a merged token, from the parts the state carries. */
uint64_t epd_names_merge(const struct epd_state *st);
/* Tokens that an image takes up; 0: a number that none has. */
uint64_t epd_names_tokens(const struct epd_image_ref *r, uint64_t merge);
/*
 * The images of v that reach into tokens [from, from + rows), in order; their number.
 * out has room for all of v's.  *first is 0 at the first page, and stays the caller's from
 * page to page.
 */
size_t epd_names_shown(const struct epd_version *v, uint64_t merge, uint64_t from,
    uint32_t rows, uint32_t *first, struct epd_page_image *out);

/*
 * Where in a run the page of that name is, from the likeliest place on; -ENOENT.  Its
 * rows and sum are the caller's to compare.
 */
long epd_names_place(const struct epd_run *run, const struct epd_name *name,
    long hint);

#endif
