/* base_core.c - errors, spans, the allocator, hashes, clocks, the log line. */
#include "tests/check.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/alloc.h"
#include "base/base64.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/span.h"

TEST(err_answers_for_every_kind_of_code)
{
	CHECK_STR(epd_strerror(0), "success");
	CHECK_STR(epd_strerror(7), "success");
	CHECK_STR(epd_strerror(-ENOSPC), "No space left on device");
	CHECK_STR(epd_strerror(EPD_ENOSTATE), "no such state");
	CHECK_STR(epd_strerror(-999), "unknown error");
	CHECK_STR(epd_strerror(-5000), "unknown error");
	CHECK_STR(epd_strerror(-2147483647 - 1), "unknown error");
	CHECK_STR(epd_errlabel(-ENOSPC), "ENOSPC");
	CHECK_STR(epd_errlabel(EPD_ESTALE), "STALE_DIRECTORY_ENTRY");
	CHECK_STR(epd_errlabel(EPD_EABORTED), "A2A_ABORTED");
	CHECK_STR(epd_errlabel(-998), "UNKNOWN");
	CHECK_INT(epd_errno(-EIO), EIO);
	CHECK_INT(epd_errno(3), 0);
	CHECK_INT(epd_errno(EPD_ENOSTATE), ENOENT);
	CHECK_INT(epd_errno(-4000), EIO);
	CHECK_INT(epd_exitcode(0), 0);
	CHECK_INT(epd_exitcode(12), 0);
	CHECK_INT(epd_exitcode(-ENOENT), 4);
	CHECK_INT(epd_exitcode(-ENOSPC), 3);
	CHECK_INT(epd_exitcode(-EIO), 5);
	CHECK_INT(epd_exitcode(-EPIPE), 1);
	CHECK_INT(epd_exitcode(EPD_ELOCKED), 3);
	CHECK_INT(epd_exitcode(EPD_ESTRICT), 6);
}

TEST(err_codes_are_all_different_and_out_of_errno_reach)
{
	static const int rc[] = {
#define X(name, code, no, ex, label, text) code,
		EPD_ERRS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof rc / sizeof *rc; i++) {
		CHECK(rc[i] < -1000);
		for (size_t j = 0; j < i; j++)
			CHECK(rc[i] != rc[j]);
	}
}

TEST(why_is_cut_whole_and_clean)
{
	struct epd_why why = { "x" };
	char big[600];

	CHECK_INT(epd_why(NULL, -EIO, "%s", "lost"), -EIO);
	errno = EDOM;
	CHECK_INT(epd_why(&why, EPD_ECORRUPT, "%s:%d: bad", "a", 3),
	    EPD_ECORRUPT);
	CHECK_INT(errno, EDOM);
	CHECK_STR(why.text, "a:3: bad");
	epd_why(&why, -1, "outer: %s", why.text);
	CHECK_STR(why.text, "outer: a:3: bad");
	epd_why(&why, -1, "a\033[2Jb\nc\x7f");
	CHECK_STR(why.text, "a?[2Jb?c?");
	/* 239 bytes fit: 119 letters of two, not half of one more. */
	for (int i = 0; i < 300; i++)
		memcpy(big + 2 * i, "\xc3\xa9", 2);
	big[599] = '\0';
	epd_why(&why, -1, "%s", big);
	CHECK_INT(strlen(why.text), 238);
	epd_why(&why, -1, "x%s", big);
	CHECK_INT(strlen(why.text), 239);
	CHECK(!memcmp(why.text + 237, "\xc3\xa9", 3));
}

