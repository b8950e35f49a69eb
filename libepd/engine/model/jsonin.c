/* jsonin.c - see jsonin.h.  The first failure's sentence stands. */
#include <stdarg.h>
#include <stdio.h>

#include "engine/model/jsonin.h"

const struct epd_json *
epd_jsonin_key(const struct epd_json *j, const char *key)
{
	const struct epd_json *v = epd_json_get(j, key);

	return epd_json_type(v) == EPD_JSON_NULL ? NULL : v;
}

const struct epd_json *
epd_jsonin_either(const struct epd_json *a, const struct epd_json *b,
    const char *key)
{
	const struct epd_json *v = epd_jsonin_key(a, key);

	return v ? v : epd_jsonin_key(b, key);
}

void
epd_jsonin_fail(struct epd_jsonin *in, int rc, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	if (in->rc)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	in->rc = epd_why(in->why, rc, "%s: %s", in->what, text);
}

long
epd_jsonin_long(struct epd_jsonin *in, const struct epd_json *v,
    const char *key, long dflt, long lo, long hi)
{
	long n = dflt;

	if (in->rc)
		return 0;
	if (v && epd_json_type(v) != EPD_JSON_INT)
		epd_jsonin_fail(in, EPD_EFORMAT, "%s is not an integer", key);
	else if (v)
		n = (long)epd_json_int(v, 0);
	else if (dflt == EPD_NEEDED)
		epd_jsonin_fail(in, EPD_EFORMAT, "%s is missing", key);
	if (!in->rc && (n < lo || n > hi))
		epd_jsonin_fail(in, EPD_EFORMAT,
		    "%s is %ld, not in %ld..%ld", key, n, lo, hi);
	return in->rc ? 0 : n;
}

double
epd_jsonin_real(struct epd_jsonin *in, const struct epd_json *v,
    const char *key, double dflt, double lo, double hi)
{
	enum epd_json_type t = epd_json_type(v);
	double x;

	if (in->rc)
		return 0;
	if (!v && dflt != (double)EPD_NEEDED)
		return dflt;
	if (!v)
		epd_jsonin_fail(in, EPD_EFORMAT, "%s is missing", key);
	else if (t != EPD_JSON_INT && t != EPD_JSON_REAL)
		epd_jsonin_fail(in, EPD_EFORMAT, "%s is not a number", key);
	x = epd_json_real(v, 0);
	if (!in->rc && !(x >= lo && x <= hi))
		epd_jsonin_fail(in, EPD_EFORMAT, "%s is %g, not in %g..%g",
		    key, x, lo, hi);
	return in->rc ? 0 : x;
}

int
epd_jsonin_list(struct epd_jsonin *in, const struct epd_json *v,
    const char *key, long *out, int max, long lo, long hi)
{
	size_t n = epd_json_count(v);

	if (in->rc || !v)
		return 0;
	if (epd_json_type(v) == EPD_JSON_INT) {
		out[0] = epd_jsonin_long(in, v, key, 0, lo, hi);
		return in->rc ? 0 : 1;
	}
	if (epd_json_type(v) != EPD_JSON_ARRAY || n > (size_t)max) {
		epd_jsonin_fail(in, EPD_EFORMAT,
		    "%s is not a list of at most %d", key, max);
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		const struct epd_json *at = epd_json_at(v, i);

		/* at may be JSON null, which is no integer either. */
		if (epd_json_type(at) != EPD_JSON_INT)
			epd_jsonin_fail(in, EPD_EFORMAT,
			    "%s holds what is not an integer", key);
		out[i] = epd_jsonin_long(in, at, key, 0, lo, hi);
	}
	return in->rc ? 0 : (int)n;
}
