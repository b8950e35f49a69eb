/*
 * cmd_number.c - numbers and durations as typed, the first byte saying which.
 * What is taken is in range and means what it says; what a person would write
 * is taken.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static jmp_buf refused;

/* Takes the place of the one that ends the process. */
void
cli_usage(struct cli *c, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	(void)c;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (strncmp(text, "-x: ", 4))
		abort();
	longjmp(refused, 1);
}

static int
digits(const char *s, size_t most)
{
	size_t n = strspn(s, "0123456789");

	return n > 0 && n <= most && !s[n];
}

static void
whole(const char *text, int which)
{
	static const int64_t range[][2] = {
		{ 1, 256 }, { -1, INT32_MAX }, { 0, INT64_MAX },
		{ 1, UINT32_MAX },
	};
	const int64_t *r = range[which % 4];
	int64_t v;

	if (setjmp(refused)) {
		if (digits(text, 18) && atoll(text) >= r[0] && atoll(text) <= r[1])
			abort();
		return;
	}
	v = cli_int(NULL, "-x", text, r[0], r[1]);
	if (v < r[0] || v > r[1])
		abort();
	if (!digits(text + (*text == '-' || *text == '+'), 400))
		abort();
	if (digits(text, 18) && v != atoll(text))
		abort();
}

static void
real(const char *text)
{
	double v;

	if (setjmp(refused)) {
		if (digits(text, 2))
			abort();
		return;
	}
	v = cli_real(NULL, "-x", text, 0, 100);
	if (!isfinite(v) || v < 0 || v > 100 || strchr(" \t\n", *text))
		abort();
}

static void
duration(const char *text)
{
	size_t n = strspn(text, "0123456789");
	uint64_t v;

	if (setjmp(refused)) {
		if (n && n < 9 && atoll(text) > 0 && text[n] &&
		    strchr("smhd", text[n]) && !text[n + 1])
			abort();
		return;
	}
	v = cli_duration(NULL, "-x", text);
	if (!v || v > INT64_MAX || !n || v < strtoull(text, NULL, 10))
		abort();
	if (!strcmp(text + n, "ms") ? v != strtoull(text, NULL, 10) :
	    v % 1000 || strlen(text + n) != 1)
		abort();
}

static void
bytes(const uint8_t *p, size_t n)
{
	char text[24];
	uint64_t v = 0;

	memcpy(&v, p, n < sizeof v ? n : sizeof v);
	if (cli_bytes(text, v) != text || !memchr(text, 'B', sizeof text))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char text[512];

	if (n < 1 || n >= sizeof text)
		return 0;
	memcpy(text, p + 1, n - 1);
	text[n - 1] = '\0';
	switch (p[0] % 8) {
	case 0: case 1: case 2: case 3: whole(text, p[0]); break;
	case 4: real(text); break;
	case 5: case 6: duration(text); break;
	default: bytes(p + 1, n - 1);
	}
	return 0;
}
