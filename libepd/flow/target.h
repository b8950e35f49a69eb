/* target.h - the workflow that a state is handed to, made.  Not for outsiders. */
#ifndef EPD_FLOW_TARGET_H
#define EPD_FLOW_TARGET_H

#include "flow/half.h"

/* Its deadline, by the boot clock. */
uint64_t epd_offer_end(const struct epd_store *s, const struct epd_offer *o);
/* It, and its uuid and place for the source's log.  Its owner drops *dst in any case. */
int epd_target_make(struct epd_store *s, const struct epd_offer *o,
    struct epd_half *dst, struct epd_why *why);
/* unmade: nothing came of it, and nobody was told a new workflow's name. */
void epd_target_drop(struct epd_half *dst, int unmade);

#endif
