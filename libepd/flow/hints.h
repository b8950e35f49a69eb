/* hints.h - what there is to tell the directory of a workflow. */
#ifndef EPD_FLOW_HINTS_H
#define EPD_FLOW_HINTS_H

#include "dir/dir.h"
#include "flow/store.h"

/*
 * Call fn with a hint for each state of the store's tenant, for the last whole page of
 * each run that it stands on (a page's name covers all before it), and for its
 * features that are here; more than once for what several states have.  Owner, address
 * and times are not in it.  Pages that were given, by the log or by their run, are not
 * told of, nor those that are neither in memory nor on the disk.
 * Fails: -ENOMEM, EPD_ECORRUPT, what fn gives.
 */
int epd_flow_hints(struct epd_store *s, const struct epd_workflow *w,
    int (*fn)(void *arg, const struct epd_hint *h), void *arg);

#endif
