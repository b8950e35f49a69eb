/*
 * codec.c - fp8 and int8 with a scale a row.
 *
 * 1. A row of zeros has scale 0 and codes 0.
 * 2. The scale is rounded up, so that no code overflows.
 * 3. What unpacks is finite: a scale that is not, or a code of none, is refused.
 */
#include "page/codec.h"

#include <math.h>
#include <string.h>

#define BF16_MAX 0x1.fep127f

enum { TYPE_F32, TYPE_BF16, PACKED = 2 + EPD_CODEC_ROW };

static uint32_t
bits_of(float x)
{
	uint32_t u;

	memcpy(&u, &x, sizeof u);
	return u;
}

static float
float_of(uint32_t u)
{
	float x;

	memcpy(&x, &u, sizeof x);
	return x;
}

/* ---- numbers ---- */

/* To nearest even among the multiples of the step that x's exponent has. */
static float
to_step(float x, float step)
{
	/* Below 2^22 steps: adding pushes the fraction out. */
	const float big = step * 12582912.0f;

	return (x + big) - big;
}

uint8_t
epd_e4m3_of(float x)
{
	const uint8_t sign = bits_of(x) >> 31 ? 0x80 : 0;
	float a = fabsf(x), r;
	int e;

	if (!(a <= 3.4e38f))
		return sign | 0x7f;
	if (a > 448.0f)
		a = 448.0f;
	e = (int)(bits_of(a) >> 23) - 127;
	if (e < -6)
		e = -6;
	/* Steps of 2^(e - 3); subnormals have those of 2^-9. */
	r = to_step(a, float_of((uint32_t)(e - 3 + 127) << 23));
	if (r >= float_of((uint32_t)(e + 1 + 127) << 23))
		e++;
	if (r < float_of((uint32_t)(-6 + 127) << 23))
		return sign | (uint8_t)(r * 512.0f);
	return sign | (uint8_t)((e + 7) << 3 |
	    (int)((r * float_of((uint32_t)(127 - e) << 23) - 1.0f) * 8.0f));
}

float
epd_e4m3_value(uint8_t code)
{
	const int e = code >> 3 & 15, m = code & 7;
	float a;

	if ((code & 0x7f) == 0x7f)
		a = NAN;
	else if (e == 0)
		a = (float)m / 512.0f;
	else
		a = (1.0f + (float)m / 8.0f) *
		    float_of((uint32_t)(e - 7 + 127) << 23);
	return code & 0x80 ? -a : a;
}

static float
read_value(const uint8_t *p, uint32_t type)
{
	uint32_t u = 0;

	if (type == TYPE_BF16) {
		memcpy((uint8_t *)&u + 2, p, 2);
		return float_of(u);
	}
	memcpy(&u, p, 4);
	return float_of(u);
}

static void
write_value(uint8_t *p, uint32_t type, float x)
{
	uint32_t u = bits_of(x);

	if (type == TYPE_BF16) {
		u += 0x7fff + (u >> 16 & 1);
		memcpy(p, (uint8_t *)&u + 2, 2);
		return;
	}
	memcpy(p, &u, 4);
}

/* amax / largest as bf16, rounded up. */
static uint16_t
scale_of(float amax, float largest)
{
	float s = amax / largest;
	uint32_t u = bits_of(s);

	if (amax == 0)
		return 0;
	/* The division may have rounded down. */
	if (s * largest < amax)
		u++;
	return (uint16_t)((u + 0xffff) >> 16);
}

/* ---- rows ---- */

struct code {
	float largest;
	uint8_t (*of)(float x);
	float (*value)(uint8_t code);
};

static uint8_t
int8_of(float x)
{
	if (x > 127.0f)
		x = 127.0f;
	if (x < -127.0f)
		x = -127.0f;
	return (uint8_t)(int8_t)to_step(x, 1.0f);
}

static float
int8_value(uint8_t code)
{
	/* -128 is no code. */
	return code == 0x80 ? NAN : (float)(int8_t)code;
}

static const struct code fp8 = { 448.0f, epd_e4m3_of, epd_e4m3_value };
static const struct code int8 = { 127.0f, int8_of, int8_value };

static size_t
width(uint32_t type)
{
	return type == TYPE_BF16 ? 2 : 4;
}

