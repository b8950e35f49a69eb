/*
 * engine.c - what a pass of the engine costs, in process.
 *
 *	engine -m DIR [-t THREADS] [-r ROUNDS] WORK ...
 *
 *	prefill:N	N tokens onto nothing
 *	decode:N	N tokens one by one, onto nothing
 *	encode:SIDE	a picture of SIDE x SIDE
 *	branches:N,P	a step of N branches that share P tokens, against a
 *			step of one
 *	shared:N,P	a step of N branches that share P tokens, against one
 *			of N that share nothing
 *	bytes:N,P	the keys and values such steps take from memory
 *
 * One JSON line each, in the order given.  Keys and values are bf16; what is
 * before a step is noise, since no time depends on it.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/kern/pool.h"

enum { TOKENS = 16, ROUNDS = 99, BRANCHES = 64 };

static struct {
	struct epd_model *model;
	const struct epd_model_info *info;
	struct epd_engine *engine;
	struct epd_page_shape shape;
	size_t page;
	int rounds;
	struct epd_why why;
} B = { .shape = { EPD_BF16, TOKENS }, .rounds = 7 };

static void
must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "engine: %s: %s\n", what,
	    *B.why.text ? B.why.text : epd_strerror(rc));
	exit(1);
}

static void *
memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("engine: memory");
		exit(1);
	}
	return p;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* ---- sequences ---- */

/* A sequence with room for `cap` tokens; its first pages may be another's. */
struct seq {
	void **pages;
	long npages, past;
	float *logits;
	void *own;
	size_t size;
};

static void
seq_new(struct seq *q, long cap, const struct seq *prefix)
{
	long first = prefix ? prefix->npages : 0;

	*q = (struct seq){ .npages = (cap + TOKENS - 1) / TOKENS };
	q->size = (size_t)(q->npages - first) * B.page;
	q->own = memory(q->size);
	q->pages = calloc((size_t)q->npages, sizeof *q->pages);
	q->logits = memory((size_t)B.info->vocab * sizeof *q->logits);
	if (!q->pages)
		must(-1, "memory");
	for (long i = 0; i < q->npages; i++)
		q->pages[i] = i < first ? prefix->pages[i] :
		    (char *)q->own + (size_t)(i - first) * B.page;
	q->past = prefix ? prefix->past : 0;
}

static void
seq_free(struct seq *q)
{
	munmap(q->own, q->size);
	munmap(q->logits, (size_t)B.info->vocab * sizeof *q->logits);
	free(q->pages);
}

/* As if it had n tokens. */
static void
seq_noise(struct seq *q, long n)
{
	uint16_t *noise = memory(B.page);
	unsigned s = 1;

	for (size_t i = 0; i < B.page / 2; i++) {
		float f;

		s = s * 1664525u + 1013904223u;
		f = (float)(s >> 8) / 16777216.0f - 0.5f;
		epd_bf16_from_f32(noise + i, &f, 1);
	}
	for (long i = 0; i < (n + TOKENS - 1) / TOKENS; i++)
		memcpy(q->pages[i], noise, B.page);
	munmap(noise, B.page);
	q->past = n;
}

/* n more tokens of each of `many` sequences in one pass. */
static void
run(struct seq *q, long many, long n)
{
	struct epd_chunk c[BRANCHES];
	int32_t *ids = calloc((size_t)n, sizeof *ids);
	int32_t (*pos)[3] = calloc((size_t)n, sizeof *pos);

	if (!ids || !pos)
		must(-1, "memory");
	for (long i = 0; i < n; i++)
		ids[i] = (int32_t)(1000 + (q->past + i) * 7919 % 100000);
	epd_positions(B.model, NULL, 0, q->past, n, pos);
	for (long i = 0; i < many; i++) {
		c[i] = (struct epd_chunk){
			.ids = ids, .pos = pos, .n = n, .past = q[i].past,
			.pages = q[i].pages, .logits = q[i].logits,
		};
		q[i].past += n;
	}
	must(epd_forward(B.engine, &B.shape, c, many, &B.why), "forward");
	free(ids);
	free(pos);
}

/* ---- one at a time ---- */

static void
prefill(long n)
{
	struct seq q;
	double t;

	seq_new(&q, n, NULL);
	t = now();
	run(&q, 1, n);
	printf("{\"work\":\"prefill:%ld\",\"seconds\":%.6f}\n", n, now() - t);
	seq_free(&q);
}

