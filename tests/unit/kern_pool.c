/* kern_pool.c - threads, their floating-point mode, and memory that runs out. */
#include <errno.h>
#include <fenv.h>
#include <stdatomic.h>
#include <unistd.h>
#if defined __x86_64__
#include <xmmintrin.h>
#endif

#include "base/alloc.h"
#include "tests/check.h"
#include "tests/unit/kern_attn.h"
#include "tests/unit/kern_ops.h"

static void
tick(void *arg, long item, int who)
{
	atomic_int *n = arg;

	(void)who;
	atomic_fetch_add(n + item, 1);
}

TEST(every_item_runs_once)
{
	static const long items[] = {0, 1, 2, 3, 7, 64, 1000};
	static atomic_int n[1000];

	for (int t = 1; t <= 5; t += 2) {
		struct epd_pool *p = epd_pool_new(t);

		CHECK(p);
		for (int r = 0; r < 300; r++)
			for (int k = 0; k < 7; k++)
				epd_pool_run(p, tick, n, items[k]);
		epd_pool_free(p);
	}
	for (int i = 0; i < 1000; i++) {
		long want = 0;

		for (int k = 0; k < 7; k++)
			want += i < items[k];
		CHECK_INT(n[i], want * 3 * 300);
	}
}

/* A pool that has gone to sleep wakes again. */
TEST(sleepers_wake)
{
	static atomic_int n[16];
	struct epd_pool *p = epd_pool_new(3);

	CHECK(p);
	for (int r = 0; r < 20; r++) {
		usleep(500);
		epd_pool_run(p, tick, n, 16);
	}
	epd_pool_free(p);
	for (int i = 0; i < 16; i++)
		CHECK_INT(n[i], 20);
}

TEST(a_pool_has_a_size)
{
	CHECK(!epd_pool_new(0));
	CHECK(!epd_pool_new(-1));
	CHECK(!epd_pool_new(EPD_POOL_MAX + 1));
	epd_pool_free(NULL);
}

/* Small numbers, so that flushing them would show. */
static struct {
	float x[64], q[64], w[64 * 64], kv[16][64];
} small;

static void
make_small(void)
{
	unsigned s = 1;

	for (int i = 0; i < 64; i++) {
		small.x[i] = ldexpf(noise(&s), -80);
		small.q[i] = ldexpf(noise(&s), -4);
		for (int t = 0; t < 16; t++)
			small.kv[t][i] = ldexpf(noise(&s), -128);
	}
	for (int i = 0; i < 64 * 64; i++)
		small.w[i] = ldexpf(noise(&s), -55);
}

static void
work_out(const struct epd_kern *k, float y[4][64])
{
	const struct epd_kv kv = { EPD_BF16, 1, 64, 16 };
	struct epd_weight weight = { EPD_F32, 64, 64, small.w };
	static uint16_t page[2 * 64 * 16];
	const void *pages[] = { page };
	struct epd_attn_row r = { small.q, y[1], pages, 16 };

	memset(y, 0, 4 * sizeof *y);
	epd_gemm(k, pool_of(3), 1, small.x, 64, &weight, NULL, y[0], 64);
	for (int t = 0; t < 16; t++)
		epd_kv_put(&kv, page, 0, t, small.kv[t], small.kv[t]);
	epd_attend(k, pool_of(3), &kv, 1, 1, &r, 1);
	epd_rope_inv(y[2], 64, 1e6);
	epd_rope_angles(32, y[2], 3e-38f, y[2] + 32, y[3]);
	epd_rope_angles(32, y[2], 1e5f, y[3], y[3] + 32);
}

/* The processor's mode, and what to set in it: flushing, then rounding. */
#if defined __x86_64__
static const unsigned long modes[] = {
	0x8000, 0x0040, 0x8040, 0x2000, 0x4000, 0xe040,
};
enum { MODE_BITS = 0xffc0 };	/* the rest are flags raised so far */
static unsigned long get_mode(void) { return _mm_getcsr(); }
static void set_mode(unsigned long m) { _mm_setcsr((unsigned)m); }
#elif defined __aarch64__
static const unsigned long modes[] = {
	1ul << 24, 1ul << 22, 2ul << 22, 3ul << 22, 1ul << 24 | 3ul << 22,
};
enum { MODE_BITS = 0x1c00000 };

static unsigned long
get_mode(void)
{
	unsigned long m;

	__asm__ volatile("mrs %0, fpcr" : "=r"(m));
	return m;
}

static void
set_mode(unsigned long m)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(m));
}
#else
static const unsigned long modes[] = { 0 };
enum { MODE_BITS = 0 };
static unsigned long get_mode(void) { return 0; }
static void set_mode(unsigned long m) { (void)m; }
#endif

