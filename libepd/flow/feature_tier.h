/*
 * feature_tier.h - features in the store that many share (feature.store), so that an
 * image is encoded once among them.  Not for outsiders.
 *
 * Two objects a feature: its rows, and then its meta, which is the commit marker and
 * says which rows.  Whatever is wrong with either is a miss, counted.
 */
#ifndef EPD_FLOW_FEATURE_TIER_H
#define EPD_FLOW_FEATURE_TIER_H

#include "flow/store.h"

/*
 * The rows of f into buf (epd_feature_bytes of room), checked as meta has them: 1, or
 * 0: it is not there, or nobody can be asked.
 * Fails: EPD_EUNSUPPORTED (the store is not configured), EPD_EUSAGE (nor is whom to
 * believe; a key that is none), -ENOMEM, -errno.
 */
int epd_feature_tier_get(struct epd_store *s, const struct epd_feature *f,
    void *buf, struct epd_why *why);
/*
 * They were encoded here, and last for long enough (feature.store_min_ttl_ms).  That it
 * did not work is counted, and no more.
 */
void epd_feature_tier_put(struct epd_store *s, const struct epd_feature *f,
    const void *rows);

#endif