static int
pack_row(const struct code *c, uint8_t *out, const uint8_t *in, uint32_t type)
{
	float x[EPD_CODEC_ROW], amax = 0, s;
	uint16_t scale;

	for (size_t i = 0; i < EPD_CODEC_ROW; i++) {
		x[i] = read_value(in + i * width(type), type);
		if (!isfinite(x[i]))
			return EPD_ENUMERIC;
		if (fabsf(x[i]) > amax)
			amax = fabsf(x[i]);
	}
	scale = scale_of(amax, c->largest);
	s = float_of((uint32_t)scale << 16);
	memcpy(out, &scale, 2);
	for (size_t i = 0; i < EPD_CODEC_ROW; i++)
		out[2 + i] = scale ? c->of(x[i] / s) : 0;
	return 0;
}

static int
unpack_row(const struct code *c, uint8_t *out, uint32_t type,
    const uint8_t *in)
{
	uint16_t scale;
	float s;

	memcpy(&scale, in, 2);
	s = float_of((uint32_t)scale << 16);
	if (scale >> 15 || !isfinite(s))
		return EPD_ECORRUPT;
	for (size_t i = 0; i < EPD_CODEC_ROW; i++) {
		float x = c->value(in[2 + i]);

		if (isnan(x))
			return EPD_ECORRUPT;
		/* A code rounded up may lead beyond all that is finite. */
		x *= s;
		x = x > BF16_MAX ? BF16_MAX : x < -BF16_MAX ? -BF16_MAX : x;
		write_value(out + i * width(type), type, x);
	}
	return 0;
}

static uint64_t
bound(uint32_t type, uint64_t n)
{
	(void)type;
	return n / EPD_CODEC_ROW * PACKED;
}

static int64_t
pack(const struct code *c, void *out, const void *in, uint32_t type, uint64_t n)
{
	const size_t row = EPD_CODEC_ROW * width(type);
	int rc;

	for (uint64_t i = 0; i < n / EPD_CODEC_ROW; i++)
		if ((rc = pack_row(c, (uint8_t *)out + i * PACKED,
		    (const uint8_t *)in + i * row, type)) < 0)
			return rc;
	return (int64_t)bound(type, n);
}

static int
unpack(const struct code *c, void *out, uint32_t type, uint64_t n,
    const void *in, uint64_t nin)
{
	const size_t row = EPD_CODEC_ROW * width(type);
	int rc;

	if (nin != bound(type, n))
		return EPD_ECORRUPT;
	for (uint64_t i = 0; i < n / EPD_CODEC_ROW; i++)
		if ((rc = unpack_row(c, (uint8_t *)out + i * row, type,
		    (const uint8_t *)in + i * PACKED)) < 0)
			return rc;
	return 0;
}

static int64_t
pack_fp8(void *out, const void *in, uint32_t type, uint64_t n)
{
	return pack(&fp8, out, in, type, n);
}

static int
unpack_fp8(void *out, uint32_t type, uint64_t n, const void *in, uint64_t nin)
{
	return unpack(&fp8, out, type, n, in, nin);
}

static int64_t
pack_int8(void *out, const void *in, uint32_t type, uint64_t n)
{
	return pack(&int8, out, in, type, n);
}

static int
unpack_int8(void *out, uint32_t type, uint64_t n, const void *in, uint64_t nin)
{
	return unpack(&int8, out, type, n, in, nin);
}

const struct epd_codec epd_codec_fp8 = { "fp8", bound, pack_fp8, unpack_fp8 };
const struct epd_codec epd_codec_int8 = { "int8", bound, pack_int8, unpack_int8 };

/* ---- by name ---- */

int
epd_codec_name_ok(const char *name)
{
	const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");

	return n > 0 && n < EPD_CODEC_NAME && !name[n] && strcmp(name, "none");
}

const struct epd_codec *
epd_codec_of(const struct epd_codecs *more, const char *name)
{
	if (!epd_codec_name_ok(name))
		return NULL;
	for (int i = 0; more && i < more->n; i++)
		if (!strcmp(more->codec[i]->name, name))
			return more->codec[i];
	if (!strcmp(name, epd_codec_fp8.name))
		return &epd_codec_fp8;
	return strcmp(name, epd_codec_int8.name) ? NULL : &epd_codec_int8;
}
