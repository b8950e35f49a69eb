/*
 * plan.c - Qwen2-VL and Qwen3-VL attend frame by frame in row order.  Qwen2.5
 * orders a frame's merged cells window by window and, in most blocks, keeps to
 * the window; in the others it sees the frame in that same order.
 */
#include <errno.h>

#include "base/alloc.h"
#include "engine/model/plan.h"

static void
append(struct epd_segments *s, long at, long n)
{
	s->s[s->n++] = (struct epd_segment){ at, n, s->pages };
	s->pages += (n + EPD_VISION_PAGE - 1) / EPD_VISION_PAGE;
}

/* Ranks of frame f's window at cell (y, x), sides clipped to the frame. */
static long
window(struct epd_plan *p, const struct epd_vision_arch *v, long f, long y,
    long x, long rank)
{
	const long h = p->h / v->merge, w = p->w / v->merge;
	const long unit = v->merge * v->merge;

	for (long i = y; i < y + v->window && i < h; i++)
		for (long j = x; j < x + v->window && j < w; j++)
			for (long u = 0; u < unit; u++)
				p->order[rank++] = ((f * h + i) * w + j) *
				    unit + u;
	return rank;
}

static void
cut_windows(struct epd_plan *p, const struct epd_vision_arch *v)
{
	const long h = p->h / v->merge, w = p->w / v->merge, s = v->window;
	long rank = 0, end;

	for (long f = 0; f < p->t; f++)
		for (long y = 0; y < h; y += s)
			for (long x = 0; x < w; x += s, rank = end) {
				end = window(p, v, f, y, x, rank);
				append(&p->windows, rank, end - rank);
			}
}

int
epd_plan_make(struct epd_plan *out, const struct epd_vision_arch *v, long t,
    long h, long w)
{
	struct epd_plan p = { .t = t, .h = h, .w = w, .n = t * h * w };
	long most = v->window ? t * ((h / v->merge - 1) / v->window + 1) *
	    ((w / v->merge - 1) / v->window + 1) : 0;

	p.order = epd_malloc((size_t)p.n * sizeof *p.order);
	p.frames.s = epd_malloc((size_t)t * sizeof *p.frames.s);
	p.windows.s = epd_malloc((size_t)most * sizeof *p.windows.s);
	if (!p.order || !p.frames.s || !p.windows.s) {
		epd_plan_free(&p);
		return -ENOMEM;
	}
	for (long f = 0; f < t; f++)
		append(&p.frames, f * h * w, h * w);
	if (v->window)
		cut_windows(&p, v);
	else
		for (long i = 0; i < p.n; i++)
			p.order[i] = i;
	*out = p;
	return 0;
}

void
epd_plan_free(struct epd_plan *p)
{
	epd_free(p->order);
	epd_free(p->frames.s);
	epd_free(p->windows.s);
}

void
epd_plan_place(const struct epd_plan *p, long merge, long row, long *y,
    long *x)
{
	const long unit = merge * merge, cell = row / unit, in = row % unit;
	const long h = p->h / merge, w = p->w / merge;

	*y = cell / w % h * merge + in / merge;
	*x = cell % w * merge + in % merge;
}
