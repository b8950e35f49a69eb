/* thread.h - threads of ours, which leave signals to those of the caller. */
#ifndef EPD_BASE_THREAD_H
#define EPD_BASE_THREAD_H

#include <pthread.h>

/*
 * Begin one: no signal is taken in it but SIGBUS, which is of what itself does
 * (cut.h).  -errno.
 */
int epd_thread_begin(pthread_t *out, void *(*fn)(void *), void *arg);

#endif
