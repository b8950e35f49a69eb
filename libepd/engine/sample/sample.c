/*
 * sample.c - from logits to a token.
 *
 * Scores are logits after penalty and temperature; the weight of an id is
 * exp(score - best).  work holds, a vocabulary each: the scores by id, where
 * -INFINITY is an id removed; a heap of ids; the weights of those popped.
 *
 * 1. An order of ids: score descending, id ascending.  It is total, so what a
 *    heap yields is what a full sort would.
 * 2. The sum of weights is always the vocabulary's, in the sixteen lanes.  The
 *    running sums of top-p and of the draw are in double, in the order of 1.
 * 3. Ids left out of the heap are only such as could not be reached: all of
 *    them together weigh less than half of what lies beyond the point sought.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "engine/sample/sample.h"

struct pool {
	const struct epd_kern *kern;
	float *s, *e;
	int32_t *ids;		/* [0, left) a heap, then the popped, last first */
	long vocab, n;		/* ids below n may be drawn */
	long all, left;		/* ids put in the heap; still there */
	float raw, best, sum;	/* the best logit and score, and all weights */
};

/* Scores of different ids, in the order of 1. */
static int
before(const float *s, int32_t a, int32_t b)
{
	return s[a] > s[b] || (s[a] == s[b] && a < b);
}

/* Sink entry i of a heap with the first of the order on top, or the last. */
static void
sink(const float *s, int32_t *h, long n, long i, int last)
{
	int32_t id = h[i];

	for (long c; (c = 2 * i + 1) < n; i = c) {
		if (c + 1 < n && before(s, h[c + 1], h[c]) != last)
			c++;
		if (before(s, h[c], id) == last)
			break;
		h[i] = h[c];
	}
	h[i] = id;
}

static void
heap(const float *s, int32_t *h, long n, int last)
{
	for (long i = n / 2 - 1; i >= 0; i--)
		sink(s, h, n, i, last);
}

/* The first k of n ids into h, a heap with the last of them on top. */
static void
first(const float *s, long n, long k, int32_t *h)
{
	for (long i = 0; i < k; i++)
		h[i] = (int32_t)i;
	heap(s, h, k, 1);
	for (long i = k; i < n; i++)
		if (s[i] > s[h[0]]) {
			h[0] = (int32_t)i;
			sink(s, h, k, 0, 1);
		}
}

/* Remove all ids but these; spare is n floats. */
static void
keep(struct pool *p, const int32_t *ids, long n, float *spare)
{
	for (long i = 0; i < n; i++)
		spare[i] = p->s[ids[i]];
	for (long i = 0; i < p->n; i++)
		p->s[i] = -INFINITY;
	for (long i = 0; i < n; i++)
		p->s[ids[i]] = spare[i];
}

/* Put into the heap what part of the sum, in the order of 1, may reach. */
static void
gather(struct pool *p, double part)
{
	double least = -INFINITY;

	/* Below 1e-4 the sum's own rounding could matter; the 0.01 is for log. */
	if (1 - part >= 1e-4)
		least = p->best + log((1 - part) / 2 * p->sum /
		    (double)p->n) - 0.01;
	p->all = 0;
	for (long i = 0; i < p->n; i++)
		if (p->s[i] >= least && p->s[i] > -INFINITY)
			p->ids[p->all++] = (int32_t)i;
	p->left = p->all;
	heap(p->s, p->ids, p->all, 0);
}

/* The next id in order, its weight beside; there must be one. */
static int32_t
pop(struct pool *p, float *weight)
{
	int32_t id = p->ids[0];
	float x = p->s[id] - p->best;

	p->left--;
	p->ids[0] = p->ids[p->left];
	p->ids[p->left] = id;
	sink(p->s, p->ids, p->left, 0, 0);
	p->kern->exp(1, &x, weight);
	p->e[p->all - p->left - 1] = *weight;
	return id;
}

/* Pop what top-p keeps: an id stays if those before it weigh less than part. */
static double
cut(struct pool *p, double part)
{
	double sum = 0;
	float e;

	gather(p, part);
	do {
		pop(p, &e);
		sum += e;
	} while (sum < part * p->sum && p->left && e > 0);
	return sum;
}

static int32_t
draw(struct pool *p, const struct epd_sampler *s, double u)
{
	double sum = 0, total;
	int32_t id = 0, next;
	float e;

	if (s->top_p < 1) {
		total = cut(p, s->top_p);
		for (long i = 0; i < p->all - p->left; i++) {
			id = p->ids[p->all - 1 - i];
			sum += p->e[i];
			if (sum > u * total)
				break;
		}
		return id;
	}
	total = p->sum;
	for (gather(p, u); p->left && sum <= u * total; sum += e) {
		next = pop(p, &e);
		if (!(e > 0))
			break;
		id = next;
	}
	return id;
}

static int
check(const struct pool *p, const struct epd_sampler *s)
{
	if (!(s->temp >= 0 && s->temp < INFINITY) || isnan(s->top_p) ||
	    !(s->penalty > 0 && s->penalty < INFINITY))
		return EPD_EUSAGE;
	if (p->n < 1 || p->n > p->vocab || p->vocab > INT32_MAX)
		return EPD_EUSAGE;
	return 0;
}

