/*
 * stop.h - a thread's work may be called off: what waits or takes long asks now and
 * then whether it still has to.  By default nothing is called off.
 */
#ifndef EPD_BASE_STOP_H
#define EPD_BASE_STOP_H

/*
 * From now on this thread asks is_over(arg), often and under no lock of base's;
 * NULL: no more.
 */
void epd_stop_heed(int (*is_over)(void *arg), void *arg);
/* Till it is called with 0 nothing is over: what was begun is to be ended. */
void epd_stop_defer(int on);
/* Nonzero: it is over.  A wait for a lock ends as if its time had passed. */
int epd_is_stopped(void);
int epd_is_heeding(void);	/* it may come to that: who waits long looks now and then */

#endif
