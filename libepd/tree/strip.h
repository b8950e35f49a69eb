/*
 * strip.h - elements in a row, cut and joined: what an edge holds.  Cutting
 * copies the shorter part only.  For the files of this room.
 *
 * What needs room is asked for first and may fail; the rest then cannot.
 */
#ifndef EPD_TREE_STRIP_H
#define EPD_TREE_STRIP_H

#include <stddef.h>

/* n elements from the skip'th on, of cap that room has; zeros: none. */
struct epd_strip {
	char *room;
	size_t skip, n, cap;
};

void epd_strip_free(struct epd_strip *s);	/* and zero it */
/* The first element; NULL if there is none. */
void *epd_strip_first(const struct epd_strip *s, size_t size);
/* A new one, copied from p.  -ENOMEM. */
int epd_strip_new(struct epd_strip *out, size_t size, const void *p, size_t n);

/* Room to cut s before its at'th.  NULL if none is needed.  -ENOMEM. */
int epd_strip_cut_room(const struct epd_strip *s, size_t size, size_t at,
    char **room);
/* The first at go to head. */
void epd_strip_cut(struct epd_strip *s, size_t size, size_t at, char *room,
    struct epd_strip *head);

/* Room for head and s in one; with some to spare where it is new.  -ENOMEM. */
int epd_strip_join_room(const struct epd_strip *s, size_t size,
    const struct epd_strip *head, struct epd_strip *room);
/* s becomes head and s; head is empty then, and room used up. */
void epd_strip_join(struct epd_strip *s, size_t size, struct epd_strip *head,
    struct epd_strip *room);

#endif
