/*
 * log.h - the debug log of major operations (EPD_LOG=debug).  The library never
 * prints: whoever opens a store hands in a sink, or none.
 */
#ifndef EPD_BASE_LOG_H
#define EPD_BASE_LOG_H

/* line has no newline.  NULL fn: nothing is formatted. */
struct epd_log {
	void (*fn)(void *arg, const char *line);
	void *arg;
};

/*
 * "op=prefill state=w1/s3 tokens=27 ...": key=value pairs.  Values are quoted
 * if they are empty or hold spaces, control characters turned into '?', and a
 * line is cut at 2047 bytes.  Spaces in fmt part pairs, so no "% d".
 */
void epd_log(const struct epd_log *log, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
