/*
 * kern.c - the kernels against oneDNN and against a plain read, one thread.
 *
 *	kern [-i ISA] [-f FIGURE-PREFIX] [-r ROUNDS]
 *
 * One JSON line a figure on standard output: medians of ROUNDS interleaved
 * rounds by the process's processor time, which on an idle machine is the time
 * and on a busy one at least leaves other jobs' turns out (not what they take
 * of the memory's bandwidth).  ratio is our speed over the peer's.  Built
 * without EPD_DNNL the rows against oneDNN are skipped aloud.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined EPD_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

#include "engine/kern/attn.h"
#include "engine/kern/gemm.h"

enum { ROUNDS = 201 };

/* Weights cycle through this much, beyond any cache. */
static const size_t CYCLE = 320u << 20;

static struct {
	const struct epd_kern *kern;
	struct epd_pool *pool;
	const char *prefix;
	int rounds;
	char *mem;		/* CYCLE and the largest weight */
	size_t size;
} B;

static double
spent(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float
noise(unsigned *s)
{
	*s = *s * 1664525u + 1013904223u;
	return (float)(*s >> 8) / 16777216.0f - 0.5f;
}

/* Small pages, as a mapped checkpoint has. */
static void *
pages(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("bench");
		exit(1);
	}
	madvise(p, n, MADV_NOHUGEPAGE);
	return p;
}

static float *
floats(long n)
{
	float *p = pages((size_t)n * 4);
	unsigned s = 1;

	for (long i = 0; i < n; i++)
		p[i] = noise(&s);
	return p;
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_size);
	return v[n / 2];
}

static int
wanted(const char *figure)
{
	return !strncmp(figure, B.prefix, strlen(B.prefix));
}

/* What one round does: ours, or the peer's. */
typedef void round_fn(void *arg, int round);

struct figure {
	const char *name, *unit, *peer;
	double work;		/* units times seconds in a round */
};

/* Rounds take turns; the ratio is the median of each pair's. */
static void
compare(const struct figure *f, round_fn *own, round_fn *peer, void *arg)
{
	double a[ROUNDS], b[ROUNDS], r[ROUNDS], t[4], began = spent();
	int n = 0;

	own(arg, 0);
	peer(arg, 1);
	while (n < B.rounds && (n < 7 || spent() - began < 6)) {
		t[0] = spent();
		own(arg, 2 * n);
		t[1] = spent();
		peer(arg, 2 * n + 1);
		t[2] = spent();
		a[n] = t[1] - t[0];
		b[n] = t[2] - t[1];
		r[n] = b[n] / a[n];
		n++;
	}
	printf("{\"figure\":\"%s\",\"value\":%.4g,\"unit\":\"%s\",\"peer\":"
	    "\"%s\",\"peer_value\":%.4g,\"ratio\":%.3f}\n", f->name,
	    f->work / median(a, n), f->unit, f->peer, f->work / median(b, n),
	    median(r, n));
	fflush(stdout);
}

struct product {
	long n, k, m, copies;
	float *x, *y, *w32;
};

static void
own_product(void *arg, int round)
{
	struct product *p = arg;
	struct epd_weight w = { EPD_BF16, p->n, p->k, B.mem +
	    (size_t)(round % p->copies * p->n * p->k) * 2 };

	if (epd_gemm(B.kern, B.pool, p->m, p->x, p->k, &w, NULL, p->y, p->n))
		exit(1);
}

#if defined EPD_DNNL
static void
dnnl_product(void *arg, int round)
{
	struct product *p = arg;

	(void)round;
	dnnl_sgemm('N', 'T', p->m, p->n, p->k, 1, p->x, p->k, p->w32, p->k, 0,
	    p->y, p->n);
}

static void
against_dnnl(const char *figure, long m, long n, long k)
{
	char name[64];
	struct product p = { n, k, m, 1, NULL, NULL, NULL };
	const struct figure f = { name, "GFLOP/s", "oneDNN f32 sgemm",
	    2e-9 * (double)m * (double)n * (double)k };

	snprintf(name, sizeof name, "%s_%ldx%ld", figure, n, k);
	if (!wanted(name))
		return;
	p.x = floats(m * k);
	p.y = floats(m * n);
	p.w32 = pages((size_t)(n * k) * 4);
	epd_bf16_to_f32(p.w32, (const uint16_t *)B.mem, (size_t)(n * k));
	compare(&f, own_product, dnnl_product, &p);
	munmap(p.x, (size_t)(m * k) * 4);
	munmap(p.y, (size_t)(m * n) * 4);
	munmap(p.w32, (size_t)(n * k) * 4);
}
#endif

/* Sixteen words at a time, so that only memory limits it. */
static void
read_bytes(const char *p, size_t n)
{
	typedef uint64_t v4 __attribute__((vector_size(32), aligned(1),
	    may_alias));
	v4 s[4] = {{0}};

	for (const char *end = p + n / 128 * 128; p < end; p += 128)
		for (int j = 0; j < 4; j++)
			s[j] |= *(const v4 *)(p + 32 * j);
	s[0] |= s[1] | s[2] | s[3];
	__asm__ volatile("" : : "r"(s[0][0] | s[0][1] | s[0][2] | s[0][3]));
}

