/* kern_attend.c - a row, a block, branches, threads, page sizes: one set of bits. */
#include "tests/check.h"
#include "tests/unit/kern_attn.h"

static const long where[][2] = {	/* tokens before, rows */
	{0, 1}, {0, 20}, {15, 3}, {508, 9}, {1023, 2},
};

static void
shape(int kvh, int heads, int dim, int page, enum epd_type t, double *worst)
{
	for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
		struct set s;

		make_set(&s, (struct epd_kv){ t, kvh, dim, page }, heads,
		    where[i][0] + where[i][1]);
		sweep_attn(&s, where[i][0], where[i][1], worst);
		free_set(&s);
	}
}

TEST(attention_is_the_reference)
{
	double worst = 0;

	shape(2, 14, 64, 16, EPD_BF16, &worst);
	shape(1, 2, 128, 16, EPD_F32, &worst);
	shape(2, 2, 80, 64, EPD_BF16, &worst);
	shape(1, 3, 72, 32, EPD_F32, &worst);
	shape(1, 5, 20, 32, EPD_BF16, &worst);
	CHECK_INT(differing, 0);
	CHECK(worst < 2e-6);
	printf("# %ld values; at most %.2g from double\n", compared, worst);
}

/* The same tokens in pages of 16, 32 and 64. */
TEST(page_size_does_not_show)
{
	float q[4 * 48], out[3][4 * 48];
	unsigned seed = 3;

	for (int i = 0; i < 4 * 48; i++)
		q[i] = noise(&seed) * 4;
	for (int t = 0; t < 2; t++) {
		for (int i = 0; i < 3; i++) {
			struct epd_kv kv = { t ? EPD_BF16 : EPD_F32, 2, 48,
			    16 << i };
			struct epd_attn_row r = { q, out[i], NULL, 777 };
			struct set s;

			make_set(&s, kv, 4, 777);
			r.pages = s.table;
			CHECK_INT(epd_attend(epd_kern_get(NULL), pool_of(2),
			    &kv, 4, 0.25f, &r, 1), 0);
			free_set(&s);
		}
		CHECK(!memcmp(out[0], out[1], sizeof *out));
		CHECK(!memcmp(out[0], out[2], sizeof *out));
	}
}

TEST(a_page_is_laid_out_as_stated)
{
	const struct epd_kv kv = { EPD_F32, 2, 4, 32 };
	float page[2 * 2 * 4 * 32] = {0}, k[4] = {1, 2, 3, 4}, v[4] = {5, 6, 7, 8};

	CHECK_INT(epd_kv_bytes(&kv), sizeof page);
	epd_kv_put(&kv, page, 1, 18, k, v);
	for (int d = 0; d < 4; d++) {
		float *key = page + 2 * 4 * 32 + (1 * 4 + d) * 16 + 2;
		float *value = page + 3 * 4 * 32 + 18 * 4 + d;

		CHECK(*key == k[d] && *value == v[d]);
		*key = *value = 0;
	}
	for (size_t i = 0; i < sizeof page / 4; i++)
		CHECK(page[i] == 0);
}

TEST(bf16_rounds_to_even_and_keeps_denormals)
{
	static const uint32_t in[] = {
		0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x00008000,
		0x00018000, 0x80000001, 0x807fffff, 0x7f7fffff, 0x7f800000,
		0xff800000, 0x7f800001, 0xffffffff, 0x00010000,
	};
	static const uint16_t out[] = {
		0x3f80, 0x3f82, 0x3f81, 0x3f80, 0x0000, 0x0002, 0x8000, 0x8080,
		0x7f80, 0x7f80, 0xff80, 0x7fc0, 0xffff, 0x0001,
	};

	for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
		float f;
		uint16_t h;

		memcpy(&f, in + i, 4);
		epd_bf16_from_f32(&h, &f, 1);
		CHECK_INT(h, out[i]);
	}
	for (uint32_t u = 0; u < 65536; u++) {
		uint16_t h = (uint16_t)u, back;
		float f;

		epd_bf16_to_f32(&f, &h, 1);
		epd_bf16_from_f32(&back, &f, 1);
		CHECK_INT(back, f != f ? h | 0x40 : h);
	}
}

int main(int argc, char **argv) { return check_main(argc, argv); }
