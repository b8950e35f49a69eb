/*
 * same_bits.c - logits, pages and features are functions of the tokens and
 * images: not of instruction set, threads, chunk, batch, page size, or the
 * caller's floating-point flags.
 *
 *	same_bits [all] [TEST...]
 *
 * Every pair of settings is tried together, those with the slow scalar table
 * on one checkpoint each; `all` tries the whole product on every one.
 */
#include "base/hash.h"
#include "tests/check.h"
#include "tests/seq.h"

enum { FACTORS = 7, SEQS = 8, DRAWN = 3 };

static const char *const isas[] = { "scalar", "avx2", "avx512" };
static const long chunks[] = { 17, 1, 16, 64, SEQ_TOKENS };
static const int batches[] = { 3, 8, 1 };
static int sizes[FACTORS] = { 3, 2, 5, 3, 2, 2, 2 };

/* Each factor's choice: isa, threads, chunk, batch, kv, page, flush. */
struct setting {
	int is[FACTORS];
};

static int whole_product;

static uint64_t
mix(uint64_t h, const void *p, size_t n)
{
	return h * 0x9e3779b97f4a7c15u + epd_xxh3_64(p, n);
}

static unsigned
csr_set(int flush)
{
	unsigned was = 0;
#if defined __x86_64__
	was = __builtin_ia32_stmxcsr();
	/* Flush to zero and denormals are zero. */
	__builtin_ia32_ldmxcsr(flush ? was | 0x8040 : was);
#else
	(void)flush;
#endif
	return was;
}

static int
csr_back(unsigned was, int flush)
{
	int kept = 1;
#if defined __x86_64__
	/* The exception flags in the low six bits may have risen. */
	kept = (__builtin_ia32_stmxcsr() & ~63u) ==
	    ((flush ? was | 0x8040 : was) & ~63u);
	__builtin_ia32_ldmxcsr(was);
#else
	(void)was, (void)flush;
#endif
	return kept;
}

/* Keys and values token by token, whatever the page size. */
static uint64_t
hash_pages(const struct seq *s)
{
	const struct epd_model_info *i = epd_model_info(s->m);
	const long size = s->shape.type == EPD_F32 ? 4 : 2, d = i->head_dim;
	const long tokens = s->shape.tokens;
	uint64_t h = 1;
	char k[1024];

	for (long t = 0; t < s->n; t++)
		for (long x = 0; x < i->layers * i->kv_heads; x++) {
			const char *p = (const char *)s->page[t / tokens] +
			    x * 2 * tokens * d * size;
			long in = t % tokens;

			for (long e = 0; e < d; e++)
				memcpy(k + e * size, p + ((in / 16 * d + e) *
				    16 + in % 16) * size, (size_t)size);
			h = mix(h, k, (size_t)(d * size));
			h = mix(h, p + (tokens + in) * d * size,
			    (size_t)(d * size));
		}
	return h;
}

/*
 * Sequence i: so many tokens of the case of two images, its text made its own,
 * with the features of f.
 */
static struct seq *
make(const struct epd_model *m, const struct epd_json *ids, int i,
    const struct seq *f, enum epd_type type, int tokens)
{
	static const long length[SEQS] = { 67, 20, 33, 18, 41, 27, 24, 19 };
	struct seq *s = seq_new(m, type, tokens);
	const int32_t image = epd_model_info(m)->image_id;

	seq_ids(s, ids);
	s->images = f->images;
	memcpy(s->visual, f->visual, sizeof s->visual);
	memcpy(s->anchor, f->anchor, sizeof s->anchor);
	seq_place(s);
	s->n = s->n < length[i] ? s->n : length[i];
	for (long k = 0; k < s->n; k++)
		if (s->ids[k] != image)
			s->ids[k] = (int32_t)((s->ids[k] + i * 7) % 512);
	return s;
}

/*
 * Prefill n sequences in step, then draw; hash[i] takes every logits row asked
 * for and the pages at the end.
 */
