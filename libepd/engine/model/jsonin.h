/*
 * jsonin.h - values of a JSON object with their ranges; the first that is
 * missing or out of range is remembered and what follows is skipped.
 */
#ifndef EPD_ENGINE_MODEL_JSONIN_H
#define EPD_ENGINE_MODEL_JSONIN_H

#include "base/err.h"
#include "base/json.h"

struct epd_jsonin {
	const char *what;	/* names the file */
	struct epd_why *why;
	int rc;
};

/* A default that says: the key must be there. */
#define EPD_NEEDED (-0x7fffffffL)

/* Value of a key; NULL if absent or null. */
const struct epd_json *epd_jsonin_key(const struct epd_json *j,
    const char *key);
/* The key in a, or else in b. */
const struct epd_json *epd_jsonin_either(const struct epd_json *a,
    const struct epd_json *b, const char *key);

/* An integer, or dflt if v is NULL; in [lo, hi].  0 after a failure. */
long epd_jsonin_long(struct epd_jsonin *in, const struct epd_json *v,
    const char *key, long dflt, long lo, long hi);
/* A number in [lo, hi], or dflt as it is. */
double epd_jsonin_real(struct epd_jsonin *in, const struct epd_json *v,
    const char *key, double dflt, double lo, double hi);
/* Up to max integers in [lo, hi] of an array, or one alone; the count. */
int epd_jsonin_list(struct epd_jsonin *in, const struct epd_json *v,
    const char *key, long *out, int max, long lo, long hi);

/* Fail with rc, unless something failed before. */
void epd_jsonin_fail(struct epd_jsonin *in, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
