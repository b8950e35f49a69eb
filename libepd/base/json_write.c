/*
 * json_write.c - JSON as Python's json.dumps writes it, ensure_ascii=False.
 */
#include <errno.h>
#include <float.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_node.h"
#include "base/said.h"

static void
escape(struct epd_buf *out, uint32_t c)
{
	static const char name[] = "\b\t\n\f\r\"\\", letter[] = "btnfr\"\\";
	const char *at = c && c < 0x80 ? strchr(name, (int)c) : NULL;

	if (at)
		epd_buf_fmt(out, "\\%c", letter[at - name]);
	else if (c < 0x10000)
		epd_buf_fmt(out, "\\u%04x", (unsigned)c);
	else
		epd_buf_fmt(out, "\\u%04x\\u%04x",
		    0xd800u + (unsigned)((c - 0x10000) >> 10),
		    0xdc00u + (unsigned)(c & 0x3ff));
}

/* shown: what drives or misleads a terminal is escaped too. */
static void
quote(struct epd_buf *out, struct epd_span s, int shown)
{
	const uint8_t *p = s.p;
	size_t from = 0, i = 0;

	epd_buf_str(out, "\"");
	while (i < s.n) {
		uint32_t code;
		size_t n = epd_utf8_next(p + i, s.n - i, &code);

		if (code >= 0x20 && code != '"' && code != '\\' &&
		    code != EPD_UTF8_BAD && (!shown || epd_is_shown(code))) {
			i += n;
			continue;
		}
		epd_buf_put(out, p + from, i - from);
		if (code == EPD_UTF8_BAD)
			epd_buf_str(out, "\xef\xbf\xbd");
		else
			escape(out, code);
		from = i += n;
	}
	if (s.n > from)
		epd_buf_put(out, p + from, s.n - from);
	epd_buf_str(out, "\"");
}

void
epd_json_quote(struct epd_buf *out, struct epd_span s)
{
	quote(out, s, 0);
}

/*
 * As repr() of a Python float: the fewest digits that read back (one more for
 * a few powers of two), plain from 1e-4 to below 1e16 and else with an exponent
 * of two digits or more.
 *
 * If 15 digits or fewer do, printing 15 gives those and zeros (DBL_DIG); only
 * below DBL_MIN must the fewest be looked for.  The digits are read back as a
 * whole number: what the locale has for a point is neither seen nor said.
 */
static void
put_real(struct epd_buf *out, double v)
{
	int n, x, p = fabs(v) < DBL_MIN ? 0 : DBL_DIG - 1;
	char e[48], digit[24], whole[40];

	for (;; p++) {
		snprintf(e, sizeof e, "%.*e", p, v);
		n = 0;
		for (x = 0; e[x] != 'e'; x++)
			if (e[x] >= '0' && e[x] <= '9')
				digit[n++] = e[x];
		x = atoi(e + x + 1);
		snprintf(whole, sizeof whole, "%.*se%d", n, digit, x - p);
		if (p == DBL_DECIMAL_DIG - 1 || strtod(whole, NULL) == fabs(v))
			break;
	}
	while (n > 1 && digit[n - 1] == '0')
		n--;
	if (signbit(v))
		epd_buf_str(out, "-");
	if (x < -4 || x >= 16) {
		epd_buf_put(out, digit, 1);
		if (n > 1) {
			epd_buf_str(out, ".");
			epd_buf_put(out, digit + 1, (size_t)n - 1);
		}
		epd_buf_fmt(out, "e%c%02d", x < 0 ? '-' : '+', abs(x));
		return;
	}
	if (x < 0)
		epd_buf_str(out, "0.");
	for (int i = -1; i > x; i--)
		epd_buf_str(out, "0");
	for (int i = 0; i < n || i <= x; i++) {
		epd_buf_put(out, i < n ? digit + i : "0", 1);
		if (i == x)
			epd_buf_str(out, i + 1 < n ? "." : ".0");
	}
}

/* The digits a real came with; json-c keeps them as user data. */
static void
dump_real(struct epd_buf *out, struct json_object *o)
{
	const char *text = json_object_get_userdata(o);
	size_t n, big = sizeof EPD_JSON_BIG - 1;

	if (!text) {
		put_real(out, json_object_get_double(o));
		return;
	}
	n = strlen(text);
	if (n >= big + 19 && !strcmp(text + n - big, EPD_JSON_BIG) &&
	    strspn(text, "-0123456789") == n - big)
		n -= big;
	epd_buf_put(out, text, n);
}

