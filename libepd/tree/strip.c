/*
 * strip.c - a row with room before and behind.
 *
 * 1. skip + n <= cap; room is NULL where cap is 0.
 * 2. A cut leaves no more room unused than used, so that what is cut away again
 *    and again gives its memory back.
 */
#include "tree/strip.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

static char *
room_for(size_t n, size_t size)
{
	return n > SIZE_MAX / size ? NULL : epd_malloc(n * size);
}

void
epd_strip_free(struct epd_strip *s)
{
	epd_free(s->room);
	*s = (struct epd_strip){ 0 };
}

void *
epd_strip_first(const struct epd_strip *s, size_t size)
{
	return s->n ? s->room + s->skip * size : NULL;
}

static void
copy(char *to, const struct epd_strip *s, size_t size, size_t from, size_t n)
{
	if (n)
		memcpy(to, s->room + (s->skip + from) * size, n * size);
}

int
epd_strip_new(struct epd_strip *out, size_t size, const void *p, size_t n)
{
	struct epd_strip s = { .n = n, .cap = n };

	if (n) {
		s.room = room_for(n, size);
		if (!s.room)
			return -ENOMEM;
		memcpy(s.room, p, n * size);
	}
	*out = s;
	return 0;
}

/* Room behind goes, and before if it is more than what is used. */
static void
tighten(struct epd_strip *s, size_t size)
{
	char *room;

	if (!s->n) {
		epd_strip_free(s);
		return;
	}
	if (s->skip > s->n) {
		memmove(s->room, s->room + s->skip * size, s->n * size);
		s->skip = 0;
	}
	if (s->cap == s->skip + s->n)
		return;
	room = epd_realloc(s->room, (s->skip + s->n) * size);
	/* Refused, it stays larger than it need be. */
	if (!room)
		return;
	s->room = room;
	s->cap = s->skip + s->n;
}

static size_t
shorter(const struct epd_strip *s, size_t at)
{
	return at < s->n - at ? at : s->n - at;
}

int
epd_strip_cut_room(const struct epd_strip *s, size_t size, size_t at,
    char **room)
{
	size_t n = shorter(s, at);
	char *p = n ? room_for(n, size) : NULL;

	if (n && !p)
		return -ENOMEM;
	*room = p;
	return 0;
}

void
epd_strip_cut(struct epd_strip *s, size_t size, size_t at, char *room,
    struct epd_strip *head)
{
	size_t n = shorter(s, at);
	struct epd_strip part = { room, 0, n, n };

	if (n == at) {
		copy(room, s, size, 0, n);
		s->skip += n;
		s->n -= n;
		tighten(s, size);
		*head = part;
	} else {
		copy(room, s, size, at, n);
		*head = *s;
		head->n -= n;
		tighten(head, size);
		*s = part;
	}
}

static int
fits_before(const struct epd_strip *s, const struct epd_strip *head)
{
	return s->skip >= head->n;
}

static int
fits_behind(const struct epd_strip *s, const struct epd_strip *head)
{
	return head->cap - head->skip - head->n >= s->n;
}

int
epd_strip_join_room(const struct epd_strip *s, size_t size,
    const struct epd_strip *head, struct epd_strip *room)
{
	struct epd_strip r = { 0 };

	if (!fits_before(s, head) && !fits_behind(s, head)) {
		/* To spare at the longer's far end: where the next one joins. */
		r.n = head->n + s->n;
		r.cap = r.n + r.n / 2;
		r.skip = head->n < s->n ? r.n / 2 : 0;
		r.room = room_for(r.cap, size);
		if (!r.room)
			return -ENOMEM;
	}
	*room = r;
	return 0;
}

void
epd_strip_join(struct epd_strip *s, size_t size, struct epd_strip *head,
    struct epd_strip *room)
{
	if (room->room) {
		copy(room->room + room->skip * size, head, size, 0, head->n);
		copy(room->room + (room->skip + head->n) * size, s, size, 0,
		    s->n);
		epd_strip_free(head);
		epd_strip_free(s);
		*s = *room;
	} else if (fits_before(s, head)) {
		s->skip -= head->n;
		s->n += head->n;
		if (head->n)
			memcpy(s->room + s->skip * size,
			    head->room + head->skip * size, head->n * size);
		epd_strip_free(head);
	} else {
		copy(head->room + (head->skip + head->n) * size, s, size, 0,
		    s->n);
		head->n += s->n;
		epd_strip_free(s);
		*s = *head;
	}
	*head = *room = (struct epd_strip){ 0 };
}
