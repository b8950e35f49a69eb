/*
 * stop.c - stop strings in a stream.  held is the longest end of the text so
 * far that begins some stop string without being all of it.  Bytes are taken
 * one by one, so what is shown does not depend on how the text was cut: the
 * stop string met is the one that ends first, of those the longest.
 */
#include <errno.h>
#include <string.h>

#include "engine/sample/sample.h"

/* Bytes of held, taken from its end, that are the whole of some string. */
static size_t
whole(const struct epd_stop *s)
{
	size_t most = 0;

	for (int i = 0; i < s->n; i++) {
		size_t n = strlen(s->strings[i]);

		if (n > most && n <= s->held.n && !memcmp(s->strings[i],
		    s->held.p + s->held.n - n, n))
			most = n;
	}
	return most;
}

static int
begins_some(const struct epd_stop *s, const uint8_t *p, size_t n)
{
	for (int i = 0; i < s->n; i++)
		if (!strncmp(s->strings[i], (const char *)p, n))
			return 1;
	return 0;
}

/* Show the first n bytes held and keep the rest. */
static void
show(struct epd_stop *s, size_t n, struct epd_buf *out)
{
	if (!n)
		return;
	epd_buf_put(out, s->held.p, n);
	s->held.n -= n;
	memmove(s->held.p, s->held.p + n, s->held.n);
}

int
epd_stop_put(struct epd_stop *s, struct epd_span text, struct epd_buf *out)
{
	const uint8_t *p = text.p;

	for (size_t i = 0; i < text.n; i++) {
		size_t n;

		epd_buf_put(&s->held, p + i, 1);
		if (s->held.failed)
			return -ENOMEM;
		n = whole(s);
		if (n) {
			show(s, s->held.n - n, out);
			s->held.n = 0;
			return out->failed ? -ENOMEM : 1;
		}
		for (n = 0; n < s->held.n; n++)
			if (begins_some(s, s->held.p + n, s->held.n - n))
				break;
		show(s, n, out);
	}
	return out->failed ? -ENOMEM : 0;
}

void
epd_stop_end(struct epd_stop *s, struct epd_buf *out)
{
	show(s, s->held.n, out);
}

void
epd_stop_free(struct epd_stop *s)
{
	if (s)
		epd_buf_free(&s->held);
}
