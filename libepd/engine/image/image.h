/*
 * image.h - files to 8-bit RGB, to the size the model wants, to patch rows.
 * Sources: smart_resize and the patch order of Qwen2VLImageProcessor; the two
 * bicubic resamplers of torchvision (uint8, antialias) and Pillow before 13.
 */
#ifndef EPD_ENGINE_IMAGE_H
#define EPD_ENGINE_IMAGE_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum epd_resampler { EPD_FAST, EPD_PIL };

/* rgb is [h][w][3], owned by the image. */
struct epd_image {
	long w, h;
	uint8_t *rgb;
};

struct epd_image_rules {
	int exif;		/* turn the picture as its EXIF orientation says */
	int white;		/* transparency goes on white; 0: alpha is dropped */
	int64_t max_pixels;	/* checked before anything is decoded */
};

/* What preprocessor_config.json or processor_config.json says, or defaults. */
struct epd_processor {
	char version[64];	/* image_processor_type, for the fingerprint */
	int patch, merge, temporal;
	int64_t min_pixels, max_pixels;
	float mean[3], std[3];
};

/*
 * PNG, JPEG, WebP, and PPM/PGM (P5, P6), told apart by their first bytes.
 * Owns: the caller frees out.  Fails: EPD_EFORMAT, EPD_ETOOBIG (more than
 * max_pixels), EPD_EUNSUPPORTED (a format known but not read, named), -ENOMEM;
 * why says more.
 * Any warning of a decoder that means missing pixels is EPD_EFORMAT.  PNG
 * samples of 16 bits keep the high byte, gray ones too.
 */
int epd_image_decode(struct epd_image *out, struct epd_span file,
    const struct epd_image_rules *rules, struct epd_why *why);
void epd_image_free(struct epd_image *im);

/*
 * The size a w x h picture takes: multiples of patch*merge within the bounds.
 * Fails: EPD_EUNSUPPORTED when one side is over 200 times the other;
 * EPD_EFORMAT for a patch, merge or side below 1; EPD_ETOOBIG when the bounds
 * ask for more than 2^30 pixels.
 */
int epd_image_fit(const struct epd_processor *p, long w, long h, long *ow,
    long *oh, struct epd_why *why);

/*
 * Equal to the reference bit for bit: EPD_FAST is torchvision's (uint8,
 * antialias), EPD_PIL Pillow's before 13.
 * Owns: the caller frees out.  Fails: -EINVAL (a side below 1), -ENOMEM.
 */
int epd_image_resize(struct epd_image *out, const struct epd_image *in, long w,
    long h, enum epd_resampler how);

/*
 * Normalised patch rows of n frames of one size, [t][h/P * w/P][3*2*P*P] in
 * merge-block order, content (C, T, ph, pw).  t is (n + 1) / 2: an odd last
 * frame, or a still image, stands for both halves.  w and h are multiples of
 * patch*merge, temporal is 2.
 * Fast computes (p - 255*mean)/(255*std), PIL f32(p/255) minus mean, over std.
 */
void epd_image_patches(const struct epd_processor *p,
    const struct epd_image *frames, int n, enum epd_resampler how, float *rows);

#endif
