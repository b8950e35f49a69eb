/* widen.c - stored numbers to floats, exactly, without arithmetic on them. */
#include <string.h>

#include "engine/model/weights.h"

static uint32_t
from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t e = h >> 10 & 31, m = h & 0x3ff;

	if (e == 31)
		return sign | 0x7f800000 | m << 13;
	if (e == 0 && m == 0)
		return sign;
	if (e == 0) {
		for (e = 1; !(m & 0x400); e--)
			m <<= 1;
		m &= 0x3ff;
	}
	return sign | (e + 112) << 23 | m << 13;
}

void
epd_widen(float *to, enum epd_type type, const void *p, long n)
{
	const char *from = p;
	uint16_t h;
	uint32_t u;

	if (n <= 0)
		return;
	if (type == EPD_F32) {
		memcpy(to, p, (size_t)n * 4);
		return;
	}
	if (type == EPD_F16) {
		for (long i = 0; i < n; i++) {
			memcpy(&h, from + 2 * i, 2);
			u = from_f16(h);
			memcpy(to + i, &u, 4);
		}
		return;
	}
	for (long i = 0; i < n; i++) {
		memcpy(&h, from + 2 * i, 2);
		u = (uint32_t)h << 16;
		memcpy(to + i, &u, 4);
	}
}

void
epd_weight_row(float *to, const struct epd_weight *w, long i)
{
	const long size = w->type == EPD_F32 ? 4 : 2;

	epd_widen(to, w->type, (const char *)w->data + i * w->k * size, w->k);
}
