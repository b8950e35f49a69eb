/*
 * codec.h - what the readers of one format each share.  A reader fills rgb, w
 * and h of an image whose pixels lie as stored, and says in *turn how EXIF
 * wants them turned (1 to 8).
 */
#ifndef EPD_ENGINE_IMAGE_CODEC_H
#define EPD_ENGINE_IMAGE_CODEC_H

#include <stddef.h>

#include "engine/image/image.h"

typedef int epd_image_reader(struct epd_image *out, int *turn,
    struct epd_span file, const struct epd_image_rules *rules,
    struct epd_why *why);

epd_image_reader epd_image_png, epd_image_jpeg, epd_image_webp, epd_image_ppm;

/* Do the rules admit this size?  Fails: EPD_EFORMAT (a side of 0), EPD_ETOOBIG. */
int epd_image_admit(uint64_t w, uint64_t h, const struct epd_image_rules *rules,
    struct epd_why *why);

/* If they do, room for it at `bytes` a pixel.  Fails: as above, -ENOMEM. */
int epd_image_room(uint8_t **out, uint64_t w, uint64_t h, size_t bytes,
    const struct epd_image_rules *rules, struct epd_why *why);

/* RGBA to RGB in place: white, or alpha dropped.  n pixels. */
void epd_image_flatten(uint8_t *px, size_t n, int white);

/* Orientation in a TIFF block; 1 where there is none or it makes no sense. */
int epd_exif_turn(struct epd_span tiff);

/* Turn the picture as orientation 2 to 8 says.  Fails: -ENOMEM. */
int epd_image_turn(struct epd_image *im, int turn);

#endif
