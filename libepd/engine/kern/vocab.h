/* vocab.h - reductions over a vocabulary, in the same lanes and tree. */
#ifndef EPD_ENGINE_KERN_VOCAB_H
#define EPD_ENGINE_KERN_VOCAB_H

#include "engine/kern/mathf.h"

/* The largest value by vectors; then its first place, by the value's ==. */
static long
kern_top(long n, const float *x, float *value)
{
	vn m[NH];
	float top;
	int bad = 0;
	long i = 0;

	for (int h = 0; h < NH; h++)
		m[h] = vset(-INFINITY);
	for (; i + 16 <= n; i += 16)
		for (int h = 0; h < NH; h++) {
			vn v = vld(x + i + h * VN);

			bad |= vany_nan(v);
			m[h] = vmax(m[h], v);
		}
	top = vtop(m);
	for (; i < n; i++) {
		bad |= x[i] != x[i];
		top = x[i] > top ? x[i] : top;
	}
	if (bad || n <= 0)
		return -1;
	for (i = 0; x[i] < top; i++)
		;
	*value = x[i];
	return i;
}

static float
kern_sumexp(long n, const float *x, float top)
{
	const vn t = vset(top);
	vn s[NH];

	for (int h = 0; h < NH; h++)
		s[h] = vset(0);
	for (long i = 0; i < n; i += 16)
		for (int h = 0; h < NH; h++) {
			float last[VN];
			long m = n - i - h * VN;
			vn v;

			if (m >= VN) {
				v = vexp(vsub(vld(x + i + h * VN), t));
			} else if (m <= 0) {
				continue;
			} else {
				vst(last, vexp(vsub(vldn(x + i + h * VN, m),
				    t)));
				v = vldn(last, m);
			}
			s[h] = vadd(s[h], v);
		}
	return vsum(s);
}

static int
kern_finite(long n, const float *x)
{
	const vn end = vset(INFINITY);

	for (long i = 0; i < n; i += VN)
		if (!vall_lt(vabs(vldn(x + i, n - i)), end))
			return 0;
	return 1;
}

#endif