TEST(buf_grows_formats_and_ends)
{
	struct epd_buf b = { 0 };
	char big[5000];

	CHECK_STR(epd_buf_cstr(&b), "");
	CHECK_INT(b.n, 0);
	epd_buf_put(&b, NULL, 0);
	epd_buf_str(&b, "ab");
	epd_buf_fmt(&b, "%d-%s", 42, "z");
	CHECK_STR(epd_buf_cstr(&b), "ab42-z");
	CHECK_INT(b.n, 6);
	memset(big, 'q', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	epd_buf_fmt(&b, "%s", big);
	CHECK_INT(b.n, 6 + sizeof big - 1);
	CHECK_INT(strlen(epd_buf_cstr(&b)), b.n);
	CHECK(!b.failed);
	CHECK(!epd_buf_add(&b, SIZE_MAX));
	CHECK(b.failed);
	CHECK(!epd_buf_add(&b, 1));
	CHECK_STR(epd_buf_cstr(&b), "");
	CHECK_INT(b.n, 6 + sizeof big - 1);
	epd_buf_free(&b);
	CHECK(!b.p && !b.n && !b.cap && !b.failed);
	epd_buf_free(NULL);
}

TEST(pack_is_little_endian_and_unpack_its_reverse)
{
	static const uint8_t want[] = {
		0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f, 0x0e, 0x0d,
		0x0c, 0x0b, 0x0a, 0x09, 0x08, 0, 0, 0xc0, 0x3f, 2, 0, 0, 0,
		'h', 'i',
	};
	struct epd_buf b = { 0 };
	struct epd_cur c;
	struct epd_span s;

	epd_pack_u8(&b, 1);
	epd_pack_u16(&b, 0x0203);
	epd_pack_u32(&b, 0x04050607);
	epd_pack_u64(&b, 0x08090a0b0c0d0e0fu);
	epd_pack_f32(&b, 1.5f);
	epd_pack_span(&b, epd_span_str("hi"));
	CHECK_INT(b.n, sizeof want);
	CHECK(!memcmp(b.p, want, sizeof want));
	c = epd_cur(epd_span(b.p, b.n));
	CHECK_INT(epd_unpack_u8(&c), 1);
	CHECK_INT(epd_unpack_u16(&c), 0x0203);
	CHECK_INT(epd_unpack_u32(&c), 0x04050607);
	CHECK(epd_unpack_u64(&c) == 0x08090a0b0c0d0e0fu);
	CHECK(epd_unpack_f32(&c) == 1.5f);
	s = epd_unpack_span(&c);
	CHECK(s.n == 2 && !memcmp(s.p, "hi", 2));
	CHECK(!c.failed && !epd_cur_left(&c));
	CHECK_INT(epd_unpack_u8(&c), 0);
	CHECK(c.failed);
	epd_buf_free(&b);
}

TEST(unpack_of_short_or_lying_bytes_fails_for_good)
{
	static const uint8_t lie[] = { 0xff, 0xff, 0xff, 0xff, 'a', 'b' };
	struct epd_cur c = epd_cur(epd_span(lie, sizeof lie));
	struct epd_span s = epd_unpack_span(&c);

	CHECK(!s.n && s.p && c.failed);
	CHECK_INT(epd_unpack_u8(&c), 0);
	CHECK_INT(epd_cur_left(&c), 0);
	c = epd_cur(epd_span(lie, 3));
	CHECK_INT(epd_unpack_u32(&c), 0);
	CHECK(c.failed);
	CHECK_INT(epd_unpack_u8(&c), 0);
	c = epd_cur(epd_span(NULL, 0));
	CHECK_INT(epd_cur_left(&c), 0);
	s = epd_unpack_bytes(&c, 0);
	CHECK(!c.failed && !s.n && s.p);
	CHECK_INT(epd_unpack_u64(&c), 0);
	CHECK(c.failed);
}

TEST(hex)
{
	uint8_t b[3] = { 9, 9, 9 };
	char s[7];

	epd_hex_format(s, "\x00\xab\xff", 3);
	CHECK_STR(s, "00abff");
	CHECK_INT(epd_hex_parse(b, 3, "00ABfg"), -EINVAL);
	CHECK(b[0] == 9 && b[2] == 9);
	CHECK_INT(epd_hex_parse(b, 3, "00abf"), -EINVAL);
	CHECK_INT(epd_hex_parse(b, 3, "00abff0"), -EINVAL);
	CHECK_INT(epd_hex_parse(b, 3, ""), -EINVAL);
	CHECK_INT(epd_hex_parse(b, 3, "00ABff"), 0);
	CHECK(!memcmp(b, "\x00\xab\xff", 3));
}

struct nth {
	int left, asked;
};

static int
refuse_nth(void *arg, size_t n)
{
	struct nth *f = arg;

	(void)n;
	f->asked++;
	return f->left-- == 0;
}

TEST(alloc_hook_refuses_and_nothing_gives_memory)
{
	struct nth f = { 0, 0 };
	struct epd_buf b = { 0 };
	void *p = epd_malloc(0), *q;
	char *s;

	CHECK(p);
	CHECK(!epd_calloc(SIZE_MAX / 2, 3));
	epd_alloc_hook(refuse_nth, &f);
	CHECK(!epd_malloc(1));
	CHECK_INT(errno, ENOMEM);
	f.left = 0;
	CHECK(!epd_calloc(1, 1));
	f.left = 0;
	CHECK(!epd_realloc(p, 100));
	f.left = 0;
	CHECK(!epd_alloc_aligned(64, 100));
	f.left = 0;
	CHECK(!epd_strdup("a"));
	f.left = 0;
	epd_buf_str(&b, "a");
	CHECK(b.failed && !b.n);
	CHECK_INT(f.asked, 6);
	epd_alloc_hook(NULL, NULL);
	q = epd_alloc_aligned(4096, 1);
	CHECK(q && !((uintptr_t)q & 4095));
	s = epd_strndup("abc", 2);
	CHECK_STR(s, "ab");
	errno = 5;
	epd_free(s);
	epd_free(NULL);
	CHECK_INT(errno, 5);
	epd_free(p);
	epd_free(q);
	epd_buf_free(&b);
}

TEST(arrays_grow_and_keep_what_they_hold)
{
	struct nth f = { 0, 0 };
	size_t cap = 0, huge = SIZE_MAX / 4;
	uint32_t *v = NULL, *p;

	for (uint32_t i = 0; i < 1000; i++) {
		v = epd_grow(v, i, &cap, sizeof *v);
		CHECK(v && cap > i && cap <= 2 * i + 32);
		v[i] = i;
	}
	for (uint32_t i = 0; i < 1000; i++)
		CHECK_INT(v[i], i);
	epd_alloc_hook(refuse_nth, &f);
	CHECK(epd_grow(v, cap - 1, &cap, sizeof *v) == v);
	p = epd_grow(v, cap, &cap, sizeof *v);
	epd_alloc_hook(NULL, NULL);
	CHECK(!p && cap == 1024 && v[999] == 999);
	CHECK(!epd_grow(v, huge, &huge, 8));
	epd_free(v);
}

/* Expected by Python: hashlib.blake2b(encoding, digest_size=32). */
TEST(namer_is_blake2b_of_labelled_parts)
{
	struct epd_namer n;
	struct epd_name a, b;
	char hex[65];

	epd_namer_begin(&n, "page");
	epd_namer_add(&n, "abc", 3);
	epd_namer_str(&n, "de");
	epd_namer_str(&n, NULL);
	epd_namer_u64(&n, 0x0102030405060708u);
	epd_namer_end(&n, &a);
	epd_hex_format(hex, a.b, 32);
	CHECK_STR(hex,
	    "b831239001e12932b4c1b31c4f1406b8"
	    "0237481990246f11f1e8cadd78e64178");
	epd_namer_begin(&n, "page");
	epd_namer_add(&n, "abcd", 4);
	epd_namer_str(&n, "e");
	epd_namer_str(&n, NULL);
	epd_namer_u64(&n, 0x0102030405060708u);
	epd_namer_end(&n, &b);
	CHECK(!epd_name_equal(&a, &b));
	CHECK(epd_name_equal(&a, &a));
	CHECK(!epd_name_zero(&a));
	memset(&b, 0, sizeof b);
	CHECK(epd_name_zero(&b));
	b.b[31] = 1;
	CHECK(!epd_name_zero(&b));
}

TEST(blake2b64_vectors)
{
	uint8_t seq[1000];

	for (int i = 0; i < 1000; i++)
		seq[i] = (uint8_t)i;
	CHECK(epd_blake2b64(epd_span(NULL, 0)) == 0xb4b2797457a0a6e4u);
	CHECK(epd_blake2b64(epd_span("abc", 3)) == 0x5995d533d814bbd8u);
	CHECK(epd_blake2b64(epd_span(seq, 1000)) == 0xc62a0b109058bfa4u);
	CHECK(epd_blake2b64(epd_span(seq, 128)) == 0x827e61b6f13dd1c2u);
}

/* RFC 3720, appendix B.4, and the check value of the CRC catalogue. */
TEST(crc32c_vectors_by_both_ways)
{
	uint8_t b[32], odd[300];
	uint32_t whole;

	CHECK_INT(epd_crc32c(0, "123456789", 9), 0xe3069283u);
	CHECK_INT(epd_crc32c(0, NULL, 0), 0);
	memset(b, 0, 32);
	CHECK_INT(epd_crc32c(0, b, 32), 0x8a9136aau);
	memset(b, 0xff, 32);
	CHECK_INT(epd_crc32c(0, b, 32), 0x62a8ab43u);
	for (int i = 0; i < 32; i++)
		b[i] = (uint8_t)i;
	CHECK_INT(epd_crc32c(0, b, 32), 0x46dd794eu);
	for (int i = 0; i < 300; i++)
		odd[i] = (uint8_t)(i * 7 + i / 9);
	whole = epd_crc32c(0, odd, 300);
	for (size_t i = 0; i <= 300; i++) {
		CHECK_INT(epd_crc32c(epd_crc32c(0, odd, i), odd + i, 300 - i),
		    whole);
		CHECK_INT(epd_crc32c(0, odd + i, 300 - i),
		    epd_crc32c_table(0, odd + i, 300 - i));
	}
}

/* Of xxhsum -H3 and -H2. */
TEST(xxh3_vectors)
{
	uint8_t h[16];
	char hex[33];

	CHECK(epd_xxh3_64(NULL, 0) == 0x2d06800538d394c2u);
	epd_xxh3_128(h, "abc", 3);
	epd_hex_format(hex, h, 16);
	CHECK_STR(hex, "06b05ab6733a618578af5f94892f3950");
	CHECK(epd_xxh3_64("abc", 3) == 0x78af5f94892f3950u);
}

TEST(xxh3_of_a_file_is_that_of_its_bytes)
{
	static uint8_t bytes[200000];
	static const size_t from[] = { 0, 1, 4095, 65536, 199999, 200000 };
	char path[] = "/tmp/epd-xxh3.XXXXXX";
	int fd = mkstemp(path);
	uint64_t sum;

	CHECK(fd >= 0);
	unlink(path);
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * i >> 3);
	CHECK_INT(write(fd, bytes, sizeof bytes), sizeof bytes);
	for (size_t i = 0; i < sizeof from / sizeof *from; i++)
		for (size_t k = i; k < sizeof from / sizeof *from; k++) {
			CHECK_INT(epd_xxh3_64_file(fd, from[i], from[k] -
			    from[i], &sum), 0);
			CHECK(sum == epd_xxh3_64(bytes + from[i], from[k] -
			    from[i]));
		}
	CHECK_INT(epd_xxh3_64_file(fd, 1, sizeof bytes, &sum), -ENODATA);
	close(fd);
	CHECK_INT(epd_xxh3_64_file(-1, 0, 1, &sum), -EBADF);
}

