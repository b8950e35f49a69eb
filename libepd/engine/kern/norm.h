/*
 * norm.h - norms, activations and rotation.  Sums over a row use the sixteen
 * lanes and their tree; a tail adds +0.
 */
#ifndef EPD_ENGINE_KERN_NORM_H
#define EPD_ENGINE_KERN_NORM_H

#include "engine/kern/mathf.h"

static void
kern_rmsnorm(long n, const float *x, const float *g, float eps, float *y)
{
	vn s[NH], r;

	for (int h = 0; h < NH; h++)
		s[h] = vset(0);
	for (long i = 0; i < n; i += 16)
		for (int h = 0; h < NH; h++) {
			long at = i + h * VN;
			vn v = vldn(x + at, n - at);

			s[h] = vfma(v, v, s[h]);
		}
	r = vset(1 / sqrtf(vsum(s) / (float)n + eps));
	for (long i = 0; i < n; i += VN)
		vstn(y + i, vmul(vmul(vldn(x + i, n - i), r),
		    vldn(g + i, n - i)), n - i);
}

static void
kern_layernorm(long n, const float *x, const float *g, const float *b,
    float eps, float *y)
{
	vn s[NH], q[NH], mean, r;

	for (int h = 0; h < NH; h++)
		s[h] = q[h] = vset(0);
	for (long i = 0; i < n; i += 16)
		for (int h = 0; h < NH; h++)
			s[h] = vadd(s[h], vldn(x + i + h * VN,
			    n - i - h * VN));
	mean = vset(vsum(s) / (float)n);
	for (long i = 0; i < n; i += VN)
		vstn(y + i, vsub(vldn(x + i, n - i), mean), n - i);
	for (long i = 0; i < n; i += 16)
		for (int h = 0; h < NH; h++) {
			long at = i + h * VN;
			vn v = vldn(y + at, n - at);

			q[h] = vfma(v, v, q[h]);
		}
	r = vset(1 / sqrtf(vsum(q) / (float)n + eps));
	for (long i = 0; i < n; i += VN)
		vstn(y + i, vfma(vmul(vldn(y + i, n - i), r),
		    vldn(g + i, n - i),
		    vldn(b + i, n - i)), n - i);
}

#define EACH(name, f) static void \
name(long n, const float *x, float *y) \
{ \
	for (long i = 0; i < n; i += VN) \
		vstn(y + i, f(vldn(x + i, n - i)), n - i); \
}
EACH(kern_exp, vexp)
EACH(kern_tanh, vtanh)
EACH(kern_erf, verf)
EACH(kern_quick_gelu, vquick_gelu)
EACH(kern_gelu_tanh, vgelu_tanh)
EACH(kern_gelu_erf, vgelu_erf)

static void
kern_silu(long n, const float *x, const float *up, float *y)
{
	for (long i = 0; i < n; i += VN)
		vstn(y + i, vmul(vsilu(vldn(x + i, n - i)),
		    vldn(up + i, n - i)), n - i);
}

static void
kern_add(long n, const float *x, float *y)
{
	for (long i = 0; i < n; i += VN)
		vstn(y + i, vadd(vldn(y + i, n - i),
		    vldn(x + i, n - i)), n - i);
}

/* Products rounded before the sum, as frameworks without fusion do it. */
static void
kern_rope(long n, const float *cs, const float *sn, float *x)
{
	long half = n / 2;

	for (long i = 0; i < half; i += VN) {
		long m = half - i;
		vn a = vldn(x + i, m);
		vn b = vldn(x + half + i, m);
		vn c = vldn(cs + i, m);
		vn s = vldn(sn + i, m);

		vstn(x + i, vsub(vmul(a, c), vmul(b, s)), m);
		vstn(x + half + i, vadd(vmul(b, c), vmul(a, s)), m);
	}
}

#endif
