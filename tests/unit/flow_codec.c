/*
 * flow_codec - what a codec costs: the next token's logits on pages that went through
 * it, against those on the pages as they were computed.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/unit/flow.h"

struct loss {
	double worst, kl;	/* largest |difference|, largest divergence */
	int same, n;		/* answers whose likeliest token is the same */
	double span;		/* of the exact logits: largest less least */
};

/* Logits of the token that follows a state; codec NULL: on its own pages. */
static int
logits(struct kit *k, uint32_t state, const struct epd_codec *c, float *out)
{
	struct epd_workflow w;
	struct epd_runs *runs;
	struct epd_chunk chunk;
	struct epd_seq q;
	uint8_t *pages = NULL, *packed = NULL;
	int rc = epd_workflow_open(&w, k->s, "w1", 0, kit_why(k));

	if (rc < 0 || (rc = epd_runs_new(&runs)) < 0)
		return rc;
	epd_seq_begin(&q, k->se, &w, runs);
	rc = epd_seq_load(&q, state, 0, kit_why(k));
	if (rc == 0 && c) {
		const uint64_t bytes = k->se->page_bytes;
		const uint32_t type = (uint32_t)k->se->shape.type;
		const uint64_t n = bytes / (type == EPD_BF16 ? 2 : 4);
		const uint32_t code = type == EPD_BF16;

		pages = malloc((size_t)q.npages * bytes);
		packed = malloc(bytes);
		for (long i = 0; rc == 0 && i < q.npages; i++) {
			const int64_t m = c->pack(packed, q.page[i], code, n);

			rc = m < 0 ? (int)m : c->unpack(pages +
			    (size_t)i * bytes, code, n, packed, (uint64_t)m);
			q.page[i] = pages + (size_t)i * bytes;
		}
	}
	if (rc == 0)
		rc = epd_session_engine(k->se, kit_why(k));
	if (rc == 0)
		rc = epd_seq_chunk(&q, q.n, &chunk, kit_why(k));
	if (rc == 0) {
		chunk.logits = out;
		rc = epd_forward(k->se->engine, &k->se->shape, &chunk, 1,
		    kit_why(k));
	}
	epd_seq_free(&q);
	epd_runs_free(runs);
	epd_workflow_close(&w);
	free(pages);
	free(packed);
	return rc;
}

static double
total(const float *x, long n, float top)
{
	double sum = 0;

	for (long i = 0; i < n; i++)
		sum += exp((double)(x[i] - top));
	return sum;
}

static void
compare(struct loss *l, const float *a, const float *b, long n)
{
	long ia = 0, ib = 0;
	float least = a[0];
	double za, zb, kl = 0;

	for (long i = 0; i < n; i++) {
		const double d = fabs((double)a[i] - (double)b[i]);

		if (d > l->worst)
			l->worst = d;
		if (a[i] > a[ia])
			ia = i;
		if (b[i] > b[ib])
			ib = i;
		if (a[i] < least)
			least = a[i];
	}
	za = total(a, n, a[ia]);
	zb = total(b, n, b[ib]);
	for (long i = 0; i < n; i++) {
		const double la = (double)(a[i] - a[ia]) - log(za);

		kl += exp(la) * (la - ((double)(b[i] - b[ib]) - log(zb)));
	}
	if (kl > l->kl)
		l->kl = kl;
	if ((double)(a[ia] - least) > l->span)
		l->span = (double)(a[ia] - least);
	l->same += ia == ib;
	l->n++;
}

static const char *const questions[] = {
	"What does the sign say?", "How many people are in the picture?",
	"Describe what you see, and say which colours there are.",
	"Is there water? Is there a boat? Answer both.",
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

static void
measure(const char *model, const char *name, const struct epd_codec *c,
    double kl, int same)
{
	struct loss l = { .n = 0 };
	struct epd_prefilled done;
	float *exact, *lossy;
	struct kit k;
	long vocab;

	kit_start(&k, model);
	vocab = k.se->info->vocab;
	exact = malloc((size_t)vocab * sizeof *exact);
	lossy = malloc((size_t)vocab * sizeof *lossy);
	for (uint32_t i = 0; i < QUESTIONS; i++) {
		const char *a = kit_picture(&k, "a.png", 84, 56, i + 1);
		const char *images[] = { a, NULL };

		CHECK_INT(kit_say(&k, 0, questions[i], images, &done), 0);
		CHECK_INT(logits(&k, i + 1, NULL, exact), 0);
		CHECK_INT(logits(&k, i + 1, c, lossy), 0);
		compare(&l, exact, lossy, vocab);
	}
	printf("# codec %s, %s: logits off by at most %.3g of %.3g, "
	    "divergence %.3g, likeliest token the same in %d of %d\n", c->name,
	    name, l.worst, l.span, l.kl, l.same, l.n);
	free(exact);
	free(lossy);
	kit_end(&k);
	CHECK(l.worst > 0);
	CHECK(l.kl < kl);
	CHECK(l.same >= same);
}

TEST(loss_of_fp8)
{
	measure("examples/tiny-vlm/model", "tiny-vlm", &epd_codec_fp8, 0.1, 3);
}

TEST(loss_of_int8)
{
	measure("examples/tiny-vlm/model", "tiny-vlm", &epd_codec_int8, 0.02, 4);
}

TEST(loss_on_the_families)
{
	measure(QWEN2, "qwen2vl-tiny", &epd_codec_fp8, 0.5, 3);
	measure(QWEN25, "qwen25vl-tiny", &epd_codec_fp8, 0.5, 3);
	measure(QWEN3, "qwen3vl-tiny", &epd_codec_fp8, 0.5, 3);
	measure(QWEN2, "qwen2vl-tiny", &epd_codec_int8, 0.02, 3);
	measure(QWEN25, "qwen25vl-tiny", &epd_codec_int8, 0.02, 3);
	measure(QWEN3, "qwen3vl-tiny", &epd_codec_int8, 0.02, 3);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
