/*
 * lossy.h - a state whose pages went through a codec that gives something up is of
 * another numeric family, "lanes16-f32+fp8", and so has other page names: nothing of
 * it passes for what the engine computed.  Not for outsiders.
 *
 * Such pages are lost as others are.  They were computed with exact ones before them
 * and packed then, so they are made again in the same way: a few of them computed
 * behind those that are left would be others.
 */
#ifndef EPD_FLOW_LOSSY_H
#define EPD_FLOW_LOSSY_H

#include "flow/whole.h"

enum { EPD_NUMERIC_MAX = 128 };

/* The numeric family that a state's fingerprint tells; "" if it tells none. */
int epd_lossy_numeric(const struct epd_state *st, char out[EPD_NUMERIC_MAX]);
/* Whether it is one of ours, less exact by the codecs behind the +. */
int epd_lossy_is(const char *numeric);
/* The codec's name; "" if there was more than one, or one of a name that none has. */
void epd_lossy_codec(const char *numeric, char out[EPD_CODEC_NAME]);

/*
 * Make of f a state of codec's family: its traits, and in names[i] what its ith page
 * is called there.  Fails: EPD_EFORMAT (a fingerprint), EPD_ETOOBIG, -ENOMEM.
 * Owns: the caller frees *names.
 */
int epd_lossy_rename(struct epd_whole *f, const char *codec,
    struct epd_name **names, struct epd_why *why);

/*
 * Fresh pages of q for tokens [rows, upto), as they came: by its codec, from pages
 * computed exactly, which q keeps; one that was not packed, because it did not come,
 * as it was at home.  want has their sums, which decide; what is like neither is left
 * for who compares.
 * Fails: EPD_ECORRUPT (its codec is none, or none of this program's), and as
 * epd_seq_compute.
 */
struct epd_seq;
int epd_lossy_again(struct epd_seq *q, uint64_t upto,
    const struct epd_page_entry *want, struct epd_why *why);
/* EPD_ECORRUPT: n pages cannot be made again, and what may be done about it. */
int epd_lossy_lost(const struct epd_seq *q, long n, struct epd_why *why);

#endif
