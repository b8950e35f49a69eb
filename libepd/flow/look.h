/* look.h - a state of a watched workflow while it is told of.  Not for outsiders. */
#ifndef EPD_FLOW_LOOK_H
#define EPD_FLOW_LOOK_H

#include "flow/book.h"
#include "flow/litter.h"
#include "flow/watch.h"

/* Lent by the watch, until its next epd_watch_on. */
struct epd_look {
	struct epd_store *s;
	const struct epd_workflow *w;
	const struct epd_book *book;
	struct epd_state st;
	struct epd_weight x;
	const struct epd_run_ids *packs;	/* on the disk; NULL: nothing is missing */
	uint64_t below;		/* of x.missing those that have one */
	uint32_t version;
	uint64_t changed_ms;	/* the state; the version, if it was asked for */
};
/* Fails: EPD_ENOTHING, EPD_ENOSTATE, -errno, with the ref in why. */
int epd_look(struct epd_look *k, struct epd_watch *w, uint32_t state,
    uint32_t version, struct epd_why *why);
/* Say in why what rc says of the ref, "w1/s3@9: no such version"; gives rc. */
int epd_look_fail(const char *workflow, uint32_t state, uint32_t version,
    int rc, struct epd_why *why);
/* All its x.images images, in order.  Owns: the caller frees *out. */
int epd_look_images(const struct epd_look *k, struct epd_image_ref **out);
const char *epd_look_dtype(const struct epd_state *st);	/* of its pages */

/* A watch's parts. */
struct epd_store *epd_watch_store(const struct epd_watch *w);
const struct epd_workflow *epd_watch_workflow(const struct epd_watch *w);
/* What its live states come to, counted when first asked. */
int epd_watch_book(struct epd_watch *w, const struct epd_book **out,
    struct epd_why *why);
/* What the disk's tier has of it now; lent until the next time.  -ENOMEM. */
int epd_watch_packs(struct epd_watch *w, const struct epd_run_ids **out);

#endif