void
epd_json_dump(struct epd_buf *out, const struct epd_json *j)
{
	struct json_object *o = (struct json_object *)(uintptr_t)j;
	struct epd_json_iter it;
	size_t n;

	switch (json_object_get_type(o)) {
	case json_type_null:
		epd_buf_str(out, "null");
		break;
	case json_type_boolean:
		epd_buf_str(out, json_object_get_boolean(o) ? "true" : "false");
		break;
	case json_type_int:
		if (json_object_get_int64(o) < 0)
			epd_buf_fmt(out, "%lld",
			    (long long)json_object_get_int64(o));
		else
			epd_buf_fmt(out, "%llu",
			    (unsigned long long)json_object_get_uint64(o));
		break;
	case json_type_double:
		dump_real(out, o);
		break;
	case json_type_string:
		epd_json_quote(out, epd_json_bytes(j));
		break;
	case json_type_array:
		n = epd_json_count(j);
		epd_buf_str(out, "[");
		for (size_t i = 0; i < n; i++) {
			epd_buf_str(out, i ? ", " : "");
			epd_json_dump(out, epd_json_at(j, i));
		}
		epd_buf_str(out, "]");
		break;
	case json_type_object:
		it = epd_json_begin(j);
		epd_buf_str(out, "{");
		for (n = 0; epd_json_next(&it); n++) {
			epd_buf_str(out, n ? ", " : "");
			epd_json_quote(out, epd_span_str(it.key));
			epd_buf_str(out, ": ");
			epd_json_dump(out, it.value);
		}
		epd_buf_str(out, "}");
		break;
	}
}

/* The comma and the key that come before a value. */
static void
lead(struct epd_jw *w, const char *key)
{
	uint64_t bit = 1ull << w->depth;

	if (w->depth && w->filled & bit)
		epd_buf_str(w->out, ", ");
	w->filled |= bit;
	if (key) {
		quote(w->out, epd_span_str(key), 1);
		epd_buf_str(w->out, ": ");
	}
}

void
epd_jw_begin(struct epd_jw *w, const char *key, char bracket)
{
	lead(w, key);
	epd_buf_put(w->out, &bracket, 1);
	if (w->depth == 63) {
		w->out->failed = 1;
		return;
	}
	w->depth++;
	w->filled &= ~(1ull << w->depth);
}

void
epd_jw_end(struct epd_jw *w, char bracket)
{
	if (w->depth)
		w->depth--;
	if (bracket == '{')
		bracket = '}';
	else if (bracket == '[')
		bracket = ']';
	epd_buf_put(w->out, &bracket, 1);
}

void
epd_jw_str(struct epd_jw *w, const char *key, const char *v)
{
	lead(w, key);
	if (v)
		quote(w->out, epd_span_str(v), 1);
	else
		epd_buf_str(w->out, "null");
}

void
epd_jw_bytes(struct epd_jw *w, const char *key, struct epd_span v)
{
	lead(w, key);
	quote(w->out, v, 1);
}

void
epd_jw_int(struct epd_jw *w, const char *key, int64_t v)
{
	lead(w, key);
	epd_buf_fmt(w->out, "%lld", (long long)v);
}

void
epd_jw_uint(struct epd_jw *w, const char *key, uint64_t v)
{
	lead(w, key);
	epd_buf_fmt(w->out, "%llu", (unsigned long long)v);
}

void
epd_jw_real(struct epd_jw *w, const char *key, double v)
{
	lead(w, key);
	if (isfinite(v))
		put_real(w->out, v);
	else
		epd_buf_str(w->out, "null");
}

void
epd_jw_bool(struct epd_jw *w, const char *key, int v)
{
	lead(w, key);
	epd_buf_str(w->out, v ? "true" : "false");
}

void
epd_jw_hex(struct epd_jw *w, const char *key, const void *p, size_t n)
{
	static const char digit[] = "0123456789abcdef";
	const uint8_t *b = p;

	lead(w, key);
	epd_buf_str(w->out, "\"");
	for (size_t i = 0; i < n; i++) {
		epd_buf_put(w->out, &digit[b[i] >> 4], 1);
		epd_buf_put(w->out, &digit[b[i] & 15], 1);
	}
	epd_buf_str(w->out, "\"");
}
