/*
 * alloc.c - the C library's allocator behind a hook.  A request of no bytes
 * gives a pointer all the same, so that NULL always means failure.
 */
#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct {
	int (*refuse)(void *arg, size_t n);
	void *arg;
} hook;

static int
refused(size_t n)
{
	if (!hook.refuse || !hook.refuse(hook.arg, n))
		return 0;
	errno = ENOMEM;
	return 1;
}

void *
epd_malloc(size_t n)
{
	return refused(n) ? NULL : malloc(n ? n : 1);
}

void *
epd_calloc(size_t n, size_t size)
{
	size_t total;

	if (__builtin_mul_overflow(n, size, &total)) {
		errno = ENOMEM;
		return NULL;
	}
	return refused(total) ? NULL : calloc(total ? total : 1, 1);
}

void *
epd_realloc(void *p, size_t n)
{
	return refused(n) ? NULL : realloc(p, n ? n : 1);
}

void *
epd_alloc_aligned(size_t align, size_t n)
{
	void *p;
	int no;

	if (refused(n))
		return NULL;
	if (align < sizeof(void *))
		align = sizeof(void *);
	no = posix_memalign(&p, align, n ? n : 1);
	if (no) {
		errno = no;
		return NULL;
	}
	return p;
}

void *
epd_grow(void *p, size_t n, size_t *cap, size_t each)
{
	const size_t more = *cap ? 2 * *cap : 32;
	size_t bytes;

	if (n < *cap)
		return p;
	if (more < *cap || __builtin_mul_overflow(more, each, &bytes) ||
	    !(p = epd_realloc(p, bytes)))
		return NULL;
	*cap = more;
	return p;
}

char *
epd_strdup(const char *s)
{
	return epd_strndup(s, strlen(s));
}

char *
epd_strndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *p = epd_malloc(len + 1);

	if (!p)
		return NULL;
	memcpy(p, s, len);
	p[len] = '\0';
	return p;
}

void
epd_free(void *p)
{
	int saved = errno;

	free(p);
	errno = saved;
}

void
epd_alloc_hook(int (*refuse)(void *arg, size_t n), void *arg)
{
	hook.refuse = refuse;
	hook.arg = arg;
}
