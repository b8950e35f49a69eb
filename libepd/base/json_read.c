/*
 * json_read.c - the text is held to RFC 8259 here and json-c makes the tree.
 *
 * json-c alone, strict as it can be set, still takes NaN, 1. and 00, raw
 * control characters and overlong UTF-8, cuts a key at \u0000, and saturates
 * integers.  So each byte is looked at before json-c sees it, and:
 *
 * 1. what json-c is fed is the text, but for invariant 2;
 * 2. an integer of neither int64 nor uint64 is fed with EPD_JSON_BIG after it,
 *    which makes it a real that keeps its digits.
 */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "base/json.h"
#include "base/json_node.h"

enum { DEEPEST = 64, LONGEST = 1 << 30 };

struct scan {
	const uint8_t *start, *p, *end;
	const uint8_t *fed;		/* json-c has all before this */
	struct json_tokener *tok;
	struct json_object *root;
	const char *problem;
	int depth, rc;
};

static int value(struct scan *s);

static int
fail(struct scan *s, const char *problem)
{
	if (!s->problem)
		s->problem = problem;
	return 0;
}

static int
peek(const struct scan *s)
{
	return s->p < s->end ? *s->p : -1;
}

static void
space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' ||
	    *s->p == '\n' || *s->p == '\r'))
		s->p++;
}

static int
feed(struct scan *s, const void *p, size_t n)
{
	if (!n)
		return 1;
	s->root = json_tokener_parse_ex(s->tok, p, (int)n);
	switch (json_tokener_get_error(s->tok)) {
	case json_tokener_success:
	case json_tokener_continue:
		return 1;
	default:
		return fail(s, json_tokener_error_desc(
		    json_tokener_get_error(s->tok)));
	}
}

static int
feed_upto(struct scan *s, const uint8_t *p)
{
	const uint8_t *from = s->fed;

	s->fed = p;
	return feed(s, from, (size_t)(p - from));
}

static int
word(struct scan *s, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n))
		return fail(s, "a word that is not true, false or null");
	s->p += n;
	return 1;
}

static size_t
digits(struct scan *s)
{
	const uint8_t *from = s->p;

	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	return (size_t)(s->p - from);
}

/* Whether the digits make an integer that json-c keeps exactly. */
static int
fits(const uint8_t *p, size_t n, int negative)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(p[i] - '0'), &v))
			return 0;
	return !negative || v <= (uint64_t)INT64_MAX + 1;
}

static int
number(struct scan *s)
{
	int negative = peek(s) == '-', real = 0;
	const uint8_t *from = s->p += negative;
	size_t n = digits(s);

	if (!n)
		return fail(s, "a number without digits");
	if (n > 1 && *from == '0')
		return fail(s, "a number that begins with 0");
	if (peek(s) == '.') {
		real = 1;
		s->p++;
		if (!digits(s))
			return fail(s, "a number that ends with a point");
	}
	if (peek(s) == 'e' || peek(s) == 'E') {
		real = 1;
		s->p++;
		if (peek(s) == '+' || peek(s) == '-')
			s->p++;
		if (!digits(s))
			return fail(s, "an exponent without digits");
	}
	if (real || fits(from, n, negative))
		return 1;
	return feed_upto(s, s->p) &&
	    feed(s, EPD_JSON_BIG, sizeof EPD_JSON_BIG - 1);
}

/* Four digits of \u; -1 if there are not as many. */
static int
unit(const struct scan *s)
{
	int v = 0;

	if (s->end - s->p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int c = s->p[i];

		if (c >= '0' && c <= '9')
			c -= '0';
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			c = (c | 32) - 'a' + 10;
		else
			return -1;
		v = v << 4 | c;
	}
	return v;
}

static int
escape(struct scan *s, int is_key)
{
	int c, v;

	s->p++;
	c = peek(s);
	if (c < 0 || !strchr("\"\\/bfnrtu", c) || !c)
		return fail(s, "an unknown escape in a string");
	s->p++;
	if (c != 'u')
		return 1;
	v = unit(s);
	if (v < 0)
		return fail(s, "\\u without four hexadecimal digits");
	if (!v && is_key)
		return fail(s, "a key with \\u0000 in it");
	s->p += 4;
	return 1;
}