static int
run_batch(struct epd_engine *e, struct seq **s, int n, long step, int flush,
    uint64_t *hash)
{
	const long vocab = epd_model_info(s[0]->m)->vocab;
	struct epd_chunk c[SEQS];
	float *x = epd_malloc((size_t)(SEQS * 2 * vocab) * sizeof *x), top;
	long at[SEQS] = { 0 };
	int who[SEQS], m, kept = 1;

	if (!x)
		golden_die("logits", "no memory");
	for (int drawn[SEQS] = { 0 };;) {
		unsigned was;

		m = 0;
		for (int i = 0; i < n; i++) {
			long k = s[i]->n - at[i] < step ? s[i]->n - at[i] :
			    step;

			if (k == 0)
				continue;
			/* Every other row apart, to go by both ways there. */
			c[m] = seq_chunk(s[i], at[i], k, at[i] + k == s[i]->n ?
			    x + (m * 2 - m % 2) * vocab : NULL, 0);
			at[i] += k;
			who[m++] = i;
		}
		if (m == 0)
			break;
		was = csr_set(flush);
		seq_forward(e, s[0], c, m);
		kept &= csr_back(was, flush);
		for (int j = 0; j < m; j++) {
			int i = who[j];

			if (!c[j].logits)
				continue;
			hash[i] = mix(hash[i], c[j].logits, (size_t)vocab * 4);
			if (drawn[i]++ < DRAWN)
				seq_push(s[i], (int32_t)epd_engine_kern(e)->
				    top(vocab, c[j].logits, &top));
		}
	}
	for (int i = 0; i < n; i++)
		hash[i] = mix(hash[i], &(uint64_t){ hash_pages(s[i]) }, 8);
	epd_free(x);
	return kept;
}

/* Hashes of the sequences under a setting; 0 if the machine lacks the ISA. */
static int
run_setting(const struct epd_model *m, const struct epd_json *ids,
    const struct epd_image *im, const struct setting *t, uint64_t *hash,
    int *seqs)
{
	const int batch = batches[t->is[3]], flush = t->is[6];
	struct epd_engine *e;
	struct seq *f, *s[SEQS];
	uint64_t features = 1;
	unsigned was;
	int kept;

	if (epd_engine_new(&e, m, t->is[1] + 1, isas[t->is[0]], NULL) < 0)
		return 0;
	f = seq_new(m, EPD_F32, 16);
	was = csr_set(flush);
	for (int i = 0; i < 2; i++)
		seq_encode(f, e, &im[i], 1, EPD_FAST);
	kept = csr_back(was, flush);
	for (int i = 0; i < 2; i++)
		features = mix(features, f->rows[i], (size_t)(f->visual[i].n *
		    (1 + epd_model_info(m)->deepstack) *
		    epd_model_info(m)->hidden) * 4);
	/* One more than the batch, so that the last is short. */
	*seqs = batch == SEQS ? SEQS : batch + 1;
	for (int i = 0; i < *seqs; i++) {
		hash[i] = features;
		s[i] = make(m, ids, i, f, t->is[4] ? EPD_F32 : EPD_BF16,
		    t->is[5] ? 64 : 16);
	}
	for (int i = 0; i < *seqs; i += batch)
		kept &= run_batch(e, s + i, *seqs - i < batch ? *seqs - i :
		    batch, chunks[t->is[2]], flush, hash + i);
	for (int i = 0; i < *seqs; i++) {
		s[i]->images = 0;
		seq_free(s[i]);
	}
	seq_free(f);
	epd_engine_free(e);
	return kept ? 1 : -1;
}

static int
total(void)
{
	int n = 1;

	for (int i = 0; i < FACTORS; i++)
		n *= sizes[i];
	return n;
}

static struct setting
nth(int n)
{
	struct setting t;

	for (int i = 0; i < FACTORS; n /= sizes[i++])
		t.is[i] = n % sizes[i];
	return t;
}

/* Pairs of choices a setting would be first to try; marks them if asked. */
static int
news(const struct setting *t, char seen[FACTORS][5][FACTORS][5], int mark)
{
	int n = 0;

	for (int a = 0; a < FACTORS; a++)
		for (int b = 0; b < a; b++) {
			char *c = &seen[a][t->is[a]][b][t->is[b]];

			n += !*c;
			*c |= (char)mark;
		}
	return n;
}

