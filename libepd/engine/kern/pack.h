/* pack.h - rows of x as a tile takes them. */
#ifndef EPD_ENGINE_KERN_PACK_H
#define EPD_ENGINE_KERN_PACK_H

#include "engine/kern/fold.h"

/* Lanes of a step in one pass: all, or so many that a tile fits in registers. */
INLINE int
pass_lanes(int rows)
{
	return rows * NR * NH > TILE ? VN : 16;
}

static void
kern_pack(enum epd_type t, int rows, long k, const float *x, long ldx,
    float *a)
{
	const int n = pass_lanes(rows) / VN;
	const long pass = rows * ((k + 15) / 16 * 16) / NH;
	vn v[NH];

	for (long s = 0; s < k; s += 16)
		for (int i = 0; i < rows; i++, a += n * VN) {
			for (int h = 0; h < NH; h++)
				v[h] = vldn(x + i * ldx + s + h * VN,
				    k - s - h * VN);
			vturnw(t, v);
			for (int h = 0; h < NH; h++)
				vst(a + h / n * pass + h % n * VN, v[h]);
		}
}

#endif
