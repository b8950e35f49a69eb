/*
 * positions.c - a running base b: text takes (b, b, b) and adds one; an anchor
 * takes (b + time, b + row, b + column) and adds the larger of its height and
 * width in tokens.
 */
#include "engine/model/inside.h"

long
epd_anchor_tokens(const struct epd_model *m, const struct epd_anchor *a)
{
	const long merge = m->arch.vision.merge;

	return (long)a->t * (a->h / merge) * (a->w / merge);
}

/* Time of step i, cut down to whole positions as f32 gives it. */
static long
when(const struct epd_model *m, const struct epd_anchor *a, long i)
{
	float step = m->arch.vision.rate;

	switch (m->arch.rules->family) {
	case EPD_QWEN2_VL:
		return i;
	case EPD_QWEN25_VL:
		if (a->seconds > 0)
			step *= a->seconds;
		return (long)((float)i * step);
	default:
		return 0;
	}
}

long
epd_positions(const struct epd_model *m, const struct epd_anchor *anchors,
    int nanchors, long from, long n, int32_t (*pos)[3])
{
	const long merge = m->arch.vision.merge, end = from + n;
	long b = 0, at = 0;	/* base and index of the next token */

	for (int k = 0; k < nanchors && anchors[k].at < end; k++) {
		const struct epd_anchor *a = &anchors[k];
		const long h = a->h / merge, w = a->w / merge;
		const long tokens = epd_anchor_tokens(m, a);

		for (long i = at < from ? from : at; i < a->at; i++)
			for (int x = 0; x < 3; x++)
				pos[i - from][x] = (int32_t)(b + i - at);
		b += a->at - at;
		at = a->at;
		for (long i = at < from ? from - at : 0; i < tokens &&
		    at + i < end; i++) {
			int32_t *p = pos[at + i - from];

			p[0] = (int32_t)(b + when(m, a, i / (h * w)));
			p[1] = (int32_t)(b + i / w % h);
			p[2] = (int32_t)(b + i % w);
		}
		at += tokens;
		b += h > w ? h : w;
	}
	for (long i = at < from ? from : at; i < end; i++)
		for (int x = 0; x < 3; x++)
			pos[i - from][x] = (int32_t)(b + i - at);
	return at < end ? b + end - at : b;
}