/* The next setting to try; 0 when every pair has been. */
static int
next(struct setting *t, char seen[FACTORS][5][FACTORS][5], int *i)
{
	int most = 0;

	if (whole_product) {
		*t = nth((*i)++);
		return *i <= total();
	}
	for (int k = 0; k < total(); k++) {
		struct setting u = nth(k);
		int n = news(&u, seen, 0);

		if (n > most) {
			most = n;
			*t = u;
		}
	}
	news(t, seen, 1);
	return most > 0;
}

/* 1 all equal; 0 not; what names the checkpoint, the turn'th of three. */
static int
compare(const char *what, int turn)
{
	struct epd_json *manifest = golden_json(GOLDEN "manifest.json");
	struct epd_json *ck = epd_json_get(epd_json_get(manifest,
	    "checkpoints"), what);
	struct epd_json *c = epd_json_get(epd_json_get(ck, "cases"),
	    "two_images");
	static char seen[FACTORS][5][FACTORS][5];
	uint64_t want[2][SEQS] = { { 0 } }, hash[SEQS];
	struct setting t = { { 0 } };
	struct epd_why why = { "" };
	struct epd_image im[2];
	struct epd_model *m;
	int tried = 0, slow = 0, i = 0, ok = 1, n;
	char path[200];

	snprintf(path, sizeof path, GOLDEN "checkpoints/%s", what);
	if (epd_model_open(&m, path, &why) < 0)
		golden_die(path, why.text);
	for (int k = 0; k < 2; k++) {
		snprintf(path, sizeof path, GOLDEN "%s", epd_json_str(
		    epd_json_at(epd_json_get(c, "images"), (size_t)k), ""));
		im[k] = seq_image(m, path, EPD_FAST, 1);
	}
	memset(seen, 0, sizeof seen);
	/* The measure for all. */
	for (int kv = 0; kv < 2; kv++)
		for (int k = 0; k < SEQS; k += n) {
			struct setting first = { { sizes[0] - 1, 0, 4, 1, kv, 0, 0 } };

			run_setting(m, epd_json_get(c, "input_ids"), im,
			    &first, want[kv], &n);
		}
	while (next(&t, seen, &i)) {
		int rc;

		if (!whole_product && t.is[0] == 0 && slow++ % 3 != turn)
			continue;
		rc = run_setting(m, epd_json_get(c, "input_ids"), im, &t,
		    hash, &n);
		tried += rc != 0;
		if (rc < 0)
			printf("# the caller's flags were not given back\n");
		for (int k = 0; rc > 0 && k < n; k++)
			if (hash[k] != want[t.is[4]][k])
				rc = -1;
		if (rc < 0)
			printf("# %s: isa %s threads %d chunk %ld batch %d kv "
			    "%d page %d flush %d: other bits\n", what,
			    isas[t.is[0]], t.is[1] + 1, chunks[t.is[2]],
			    batches[t.is[3]], t.is[4], t.is[5], t.is[6]);
		ok &= rc >= 0;
	}
	printf("# %s: %d settings\n", what, tried);
	for (int k = 0; k < 2; k++)
		epd_image_free(&im[k]);
	epd_model_close(m);
	epd_json_free(manifest);
	return ok && tried > 1;
}

TEST(qwen2vl) { CHECK(compare("qwen2vl-tiny", 0)); }
TEST(qwen25vl) { CHECK(compare("qwen25vl-tiny", 1)); }
TEST(qwen3vl) { CHECK(compare("qwen3vl-tiny", 2)); }
TEST(avx512)
{
	if (sizes[0] < 3)
		SKIP("this machine has no AVX-512");
}

int
main(int argc, char **argv)
{
	/* What a machine lacks must not stand in for a pair it could try. */
	while (!epd_kern_get(isas[sizes[0] - 1]))
		sizes[0]--;
	if (argc > 1 && !strcmp(argv[1], "all")) {
		whole_product = 1;
		argv[1] = argv[0];
		argc--;
		argv++;
	}
	return check_main(argc, argv);
}
