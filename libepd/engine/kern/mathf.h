/*
 * mathf.h - exp, erf and the activations, lane by lane: one fixed sequence of
 * IEEE operations, so a value's bits depend on its argument only.
 *
 * Coefficients: minimax fits made for this file, rounded to f32.  A NaN stays a
 * NaN, but which one is not promised.
 */
#ifndef EPD_ENGINE_KERN_MATHF_H
#define EPD_ENGINE_KERN_MATHF_H

#include "engine/kern/vec.h"

/*
 * e^x.  0 below -87.33 (where the result would leave the normal numbers),
 * +inf above 88.37 (2^127.5).  x = n ln2 + r; adding 1.5*2^23 rounds to n and
 * leaves n in the low bits, where vpow2 takes it from.
 */
INLINE vn
vexp(vn x)
{
	const vn magic = vset(0x1.8p23f);
	vn m = vfma(x, vset(0x1.715476p0f), magic);
	vn n = vsub(m, magic);
	vn r = vfma(n, vset(-0x1.62e43p-1f), x);
	vn q = vset(0x1.6db644p-10f);

	r = vfma(n, vset(0x1.05c61p-29f), r);
	q = vfma(q, r, vset(0x1.123ce0p-7f));
	q = vfma(q, r, vset(0x1.55545cp-5f));
	q = vfma(q, r, vset(0x1.55548cp-3f));
	q = vfma(q, r, vset(0.5f));
	q = vfma(vmul(r, r), q, r);
	q = vmul(vadd(q, vset(1)), vpow2(m));
	q = vlt(x, vset(-87.33f), vset(0), q);
	return vlt(vset(88.37f), x, vset(INFINITY), q);
}

/* 1 / (1 + e^-x) */
INLINE vn
vsigmoid(vn x)
{
	return vdiv(vset(1), vadd(vset(1), vexp(vsub(vset(0), x))));
}

INLINE vn
verf(vn x)
{
	const vn four = vset(4);
	vn t = vabs(x), s = vmul(x, x), p, q;

	p = vset(-0x1.382296p-11f);
	p = vfma(p, s, vset(0x1.46c194p-8f));
	p = vfma(p, s, vset(-0x1.b676bap-6f));
	p = vfma(p, s, vset(0x1.ce1904p-4f));
	p = vfma(p, s, vset(-0x1.8126dcp-2f));
	p = vfma(p, s, vset(0x1.06eba6p-3f));
	p = vfma(p, x, x);

	/* 1 - e^(t q(t)); from 4 on the result is 1. */
	t = vlt(four, t, four, t);
	q = vset(-0x1.78e022p-17f);
	q = vfma(q, t, vset(0x1.527d30p-12f));
	q = vfma(q, t, vset(-0x1.dd6d3ap-9f));
	q = vfma(q, t, vset(0x1.855176p-6f));
	q = vfma(q, t, vset(-0x1.b3257cp-4f));
	q = vfma(q, t, vset(-0x1.45328cp-1f));
	q = vfma(q, t, vset(-0x1.0778dcp-3f));
	q = vsub(vset(1), vexp(vfma(q, t, vsub(vset(0), t))));
	q = vlt(x, vset(0), vsub(vset(0), q), q);
	return vlt(vset(0.92f), t, q, p);
}

INLINE vn vsilu(vn x) { return vmul(x, vsigmoid(x)); }
INLINE vn
vquick_gelu(vn x)
{
	return vmul(x, vsigmoid(vmul(vset(1.702f), x)));
}

/* (1 + tanh u) / 2 is sigmoid(2u), without the cancellation. */
INLINE vn
vgelu_tanh(vn x)
{
	vn u = vfma(vmul(vmul(x, x), x), vset(0.044715f), x);

	return vmul(x, vsigmoid(vmul(vset(0x1.988454p0f), u)));
}

INLINE vn
vgelu_erf(vn x)
{
	vn e = verf(vmul(x, vset(0x1.6a09e6p-1f)));

	return vmul(vmul(vset(0.5f), x), vadd(vset(1), e));
}

/* tanh: odd polynomial near 0, else 1 - 2/(e^2x + 1). */
INLINE vn
vtanh(vn x)
{
	vn t = vabs(x), s = vmul(x, x), p, q;

	p = vset(-0x1.95be9ep-8f);
	p = vfma(p, s, vset(0x1.5850bap-6f));
	p = vfma(p, s, vset(-0x1.b90d2ep-5f));
	p = vfma(p, s, vset(0x1.110c8ap-3f));
	p = vfma(p, s, vset(-0x1.555548p-2f));
	p = vfma(vmul(p, s), x, x);
	q = vadd(vexp(vadd(t, t)), vset(1));
	q = vsub(vset(1), vdiv(vset(2), q));
	q = vlt(x, vset(0), vsub(vset(0), q), q);
	return vlt(vset(0.55f), t, q, p);
}

#endif