static void
decode(long n)
{
	struct seq q;
	double t;

	seq_new(&q, n, NULL);
	t = now();
	for (long i = 0; i < n; i++)
		run(&q, 1, 1);
	printf("{\"work\":\"decode:%ld\",\"seconds\":%.6f}\n", n, now() - t);
	seq_free(&q);
}

static void
encode(long side)
{
	const struct epd_processor *p = &B.info->processor;
	const long unit = p->patch * p->merge, cells = side / unit * (side / unit);
	struct epd_image im = { side / unit * unit, side / unit * unit, NULL };
	size_t bytes = (size_t)(im.w * im.h) * 3;
	size_t room = (size_t)((1 + B.info->deepstack) * cells *
	    B.info->hidden) * sizeof(float);
	float *rows = memory(room);
	unsigned s = 3;
	double t;

	im.rgb = memory(bytes);
	for (size_t i = 0; i < bytes; i++) {
		s = s * 1664525u + 1013904223u;
		im.rgb[i] = (uint8_t)(s >> 24);
	}
	t = now();
	must(epd_encode(B.engine, &im, 1, EPD_FAST, rows, &B.why), "encode");
	printf("{\"work\":\"encode:%ld\",\"seconds\":%.6f}\n", side,
	    now() - t);
	munmap(im.rgb, bytes);
	munmap(rows, room);
}

/* ---- one against another ---- */

static double
steps(struct seq *q, long many, int n)
{
	double t = now();

	for (int i = 0; i < n; i++)
		run(q, many, 1);
	return (now() - t) / n;
}

/*
 * Steps of a's and b's sequences take turns.  Tokens a second of both, and the
 * median of each round's ratio.
 */
static void
compare(const char *work, struct seq *a, long na, struct seq *b, long nb)
{
	double x[ROUNDS], y[ROUNDS], r[ROUNDS];

	steps(a, na, 1);
	steps(b, nb, 1);
	for (int i = 0; i < B.rounds; i++) {
		x[i] = (double)na / steps(a, na, 3);
		y[i] = (double)nb / steps(b, nb, 3);
		r[i] = x[i] / y[i];
	}
	printf("{\"work\":\"%s\",\"value\":%.4g,\"against\":%.4g,"
	    "\"ratio\":%.4g,\"n\":%d}\n", work, median(x, B.rounds),
	    median(y, B.rounds), median(r, B.rounds), B.rounds);
}

/* Tokens a sequence takes up in compare(). */
static long
room(long past)
{
	return past + 3 * B.rounds + 1;
}

static void
branches(const char *work, long n, long past)
{
	struct seq prefix, many[BRANCHES], one;

	seq_new(&prefix, past, NULL);
	seq_noise(&prefix, past);
	for (long i = 0; i < n; i++)
		seq_new(many + i, room(past), &prefix);
	seq_new(&one, room(past), &prefix);
	compare(work, many, n, &one, 1);
	for (long i = 0; i < n; i++)
		seq_free(many + i);
	seq_free(&one);
	seq_free(&prefix);
}

static void
shared(const char *work, long n, long past)
{
	struct seq prefix, many[BRANCHES] = {0}, apart[BRANCHES] = {0};

	seq_new(&prefix, past, NULL);
	seq_noise(&prefix, past);
	for (long i = 0; i < n; i++) {
		seq_new(many + i, room(past), &prefix);
		seq_new(apart + i, room(past), NULL);
		seq_noise(apart + i, past);
	}
	compare(work, many, n, apart, n);
	for (long i = 0; i < n; i++) {
		seq_free(many + i);
		seq_free(apart + i);
	}
	seq_free(&prefix);
}

/* ---- bytes of keys and values ---- */

/*
 * The kernels say which block of keys or values they read; panels that read one
 * again at once have it in the first cache, and count it once.
 */
static struct {
	const struct epd_kern *real;
	const void *k, *v;
	double bytes;
} C;

static double
width(enum epd_type t)
{
	return t == EPD_F32 ? 4 : 2;
}

static void
count_score(enum epd_type t, int rows, int blocks, long d, const float *q,
    const void *const *k, const long *ahead, float *s)
{
	if (k[0] != C.k)
		C.bytes += width(t) * (double)(blocks * EPD_LANES * d);
	C.k = k[0];
	C.real->score(t, rows, blocks, d, q, k, ahead, s);
}

static void
count_weigh(enum epd_type t, int rows, int n, const float *p,
    const void *const *v, const long *ahead, int page, long d,
    struct epd_soft *st)
{
	if (v[0] != C.v)
		C.bytes += width(t) * (double)(n * d);
	C.v = v[0];
	C.real->weigh(t, rows, n, p, v, ahead, page, d, st);
}

