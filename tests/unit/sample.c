/*
 * sample.c - the sampler against the reference's distributions, against a full
 * sort, and on every instruction set.
 */
#include <math.h>
#include <stdlib.h>

#include "engine/sample/sample.h"
#include "tests/check.h"
#include "tests/golden.h"

enum { V = 1000 };

/* The parameters of one golden distribution. */
static struct epd_sampler
sampler(const struct epd_json *j)
{
	struct epd_sampler s = { .penalty = 1 };

	s.temp = (float)epd_json_real(epd_json_get(j, "temperature"), 0);
	s.top_p = (float)epd_json_real(epd_json_get(j, "top_p"), 1);
	s.top_k = (int32_t)epd_json_int(epd_json_get(j, "top_k"), 0);
	s.penalty = (float)epd_json_real(epd_json_get(j,
	    "repetition_penalty"), 1);
	return s;
}

static int32_t *
ids_of(const struct epd_json *j, long *n)
{
	int32_t *ids;

	*n = (long)epd_json_count(j);
	ids = malloc((size_t)*n * sizeof *ids);
	for (long i = 0; i < *n; i++)
		ids[i] = (int32_t)epd_json_int(epd_json_at(j, (size_t)i), -1);
	return ids;
}

/* Largest difference from the golden tensor, or 1 where the kept ids differ. */
static float
difference(const struct golden *g, const char *tag, const struct epd_json *par,
    const struct epd_json *input)
{
	struct epd_sampler s = sampler(par);
	char name[64], cooked[64];
	long n, m, nseen, kept = 0;
	int32_t *seen = ids_of(input, &nseen);
	const float *logits = golden_f32(g, "one_image/logits_last", &n);
	const float *want, *scores;
	float *work = malloc((size_t)n * 4 * sizeof *work), worst = 0;
	float *probs = work + 3 * n;

	snprintf(name, sizeof name, "one_image/%s", tag);
	snprintf(cooked, sizeof cooked, "one_image/sampling_logits_processed%s",
	    tag + strlen("sampling_probs"));
	want = golden_f32(g, name, &m);
	scores = golden_f32(g, cooked, &m);
	if (!want || !scores || m != n || epd_sample_probs(epd_kern_get(NULL),
	    &s, logits, n, n, seen, nseen, work, probs) < 0)
		worst = 2;
	for (long i = 0; worst < 1 && i < n; i++) {
		worst = fmaxf(worst, fabsf(probs[i] - want[i]));
		if ((probs[i] > 0) != (scores[i] > -1e29f))
			worst = 1;
		/* The scores are still in work, up to where the cut made them -inf. */
		if (probs[i] > 0)
			worst = fmaxf(worst, fabsf(work[i] - scores[i]));
		kept += probs[i] > 0;
	}
	if (kept != epd_json_int(epd_json_get(par, "kept"), -1))
		worst = 1;
	free(seen);
	free(work);
	return worst;
}

TEST(golden_distributions)
{
	struct epd_json *m = golden_json(GOLDEN "manifest.json");
	struct epd_json_iter ck = epd_json_begin(epd_json_get(m,
	    "checkpoints"));
	int tested = 0;
	float worst = 0;

	while (epd_json_next(&ck)) {
		struct epd_json *c = epd_json_get(epd_json_get(ck.value,
		    "cases"), "one_image");
		struct epd_json_iter it = epd_json_begin(epd_json_get(c,
		    "sampling"));
		char path[128];
		struct golden g;

		snprintf(path, sizeof path, GOLDEN "%s", epd_json_str(
		    epd_json_get(ck.value, "goldens"), ""));
		g = golden_open(path);
		for (; epd_json_next(&it); tested++) {
			float d = difference(&g, it.key, it.value,
			    epd_json_get(c, "input_ids"));

			if (d > 1e-6f)
				printf("# %s %s differs by %g\n", ck.key,
				    it.key, (double)d);
			worst = fmaxf(worst, d);
		}
		golden_close(&g);
	}
	epd_json_free(m);
	printf("# largest difference %g\n", (double)worst);
	CHECK_INT(tested, 12);
	CHECK(worst <= 1e-6f);
}

