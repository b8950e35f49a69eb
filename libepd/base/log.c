/*
 * log.c - one line of key=value pairs.
 *
 * The spaces of the format part the pairs, those inside a value do not: the
 * former are turned into a byte no value has before printf fills values in, and
 * back again when it is seen which values need quotes.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PART = '\x1f', LINE = 2048 };

struct line {
	char text[LINE];
	size_t n;
};

static void
put(struct line *l, char c)
{
	if (l->n < LINE - 1)
		l->text[l->n++] = c;
}

static int
is_plain(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= ' ' || s[i] == '"' ||
		    s[i] == '\\' || s[i] == 0x7f)
			return 0;
	return n > 0;
}

static void
put_pair(struct line *l, const char *s, size_t n)
{
	const char *eq = memchr(s, '=', n);
	size_t key = eq ? (size_t)(eq - s) + 1 : 0;

	for (size_t i = 0; i < key; i++)
		put(l, s[i]);
	s += key;
	n -= key;
	if (is_plain(s, n)) {
		for (size_t i = 0; i < n; i++)
			put(l, s[i]);
		return;
	}
	put(l, '"');
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '"' || c == '\\')
			put(l, '\\');
		put(l, c < ' ' || c == 0x7f ? '?' : s[i]);
	}
	put(l, '"');
}

void
epd_log(const struct epd_log *log, const char *fmt, ...)
{
	char parted[512], text[LINE];
	struct line l = { .n = 0 };
	const char *p = text;
	va_list ap;
	size_t n = strlen(fmt);

	if (!log || !log->fn)
		return;
	if (n >= sizeof parted)
		n = sizeof parted - 1;
	for (size_t i = 0; i < n; i++)
		parted[i] = fmt[i] == ' ' ? PART : fmt[i];
	parted[n] = '\0';
	va_start(ap, fmt);
	if (vsnprintf(text, sizeof text, parted, ap) < 0)
		text[0] = '\0';
	va_end(ap);
	for (;;) {
		n = strcspn(p, (char[]){ PART, '\0' });
		put_pair(&l, p, n);
		if (!p[n])
			break;
		put(&l, ' ');
		p += n + 1;
	}
	l.text[l.n] = '\0';
	log->fn(log->arg, l.text);
}
