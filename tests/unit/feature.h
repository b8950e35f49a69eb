/* feature.h - one model, small features of it, and a cache in a scratch folder. */
#ifndef TESTS_FEATURE_H
#define TESTS_FEATURE_H

#include <stdint.h>
#include <string.h>

#include "feature/inner.h"
#include "scratch.h"

static const struct epd_model_parts parts = {
	.tenant = "t", .snapshot = "00ff", .family = "qwen2_5_vl",
	.numeric = "lanes16-f32", .processor = "fast/1", .dtype = "f32",
	.quantisation = "none", .adapter = "", .resampler = "fast",
	.exif = "applied", .alpha = "white", .arithmetic = 1, .merge = 2,
	.patch = 14, .temporal = 2, .min_pixels = 3136, .max_pixels = 12845056,
	.mean = { 0.48145466f, 0.4578275f, 0.40821073f },
	.std = { 0.26862954f, 0.26130258f, 0.27577711f },
};

enum { ROWS = 4 * 8, ROW_BYTES = ROWS * 4, PIX_H = 28, PIX_W = 56 };

static uint8_t pixels[PIX_H * PIX_W * 3];
static float rows[ROWS];

/* Feature number i: its picture is in pixels, its rows in rows afterwards. */
static inline struct epd_feature
feature(int i)
{
	struct epd_feature f = {
		.parts = &parts, .grid = { 1, 2, 4 }, .layers = 1,
		.tokens = 4, .hidden = 8, .dtype = "f32",
	};

	for (size_t k = 0; k < sizeof pixels; k++)
		pixels[k] = (uint8_t)((size_t)i * 31 + k % 97);
	for (int k = 0; k < ROWS; k++)
		rows[k] = (float)i + (float)k / 64;
	epd_model_fingerprint(&f.model, &parts);
	epd_image_fingerprint(&f.fp, &f.model, f.grid, PIX_H, PIX_W, pixels);
	return f;
}

static int cache_sync;	/* flushes make thousands of commits slow */

struct cache {
	int dir;
	struct epd_metrics *m;
	struct epd_features *c;
};

static inline int
cache_open(struct cache *k, uint64_t ttl_ms)
{
	struct epd_features_options o = { .ttl_ms = ttl_ms, .sync = cache_sync };
	int rc;

	k->dir = scratch_open();
	if (k->dir < 0)
		return -1;
	rc = epd_metrics_open(&k->m, k->dir);
	o.metrics = k->m;
	return rc ? rc : epd_features_open(&k->c, k->dir, &o);
}

static inline void
cache_close(struct cache *k)
{
	epd_features_close(k->c);
	epd_metrics_close(k->m);
	scratch_close(k->dir);
}

static inline int
cache_files(struct cache *k)
{
	/* All but the memo and the lock file, which stays. */
	return scratch_count(k->c->dirfd, "memo") - 1;
}

static inline int
commit(struct cache *k, const struct epd_feature *f)
{
	return epd_feature_commit(k->c, f, rows, pixels, PIX_H, PIX_W);
}

/* Look f up into poisoned memory; a hit must have the right rows. */
static inline int
lookup(struct cache *k, const struct epd_feature *f, int readback,
    struct epd_why *why)
{
	float got[ROWS];
	int rc;

	memset(got, 0xa5, sizeof got);
	rc = epd_feature_lookup(k->c, f, readback, got, sizeof got, why);
	return rc == 1 && memcmp(got, rows, sizeof got) ? -9999 : rc;
}

static inline uint64_t
count(struct cache *k, enum epd_metric id)
{
	return epd_metrics_get(k->m, id);
}

/* A file of the pair, opened for tampering. */
static inline int
file_of(struct cache *k, const struct epd_feature *f, int which)
{
	char path[EPD_FEATURE_PATH];

	epd_feature_path(path, &f->fp, which);
	return epd_file_open(k->c->dirfd, path, O_RDWR, 0);
}

static inline int
sweep(struct cache *k, struct epd_feature_swept *out)
{
	return epd_feature_sweep(k->c, 0, NULL, NULL, out);
}

#endif