TEST(golden_greedy)
{
	struct golden g = golden_open(GOLDEN
	    "goldens/qwen3vl-tiny.safetensors");
	struct epd_json *m = golden_json(GOLDEN "manifest.json"), *c;
	struct epd_sampler plain = { .top_p = 1, .penalty = 1 };
	struct epd_sampler penal = { .top_p = 1, .penalty = 1.05f };
	struct epd_sampled out = {0};
	long n, nseen;
	int32_t *seen;
	const float *x = golden_f32(&g, "one_image/logits_last", &n);
	float *work = malloc((size_t)n * 3 * sizeof *work);

	c = epd_json_get(epd_json_get(epd_json_get(epd_json_get(m,
	    "checkpoints"), "qwen3vl-tiny"), "cases"), "one_image");
	seen = ids_of(epd_json_get(c, "input_ids"), &nseen);
	CHECK_INT(epd_sample(epd_kern_get(NULL), &plain, x, n, n, seen, nseen,
	    0, work, &out, NULL, 0), 0);
	CHECK_INT(out.id, epd_json_int(epd_json_at(epd_json_get(c, "greedy"),
	    0), -1));
	CHECK_INT(epd_sample(epd_kern_get(NULL), &penal, x, n, n, seen, nseen,
	    0, work, &out, NULL, 0), 0);
	CHECK_INT(out.id, epd_json_int(epd_json_at(epd_json_get(c,
	    "greedy_repetition_penalty_1_05"), 0), -1));
	free(seen);
	free(work);
	golden_close(&g);
	epd_json_free(m);
}

/* Logits of several shapes, with ties and removed ids among them. */
static void
shape(float x[V], int kind, unsigned seed)
{
	for (int i = 0; i < V; i++) {
		float u = epd_sample_uniform(seed, 9, (uint64_t)i);

		switch (kind) {
		case 0: x[i] = 20 * u; break;		/* ordinary */
		case 1: x[i] = floorf(8 * u); break;	/* many ties */
		case 2: x[i] = 0.001f * u; break;	/* flat */
		case 3: x[i] = -logf(u + 1e-9f) * 9 - 40; break; /* peaked */
		default: x[i] = u < 0.5f ? -INFINITY : -200 * u; break;
		}
	}
}

static const float *by;

static int
in_order(const void *a, const void *b)
{
	int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;

	if (by[i] != by[j])
		return by[i] > by[j] ? -1 : 1;
	return i < j ? -1 : i > j;
}

/* Sixteen lanes and the tree. */
static float
lanes(const float *x, long n)
{
	float s[16] = {0};

	for (long i = 0; i < n; i++)
		s[i % 16] += x[i];
	for (int h = 8; h > 0; h /= 2)
		for (int j = 0; j < h; j++)
			s[j] += s[j + h];
	return s[0];
}

/* The same by sorting everything: weights e and the number kept of order. */
static long
naive(const struct epd_sampler *s, const float *x, long valid, float *score,
    float *e, int32_t *order, float *sum)
{
	long kept = valid;
	double run = 0;

	for (long i = 0; i < valid; i++) {
		score[i] = x[i] / s->temp;
		order[i] = (int32_t)i;
	}
	by = score;
	qsort(order, (size_t)valid, sizeof *order, in_order);
	if (s->top_k > 0 && s->top_k < valid)
		kept = s->top_k;
	for (long i = 0; i < V; i++)
		e[i] = 0;
	for (long i = 0; i < kept; i++) {
		float d = score[order[i]] - score[order[0]];

		epd_kern_scalar.exp(1, &d, &e[order[i]]);
	}
	*sum = lanes(e, V);
	if (s->top_p < 1) {
		long i = 0;

		do
			run += e[order[i++]];
		while (i < kept && run < (double)s->top_p * *sum);
		for (kept = i; i < valid; i++)
			e[order[i]] = 0;
	}
	return kept;
}

static int32_t
naive_draw(const struct epd_sampler *s, const float *e, const int32_t *order,
    long kept, float sum, double u)
{
	double total = sum, run = 0;
	int32_t id = order[0];

	if (s->top_p < 1) {
		total = 0;
		for (long i = 0; i < kept; i++)
			total += e[order[i]];
	}
	for (long i = 0; i < kept && e[order[i]] > 0; i++) {
		id = order[i];
		run += e[id];
		if (run > u * total)
			break;
	}
	return id;
}