TEST(callers_mode_does_not_show)
{
	const struct epd_kern *k[ISAS];
	const int n = kerns(k);
	const unsigned long was = get_mode();
	float want[4][64], y[4][64];
	int denormal[2] = {0};

	make_small();
	work_out(k[0], want);
	for (int i = 0; i < 64; i++) {
		CHECK(isfinite(want[1][i]));
		for (int j = 0; j < 2; j++)
			denormal[j] += fpclassify(want[j][i]) == FP_SUBNORMAL;
	}
	CHECK(denormal[0] > 10 && denormal[1] > 10);
	for (int a = 0; a < n; a++)
		for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
			set_mode(was | modes[i]);
			work_out(k[a], y);
			CHECK_INT(get_mode() & MODE_BITS, (was | modes[i]) &
			    MODE_BITS);
			set_mode(was);
			same(want, y, sizeof y, "mode", k[a]->name);
		}
	CHECK_INT(differing, 0);
}

/* Threads inherit the mode of their maker. */
TEST(makers_mode_does_not_show)
{
	const unsigned long was = get_mode();
	float x[8 * 48], w[48 * 4], y[8 * 4], z[8 * 4];
	struct epd_weight weight = { EPD_F32, 4, 48, w };
	struct epd_pool *p;
	unsigned s = 4;

	for (int i = 0; i < 8 * 48; i++)
		x[i] = ldexpf(noise(&s), -90);
	for (int i = 0; i < 48 * 4; i++)
		w[i] = ldexpf(noise(&s), -50);
	epd_gemm(epd_kern_get(NULL), pool_of(1), 8, x, 48, &weight, NULL, y, 4);
	set_mode(was | modes[sizeof modes / sizeof *modes - 1]);
	p = epd_pool_new(3);
	set_mode(was);
	CHECK(p);
	for (int i = 0; i < 200; i++) {
		epd_gemm(epd_kern_get(NULL), p, 8, x, 48, &weight, NULL, z, 4);
		CHECK(!memcmp(y, z, sizeof y));
	}
	epd_pool_free(p);
}

static __attribute__((noinline)) float
third(void)
{
	volatile float a = 1, b = 3;

	return a / b;
}

TEST(mode_is_given_back)
{
	const float nearest = third();
	unsigned long was;

	fesetround(FE_DOWNWARD);
	CHECK(third() < nearest);
	was = epd_fp_enter();
	CHECK(third() == nearest);
	epd_fp_leave(was);
	CHECK(third() < nearest);
	fesetround(FE_TONEAREST);
}

static atomic_long calls, refused;

static int
refuse(void *arg, size_t n)
{
	long nth = *(const long *)arg;

	(void)n;
	if (atomic_fetch_add(&calls, 1) != nth)
		return 0;
	atomic_fetch_add(&refused, 1);
	return 1;
}

/* All that allocates, in a pool of its own; 1 if some call lacked memory. */
static int
everything(void)
{
	static float x[48 * 64], y[48 * 64];
	const struct epd_kv kv = { EPD_F32, 1, 64, 16 };
	struct epd_weight w = { EPD_F32, 64, 64, block(64 * 64 * 4) };
	static float page[2 * 64 * 16];
	const void *pages[128];
	struct epd_attn_row r = { x, y, pages, 2048 };
	struct epd_pool *p = epd_pool_new(3);
	int rc = p ? 0 : -ENOMEM;

	for (int i = 0; i < 128; i++)
		pages[i] = page;
	memset((void *)w.data, 0, 64 * 64 * 4);
	if (!rc)
		rc = epd_gemm(epd_kern_get(NULL), p, 4, x, 64, &w, NULL, y, 64);
	if (!rc)
		rc = epd_gemm(epd_kern_get(NULL), p, 48, x, 64, &w, NULL, y,
		    64);
	if (!rc)
		rc = epd_attend(epd_kern_get(NULL), p, &kv, 1, 1, &r, 1);
	epd_pool_free(p);
	free((void *)w.data);
	return rc;
}

TEST(memory_may_run_out_anywhere)
{
	for (long nth = 0;; nth++) {
		int rc;

		atomic_store(&calls, 0);
		atomic_store(&refused, 0);
		epd_alloc_hook(refuse, &nth);
		rc = everything();
		epd_alloc_hook(NULL, NULL);
		CHECK(rc == 0 || rc == -ENOMEM);
		CHECK_INT(rc != 0, refused);
		if (!refused && nth > 8)
			return;
	}
}

int main(int argc, char **argv) { return check_main(argc, argv); }