static void
read_product(void *arg, int round)
{
	struct product *p = arg;

	read_bytes(B.mem + (size_t)(round % p->copies * p->n * p->k) * 2,
	    (size_t)(p->n * p->k) * 2);
}

static void
bandwidth(long n, long k)
{
	char name[64];
	struct product p = { n, k, 1, 0, NULL, NULL, NULL };
	const struct figure f = { name, "GB/s", "plain read",
	    2e-9 * (double)n * (double)k };

	snprintf(name, sizeof name, "gemv_bandwidth_%ldx%ld", n, k);
	if (!wanted(name))
		return;
	p.copies = (long)(CYCLE / (size_t)(n * k * 2)) | 1;
	p.x = floats(k);
	p.y = floats(n);
	compare(&f, own_product, read_product, &p);
	munmap(p.x, (size_t)k * 4);
	munmap(p.y, (size_t)n * 4);
}

struct decode {
	struct epd_kv kv;
	int heads;
	long tokens, pages, copies;
	const void **table;
	float *q, *out;
};

static void
own_decode(void *arg, int round)
{
	struct decode *d = arg;
	const struct epd_attn_row r = { d->q, d->out,
	    d->table + round % d->copies * d->pages, d->tokens };

	if (epd_attend(B.kern, B.pool, &d->kv, d->heads,
	    1 / sqrtf((float)d->kv.dim), &r, 1))
		exit(1);
}

static void
read_decode(void *arg, int round)
{
	struct decode *d = arg;
	const size_t size = epd_kv_bytes(&d->kv);

	for (long i = 0; i < d->pages; i++)
		read_bytes(d->table[round % d->copies * d->pages + i], size);
}

static void
decode(int kvh, int heads, int dim)
{
	char name[64];
	struct decode d = { { EPD_BF16, kvh, dim, 16 }, heads, 8192, 512, 0,
	    NULL, NULL, NULL };
	const size_t size = epd_kv_bytes(&d.kv);
	const struct figure f = { name, "GB/s", "plain read",
	    1e-9 * (double)size * 512 };

	snprintf(name, sizeof name, "attn_decode8k_%d/%dx%d", heads, kvh, dim);
	if (!wanted(name))
		return;
	d.copies = (long)(CYCLE / (size * 512)) | 1;
	d.table = pages((size_t)(d.copies * d.pages) * sizeof *d.table);
	for (long i = 0; i < d.copies * d.pages; i++)
		d.table[i] = B.mem + (size_t)i * size;
	d.q = floats(heads * dim);
	d.out = floats(heads * dim);
	compare(&f, own_decode, read_decode, &d);
	munmap(d.table, (size_t)(d.copies * d.pages) * sizeof *d.table);
}

/* oneDNN's OpenMP looks at the environment as it is loaded. */
static void
one_thread(char **argv)
{
	if (getenv("OMP_NUM_THREADS"))
		return;
	setenv("OMP_NUM_THREADS", "1", 1);
	execv("/proc/self/exe", argv);
}

int
main(int argc, char **argv)
{
	static const long shapes[][2] = {	/* of the families, and mid's */
		{896, 896}, {128, 896}, {4864, 896}, {896, 4864}, {151936, 896},
		{1536, 1536}, {256, 1536}, {8960, 1536}, {1536, 8960},
		{2048, 2048}, {1024, 2048}, {11008, 2048}, {2048, 11008},
		{6144, 2048}, {2048, 6144}, {151936, 2048},
		{3584, 3584}, {18944, 3584}, {3584, 18944},
	};
	const char *isa = NULL;
	unsigned s = 7;
	int c;

	one_thread(argv);
	B.prefix = "";
	B.rounds = ROUNDS;
	while ((c = getopt(argc, argv, "i:f:r:")) != -1) {
		if (c == 'i')
			isa = optarg;
		else if (c == 'f')
			B.prefix = optarg;
		else if (c == 'r' && atoi(optarg) > 0 && atoi(optarg) < ROUNDS)
			B.rounds = atoi(optarg);
		else
			return 2;
	}
	B.kern = epd_kern_get(isa);
	B.pool = epd_pool_new(1);
	B.size = 2 * CYCLE + 151936ul * 2048 * 2;
	B.mem = pages(B.size);
	if (!B.kern || !B.pool)
		return 1;
	for (size_t i = 0; i < B.size / 2; i++) {
		float f = noise(&s) * 0.1f;

		epd_bf16_from_f32((uint16_t *)B.mem + i, &f, 1);
	}
	fprintf(stderr, "kern: %s\n", B.kern->name);
#if defined EPD_DNNL
	against_dnnl("gemm_m512", 512, 2048, 2048);
	against_dnnl("gemm_m512", 512, 1536, 8960);
	against_dnnl("gemm_m1", 1, 2048, 2048);
	against_dnnl("gemm_m1", 1, 1536, 8960);
#else
	fprintf(stderr, "kern: SKIP gemm_m512, gemm_m1: built without oneDNN "
	    "(libdnnl-dev)\n");
#endif
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		bandwidth(shapes[i][0], shapes[i][1]);
	decode(2, 14, 64);
	decode(2, 12, 128);
	decode(8, 8, 128);
	decode(8, 16, 128);
	epd_pool_free(B.pool);
	return 0;
}
