/*
 * inner.h - what the files of this room share; not for outsiders.  cache.c says
 * how the folder looks.
 */
#ifndef EPD_FEATURE_INNER_H
#define EPD_FEATURE_INNER_H

#include "feature/feature.h"

struct epd_features {
	int dirfd;
	int busy;		/* -1: only looked at, nothing is changed */
	struct epd_metrics *metrics;
	uint64_t ttl_ms;
	int sync;
};

enum {
	EPD_FEATURE_PATH = 80,		/* "ab/FP.meta" */
	EPD_FEATURE_HEAD = 64,		/* bytes before rows, and before a picture */
	EPD_META_MAX = 65536,
	EPD_FEATURE_BUSY_MS = 10000,		/* the longest wait for another's sweep */
};
#define EPD_BLOB_MAX ((uint64_t)4 << 30)
#define EPD_PIX_MAX 178956970u		/* pixels */

enum { EPD_HAS_META = 1, EPD_HAS_BLOB = 2, EPD_HAS_PIX = 4 };
const char *epd_feature_ext(int which);	/* one of the three: ".meta", ... */
void epd_feature_path(char out[EPD_FEATURE_PATH], const struct epd_name *fp,
    int which);
/* Unlink those of the mask, meta first; absent is fine.  bytes may be NULL. */
int epd_feature_unlink(struct epd_features *c, const struct epd_name *fp,
    int which, uint64_t *bytes);
/* 1, 0, -errno. */
int epd_feature_has(struct epd_features *c, const struct epd_name *fp,
    int which);
/* Whether its deadline has passed; only what can be made again expires. */
int epd_feature_expired(struct epd_features *c, const struct epd_name *fp,
    uint64_t deadline_ms);

/* ---- meta.c ---- */

/* What is in meta besides the feature it is of. */
struct epd_meta {
	uint64_t blob_sum, created_ms, deadline_ms;
	uint32_t pix_w, pix_h;
};
int epd_meta_pack(struct epd_buf *out, const struct epd_feature *f,
    const struct epd_meta *m);
/*
 * text is the meta of f to the byte, but for what goes out in *m.
 * Fails: EPD_ECORRUPT with the field in why, -ENOMEM.
 */
int epd_meta_match(struct epd_span text, const struct epd_feature *f,
    struct epd_meta *m, struct epd_why *why);
/* For looking.  Fails: EPD_ECORRUPT, EPD_EKIND, -ENOMEM. */
int epd_meta_parse(struct epd_span text, struct epd_feature_meta *out,
    uint64_t *blob_sum, struct epd_why *why);
/* -ENOENT, EPD_ECORRUPT (longer than any), -errno. */
int epd_meta_read(struct epd_features *c, const struct epd_name *fp,
    struct epd_buf *out);

/* ---- blob.c, pix.c ---- */

/* The bytes before the rows.  -ENOMEM. */
int epd_blob_head(uint8_t out[EPD_FEATURE_HEAD], const struct epd_name *fp,
    uint64_t bytes, uint64_t sum);
/* dir is the folder of the pair.  *sum is the rows'. */
int epd_blob_write(struct epd_features *c, int dir, const struct epd_name *fp,
    const void *rows, size_t bytes, uint64_t *sum);
/* buf NULL only checks.  -ENOENT, EPD_ECORRUPT, EPD_ETOOBIG, -errno. */
int epd_blob_read(struct epd_features *c, const struct epd_name *fp,
    uint64_t bytes, uint64_t sum, void *buf, struct epd_why *why);

int epd_pix_write(struct epd_features *c, int dir, const struct epd_name *fp,
    const uint8_t *rgb, long h, long w);
/* rgb may be NULL: then size and header only.  -ENOENT, EPD_ECORRUPT, -errno. */
int epd_pix_read(struct epd_features *c, const struct epd_name *fp,
    uint8_t **rgb, uint32_t *h, uint32_t *w, struct epd_why *why);
/* For fuzzing, too: the bytes of a picture file of fp. */
int epd_pix_unpack(struct epd_span file, const struct epd_name *fp,
    uint8_t **rgb, uint32_t *h, uint32_t *w, struct epd_why *why);

#endif
