/*
 * feature.h - the cache of encoder outputs.  Two keys an image fingerprint:
 * FP.blob (rows) is written first, FP.meta is the commit marker; FP.pix keeps
 * the resized 8-bit picture so that a lost feature can be encoded again.  A hit
 * and a fresh encode are read back through the same checked route.  A lookup
 * fails open: whatever is wrong is a miss, counted; a broken folder surfaces.
 *
 * Any number of processes may use one folder.  One thread a handle.
 */
#ifndef EPD_FEATURE_H
#define EPD_FEATURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/metrics.h"
#include "base/span.h"
#include "feature/line.h"
#include "feature/memo.h"
#include "feature/name.h"
#include "feature/parts.h"
#include "feature/plan.h"

struct epd_features;

struct epd_features_options {
	struct epd_metrics *metrics;
	/*
	 * Of what is committed with its picture; 0: for ever.  Without a
	 * picture a feature is the only truth there is and does not expire.
	 */
	uint64_t ttl_ms;
	int sync;		/* flush before the commit marker */
	int look;		/* nothing will be changed */
};
/*
 * Folder `features` in dirfd, made if absent unless only to look: then -ENOENT.
 * Owns: the caller owns *out.
 */
int epd_features_open(struct epd_features **out, int dirfd,
    const struct epd_features_options *o);
void epd_features_close(struct epd_features *c);

/*
 * Read the rows of f into buf (cap bytes).  1: there, checked and counted as a
 * hit (readback set: as mm_store_readback instead).  0: a miss, counted unless
 * readback is set (its encode was counted before); buf holds nothing of use.
 * -errno: the folder is broken, or memory is short.  Malformed meta and failed
 * checksums are counted apart (corrupt_meta, corrupt_blob) and the pair is
 * deleted; expired pairs too.  A buffer too small is a miss that deletes
 * nothing.  why says which of these it was.
 */
int epd_feature_lookup(struct epd_features *c, const struct epd_feature *f,
    int readback, void *buf, size_t cap, struct epd_why *why);

/*
 * Commit rows (in dtype) under f: blob, flush, then meta.  A pair that is there
 * and whole is left alone.  pixels may be NULL; else [h][w][3] is kept too.
 * Fails: -errno; then the pair is a miss, never a wrong feature.
 */
int epd_feature_commit(struct epd_features *c, const struct epd_feature *f,
    const void *rows, const uint8_t *pixels, long h, long w);

/*
 * Have what another cache keeps of fp here too; one that is here is left alone.
 * *bytes grows by what was copied.  Fails: -errno; then it is a miss here.
 */
int epd_feature_copy(struct epd_features *from, const struct epd_name *fp,
    struct epd_features *to, uint64_t *bytes);

/* The kept picture.  Owns: the caller frees *rgb.  -ENOENT, EPD_ECORRUPT (then it is deleted, unless only looked at). */
int epd_feature_pixels(struct epd_features *c, const struct epd_name *fp,
    uint8_t **rgb, long *h, long *w);

/* Its blob's file, to read as FORMATS has it; the caller closes it.  -ENOENT, -errno. */
int epd_feature_blob(struct epd_features *c, const struct epd_name *fp);

/* What meta says, for looking: any field may be "" or 0. */
struct epd_feature_meta {
	struct epd_name fp, model;
	char tenant[64], dtype[8], family[32], snapshot[65];
	uint32_t grid[3], layers, tokens, hidden;
	uint64_t bytes, created_ms, deadline_ms;	/* 0: no deadline */
	uint32_t pix_w, pix_h;	/* 0: no picture is kept */
};
/* Counts nothing, deletes nothing.  Fails: -ENOENT, EPD_ECORRUPT, EPD_EKIND, -errno. */
int epd_feature_meta(struct epd_features *c, const struct epd_name *fp,
    struct epd_feature_meta *out);
/* fps whose hex begins with prefix, in order; fn nonzero stops. */
int epd_feature_each(struct epd_features *c, const char *prefix,
    int (*fn)(void *arg, const struct epd_name *fp), void *arg);
/* Pair and picture; absent is fine. */
int epd_feature_remove(struct epd_features *c, const struct epd_name *fp);
/* The rows alone, which can be encoded again; without a picture nothing goes. */
int epd_feature_evict(struct epd_features *c, const struct epd_name *fp);
/*
 * Remove expired pairs, and what commits that died left more than grace_ms
 * before; a commit under way is not touched.  A picture is kept while keep says some state needs its fp
 * (keep may be NULL).  Counts what went and the bytes.
 */
struct epd_feature_swept { uint64_t expired, orphans, bytes; };
int epd_feature_sweep(struct epd_features *c, uint64_t grace_ms,
    int (*keep)(void *arg, const struct epd_name *fp), void *arg,
    struct epd_feature_swept *out);
/*
 * Check every pair; fn is told each fault in words.  A count of faults or -errno.
 * What a sweep would take is no fault.
 */
int epd_feature_check(struct epd_features *c,
    void (*fn)(void *arg, const char *fault), void *arg);

#endif
