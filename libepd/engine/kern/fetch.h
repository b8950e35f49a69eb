/*
 * fetch.h - what a tile fetches for later while it computes, as many bytes as it
 * uses: line after line where rows are short, one line of each column in turn
 * where they are long or only a part of them is used.
 */
#ifndef EPD_ENGINE_KERN_FETCH_H
#define EPD_ENGINE_KERN_FETCH_H

#include "engine/kern/fold.h"

/*
 * n lines a step, each `apart` from the last; from one step to the next `by`,
 * then `turn` - by, and so on in turn.
 */
struct fetch {
	const char *p;
	long n, apart, by, turn;
};

INLINE struct fetch
fetch(enum epd_type t, int cols, const struct epd_tile *g, long col)
{
	const long size = tsize(t), ldw = g->ldw * size, line = 64;
	const int linear = g->ldw == g->k && ldw <= LINEAR;
	struct fetch f = { (const char *)g->w + col * ldw + g->ahead,
	    cols * size / 4, linear ? line : ldw, 0, 0 };

	if (cols * size < 4)		/* half a line a step */
		f.n = 1, f.by = line / 2, f.turn = line;
	else if (linear)
		f.by = line * f.n, f.turn = 2 * f.by;
	else if (t == EPD_F32)		/* a line of each column a step */
		f.by = line, f.turn = 2 * line;
	else				/* of every other column */
		f.by = f.n * ldw, f.turn = line;
	return f;
}

#endif
