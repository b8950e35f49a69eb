/* alloc.h - every allocation of the library goes here, so that a test can make the nth fail. */
#ifndef EPD_BASE_ALLOC_H
#define EPD_BASE_ALLOC_H

#include <stddef.h>

void *epd_malloc(size_t n);
void *epd_calloc(size_t n, size_t size);	/* checks n * size */
void *epd_realloc(void *p, size_t n);		/* p stays valid on failure */
void *epd_alloc_aligned(size_t align, size_t n);
/*
 * An array with room for more than its n elements: p itself, or, when n is *cap,
 * p with *cap doubled.  NULL: no memory, and p is as it was.
 */
void *epd_grow(void *p, size_t n, size_t *cap, size_t each);
char *epd_strdup(const char *s);
char *epd_strndup(const char *s, size_t n);
void epd_free(void *p);				/* NULL is fine; keeps errno */

/* For tests: a nonzero return makes this allocation fail.  NULL to remove. */
void epd_alloc_hook(int (*refuse)(void *arg, size_t n), void *arg);

#endif
