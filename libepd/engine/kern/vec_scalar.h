/* vec_scalar.h - vec.h one lane at a time, on any machine. */
#ifndef EPD_ENGINE_KERN_VEC_SCALAR_H
#define EPD_ENGINE_KERN_VEC_SCALAR_H

enum { VN = 1, NH = 16, REGISTERS = 16 };
typedef float vn;

INLINE float vbits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
INLINE uint32_t vword(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
INLINE vn vset(float x) { return x; }
INLINE vn vld(const float *p) { float x; memcpy(&x, p, 4); return x; }
INLINE void vst(float *p, vn x) { memcpy(p, &x, 4); }
INLINE vn vadd(vn a, vn b) { return a + b; }
INLINE vn vsub(vn a, vn b) { return a - b; }
INLINE vn vmul(vn a, vn b) { return a * b; }
INLINE vn vdiv(vn a, vn b) { return a / b; }
INLINE vn vmax(vn a, vn b) { return a > b ? a : b; }
INLINE vn vfma(vn a, vn b, vn c) { return fmaf(a, b, c); }
INLINE vn vabs(vn a) { return vbits(vword(a) & 0x7fffffff); }
INLINE vn vlt(vn a, vn b, vn x, vn y) { return a < b ? x : y; }
INLINE int vall_lt(vn a, vn b) { return a < b; }
INLINE int vany_nan(vn a) { return a != a; }
INLINE vn vpow2(vn x) { return vbits((vword(x) << 23) + 0x3f800000); }

INLINE vn
vld_bf16(const void *p)
{
	uint16_t h;

	memcpy(&h, p, 2);
	return vbits((uint32_t)h << 16);
}

INLINE vn
vld_f16(const void *p)
{
	uint16_t h;
	uint32_t m, e;
	float f;

	memcpy(&h, p, 2);
	m = h & 0x3ff;
	e = h >> 10 & 31;
	if (e == 0)
		f = (float)m * 0x1p-24f;
	else if (e == 31)
		f = vbits(0x7f800000 | m << 13);
	else
		f = vbits((e + 112) << 23 | m << 13);
	return h >> 15 ? -f : f;
}

/* As AVX2 has them, see there; here is nothing to hold back. */
INLINE vn vfetch(const float *p) { return vld(p); }
INLINE vn vspread(const float *p) { return vset(*p); }

/* The fixed tree: s[j] += s[j+8], then +4, +2, +1. */
INLINE float
vsum(const vn s[NH])
{
	float x[16];

	for (int j = 0; j < 16; j++)
		x[j] = s[j];
	for (int n = 8; n > 0; n /= 2)
		for (int j = 0; j < n; j++)
			x[j] += x[j + n];
	return x[0];
}

/* The largest lane; any order gives the same bits, zeros' signs apart. */
INLINE float
vtop(const vn s[NH])
{
	float m = s[0];

	for (int j = 1; j < 16; j++)
		m = m > s[j] ? m : s[j];
	return m;
}

#endif
