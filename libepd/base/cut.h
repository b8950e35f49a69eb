/*
 * cut.h - mapped files that somebody else cuts short.  The next load of what is gone
 * would end the process by SIGBUS; here it finds zeros, and it is counted.
 */
#ifndef EPD_BASE_CUT_H
#define EPD_BASE_CUT_H

/*
 * Have it so in this process.  A program that embeds the library may: one with a
 * handler of its own for SIGBUS keeps that, and says nothing here.  -errno.
 */
int epd_cut_catch(void);
/*
 * How many pages of memory were lost so.  What was computed from mapped files while
 * this grew, or is from those mappings afterwards, must not be kept.
 */
unsigned epd_cut_count(void);

#endif