#if defined(__x86_64__)
/* Whether upper halves of vector registers are in use: XGETBV with 1 tells. */
static int
is_wide(void)
{
	unsigned in_use, high;

	__asm__ volatile ("xgetbv" : "=a" (in_use), "=d" (high) : "c" (1));
	(void)high;
	return (in_use & 1u << 2) != 0;
}

static void
use_all(void)
{
	__asm__ volatile ("vpcmpeqd %%ymm5, %%ymm5, %%ymm5" ::: "xmm5");
}

TEST(sums_leave_no_registers_that_slow_what_follows)
{
	static uint8_t bytes[300000], h[16];
	unsigned a = 0, b, c = 0, d;
	struct epd_xxh3 x;
	int fd;

	if (__get_cpuid_count(0xd, 1, &a, &b, &c, &d) && !(a & 4))
		a = 0;
	if (!a || !__builtin_cpu_supports("avx"))
		SKIP("no processor that tells");
	use_all();
	CHECK(is_wide());
	for (size_t n = 0; n <= sizeof bytes; n += 1 + n * 3) {
		use_all();
		(void)epd_xxh3_64(bytes, n);
		CHECK(!is_wide());
		use_all();
		epd_xxh3_128(h, bytes, n);
		CHECK(!is_wide());
		use_all();
		epd_xxh3_begin(&x);
		epd_xxh3_add(&x, bytes, n);
		CHECK(!is_wide());
		use_all();
		(void)epd_xxh3_end(&x);
		CHECK(!is_wide());
	}
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	use_all();
	CHECK_INT(epd_xxh3_64_file(fd, 0, 4096, (uint64_t[1]){ 0 }), 0);
	CHECK(!is_wide());
	close(fd);
}
#endif

