/* window.h - a guest's windows on the server: which bytes of the host's they are. */
#ifndef TRANSPORT_WINDOW_H
#define TRANSPORT_WINDOW_H

#include <stdint.h>

#include "base/err.h"
#include "base/host.h"

struct epd_window {
	struct epd_opened is;
	uint64_t *start;	/* of each extent; one more: all bytes */
	/* By map: extents told so far, and the files that went along, by number. */
	uint32_t mapped, nfiles;
	size_t cap;
	int *file;
};

struct epd_windows {
	struct epd_window *w;
	size_t n, cap;
};

/*
 * Take one up.  Fails: EPD_ECREDIT (as many as there may be), EPD_EUSAGE (extents of
 * nothing, or one of this id is there), EPD_ETOOBIG, -ENOMEM.
 */
int epd_windows_add(struct epd_windows *ws, const struct epd_opened *o,
    uint32_t max_windows, uint32_t max_extents, struct epd_why *why);
struct epd_window *epd_windows_find(struct epd_windows *ws, uint64_t id);
void epd_windows_remove(struct epd_windows *ws, struct epd_window *w);
void epd_windows_free(struct epd_windows *ws);

/* Which extent offset lies in.  Only of one within. */
uint32_t epd_window_locate(const struct epd_window *w, uint64_t offset);
static inline uint64_t
epd_window_bytes(const struct epd_window *w)
{
	return w->start[w->is.n];
}

#endif
