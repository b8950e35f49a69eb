/* stop.c - each thread's own. */
#include "base/stop.h"

#include <stddef.h>

static _Thread_local struct {
	int (*is_over)(void *arg);
	void *arg;
	int deferred;
} mine;

void
epd_stop_heed(int (*is_over)(void *arg), void *arg)
{
	mine.is_over = is_over;
	mine.arg = arg;
}

void
epd_stop_defer(int on)
{
	mine.deferred = on;
}

int
epd_is_heeding(void)
{
	return mine.is_over && !mine.deferred;
}

int
epd_is_stopped(void)
{
	return mine.is_over && !mine.deferred ? mine.is_over(mine.arg) : 0;
}
