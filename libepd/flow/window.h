/*
 * window.h - a window at a peer's, as the carriers of pages and features have it: the
 * answer to a question opens it, and the answer to another keeps what moved into it.
 * Not for outsiders.
 */
#ifndef EPD_FLOW_WINDOW_H
#define EPD_FLOW_WINDOW_H

#include "flow/node.h"

/*
 * A question whose answer is a number, most often a window's, and `more` others.  They
 * are as they were on failure.
 */
int epd_window_ask(struct epd_link *l, enum epd_ask verb,
    const struct epd_buf *question, uint64_t *number, uint64_t *others,
    uint32_t more, uint64_t deadline_ns, struct epd_why *why);
/* The same over the link of a backend, which is dropped if it broke. */
int epd_window_open(struct epd_node *n, enum epd_backend b, enum epd_ask verb,
    const struct epd_buf *question, struct epd_passage *out, uint64_t *others,
    uint32_t more, uint64_t deadline_ns, struct epd_why *why);
/* All is in it: kept, under *number. */
int epd_window_keep(const struct epd_passage *p, enum epd_ask verb,
    uint64_t *number, uint64_t deadline_ns, struct epd_why *why);

#endif
