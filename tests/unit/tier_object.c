/* tier_object - a page as an object: only that page comes out of it, whole. */
#include "tests/check.h"
#include "tier_lots.h"

static const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, LOTS_BF16, 16,
    2048 };
static struct lots k;
static uint8_t out[4096], in[8192];
static struct epd_why why;

enum { KEYLESS, KEYED, SORTS };

static struct epd_span
key(int sort)
{
	return sort == KEYED ? epd_span_str("0123456789abcdef") : epd_span("", 0);
}

static int64_t
pack(long i, int level, int sort)
{
	memset(in, 0xee, sizeof in);
	return epd_object_pack(in, &k.lot, i, k.page[i], level, key(sort));
}

static int
unpack(long i, size_t n, int sort)
{
	uint8_t *exact = malloc(n ? n : 1);
	int rc;

	if (!exact)
		return -1;
	memcpy(exact, in, n);
	memset(out, 0xa5, sizeof out);
	*why.text = '\0';
	rc = epd_object_unpack(out, &k.lot, i, exact, n, key(sort), &why);
	free(exact);
	if (!rc && (memcmp(out, k.page[i], shape.bytes) || out[shape.bytes] !=
	    0xa5))
		return -1;	/* a lie */
	return rc;
}

static void
seal_again(void)
{
	memset(in + 96, 0, 32);
	epd_put_le(in + 96, epd_xxh3_64(in, 96), 8);
}

TEST(there_and_back)
{
	for (int sort = 0; sort < SORTS; sort++)
		for (int level = 0; level < 4; level += 3)
			for (long i = 0; i < 3; i++) {
				const int64_t n = pack(i, level, sort);

				CHECK(n > EPD_OBJECT_HEAD);
				CHECK((size_t)n <= epd_object_bound(&shape));
				CHECK(level ? n < EPD_OBJECT_HEAD + 2048 :
				    n == EPD_OBJECT_HEAD + 2048);
				CHECK_INT(epd_object_bytes(in, &shape), n);
				CHECK_INT(unpack(i, (size_t)n, sort), 0);
			}
}

TEST(what_does_not_get_smaller_goes_as_it_is)
{
	uint64_t x = 1;
	uint8_t *p = (uint8_t *)(uintptr_t)k.page[0];
	const uint64_t was = k.entry[0].sum;
	uint8_t keep[2048];

	memcpy(keep, p, sizeof keep);
	for (int i = 0; i < 2048; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		epd_put_le(p + i, x, 8);
	}
	k.entry[0].sum = epd_xxh3_64(p, 2048);
	CHECK_INT(pack(0, 1, KEYLESS), EPD_OBJECT_HEAD + 2048);
	CHECK_INT(unpack(0, EPD_OBJECT_HEAD + 2048, KEYLESS), 0);
	memcpy(p, keep, sizeof keep);
	k.entry[0].sum = was;
}

/* One field of what is wanted is another; it says which. */
TEST(kind17_anothers_object_is_refused_and_why_is_told)
{
	const struct epd_lot was = k.lot;
	const struct epd_page_entry e = k.entry[0];
	const size_t n = (size_t)pack(0, 1, KEYLESS);

	CHECK_INT(unpack(1, n, KEYLESS), EPD_ECORRUPT);
	CHECK_STR(why.text, "it is another page's");
	for (int f = 0; f < 3; f++) {
		uint32_t *at[] = { &k.lot.shape.kind, &k.lot.shape.type,
			&k.lot.shape.tokens };

		*at[f] += 1;
		CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
		CHECK_STR(why.text, "it has another layout");
		k.lot = was;
	}
	k.lot.shape.bytes = 2040;
	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	CHECK_INT(epd_object_bytes(in, &k.lot.shape), EPD_ECORRUPT);
	k.lot = was;
	k.entry[0].rows = 3;
	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	CHECK_STR(why.text, "it has other rows");
	k.entry[0] = e;
	k.entry[0].sum++;
	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	CHECK_STR(why.text, "it has another sum");
	k.entry[0] = e;
	k.lot.given = 1;
	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	CHECK_STR(why.text, "it comes from elsewhere");
	k.lot = was;
	CHECK_INT(unpack(0, n, KEYLESS), 0);
}

TEST(every_bit_damaged_is_refused_or_the_right_bytes)
{
	for (int sort = 0; sort < SORTS; sort++)
		for (int level = 0; level < 2; level++) {
			const size_t n = (size_t)pack(0, level, sort);

			for (size_t i = 0; i < n * 8; i++) {
				int rc;

				in[i / 8] ^= (uint8_t)(1 << i % 8);
				rc = unpack(0, n, sort);
				in[i / 8] ^= (uint8_t)(1 << i % 8);
				CHECK(rc != -1);
				/* zstd has bits that mean nothing; keys mind. */
				CHECK(rc || (sort == KEYLESS && level &&
				    i >= EPD_OBJECT_HEAD * 8));
			}
		}
}

TEST(cut_or_longer_it_is_refused)
{
	for (int level = 0; level < 2; level++) {
		const size_t n = (size_t)pack(0, level, KEYLESS);

		for (size_t i = 0; i < n; i++)
			CHECK_INT(unpack(0, i, KEYLESS), EPD_ECORRUPT);
		for (size_t i = n + 1; i < n + 64; i++)
			CHECK_INT(unpack(0, i, KEYLESS), EPD_ECORRUPT);
	}
}

TEST(without_the_key_nothing_is_made_that_is_taken)
{
	size_t n = (size_t)pack(0, 1, KEYED);

	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	CHECK_STR(why.text, "its seal is broken");
	CHECK_INT(epd_object_unpack(out, &k.lot, 0, in, n,
	    epd_span_str("0123456789abcdeF"), &why), EPD_ECORRUPT);
	n = (size_t)pack(0, 1, KEYLESS);
	CHECK_INT(unpack(0, n, KEYED), EPD_ECORRUPT);
}

TEST(a_head_that_lies_of_its_payload_is_refused)
{
	size_t n = (size_t)pack(0, 1, KEYLESS);

	/* A packing nobody knows. */
	epd_put_le(in + 72, 7, 4);
	seal_again();
	CHECK_INT(unpack(0, n, KEYLESS), EPD_EKIND);
	/* Unpacked, but shorter than the page. */
	epd_put_le(in + 72, 0, 4);
	seal_again();
	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	/* More than is there, and more than can be. */
	n = (size_t)pack(0, 1, KEYLESS);
	epd_put_le(in + 80, n, 8);
	seal_again();
	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	epd_put_le(in + 80, UINT64_MAX, 8);
	seal_again();
	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	CHECK_INT(epd_object_bytes(in, &shape), EPD_ECORRUPT);
	/* A frame that says it becomes more than the page. */
	n = (size_t)pack(0, 1, KEYLESS);
	in[EPD_OBJECT_HEAD + 4] |= 0xc0;
	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	/* Bytes kept free. */
	n = (size_t)pack(0, 0, KEYLESS);
	in[90] = 1;
	seal_again();
	CHECK_INT(unpack(0, n, KEYLESS), EPD_ECORRUPT);
	CHECK_STR(why.text, "no page's object");
}

int
main(int argc, char **argv)
{
	int rc;

	lots_make(&k, &shape, "w1", 1, 7, 3, 5, 0);
	rc = check_main(argc, argv);
	lots_free(&k);
	return rc;
}
