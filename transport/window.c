/* window.c - a list of windows, each with the sums of its extents' sizes. */
#include "transport/window.h"

#include <errno.h>

#include "base/alloc.h"

struct epd_window *
epd_windows_find(struct epd_windows *ws, uint64_t id)
{
	for (size_t i = 0; i < ws->n; i++)
		if (ws->w[i].is.id == id)
			return ws->w + i;
	return NULL;
}

/* Where each extent begins; 0 if their bytes are no number. */
static int
add_up(uint64_t *start, const struct epd_opened *o)
{
	start[0] = 0;
	for (uint32_t i = 0; i < o->n; i++) {
		const struct epd_extent *e = o->extent + i;
		uint64_t end;

		if ((!e->p && e->fd < 0) || !e->bytes ||
		    __builtin_add_overflow(start[i], e->bytes, start + i + 1) ||
		    __builtin_add_overflow(e->at, e->bytes, &end) ||
		    end > INT64_MAX)
			return 0;
	}
	return 1;
}

int
epd_windows_add(struct epd_windows *ws, const struct epd_opened *o,
    uint32_t max_windows, uint32_t max_extents, struct epd_why *why)
{
	struct epd_window w = { .is = *o };
	struct epd_window *all;

	if (ws->n >= max_windows)
		return epd_why(why, EPD_ECREDIT, "%u windows are open, and no "
		    "more may be", max_windows);
	if (o->n > max_extents)
		return epd_why(why, EPD_ETOOBIG, "a window of %u stretches; %u "
		    "is the most", o->n, max_extents);
	if (epd_windows_find(ws, o->id))
		return epd_why(why, EPD_EUSAGE, "a window of this number is open");
	if (!(all = epd_grow(ws->w, ws->n, &ws->cap, sizeof *all)))
		return -ENOMEM;
	ws->w = all;
	if (!(w.start = epd_calloc((size_t)o->n + 1, sizeof *w.start)))
		return -ENOMEM;
	if (!add_up(w.start, o)) {
		epd_free(w.start);
		return epd_why(why, EPD_EUSAGE, "a window of no bytes there are");
	}
	ws->w[ws->n++] = w;
	return 0;
}

void
epd_windows_remove(struct epd_windows *ws, struct epd_window *w)
{
	epd_free(w->start);
	epd_free(w->file);
	*w = ws->w[--ws->n];
}

void
epd_windows_free(struct epd_windows *ws)
{
	while (ws->n)
		epd_windows_remove(ws, ws->w);
	epd_free(ws->w);
	*ws = (struct epd_windows){ 0 };
}

uint32_t
epd_window_locate(const struct epd_window *w, uint64_t offset)
{
	uint32_t low = 0, high = w->is.n;

	/* start[low] <= offset < start[high] */
	while (high - low > 1) {
		const uint32_t mid = low + (high - low) / 2;

		if (w->start[mid] <= offset)
			low = mid;
		else
			high = mid;
	}
	return low;
}
