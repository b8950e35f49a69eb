/* long.h - RXE_LONG in the environment: the whole counts, not those of make check. */
#ifndef TESTS_RXE_LONG_H
#define TESTS_RXE_LONG_H

#include <stdlib.h>

static inline int
rxe_long(void)
{
	return getenv("RXE_LONG") != NULL;
}

#endif
