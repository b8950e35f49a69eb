/*
 * lossy.h - a state whose pages went through a codec that gives something up is of
 * another numeric family, "lanes16-f32+fp8", and so has other page names: nothing of
 * it passes for what the engine computed.  Not for outsiders.
 */
#ifndef EPD_FLOW_LOSSY_H
#define EPD_FLOW_LOSSY_H

#include "flow/whole.h"

enum { EPD_NUMERIC_MAX = 128 };

/* The numeric family that a state's fingerprint tells; "" if it tells none. */
int epd_lossy_numeric(const struct epd_state *st, char out[EPD_NUMERIC_MAX]);
/* Whether it is one of ours, less exact by the codecs behind the +. */
int epd_lossy_is(const char *numeric);

/*
 * Make of f a state of codec's family: its traits, and in names[i] what its ith page
 * is called there.  Fails: EPD_EFORMAT (a fingerprint), EPD_ETOOBIG, -ENOMEM.
 * Owns: the caller frees *names.
 */
int epd_lossy_rename(struct epd_whole *f, const char *codec,
    struct epd_name **names, struct epd_why *why);

#endif