TEST(as_a_full_sort)
{
	static const float ps[] = { 0, 0.1f, 0.5f, 0.9f, 0.99999f, 1 };
	static const int32_t ks[] = { 0, 1, 2, 20, 500, 999, 5000 };
	static float x[V], work[3 * V], score[V], e[V], probs[V];
	static int32_t order[V];
	long valid = 990;

	for (int run = 0; run < 5 * 6 * 7; run++) {
		struct epd_sampler s = { .temp = run % 2 ? 0.7f : 1.9f,
		    .top_k = ks[run / 30], .top_p = ps[run / 5 % 6],
		    .penalty = 1, .seed = 3, .salt = (uint64_t)run };
		float sum;
		long kept;

		shape(x, run % 5, (unsigned)run);
		kept = naive(&s, x, valid, score, e, order, &sum);
		CHECK_INT(epd_sample_probs(epd_kern_get(NULL), &s, x, V, valid,
		    NULL, 0, work, probs), 0);
		if (s.top_p < 1)
			for (long i = 0; i < V; i++)
				CHECK(probs[i] == e[i] / lanes(e, V));
		else
			for (long i = 0; i < V; i++)
				CHECK(probs[i] == e[i] / sum);
		for (uint64_t at = 0; at < 50; at++) {
			struct epd_sampled out;
			double u = epd_sample_uniform(s.seed, s.salt, at);

			CHECK_INT(epd_sample(epd_kern_get(NULL), &s, x, V,
			    valid, NULL, 0, at, work, &out, NULL, 0), 0);
			CHECK_INT(out.id, naive_draw(&s, e, order, kept, sum,
			    u));
		}
	}
}

/* Draws fall as the distribution says. */
TEST(frequencies)
{
	struct epd_sampler s = { .temp = 1, .top_p = 0.95f, .top_k = 6,
	    .penalty = 1, .seed = 11 };
	static float work[3 * V];
	float x[8] = { 1, 2, 0, 3, 2.5f, -1, 2, 0.5f }, probs[8];
	int count[8] = {0};
	double chi = 0;

	CHECK_INT(epd_sample_probs(epd_kern_get(NULL), &s, x, 8, 8, NULL, 0,
	    work, probs), 0);
	for (uint64_t at = 0; at < 20000; at++) {
		struct epd_sampled out;

		CHECK_INT(epd_sample(epd_kern_get(NULL), &s, x, 8, 8, NULL, 0,
		    at, work, &out, NULL, 0), 0);
		count[out.id]++;
	}
	for (int i = 0; i < 8; i++) {
		double want = 20000 * (double)probs[i];

		if (want > 0)
			chi += (count[i] - want) * (count[i] - want) / want;
		else
			CHECK_INT(count[i], 0);
	}
	CHECK(chi < 20);
}

TEST(penalty_counts_an_id_once)
{
	struct epd_sampler s = { .temp = 1, .top_p = 1, .penalty = 2 };
	float x[4] = { 4, -4, 4, 0 }, work[12], probs[4], want[4];
	int32_t seen[] = { 0, 0, 1, 1, 1, 3, -5, 4, 1 << 30 };
	double sum = 0, e[4] = { exp(2), exp(-8), exp(4), exp(0) };

	CHECK_INT(epd_sample_probs(&epd_kern_scalar, &s, x, 4, 4, seen, 9,
	    work, probs), 0);
	for (int i = 0; i < 4; i++)
		sum += e[i];
	for (int i = 0; i < 4; i++) {
		want[i] = (float)(e[i] / sum);
		CHECK(fabsf(probs[i] - want[i]) < 1e-6f);
	}
}

TEST(every_instruction_set_agrees)
{
	static float x[V], work[3 * V], a[V], b[V];
	const char *const names[] = { "scalar", "avx2", "avx512" };

	for (int run = 0; run < 20; run++) {
		struct epd_sampler s = { .temp = 0.9f, .penalty = 1.1f,
		    .top_p = run & 1 ? 0.9f : 1, .top_k = run & 2 ? 40 : 0 };
		int32_t seen[] = { 1, 5, 900 };
		struct epd_sampled want = {0}, tops[7];

		shape(x, run % 5, (unsigned)run);
		for (int k = 0; k < 3; k++) {
			const struct epd_kern *kern = epd_kern_get(names[k]);
			struct epd_sampled out, top[7];

			if (!kern)
				continue;
			CHECK_INT(epd_sample(kern, &s, x, V, V, seen, 3, 77,
			    work, &out, top, 7), 0);
			CHECK_INT(epd_sample_probs(kern, &s, x, V, V, seen, 3,
			    work, b), 0);
			if (k == 0) {
				want = out;
				memcpy(tops, top, sizeof top);
				memcpy(a, b, sizeof a);
			}
			CHECK(out.id == want.id && !memcmp(&out, &want,
			    sizeof out));
			CHECK(!memcmp(top, tops, sizeof top));
			CHECK(!memcmp(a, b, sizeof a));
		}
	}
}

