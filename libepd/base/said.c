/* said.c - a character at a time, then a word at a time. */
#include "base/said.h"

#include <string.h>

#include "base/json_node.h"

enum { MOST = 1024 };			/* that is looked at */
static const char PATH[] = "(path)";

/* Controls of both sets, marks of direction, what has no width, ends of lines. */
int
epd_is_shown(uint32_t c)
{
	return c != EPD_UTF8_BAD && c >= ' ' && (c < 0x7f || c > 0x9f) &&
	    c != 0xad && c != 0x61c && c != 0xfeff &&
	    (c < 0x200b || c > 0x200f) && (c < 0x2028 || c > 0x202e) &&
	    (c < 0x2060 || c > 0x206f) && (c < 0xfff9 || c > 0xfffb) &&
	    (c < 0xe0000 || c > 0xe0fff);
}

/* Punctuation around a word is none of it. */
static int
is_around(char c)
{
	return c && strchr("\"'`()<>[]{},;:.!?", c) != NULL;
}

/* From a root or a home, or of more than two parts: "w1/s3" is none. */
static int
is_path(const char *s, size_t n)
{
	const char *slash = memchr(s, '/', n);

	if (!slash)
		return 0;
	return slash == s || *s == '~' || *s == '.' ||
	    memchr(slash + 1, '/', n - (size_t)(slash - s) - 1) != NULL;
}

struct out {
	char *p;
	size_t n, room;
	int full;
};

/* All of it or nothing, and nothing behind that. */
static void
put(struct out *o, const char *s, size_t n)
{
	if (o->full || n > o->room - 1 - o->n) {
		o->full = 1;
		return;
	}
	memcpy(o->p + o->n, s, n);
	o->n += n;
}

/* Whole characters, as many as there is room for. */
static void
put_text(struct out *o, const char *s, size_t n)
{
	uint32_t c;

	for (size_t i = 0, k; i < n; i += k) {
		k = epd_utf8_next((const uint8_t *)s + i, n - i, &c);
		put(o, s + i, k);
	}
}

static void
put_word(struct out *o, const char *s, size_t n)
{
	size_t from = 0, to = n;

	while (from < to && is_around(s[from]) && s[from] != '.')
		from++;
	while (to > from && is_around(s[to - 1]))
		to--;
	if (!is_path(s + from, to - from)) {
		put_text(o, s, n);
		return;
	}
	put_text(o, s, from);
	put(o, PATH, sizeof PATH - 1);
	put_text(o, s + to, n - to);
}

/* What may not be shown becomes '?'; the length, which is no longer. */
static size_t
tame(char *to, const uint8_t *p, size_t n)
{
	size_t k = 0, step;
	uint32_t c;

	for (size_t i = 0; i < n; i += step) {
		step = epd_utf8_next(p + i, n - i, &c);
		if (epd_is_shown(c)) {
			memcpy(to + k, p + i, step);
			k += step;
		} else {
			to[k++] = '?';
		}
	}
	return k;
}

int
epd_all_shown(const char *text)
{
	const size_t n = strlen(text);
	uint32_t c = ' ';

	for (size_t i = 0; i < n && epd_is_shown(c);)
		i += epd_utf8_next((const uint8_t *)text + i, n - i, &c);
	return epd_is_shown(c);
}

void
epd_said_tidy(char *s, size_t n)
{
	uint32_t c;

	for (size_t i = 0, k; i < n; i += k) {
		k = epd_utf8_next((const uint8_t *)s + i, n - i, &c);
		if (c != EPD_UTF8_BAD && !epd_is_shown(c))
			memset(s + i, '?', k);
	}
}

size_t
epd_said(char *out, size_t room, struct epd_span said)
{
	const size_t most = said.n < MOST ? said.n : MOST;
	char text[MOST];
	struct out o = { .p = out, .room = room, .full = 0 };
	const size_t n = most ? tame(text, said.p, most) : 0;

	for (size_t i = 0, k; i < n; i += k) {
		const char *space = memchr(text + i, ' ', n - i);

		k = space ? (size_t)(space - text) - i : n - i;
		put_word(&o, text + i, k);
		if (space)
			put_text(&o, text + i + k++, 1);
	}
	out[o.n] = '\0';
	if (!o.full && most == said.n)
		return o.n;
	if (o.n > room - 4)
		o.n = room - 4;
	while (o.n && ((uint8_t)out[o.n] & 0xc0) == 0x80)
		o.n--;
	memcpy(out + o.n, "...", 4);
	return o.n + 3;
}
