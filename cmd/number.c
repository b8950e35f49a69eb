/* number.c - numbers, durations and sizes as people write them. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli.h"

int64_t
cli_int(struct cli *c, const char *option, const char *text, int64_t least,
    int64_t most)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (end == text || *end || strspn(text, " \t\n\v\f\r"))
		cli_usage(c, "%s: '%.40s' is not a whole number", option, text);
	if (errno || v < least || v > most)
		cli_usage(c, "%s: %.40s is not between %lld and %lld", option,
		    text, (long long)least, (long long)most);
	return v;
}

double
cli_real(struct cli *c, const char *option, const char *text, double least,
    double most)
{
	char *end;
	double v;

	errno = 0;
	v = strtod(text, &end);
	if (end == text || *end || strspn(text, " \t\n\v\f\r") || !isfinite(v))
		cli_usage(c, "%s: '%.40s' is not a number", option, text);
	if (v < least || v > most)
		cli_usage(c, "%s: %.40s is not between %g and %g", option,
		    text, least, most);
	return v;
}

uint64_t
cli_duration(struct cli *c, const char *option, const char *text)
{
	static const struct { const char *unit; uint64_t ms; } units[] = {
		{ "ms", 1 }, { "s", 1000 }, { "m", 60000 },
		{ "h", 3600000 }, { "d", 86400000 },
	};
	char *end;
	unsigned long long v;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !errno)
		for (size_t i = 0; i < sizeof units / sizeof *units; i++)
			if (!strcmp(end, units[i].unit) && v > 0 &&
			    v <= INT64_MAX / units[i].ms)
				return v * units[i].ms;
	cli_usage(c, "%s: '%.40s' is not a duration (500ms, 90s, 15m, 2h, 1d)",
	    option, text);
}

const char *
cli_bytes(char out[24], uint64_t n)
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)n;
	int i = 0;

	while (v >= 1024 && i < 4) {
		v /= 1024;
		i++;
	}
	snprintf(out, 24, i ? "%.1f %s" : "%.0f %s", v, unit[i]);
	return out;
}

const char *
cli_count(char out[CLI_COUNT], uint64_t n)
{
	char *p = out + CLI_COUNT;
	int digits = 0;

	*--p = '\0';
	do {
		if (digits && digits % 3 == 0)
			*--p = ',';
		*--p = (char)('0' + n % 10);
		digits++;
	} while (n /= 10);
	memmove(out, p, (size_t)(out + CLI_COUNT - p));
	return out;
}
