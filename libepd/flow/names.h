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

#endif
