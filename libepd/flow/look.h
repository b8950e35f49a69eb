/* look.h - a state held open while it is told of.  Not for outsiders. */
#ifndef EPD_FLOW_LOOK_H
#define EPD_FLOW_LOOK_H

#include "flow/book.h"

struct epd_look {
	struct epd_store *s;
	struct epd_workflow w;
	struct epd_book book;
	struct epd_state st;
	struct epd_weight x;
	uint32_t version;
};
/* Fails: EPD_ENOTHING, EPD_ENOSTATE, -errno, with the ref in why. */
int epd_look_open(struct epd_look *k, struct epd_store *s,
    const struct epd_ref *ref, struct epd_why *why);
void epd_look_close(struct epd_look *k);
/* Say in why what rc says of the ref, "w1/s3@9: no such version"; gives rc. */
int epd_look_fail(const struct epd_ref *ref, int rc, struct epd_why *why);
/* All its x.images images, in order.  Owns: the caller frees *out. */
int epd_look_images(const struct epd_look *k, struct epd_image_ref **out);
const char *epd_look_dtype(const struct epd_state *st);	/* of its pages */

#endif