/*
 * Fill the scores; the id of the best of them, which is the answer if *greedy
 * comes out set: no temperature, or one so low that scores overflow.
 */
static int
prepare(struct pool *p, const struct epd_sampler *s, const float *logits,
    const int32_t *seen, long nseen, float *work, int *greedy)
{
	long id = check(p, s);

	if (id < 0)
		return (int)id;
	id = p->kern->top(p->vocab, logits, &p->raw);
	if (id < 0 || isinf(p->raw))
		return EPD_ENUMERIC;
	p->s = work;
	p->ids = (int32_t *)(void *)(work + p->vocab);
	p->e = work + 2 * p->vocab;
	*greedy = !(s->temp > 0);
	if (*greedy && s->penalty == 1 && id < p->n)
		return (int)id;
	memcpy(p->s, logits, (size_t)p->n * sizeof *logits);
	/* From the logit, not the score: an id seen twice is penalised once. */
	for (long i = 0; s->penalty != 1 && i < nseen; i++)
		if (seen[i] >= 0 && seen[i] < p->n) {
			float x = logits[seen[i]];

			p->s[seen[i]] = x > 0 ? x / s->penalty :
			    x * s->penalty;
		}
	id = p->kern->top(p->n, p->s, &p->best);
	if (id < 0 || isinf(p->best))
		return EPD_ENUMERIC;
	*greedy |= isinf(p->best / s->temp);
	if (*greedy)
		return (int)id;
	for (long i = 0; i < p->n; i++)
		p->s[i] /= s->temp;
	p->best /= s->temp;
	if (s->top_k > 0 && s->top_k < p->n) {
		first(p->s, p->n, s->top_k, p->ids);
		keep(p, p->ids, s->top_k, p->e);
	}
	p->sum = p->kern->sumexp(p->n, p->s, p->best);
	return (int)id;
}

/* The n best ids by their raw logits; what there is not is -1. */
static void
report(const float *logits, long valid, double log_sum, int32_t *ids,
    struct epd_sampled *top, int n)
{
	long k = n < valid ? n : valid;

	for (long i = k; i < n; i++)
		top[i] = (struct epd_sampled){ -1, -INFINITY };
	if (k <= 0)
		return;
	first(logits, valid, k, ids);
	for (; k > 0; k--) {
		float x = logits[ids[0]];

		top[k - 1] = (struct epd_sampled){ ids[0],
		    (float)(x - log_sum) };
		ids[0] = ids[k - 1];
		sink(logits, ids, k - 1, 0, 1);
	}
}

static int
sample(struct pool *p, const struct epd_sampler *s, const float *logits,
    const int32_t *seen, long nseen, uint64_t index, float *work,
    struct epd_sampled *out, struct epd_sampled *top, int n)
{
	double log_sum;
	int greedy, id;

	id = prepare(p, s, logits, seen, nseen, work, &greedy);
	if (id < 0)
		return id;
	if (!greedy)
		id = draw(p, s, epd_sample_uniform(s->seed, s->salt, index));
	log_sum = p->raw + log(p->kern->sumexp(p->vocab, logits, p->raw));
	*out = (struct epd_sampled){ id, (float)(logits[id] - log_sum) };
	report(logits, p->n, log_sum, p->ids, top, n);
	return 0;
}

static int
probs_of(struct pool *p, const struct epd_sampler *s, const float *logits,
    const int32_t *seen, long nseen, float *work, float *probs)
{
	int greedy, id;

	id = prepare(p, s, logits, seen, nseen, work, &greedy);
	if (id < 0)
		return id;
	memset(probs, 0, (size_t)p->vocab * sizeof *probs);
	if (greedy) {
		probs[id] = 1;
		return 0;
	}
	if (s->top_p < 1) {
		cut(p, s->top_p);
		keep(p, p->ids + p->left, p->all - p->left, p->e);
		p->sum = p->kern->sumexp(p->n, p->s, p->best);
	}
	for (long i = 0; i < p->n; i++)
		probs[i] = p->s[i] - p->best;
	p->kern->exp(p->n, probs, probs);
	for (long i = 0; i < p->n; i++)
		probs[i] /= p->sum;
	return 0;
}

int
epd_sample(const struct epd_kern *kern, const struct epd_sampler *s,
    const float *logits, long vocab, long valid, const int32_t *seen,
    long nseen, uint64_t index, float *work, struct epd_sampled *out,
    struct epd_sampled *top, int n)
{
	struct pool p = { .kern = kern, .vocab = vocab, .n = valid };
	unsigned long was = epd_fp_enter();
	int rc = sample(&p, s, logits, seen, nseen, index, work, out, top, n);

	epd_fp_leave(was);
	return rc;
}

int
epd_sample_probs(const struct epd_kern *kern, const struct epd_sampler *s,
    const float *logits, long vocab, long valid, const int32_t *seen,
    long nseen, float *work, float *probs)
{
	struct pool p = { .kern = kern, .vocab = vocab, .n = valid };
	unsigned long was = epd_fp_enter();
	int rc = probs_of(&p, s, logits, seen, nseen, work, probs);

	epd_fp_leave(was);
	return rc;
}