TEST(log_probabilities)
{
	struct epd_sampler s = { .temp = 0, .top_p = 1, .penalty = 1 };
	float x[6] = { 1, 3, 2, 3, -INFINITY, 5 }, work[18];
	struct epd_sampled out, top[7];
	double sum = 0;

	for (int i = 0; i < 6; i++)
		sum += exp(x[i]);
	/* The last id is padding: it cannot be drawn, yet it has its share. */
	CHECK_INT(epd_sample(epd_kern_get(NULL), &s, x, 6, 5, NULL, 0, 0, work,
	    &out, top, 7), 0);
	CHECK_INT(out.id, 1);
	CHECK(fabs(out.logprob - (3 - log(sum))) < 1e-6);
	CHECK(top[0].id == 1 && top[1].id == 3 && top[2].id == 2 &&
	    top[3].id == 0 && top[4].id == 4 && top[5].id == -1 &&
	    top[6].id == -1);
	CHECK(fabs(top[2].logprob - (2 - log(sum))) < 1e-6);
	CHECK(isinf(top[4].logprob) && isinf(top[5].logprob));
}

TEST(numbers_that_are_none)
{
	static float x[V], work[3 * V], probs[V];
	static const float bad[] = { NAN, -NAN, INFINITY };
	struct epd_sampled out = { -7, 1 };

	for (int i = 0; i < 3 * 4 * 2; i++) {
		struct epd_sampler s = { .temp = (float)(i & 1), .top_p = 0.5f,
		    .penalty = 1 };
		static const int places[] = { 0, 17, 989, 999 };

		shape(x, 0, 1);
		x[places[i / 2 % 4]] = bad[i / 8];
		CHECK_INT(epd_sample(epd_kern_get(NULL), &s, x, V, 990, NULL,
		    0, 0, work, &out, NULL, 0), EPD_ENUMERIC);
		CHECK_INT(epd_sample_probs(epd_kern_get(NULL), &s, x, V, 990,
		    NULL, 0, work, probs), EPD_ENUMERIC);
	}
	for (int i = 0; i < V; i++)
		x[i] = -INFINITY;
	struct epd_sampler s = { .temp = 1, .top_p = 1, .penalty = 1 };
	CHECK_INT(epd_sample(epd_kern_get(NULL), &s, x, V, V, NULL, 0, 0, work,
	    &out, NULL, 0), EPD_ENUMERIC);
	x[V - 1] = 0;	/* the only one, and it is padding */
	CHECK_INT(epd_sample(epd_kern_get(NULL), &s, x, V, V - 1, NULL, 0, 0,
	    work, &out, NULL, 0), EPD_ENUMERIC);
	CHECK(out.id == -7);
}

TEST(parameters)
{
	float x[2] = { 1, 2 }, work[6];
	struct epd_sampled out = { -7, 1 };
	struct epd_sampler s = { .temp = 1e-42f, .top_p = 0.3f, .penalty = 1 };
	const struct epd_kern *k = epd_kern_get(NULL);

	/* So cold that scores overflow: greedy. */
	CHECK_INT(epd_sample(k, &s, x, 2, 2, NULL, 0, 0, work, &out, NULL, 0),
	    0);
	CHECK_INT(out.id, 1);
	s.temp = -1;
	CHECK_INT(epd_sample(k, &s, x, 2, 2, NULL, 0, 0, work, &out, NULL, 0),
	    EPD_EUSAGE);
	s.temp = NAN;
	CHECK_INT(epd_sample(k, &s, x, 2, 2, NULL, 0, 0, work, &out, NULL, 0),
	    EPD_EUSAGE);
	s.temp = 1;
	s.penalty = 0;
	CHECK_INT(epd_sample(k, &s, x, 2, 2, NULL, 0, 0, work, &out, NULL, 0),
	    EPD_EUSAGE);
	s.penalty = 1;
	CHECK_INT(epd_sample(k, &s, x, 2, 3, NULL, 0, 0, work, &out, NULL, 0),
	    EPD_EUSAGE);
	CHECK_INT(epd_sample(k, &s, x, 2, 0, NULL, 0, 0, work, &out, NULL, 0),
	    EPD_EUSAGE);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
