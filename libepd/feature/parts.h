/*
 * parts.h - a feature's three files as such, for another store on another machine.
 * Part of feature.h.
 */
#ifndef EPD_FEATURE_PARTS_H
#define EPD_FEATURE_PARTS_H

#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/span.h"

struct epd_features;

/* Bytes of one, at most: what anybody may make us read. */
#define EPD_FEATURE_PART ((UINT64_C(4) << 30) + 64)

/* In the order of a commit. */
enum epd_feature_part { EPD_PART_PIX, EPD_PART_BLOB, EPD_PART_META, EPD_PARTS };

struct epd_feature_files {
	int fd[EPD_PARTS];		/* for reading; -1: it has no such */
	uint64_t bytes[EPD_PARTS];
};
/* Its files; without meta there is no blob either.  -ENOENT (none at all), -errno. */
int epd_feature_open_parts(struct epd_features *c, const struct epd_name *fp,
    struct epd_feature_files *out);
void epd_feature_close_parts(struct epd_feature_files *f);

/*
 * Commit what came; a part of no bytes is not there.  Each must be whole, of fp, and
 * say the same of it as the others; a picture must be the one that fp names, which
 * only meta can tell.  A pair that is there already, and a picture, is left alone.
 * trusted: whoever sent it may be believed that the rows are the encoder's; else they
 * are not kept, and the picture alone is, to be encoded when they are needed.
 * Fails: EPD_ECORRUPT, EPD_EKIND, EPD_ENOTHING (rows that are not kept, and no
 * picture), -errno: nothing is kept.
 */
int epd_feature_take_parts(struct epd_features *c, const struct epd_name *fp,
    const struct epd_span part[EPD_PARTS], int trusted, struct epd_why *why);
/* What there is of one, and what a store tells a peer that has it. */
enum {
	EPD_FEATURE_NONE, EPD_FEATURE_PICTURE, EPD_FEATURE_ALL,
	EPD_FEATURE_NO_ROWS,	/* to a peer: nothing, and its rows would not be kept */
};
/*
 * ALL: a pair of fp is there; PICTURE: only that, as whoever died between the two left
 * it, or as is left of what was evicted; NONE, -errno.
 */
int epd_feature_is_there(struct epd_features *c, const struct epd_name *fp);

#endif
