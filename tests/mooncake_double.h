/*
 * mooncake_double.h - how a test steers the library that stands in for
 * Mooncake's.
 */
#ifndef TESTS_MOONCAKE_DOUBLE_H
#define TESTS_MOONCAKE_DOUBLE_H

#include <stddef.h>

/* Which form its struct of pins has. */
enum { DOUBLE_FIRST, DOUBLE_THEN, DOUBLE_NOW };

struct mooncake_double {
	int form;
	int setup_fails, puts_fail, gets_fail, registering_fails;
	int leased;		/* what is not forced to go stays */
	int forgets;		/* what is put is gone when it is looked for */
	int hangs;		/* set by double_hang */
	/* What was seen. */
	int calls, handles, registered, soft, hard;
};

struct mooncake_double *double_of(void);
void double_hang(int on);
/* An object as it lies there; double_get: 0 if it is absent. */
int double_set(const char *key, const void *p, size_t n);
size_t double_get(const char *key, void *p, size_t room);
void double_clear(void);

#endif
