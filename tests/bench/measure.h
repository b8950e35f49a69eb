/*
 * measure.h - what a program of the bench does beside its work: ends aloud where
 * a call fails, and reads the clock.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"

static struct epd_why why;

static void
must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
	    *why.text ? why.text : epd_strerror(rc));
	exit(1);
}

/* Seconds since the machine started. */
static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
