/*
 * name.c - fingerprints of models and images, and the size of a feature.
 *
 * Floats go in by their bits: two that print alike may compute differently.
 */
#include <string.h>

#include "feature/name.h"

static void
add_floats(struct epd_namer *n, const float *v, int count)
{
	for (int i = 0; i < count; i++) {
		uint32_t bits;

		memcpy(&bits, &v[i], sizeof bits);
		epd_namer_u64(n, bits);
	}
}

void
epd_model_fingerprint(struct epd_name *out, const struct epd_model_parts *p)
{
	const char *const text[] = {
		p->tenant, p->snapshot, p->family, p->numeric, p->processor,
		p->dtype, p->quantisation, p->adapter, p->resampler, p->exif,
		p->alpha,
	};
	struct epd_namer n;

	epd_namer_begin(&n, "epd model 1");
	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		epd_namer_str(&n, text[i]);
	epd_namer_u64(&n, p->arithmetic);
	epd_namer_u64(&n, p->merge);
	epd_namer_u64(&n, p->patch);
	epd_namer_u64(&n, p->temporal);
	epd_namer_u64(&n, (uint64_t)p->min_pixels);
	epd_namer_u64(&n, (uint64_t)p->max_pixels);
	add_floats(&n, p->mean, 3);
	add_floats(&n, p->std, 3);
	epd_namer_end(&n, out);
}

void
epd_image_fingerprint(struct epd_name *out, const struct epd_name *model,
    const uint32_t grid[3], long h, long w, const uint8_t *rgb)
{
	struct epd_namer n;

	epd_namer_begin(&n, "epd image 1");
	epd_namer_add(&n, model->b, sizeof model->b);
	for (int i = 0; i < 3; i++)
		epd_namer_u64(&n, grid[i]);
	epd_namer_str(&n, "u8");
	epd_namer_u64(&n, (uint64_t)h);
	epd_namer_u64(&n, (uint64_t)w);
	epd_namer_u64(&n, 3);
	epd_namer_add(&n, rgb, (size_t)h * (size_t)w * 3);
	epd_namer_end(&n, out);
}

size_t
epd_feature_bytes(const struct epd_feature *f)
{
	size_t n = 0;

	if (!strcmp(f->dtype, "f32"))
		n = 4;
	else if (!strcmp(f->dtype, "bf16"))
		n = 2;
	if (__builtin_mul_overflow(n, f->layers, &n) ||
	    __builtin_mul_overflow(n, f->tokens, &n) ||
	    __builtin_mul_overflow(n, f->hidden, &n) || n > PTRDIFF_MAX)
		return 0;
	return n;
}