TEST(clock_runs_and_can_be_set)
{
	struct epd_clock_fake fake = { 5, 6 };
	uint64_t a = epd_clock_boot_ns();
	uint8_t one[16], two[16];

	epd_clock_sleep_ns(1000000);
	CHECK(epd_clock_boot_ns() >= a + 1000000);
	CHECK(epd_clock_wall_ms() > 1700000000000u);
	epd_clock_fake(&fake);
	CHECK_INT(epd_clock_wall_ms(), 5);
	CHECK_INT(epd_clock_boot_ns(), 6);
	fake.boot_ns = 9;
	CHECK_INT(epd_clock_boot_ns(), 9);
	epd_clock_fake(NULL);
	CHECK(epd_clock_boot_ns() > 9);
	CHECK_INT(epd_clock_boot_id(one), 0);
	CHECK_INT(epd_clock_boot_id(two), 0);
	CHECK(!memcmp(one, two, 16));
}

static void
keep(void *arg, const char *line)
{
	snprintf(arg, 4096, "%s", line);
}

TEST(log_quotes_what_needs_it)
{
	static char got[4096], big[4096];
	struct epd_log log = { keep, got };

	epd_log(NULL, "op=x");
	epd_log(&(struct epd_log){ NULL, NULL }, "op=x");
	epd_log(&log, "op=prefill state=%s tokens=%d", "w1/s3", 27);
	CHECK_STR(got, "op=prefill state=w1/s3 tokens=27");
	epd_log(&log, "op=x path=%s empty=%s z=%s", "a b", "", "q\"\\\n\033");
	CHECK_STR(got, "op=x path=\"a b\" empty=\"\" z=\"q\\\"\\\\??\"");
	memset(big, 'a', sizeof big - 1);
	epd_log(&log, "op=%s", big);
	CHECK_INT(strlen(got), 2047);
	memset(big, ' ', sizeof big - 1);
	epd_log(&log, "op=%s", big);
	CHECK_INT(strlen(got), 2047);
}