static int
string(struct scan *s, int is_key)
{
	for (s->p++;;) {
		int c = peek(s);
		uint32_t code;
		size_t n;

		if (c < 0)
			return fail(s, "a string without its end");
		if (c == '"') {
			s->p++;
			return 1;
		}
		if (c < 0x20)
			return fail(s, "a control character in a string");
		if (c == '\\') {
			if (!escape(s, is_key))
				return 0;
			continue;
		}
		n = epd_utf8_next(s->p, (size_t)(s->end - s->p), &code);
		if (code == EPD_UTF8_BAD)
			return fail(s, "broken UTF-8");
		s->p += n;
	}
}

static int
member(struct scan *s)
{
	space(s);
	if (peek(s) != '"')
		return fail(s, "a key that is not a string");
	if (!string(s, 1))
		return 0;
	space(s);
	if (peek(s) != ':')
		return fail(s, "a key without a colon after it");
	s->p++;
	return value(s);
}

static int
container(struct scan *s, int is_object)
{
	int close = is_object ? '}' : ']';

	if (s->depth == DEEPEST)
		return fail(s, "deeper than 64 levels");
	s->depth++;
	s->p++;
	space(s);
	if (peek(s) == close)
		goto out;
	for (;;) {
		if (!(is_object ? member(s) : value(s)))
			return 0;
		space(s);
		if (peek(s) == close)
			break;
		if (peek(s) != ',')
			return fail(s, is_object ?
			    "an object without , or } after a value" :
			    "an array without , or ] after a value");
		s->p++;
	}
out:
	s->p++;
	s->depth--;
	return 1;
}

static int
value(struct scan *s)
{
	space(s);
	switch (peek(s)) {
	case -1:
		return fail(s, "the end, where a value belongs");
	case '{':
		return container(s, 1);
	case '[':
		return container(s, 0);
	case '"':
		return string(s, 0);
	case 't':
		return word(s, "true");
	case 'f':
		return word(s, "false");
	case 'n':
		return word(s, "null");
	default:
		if (*s->p == '-' || (*s->p >= '0' && *s->p <= '9'))
			return number(s);
		return fail(s, "something that is no value");
	}
}

static int
document(struct scan *s)
{
	if (!value(s))
		return 0;
	space(s);
	if (s->p < s->end)
		return fail(s, "more after the value");
	/* The NUL ends a number that stands alone. */
	return feed_upto(s, s->p) && (json_tokener_get_error(s->tok) ==
	    json_tokener_success || feed(s, "", 1));
}

static int
line_of(const struct scan *s)
{
	int line = 1;

	for (const uint8_t *p = s->start; p < s->p; p++)
		line += *p == '\n';
	return line;
}

int
epd_json_parse(struct epd_json **out, struct epd_span text,
    const char *what, struct epd_why *why)
{
	struct scan s = { .start = text.p, .p = text.p, .fed = text.p };

	if (text.n > LONGEST)
		return epd_why(why, EPD_EFORMAT,
		    "%s: more than 1 GiB of JSON", what);
	if (!text.n)
		return epd_why(why, EPD_EFORMAT, "%s: empty, not JSON", what);
	s.end = s.p + text.n;
	/* Room above ours, for json-c counts its own way. */
	s.tok = json_tokener_new_ex(DEEPEST + 8);
	if (!s.tok)
		return -ENOMEM;
	json_tokener_set_flags(s.tok, JSON_TOKENER_STRICT);
	if (document(&s) && json_tokener_get_error(s.tok) ==
	    json_tokener_success) {
		json_tokener_free(s.tok);
		*out = (struct epd_json *)s.root;
		return 0;
	}
	json_object_put(s.root);
	json_tokener_free(s.tok);
	return epd_why(why, EPD_EFORMAT, "%s:%d: JSON has %s", what,
	    line_of(&s), s.problem ? s.problem : "no end");
}

void
epd_json_free(struct epd_json *root)
{
	json_object_put((struct json_object *)root);
}
