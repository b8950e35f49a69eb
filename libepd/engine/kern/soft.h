/* soft.h - the online softmax of attention: one unit folded in, spans merged. */
#ifndef EPD_ENGINE_KERN_SOFT_H
#define EPD_ENGINE_KERN_SOFT_H

#include "engine/kern/lanes.h"
#include "engine/kern/mathf.h"

INLINE float
exp1(float x)
{
	float y[VN];

	vst(y, vexp(vset(x)));
	return y[0];
}

/* acc is padded to sixteens, so it needs no tails. */
INLINE void
scale_state(long d, struct epd_soft *st, float by)
{
	for (int j = 0; j < 16; j += VN)
		vst(st->sum + j, vmul(vld(st->sum + j), vset(by)));
	for (long i = 0; i < (d + 15) / 16 * 16; i += VN)
		vst(st->acc + i, vmul(vld(st->acc + i), vset(by)));
}

static void
soft_row(int n, float scale, float *s, struct epd_soft *st, long d)
{
	vn m[NH], sum[NH];
	float top;

	for (int t = n; t < EPD_UNIT; t++)
		s[t] = -INFINITY;
	for (int h = 0; h < NH; h++)
		m[h] = vset(-INFINITY);
	for (int t = 0; t < EPD_UNIT; t += 16)
		for (int h = 0; h < NH; h++) {
			float *p = s + t + h * VN;
			vn v = vmul(vld(p), vset(scale));

			vst(p, v);
			m[h] = vmax(m[h], v);
		}
	top = vtop(m);
	if (top > st->top) {
		/* Multiplying by 1 changes nothing, so it may be left out. */
		scale_state(d, st, exp1(st->top - top));
		st->top = top;
	}
	for (int h = 0; h < NH; h++)
		sum[h] = vld(st->sum + h * VN);
	for (int t = 0; t < EPD_UNIT; t += 16)
		for (int h = 0; h < NH; h++) {
			float *p = s + t + h * VN;
			vn v = vexp(vsub(vld(p), vset(st->top)));

			vst(p, v);
			sum[h] = vadd(sum[h], v);
		}
	for (int h = 0; h < NH; h++)
		vst(st->sum + h * VN, sum[h]);
}

static void
kern_soft(int rows, const int *n, float scale, float *s, struct epd_soft *st,
    long d)
{
	for (int i = 0; i < rows; i++) {
		if (n[i] > 0)
			soft_row(n[i], scale, s + i * EPD_UNIT, st + i, d);
		else
			memset(s + i * EPD_UNIT, 0, EPD_UNIT * sizeof *s);
	}
}

static void
kern_merge(long d, struct epd_soft *into, const struct epd_soft *from)
{
	float top = into->top > from->top ? into->top : from->top;
	float by = exp1(from->top - top);

	if (from->top == -INFINITY)
		return;
	scale_state(d, into, exp1(into->top - top));
	for (int j = 0; j < 16; j += VN)
		vst(into->sum + j, vfma(vld(from->sum + j), vset(by),
		    vld(into->sum + j)));
	for (long i = 0; i < (d + 15) / 16 * 16; i += VN)
		vst(into->acc + i, vfma(vld(from->acc + i), vset(by),
		    vld(into->acc + i)));
	into->top = top;
}

/* Adding +0 leaves one sign of zero, however many weights were 0. */
static void
kern_finish(enum epd_type t, long d, const struct epd_soft *st, float *y)
{
	vn s[NH], total;
	float v[16];

	for (int h = 0; h < NH; h++)
		s[h] = vld(st->sum + h * VN);
	total = vset(vsum(s));
	for (long i = 0; i < d; i += 16) {
		for (int h = 0; h < NH; h++)
			s[h] = vadd(vdiv(vld(st->acc + i + h * VN), total),
			    vset(0));
		vstw(t, v, s);
		memcpy(y + i, v, (size_t)(d - i < 16 ? d - i : 16) * 4);
	}
}

#endif