static double
attend(struct epd_pool *pool, const struct epd_kern *kern,
    const struct seq *q, long n)
{
	const long heads = B.info->heads, dim = B.info->head_dim;
	const struct epd_kv kv = { EPD_BF16, (int)B.info->kv_heads, (int)dim,
	    TOKENS };
	struct epd_attn_row row[BRANCHES];
	float *x = memory((size_t)(2 * n * heads * dim) * sizeof *x);

	for (long i = 0; i < n; i++)
		row[i] = (struct epd_attn_row){ x + i * heads * dim,
		    x + (n + i) * heads * dim,
		    (const void *const *)q[i].pages, q[i].past };
	C.bytes = 0;
	C.k = C.v = NULL;
	must(epd_attend(kern, pool, &kv, (int)heads, 0.125f, row, n),
	    "attention");
	munmap(x, (size_t)(2 * n * heads * dim) * sizeof *x);
	return C.bytes;
}

static void
bytes(const char *work, long n, long past)
{
	struct epd_kern kern = *epd_engine_kern(B.engine);
	struct epd_pool *pool = epd_pool_new(1);
	struct seq prefix, many[BRANCHES] = {0}, apart[BRANCHES] = {0};
	double a, b;

	if (!pool)
		must(-1, "threads");
	C.real = epd_engine_kern(B.engine);
	kern.score = count_score;
	kern.weigh = count_weigh;
	seq_new(&prefix, past, NULL);
	seq_noise(&prefix, past);
	for (long i = 0; i < n; i++) {
		seq_new(many + i, past + 1, &prefix);
		seq_new(apart + i, past + 1, NULL);
		many[i].past = apart[i].past = past + 1;
	}
	a = attend(pool, &kern, many, n);
	b = attend(pool, &kern, apart, n);
	printf("{\"work\":\"%s\",\"value\":%.0f,\"against\":%.0f,"
	    "\"ratio\":%.4g,\"n\":1}\n", work, a, b, a / b);
	for (long i = 0; i < n; i++) {
		seq_free(many + i);
		seq_free(apart + i);
	}
	seq_free(&prefix);
	epd_pool_free(pool);
}

/* ---- */

static int
work(const char *w)
{
	char name[16];
	long n, p = 0;
	int got = sscanf(w, "%15[a-z]:%ld,%ld", name, &n, &p);

	if (got < 2 || n < 1 || (got == 3 && (n > BRANCHES || p < TOKENS ||
	    p % TOKENS)))
		return -1;
	if (got == 2 && !strcmp(name, "prefill"))
		prefill(n);
	else if (got == 2 && !strcmp(name, "decode"))
		decode(n);
	else if (got == 2 && !strcmp(name, "encode"))
		encode(n);
	else if (got == 3 && !strcmp(name, "branches"))
		branches(w, n, p);
	else if (got == 3 && !strcmp(name, "shared"))
		shared(w, n, p);
	else if (got == 3 && !strcmp(name, "bytes"))
		bytes(w, n, p);
	else
		return -1;
	fflush(stdout);
	return 0;
}

int
main(int argc, char **argv)
{
	const char *dir = NULL, *isa = getenv("EPD_ISA");
	int c, threads = 0;
	struct seq q;

	while ((c = getopt(argc, argv, "m:t:r:")) != -1) {
		if (c == 'm')
			dir = optarg;
		else if (c == 't')
			threads = atoi(optarg);
		else if (c == 'r' && atoi(optarg) > 0 && atoi(optarg) < ROUNDS)
			B.rounds = atoi(optarg);
		else
			return 2;
	}
	if (!dir || optind == argc)
		return 2;
	must(epd_model_open(&B.model, dir, &B.why), dir);
	B.info = epd_model_info(B.model);
	B.page = epd_page_bytes(B.model, &B.shape);
	must(epd_engine_new(&B.engine, B.model, threads, isa, &B.why),
	    "engine");
	/* The weights are mapped in by the time anything is measured. */
	seq_new(&q, 16, NULL);
	run(&q, 1, 16);
	seq_free(&q);
	for (int i = optind; i < argc; i++)
		if (work(argv[i]) < 0) {
			fprintf(stderr, "engine: %s: not a work\n", argv[i]);
			return 2;
		}
	epd_engine_free(B.engine);
	epd_model_close(B.model);
	return 0;
}
