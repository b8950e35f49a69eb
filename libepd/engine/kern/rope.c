/*
 * rope.c - every step is one rounded double operation in a fixed order, so it
 * must be compiled without contraction and without value-changing options.  The
 * computing functions are not inlined: see fp.h.
 */
#include <string.h>

#include "engine/kern/fp.h"
#include "engine/kern/rope.h"

/* sum of r^(step k) / k-th factorial term, by Horner from the last. */
static double
horner(double x, const double *c, int n)
{
	double p = c[n - 1];

	for (int i = n - 2; i >= 0; i--)
		p = p * x + c[i];
	return p;
}

static double
nearest(double x)
{
	const double magic = 0x1.8p52;

	return (x + magic) - magic;
}

static void
sincos_of(float x, float *s, float *c)
{
	static const double ks[] = {
		1.0, -1 / 6.0, 1 / 120.0, -1 / 5040.0, 1 / 362880.0,
		-1 / 39916800.0, 1 / 6227020800.0, -1 / 1307674368000.0,
	}, kc[] = {
		1.0, -1 / 2.0, 1 / 24.0, -1 / 720.0, 1 / 40320.0,
		-1 / 3628800.0, 1 / 479001600.0, -1 / 87178291200.0,
		1 / 20922789888000.0,
	};
	/* pi/2 as 33 bits and the rest: n times the first part is exact. */
	double n = nearest(x * 0x1.45f306dc9c883p-1);
	double r = (x - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
	double z = r * r, sr = r * horner(z, ks, 8), cr = horner(z, kc, 9);
	long q = (long)n & 3;
	double sn = q & 1 ? cr : sr, cs = q & 1 ? sr : cr;

	*s = (float)(q & 2 ? -sn : sn);
	*c = (float)(q == 1 || q == 2 ? -cs : cs);
}

static double
natural_log(double x)
{
	const double ln2 = 0x1.62e42fefa39efp-1;
	double s, z, p = 0;
	int e = 0;

	for (; x > 1.5; x /= 2)
		e++;
	for (; x < 0.75; x *= 2)
		e--;
	s = (x - 1) / (x + 1);
	z = s * s;
	for (int k = 29; k >= 1; k -= 2)
		p = p * z + 1.0 / k;
	return 2 * s * p + e * ln2;
}

static double
exponential(double y)
{
	double n = nearest(y * 0x1.71547652b82fep0), p = 1, r;

	r = (y - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
	for (int k = 18; k >= 1; k--)
		p = p * r / k + 1;
	for (; n > 0; n--)
		p *= 2;
	for (; n < 0; n++)
		p /= 2;
	return p;
}

static __attribute__((noinline)) void
frequencies(float *inv, long n, double theta)
{
	double l = natural_log(theta);

	for (long i = 0; i < n / 2; i++)
		inv[i] = (float)exponential(-(2.0 * (double)i / (double)n) * l);
}

static __attribute__((noinline)) void
angles(long pairs, const float *inv, float pos, float *cs, float *sn)
{
	for (long i = 0; i < pairs; i++)
		sincos_of(pos * inv[i], sn + i, cs + i);
}

void
epd_rope_inv(float *inv, long n, double theta)
{
	unsigned long was = epd_fp_enter();

	frequencies(inv, n, theta);
	epd_fp_leave(was);
}

void
epd_rope_angles(long pairs, const float *inv, float pos, float *cs, float *sn)
{
	unsigned long was = epd_fp_enter();

	angles(pairs, inv, pos, cs, sn);
	epd_fp_leave(was);
}

void
epd_sincos(float x, float *s, float *c)
{
	const float one = 1;

	epd_rope_angles(1, &one, x, c, s);
}
