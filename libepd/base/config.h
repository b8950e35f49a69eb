/*
 * config.h - the YAML configuration, with the sections of the RFC and ours.
 * An unknown section or key, or a value of the wrong type or out of range, is
 * an error that names file and line.  No aliases, no tags, at most 64 KiB.
 */
#ifndef EPD_BASE_CONFIG_H
#define EPD_BASE_CONFIG_H

#include <stdint.h>

#include "base/config_keys.h"
#include "base/err.h"
#include "base/span.h"

enum { EPD_CONFIG_STR = 256 };

/* The keys are in base/config_keys.h; scheduler.queues is a list of INTERACTIVE, HYBRID and THINKING, each once. */

struct epd_config {
#define X_B(f) int f;
#define X_I(f) int64_t f;
#define X_R(f) double f;
#define X_S(f) char f[EPD_CONFIG_STR];
#define X_E(f) char f[EPD_CONFIG_STR];
#define X(section, key, kind, field, dflt, lo, hi) X_##kind(field)
	EPD_CONFIG(X)
#undef X
#undef X_B
#undef X_I
#undef X_R
#undef X_S
#undef X_E
	char queues[3][16];	/* highest first; "" past the last */
};

void epd_config_default(struct epd_config *c);
/*
 * Read path over what c holds; on failure c is as before.
 * Fails: EPD_EUSAGE with file:line in why, -errno.
 */
int epd_config_read(struct epd_config *c, const char *path, struct epd_why *why);
/* The same of text in memory; name stands for the file's in why. */
int epd_config_parse(struct epd_config *c, struct epd_span text,
    const char *name, struct epd_why *why);

#endif
