/*
 * name.h - what decides a feature, and the fingerprints over it.  Part of
 * feature.h.
 */
#ifndef EPD_FEATURE_NAME_H
#define EPD_FEATURE_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

/* Every part that can change a feature (the RFC's and the PR's list). */
struct epd_model_parts {
	const char *tenant;
	const char *snapshot;		/* hex of the hash of the weights */
	const char *family;		/* model_type */
	const char *numeric;		/* numeric family, "lanes16-f32" */
	const char *processor;		/* its type and version */
	const char *dtype;		/* of the rows kept: f32, bf16 */
	const char *quantisation;	/* "none" */
	const char *adapter;		/* "" */
	const char *resampler;		/* fast, pil */
	const char *exif, *alpha;	/* applied|ignored, white|drop */
	uint32_t arithmetic;		/* version of the order of additions */
	uint32_t merge, patch, temporal;
	int64_t min_pixels, max_pixels;
	float mean[3], std[3];
};
void epd_model_fingerprint(struct epd_name *out, const struct epd_model_parts *p);

/* An image's: model fp, grid in patches, and the resized RGB bytes [h][w][3]. */
void epd_image_fingerprint(struct epd_name *out, const struct epd_name *model,
    const uint32_t grid[3], long h, long w, const uint8_t *rgb);

/* What the caller expects of a feature, or says of one it commits. */
struct epd_feature {
	struct epd_name fp, model;
	const struct epd_model_parts *parts;	/* compared one by one too */
	uint32_t grid[3];
	uint32_t layers;	/* 1 + deepstack */
	uint32_t tokens, hidden;
	const char *dtype;	/* "f32" or "bf16" */
};
/* layers * tokens * hidden * size of dtype; 0 if that overflows. */
size_t epd_feature_bytes(const struct epd_feature *f);

#endif