TEST(base64_is_what_everybody_reads_and_nothing_else)
{
	static const struct { const char *plain, *text; } right[] = {
		{ "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" },
		{ "foo", "Zm9v" }, { "foobar", "Zm9vYmFy" },
	};
	static const char *const wrong[] = { "Z", "Zg=", "Zg", "Zh==", "Zm9=",
	    "Zm9v\n", "Zm 9", "====", "A===", "Zg==Zg==", "Zm9*", "Zm9\x80",
	    "Zm9vZh==" };
	struct epd_buf text = { 0 }, back = { 0 };
	uint8_t in[200];

	for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
		text.n = back.n = 0;
		epd_base64_pack(&text, epd_span_str(right[i].plain));
		CHECK_STR(epd_buf_cstr(&text), right[i].text);
		CHECK_INT(epd_base64_unpack(&back, epd_span(text.p, text.n)), 0);
		CHECK_STR(epd_buf_cstr(&back), right[i].plain);
	}
	/* It goes behind what is there; what is wrong leaves nothing. */
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		CHECK_INT(epd_base64_unpack(&back, epd_span_str(wrong[i])),
		    EPD_EFORMAT);
		CHECK_STR(epd_buf_cstr(&back), "foobar");
	}
	for (size_t i = 0; i < sizeof in; i++)
		in[i] = (uint8_t)(i * 167 + i / 3);
	for (size_t n = 0; n < sizeof in; n++) {
		text.n = back.n = 0;
		epd_base64_pack(&text, epd_span(in, n));
		CHECK_INT(text.n, epd_base64_bytes(n));
		CHECK_INT(epd_base64_unpack(&back, epd_span(text.p, text.n)), 0);
		CHECK_INT(back.n, n);
		CHECK(n == 0 || !memcmp(back.p, in, n));
	}
	epd_buf_free(&text);
	epd_buf_free(&back);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
