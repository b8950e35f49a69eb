/*
 * line.h - a feature's meta where there is no folder: in a store that many share.  Part
 * of feature.h.
 */
#ifndef EPD_FEATURE_LINE_H
#define EPD_FEATURE_LINE_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "feature/name.h"

/*
 * What a shared store keeps beside the rows: the line of meta, of no picture and for
 * ever, with the rows' sum in it.  Checked it is f's to the byte; rows NULL: they are not
 * at hand yet.
 * Fails: -ENOMEM; EPD_ECORRUPT (why says what differs).
 */
int epd_feature_line(struct epd_buf *out, const struct epd_feature *f,
    const void *rows);
int epd_feature_line_check(struct epd_span line, const struct epd_feature *f,
    const void *rows, struct epd_why *why);

#endif
