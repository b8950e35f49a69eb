/* tell.h - what there is to tell the directory of a workflow. */
#ifndef EPD_FLOW_TELL_H
#define EPD_FLOW_TELL_H

#include "dir/dir.h"
#include "flow/store.h"

/*
 * Call fn with a hint for each state of the store's tenant, for the last whole page of
 * each run that it stands on (a page's name covers all before it) and that is in memory
 * or in nvme, and for its features that are here; more than once for what several
 * states have.  Owner, address and times are not in it.  Pages that were given are not
 * told of.
 * Fails: -ENOMEM, EPD_ECORRUPT, -errno, what fn gives.
 */
int epd_flow_hints(struct epd_store *s, const struct epd_workflow *w,
    int (*fn)(void *arg, const struct epd_hint *h), void *arg);

#endif
